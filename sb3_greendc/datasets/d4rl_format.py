"""Dictionaries of arrays by D4RL's names.

They are ``observations``, ``actions``, ``rewards``, ``terminals``, ``timeouts``, and perhaps
``next_observations``, ``costs`` and ``source_id``. D4RL stores no observation after the last step of an
episode. Where next observations are missing, the next row is what follows. Of a row at which time was up, or
the recording stopped, nobody knows what follows: it is left out, as ``d4rl.qlearning_dataset`` does, and the
row before it counts as truncated. After a terminal row nothing counts, and its own observation stands in.

Old files lack ``timeouts``, and so does what ``d4rl.qlearning_dataset`` returns. There an episode is cut
where the next row does not begin with the next observation; without next observations nothing tells where.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.config import nearest
from sb3_greendc.datasets.arrays import flags, observations_of
from sb3_greendc.datasets.validation import parts

NAMES = {
    "observations": "obs",
    "next_observations": "next_obs",
    "actions": "actions",
    "rewards": "rewards",
    "terminals": "terminated",
    "timeouts": "truncated",
    "costs": "costs",
    "source_id": "source_id",
}
"""Our name of each of D4RL's arrays."""
_IN_PARTS = ("observations", "next_observations")
_NOT_READ = ("infos", "metadata")


def is_d4rl(names: Collection[str]) -> bool:
    """Tell whether arrays are called as D4RL calls them."""
    return "observations" in names or ("terminals" in names and any(_is_part(name) for name in names))


def our_name(name: str) -> str | None:
    """Return our name of one of D4RL's arrays, ``None`` for those that are not read.

    :raises ValueError: for a name that D4RL does not have
    """
    first, slash, key = name.partition("/")
    if first in _NOT_READ:
        return None
    if first not in NAMES or (slash and first not in _IN_PARTS):
        known = (*NAMES, *(f"{group}/..." for group in _NOT_READ))
        raise ValueError(f"unknown array {name!r}{nearest(name, NAMES)} (known: {', '.join(known)})")
    return f"{NAMES[first]}{slash}{key}"


def _flags(name: str, values: Any) -> NDArray[np.bool_]:
    array = np.asarray(values).reshape(-1)
    return flags(name, array, len(array))


def from_d4rl(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays by our names, with the observations that follow.

    :param data: ``(N, ...)`` each; ``observations`` may be a dict of arrays
    :raises ValueError: for a missing or unknown array, one of another length, or if nothing is left
    """
    for name in data:
        our_name(name)  # refuses one that D4RL does not have
    for name in ("terminals", "actions", "rewards"):
        if name not in data:
            beside = "observations" if name == "terminals" else "terminals"
            raise ValueError(f"no array {name!r}, beside {beside!r}")
    terminated = _flags("terminals", data["terminals"])
    ours: dict[str, Any] = {}
    for name, values in data.items():
        if (our := our_name(name)) is not None:
            _check_length(name, values, len(terminated))
            ours[our] = values
    followed = any(name.startswith("next_obs") for name in ours)
    truncated = _timeouts(data, ours, followed)
    ours["terminated"], ours["truncated"] = terminated, truncated & ~terminated
    if followed:
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


def _check_length(name: str, values: Any, n: int) -> None:
    if isinstance(values, Mapping):
        for key, part in values.items():
            _check_length(f"{name}/{key}", part, n)
    elif np.shape(values)[:1] != (n,):
        found = f"{len(values):,} rows" if np.ndim(values) else "a single value"
        raise ValueError(f"{name}: {found}, but there are {n:,} terminals")


def _timeouts(data: Mapping[str, Any], ours: Mapping[str, Any], followed: bool) -> NDArray[np.bool_]:
    if "timeouts" in data:
        return _flags("timeouts", data["timeouts"])
    if followed:
        return _breaks(ours)
    warnings.warn(
        "no array 'timeouts': nothing tells where time was up, so episodes that do not end in a terminal row "
        "run on into the next",
        stacklevel=4,
    )
    return np.zeros(len(ours["actions"]), np.bool_)


def _breaks(ours: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Tell after which rows the next one does not begin with the next observation."""
    breaks = np.zeros(len(ours["actions"]), np.bool_)
    now, following = (parts(observations_of(ours, name), "") for name in ("obs", "next_obs"))
    for key in now.keys() & following.keys():
        if now[key].shape == following[key].shape:  # else it is refused later
            differs = now[key][1:] != following[key][:-1]
            breaks[:-1] |= differs.any(axis=tuple(range(1, differs.ndim)))
    return breaks


def _rows(values: Any, which: NDArray[Any]) -> Any:
    if isinstance(values, Mapping):
        return {key: _rows(part, which) for key, part in values.items()}
    return np.asarray(values)[which]
