"""Which transitions of a recording are valid, where not all of them are."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.simulator import Observation
from sb3_greendc.datasets.dataset import OfflineDataset
from sb3_greendc.datasets.spaces import rows_in_space
from sb3_greendc.datasets.validation import allowed_by_masks, part_spaces, parts


def valid_rows(data: OfflineDataset, recorded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which transitions have finite numbers, and observations and an action that may be.

    :param data: not validated
    :param recorded: ``(N,)`` transitions that are whole
    """
    seen = _in_space(data.observations, data.observation_space)
    last = _in_space(data.final_observations, data.observation_space)
    acted = rows_in_space(data.actions, data.action_space)
    valid = recorded & seen & acted & np.isfinite(data.rewards)
    if data.costs is not None:
        valid &= np.isfinite(data.costs)
    if isinstance(data.action_space, spaces.Discrete):
        valid &= allowed_by_masks(data.observations, np.where(acted, data.actions, 0))
    rows = np.flatnonzero(valid)
    valid[rows] = np.concatenate([seen, last])[data.next_index[rows]]
    return valid


def _in_space(observations: Observation, space: spaces.Space[Any]) -> NDArray[np.bool_]:
    wanted = part_spaces(space, "")
    inside: NDArray[np.bool_] = np.logical_and.reduce(
        [rows_in_space(array, wanted[part]) for part, array in parts(observations, "").items()]
    )
    return inside
