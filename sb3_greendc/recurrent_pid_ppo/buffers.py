"""Rollout buffers with costs for recurrent policies."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch as th
from sb3_contrib.common.recurrent.buffers import RecurrentDictRolloutBuffer, RecurrentRolloutBuffer
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.type_aliases import TensorDict

from sb3_greendc.pid_ppo.buffers import CostRolloutBuffer


class RecurrentCostRolloutBufferSamples(NamedTuple):
    """A minibatch of padded sequences, one after another: sb3-contrib's fields, then those of the cost."""

    observations: th.Tensor | TensorDict
    actions: th.Tensor
    old_values: th.Tensor
    old_log_prob: th.Tensor
    advantages: th.Tensor
    returns: th.Tensor
    lstm_states: RNNStates
    episode_starts: th.Tensor
    mask: th.Tensor
    """1 for transitions, 0 for padding."""
    old_cost_values: th.Tensor
    cost_returns: th.Tensor
    action_masks: th.Tensor | None


class PaddedCostsMixin(CostRolloutBuffer):
    """Hand out costs in the padded sequences that sb3-contrib's buffers cut."""

    samples_class: ClassVar[Any] = RecurrentCostRolloutBufferSamples
    hidden_state_shape: tuple[int, int, int, int]
    hidden_states_vf: npt.NDArray[np.float32]
    cell_states_vf: npt.NDArray[np.float32]

    def _rows(self, array: npt.NDArray[Any]) -> th.Tensor:
        # The parent's `_get_samples` has just set `pad` for the sequences of this minibatch.
        rows: th.Tensor = self.pad(array).flatten(0, 1)  # type: ignore[attr-defined]
        return rows


class RecurrentCostRolloutBuffer(PaddedCostsMixin, RecurrentRolloutBuffer):
    """:class:`~sb3_greendc.pid_ppo.buffers.CostRolloutBuffer` that keeps LSTM states."""


class RecurrentCostDictRolloutBuffer(PaddedCostsMixin, RecurrentDictRolloutBuffer):
    """:class:`RecurrentCostRolloutBuffer` for ``Dict`` observations."""
