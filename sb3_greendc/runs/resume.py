"""Training that can be killed at any time and goes on from its last checkpoint, bit for bit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from sb3_greendc.core.provenance import package_versions
from sb3_greendc.runs.checkpoints import Checkpoint, CheckpointError, CheckpointFolder, State
from sb3_greendc.runs.object_graphs import NotKeptError
from sb3_greendc.runs.training_state import Resumption, pack_state, require_resumable


class CheckpointWriter(BaseCallback):
    """A callback that writes the checkpoints of a run, and brings a new model back to one of them.

    A subclass says when :meth:`write` is due, what the state is, and how a model takes it.

    :param folder: where the checkpoints go
    :param every: steps between checkpoints
    :param identity: what the run is, in values that JSON can hold: a checkpoint is resumed by runs of the
        same identity only

    ``resumed_at`` is the number of steps at the checkpoint that training goes on from.
    """

    def __init__(self, folder: Path, every: int, identity: Mapping[str, Any]) -> None:
        super().__init__()
        self.folder = CheckpointFolder(folder)
        self.every = every
        self.identity = identity
        self.resumed_at: int | None = None

    def resume(self, model: BaseAlgorithm, checkpoint: Checkpoint) -> None:
        """Make ``model`` the one of the checkpoint; the rest follows when training starts.

        :raises ValueError: if the checkpoint does not fit the model
        """
        try:
            self._restore(model, checkpoint)
        except ValueError as error:
            raise ValueError(f"checkpoint {checkpoint.path}: {error}") from error
        self.resumed_at = checkpoint.step

    def write(self) -> None:
        """Write a checkpoint, whole or not at all.

        :raises CheckpointError: if it cannot be made or written
        """
        self.folder.write(self.model.num_timesteps, self.identity, package_versions(), self._state())

    @abstractmethod
    def _state(self) -> State:
        """Return the state of training.

        :raises CheckpointError: if it cannot be kept
        """

    @abstractmethod
    def _restore(self, model: BaseAlgorithm, checkpoint: Checkpoint) -> None:
        """Give a freshly built model what a checkpoint holds.

        :raises ValueError: if it does not fit
        """

    def _on_step(self) -> bool:
        return True


class Checkpointing(CheckpointWriter):
    """Writes a checkpoint at the first rollout, and at the first one after every ``every`` steps.

    The first one, before anything is learned, shows at once whether the state can be kept and the folder be
    written to. To be given to :func:`learn`, which also resumes.

    :param folder: where the checkpoints go
    :param every: environment steps between checkpoints
    :param identity: what the run is
    :param stateful: callbacks whose attributes belong to the state of training
    """

    def __init__(
        self,
        folder: Path,
        every: int,
        identity: Mapping[str, Any],
        stateful: Sequence[BaseCallback] = (),
    ) -> None:
        super().__init__(folder, every, identity)
        self.stateful = stateful
        self._due = 0
        self._resumption: Resumption | None = None

    def _restore(self, model: BaseAlgorithm, checkpoint: Checkpoint) -> None:
        self._resumption = Resumption(model, checkpoint.state)
        self._due = self._next(checkpoint.step)

    def _on_rollout_start(self) -> None:
        if self._resumption is not None:
            self._resumption.finish(self.stateful)
            self._resumption = None
        elif self.model.num_timesteps >= self._due:
            self.write()
            self._due = self._next(self.model.num_timesteps)

    def _next(self, step: int) -> int:
        return (step // self.every + 1) * self.every

    def _state(self) -> State:
        try:
            return pack_state(self.model, self.stateful)
        except NotKeptError as error:
            raise CheckpointError(f"the run cannot be checkpointed: {error}") from error


def learn(
    model: BaseAlgorithm,
    total_timesteps: int,
    checkpoints: CheckpointWriter,
    callbacks: Sequence[BaseCallback] = (),
) -> None:
    """Train until ``total_timesteps``, counted from the very beginning; schedules follow the whole run.

    :param model: a new model, or one that :meth:`CheckpointWriter.resume` brought back
    :param total_timesteps: steps of the whole run
    :param checkpoints: writes the checkpoints
    :param callbacks: further callbacks; called before ``checkpoints``
    :raises ValueError: for an algorithm that cannot be checkpointed
    :raises CheckpointError: if a checkpoint cannot be made or written
    """
    require_resumable(model)
    model.learn(
        total_timesteps - (checkpoints.resumed_at or 0),
        callback=[*callbacks, checkpoints],
        reset_num_timesteps=checkpoints.resumed_at is None,
    )
