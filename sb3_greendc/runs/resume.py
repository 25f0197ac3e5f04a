"""Training that can be killed at any time and goes on from its last checkpoint, bit for bit."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from sb3_greendc.core.provenance import package_versions
from sb3_greendc.runs.checkpoints import Checkpoint, CheckpointError, CheckpointFolder
from sb3_greendc.runs.training_state import Resumption, pickle_state, require_resumable


class Checkpointing(BaseCallback):
    """Writes a checkpoint at the first rollout, and at the first one after every ``every`` steps.

    The first one, before anything is learned, shows at once whether the environments can be pickled and the
    folder be written to. To be given to :func:`learn`, which also resumes.

    :param folder: where the checkpoints go
    :param every: environment steps between checkpoints
    :param identity: what the run is, in values that JSON can hold: a checkpoint is resumed by runs of the
        same identity only
    :param stateful: callbacks whose attributes belong to the state of training

    ``resumed_at`` is the number of environment steps at the checkpoint that training goes on from.
    """

    def __init__(
        self,
        folder: Path,
        every: int,
        identity: Mapping[str, Any],
        stateful: Sequence[BaseCallback] = (),
    ) -> None:
        super().__init__()
        self.folder = CheckpointFolder(folder)
        self.every = every
        self.identity = identity
        self.stateful = stateful
        self.resumed_at: int | None = None
        self._due = 0
        self._resumption: Resumption | None = None

    def resume(self, model: BaseAlgorithm, checkpoint: Checkpoint) -> None:
        """Make ``model`` the one of the checkpoint; the rest follows when training starts.

        :raises ValueError: if the checkpoint cannot be unpickled
        """
        try:
            self._resumption = Resumption(model, checkpoint.state)
        except ValueError as error:
            raise ValueError(f"checkpoint {checkpoint.path}: {error}") from error
        self.resumed_at = checkpoint.step
        self._due = self._next(checkpoint.step)

    def _on_rollout_start(self) -> None:
        if self._resumption is not None:
            self._resumption.finish(self.stateful)
            self._resumption = None
        elif self.model.num_timesteps >= self._due:
            self._save()
            self._due = self._next(self.model.num_timesteps)

    def _on_step(self) -> bool:
        return True

    def _next(self, step: int) -> int:
        return (step // self.every + 1) * self.every

    def _save(self) -> None:
        try:
            state = pickle_state(self.model, self.stateful)
        except pickle.PicklingError as error:
            raise CheckpointError(f"the run cannot be checkpointed: {error}") from error
        self.folder.write(self.model.num_timesteps, self.identity, package_versions(), state)


def learn(
    model: BaseAlgorithm,
    total_timesteps: int,
    checkpointing: Checkpointing,
    callbacks: Sequence[BaseCallback] = (),
) -> None:
    """Train until ``total_timesteps``, counted from the very beginning; schedules follow the whole run.

    :param model: a new model, or one that :meth:`Checkpointing.resume` brought back
    :param total_timesteps: environment steps of the whole run
    :param checkpointing: writes the checkpoints
    :param callbacks: further callbacks; called before ``checkpointing``
    :raises ValueError: for an algorithm that cannot be checkpointed
    :raises CheckpointError: if a checkpoint cannot be made or written
    """
    require_resumable(model)
    model.learn(
        total_timesteps - (checkpointing.resumed_at or 0),
        callback=[*callbacks, checkpointing],
        reset_num_timesteps=checkpointing.resumed_at is None,
    )
