"""Dictionaries of arrays by D4RL's names.

They are ``observations``, ``actions``, ``rewards``, ``terminals``, ``timeouts``, and perhaps
``next_observations``. D4RL stores no observation after the last step of an episode. Where next observations
are missing, the next row is what follows. Of a row at which time was up, or the recording stopped, nobody
knows what follows: it is left out, as ``d4rl.qlearning_dataset`` does, and the row before it counts as
truncated. After a terminal row nothing counts, and its own observation stands in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_greendc.datasets.arrays import flags

NAMES = {
    "observations": "obs",
    "next_observations": "next_obs",
    "actions": "actions",
    "rewards": "rewards",
    "terminals": "terminated",
    "timeouts": "truncated",
}
"""Our name of each of D4RL's arrays; it has others (``infos/...``, ``metadata/...``), which are not read."""


def is_d4rl(names: Collection[str]) -> bool:
    """Tell whether arrays are called as D4RL calls them."""
    return "terminals" in names and ("observations" in names or any(_is_part(name) for name in names))


def our_name(name: str) -> str | None:
    """Return our name of one of D4RL's arrays, ``None`` for those that are not read."""
    first, slash, key = name.partition("/")
    if slash and first not in ("observations", "next_observations"):
        return None
    return f"{NAMES[first]}{slash}{key}" if first in NAMES else None


def _flags(name: str, values: Any) -> NDArray[np.bool_]:
    array = np.asarray(values).reshape(-1)
    return flags(name, array, len(array))


def from_d4rl(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays by our names, with the observations that follow.

    :param data: ``(N, ...)`` each; ``observations`` may be a dict of arrays
    :raises ValueError: for a missing array, ``timeouts`` of another length, or data of which nothing is left
    """
    for name in ("actions", "rewards"):
        if name not in data:
            raise ValueError(f"no array {name!r}, beside 'terminals'")
    ours: dict[str, Any] = {our: value for name, value in data.items() if (our := our_name(name)) is not None}
    terminated = _flags("terminals", ours["terminated"])
    truncated = _flags("timeouts", ours.get("truncated", np.zeros(len(terminated))))
    if len(truncated) != len(terminated):
        raise ValueError(f"timeouts: {len(truncated):,} rows, but there are {len(terminated):,} terminals")
    ours["terminated"], ours["truncated"] = terminated, truncated & ~terminated
    if any(name.startswith("next_obs") for name in ours):
        return ours
    unknown = truncated & ~terminated
    if len(unknown) and not terminated[-1]:
        unknown[-1] = True
    if unknown.all():
        raise ValueError("observations: no row is followed by another of its episode")
    following = np.minimum(np.arange(len(unknown)) + 1, len(unknown) - 1)
    following[terminated] = np.flatnonzero(terminated)
    ours["truncated"] = np.append(unknown[1:], False) & ~terminated
    for name in [name for name in ours if name.split("/")[0] == "obs"]:
        ours[f"next_{name}"] = _rows(ours[name], following)
    return {name: _rows(values, ~unknown) for name, values in ours.items()}


def _is_part(name: str) -> bool:
    return name.startswith("observations/")


def _rows(values: Any, which: NDArray[Any]) -> Any:
    if isinstance(values, Mapping):
        return {key: _rows(part, which) for key, part in values.items()}
    array = np.asarray(values)
    if len(array) != len(which):
        raise ValueError(f"{len(array):,} rows in one array, but there are {len(which):,} terminals")
    return array[which]
