"""Checkpoints of training on a data set, which is a matter of few values."""

from __future__ import annotations

import time
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_greendc.crr import CRR
from sb3_greendc.crr.updates import Losses
from sb3_greendc.runs.checkpoints import Checkpoint, State
from sb3_greendc.runs.resume import CheckpointWriter
from sb3_greendc.runs.run_logger import RunLogger
from sb3_greendc.runs.trees import pack_tree, unpack_tree


class OfflineCheckpointing(CheckpointWriter):
    """Writes a checkpoint after every so many gradient steps.

    It holds what learning changes: weights, optimizer, counters, time, the running means of the log, and the
    log. The rest follows from the data and the settings: CRR draws its batches from the number of the update
    alone.
    """

    _resumed: dict[str, Any] | None = None

    def _restore(self, model: BaseAlgorithm, checkpoint: Checkpoint) -> None:
        assert isinstance(model, CRR)
        try:
            state = unpack_tree(checkpoint.state)
            model.set_parameters(state["parameters"], exact_match=True, device=model.device)
            model.advantage_std = state["advantage_std"].to(model.device)
            model.num_timesteps, model._n_updates = checkpoint.step, state["n_updates"]
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            reason = (str(error).splitlines() or [""])[0]
            raise ValueError(f"does not fit the run: {reason}") from error
        self._resumed = state

    def _on_training_start(self) -> None:
        if self._resumed is None:
            return
        model, state, self._resumed = self._crr(), self._resumed, None
        model._history = [
            (actor.to(model.device), critic.to(model.device), accepted)
            for actor, critic, accepted in state["history"]
        ]
        if state["last"] is not None:
            moved = (None if tensor is None else tensor.to(model.device) for tensor in state["last"])
            model._last_losses = Losses._make(moved)
        self._log().load_state_dict(state["log"])
        model.start_time = time.time_ns() - state.get("nanoseconds", 0)
        model._num_timesteps_at_start = state.get("start_steps", model.num_timesteps)
        at_end = model.num_timesteps == model._total_timesteps
        if model._history and (at_end or model.num_timesteps % self.locals["log_interval"] == 0):
            model.dump_logs()  # as it did right after the checkpoint

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every == 0:
            self.write()
        return True

    def _state(self) -> State:
        model = self._crr()
        last = model._last_losses
        return pack_tree(
            {
                "parameters": model.get_parameters(),
                "advantage_std": model.advantage_std,
                "n_updates": model._n_updates,
                "history": model._history,
                "last": None if last is None else tuple(last),
                "log": self._log().state_dict(),
                "nanoseconds": time.time_ns() - model.start_time,
                "start_steps": model._num_timesteps_at_start,
            }
        )

    def _crr(self) -> CRR:
        assert isinstance(self.model, CRR)
        return self.model

    def _log(self) -> RunLogger:
        assert isinstance(self.logger, RunLogger)
        return self.logger
