"""Trajectories of the library ``imitation``, read and written.

``imitation`` has one flag, ``terminal``, and sets it for episodes whose time was up too. What tells them
apart is the key ``TimeLimit.truncated`` in the last ``info``, as SB3's environments write it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_greendc.datasets.dataset import OfflineDataset, require_data
from sb3_greendc.datasets.episodes import episodes, join_episodes

TRUNCATED = "TimeLimit.truncated"


def import_types() -> Any:
    """Return ``imitation.data.types``.

    :raises ImportError: with the line that installs it
    """
    try:
        from imitation.data import types
    except ImportError as error:
        raise ImportError("trajectories need imitation: pip install 'sb3-greendc[bc]'") from error
    return types


def from_trajectories(
    trajectories: Iterable[Any],
    observation_space: spaces.Space[Any] | None = None,
    action_space: spaces.Space[Any] | None = None,
    assume_terminal: bool | None = None,
) -> OfflineDataset:
    """Return trajectories with rewards of the library ``imitation`` as a data set.

    ``info["cost"]`` counts as costs, 0 at steps without one where others have one; the last
    ``info["source"]`` names the source. A trajectory that is not ``terminal`` counts as truncated.

    :param trajectories: each a ``TrajectoryWithRew``
    :param observation_space: trajectories know none; see :meth:`OfflineDataset.from_dict`
    :param action_space: the same
    :param assume_terminal: what ended trajectories are whose last ``info`` lacks ``TimeLimit.truncated``
    :raises TypeError: for something else than trajectories
    :raises ValueError: if it is needed and not given, rewards are missing, some have costs or sources and
        others no infos or no source, or the data are not valid
    """
    trajectories = _listed(trajectories)
    if not trajectories:
        raise ValueError("no trajectories")
    has_costs = any("cost" in info for one in trajectories if one.infos is not None for info in one.infos)
    columns: dict[str, list[NDArray[Any]]] = {"actions": [], "rewards": [], "terminated": [], "truncated": []}
    observations, names = [], []
    for number, trajectory in enumerate(trajectories):
        if not hasattr(trajectory, "rews"):
            raise ValueError(f"trajectory {number}: has no rewards; must be a TrajectoryWithRew")
        observations.append(trajectory.obs.unwrap() if hasattr(trajectory.obs, "unwrap") else trajectory.obs)
        n = len(trajectory.acts)
        last = np.arange(n) == n - 1
        terminated = _terminated(trajectory, number, assume_terminal)
        columns["actions"].append(np.asarray(trajectory.acts))
        columns["rewards"].append(np.asarray(trajectory.rews))
        columns["terminated"].append(last & terminated)
        columns["truncated"].append(last & (not terminated))
        names.append(str(_info(trajectory, -1).get("source", "")))
        if has_costs:
            if trajectory.infos is None:
                raise ValueError(f"trajectory {number}: has no infos, but others have costs there")
            costs = [float(info.get("cost", 0.0)) for info in trajectory.infos]
            columns.setdefault("costs", []).append(np.array(costs))
    data = join_episodes(observations, columns, "trajectory")
    sources: list[str] | None = None
    if any(names):
        if not all(names):
            raise ValueError(f"trajectory {names.index('')}: its last info has no 'source', but others have")
        sources = list(dict.fromkeys(names))
        of_episode = np.array([sources.index(name) for name in names])
        data["source_id"] = of_episode[data["episode_id"]]
    return OfflineDataset.from_dict(data, observation_space, action_space, sources)


def _listed(trajectories: Any) -> list[Any]:
    """Return trajectories, which are read more than once, as a list.

    :raises TypeError: for something else
    """
    if not isinstance(trajectories, Iterable):
        kind = type(trajectories).__name__
        raise TypeError(f"trajectories of type {kind}: must be a sequence of imitation's trajectories")
    listed = list(trajectories)
    for number, one in enumerate(listed):
        if not all(hasattr(one, name) for name in ("obs", "acts", "infos", "terminal")):
            raise TypeError(f"trajectory {number}: of type {type(one).__name__}; must be a TrajectoryWithRew")
    return listed


def to_trajectories(data: OfflineDataset) -> list[Any]:
    """Return a ``TrajectoryWithRew`` of ``imitation`` for each episode.

    Spaces, labels and metadata are lost. Costs, sources and truncation go into ``infos``; an episode that is
    both terminated and truncated counts as terminated.

    :param data: whole episodes
    :raises ImportError: if ``imitation`` is not installed
    :raises ValueError: if episodes are not whole
    """
    require_data("data", data)
    types = import_types()
    trajectories = []
    for episode in episodes(data):
        rows = episode.rows
        infos = np.array([_make_info(data, int(row)) for row in rows], dtype=object)
        trajectories.append(
            types.TrajectoryWithRew(
                obs=types.maybe_wrap_in_dictobs(episode.observations),
                acts=np.asarray(data.actions[rows]),
                infos=infos,
                terminal=True,
                rews=np.asarray(data.rewards[rows]),
            )
        )
    return trajectories


def _make_info(data: OfflineDataset, row: int) -> dict[str, Any]:
    truncated = bool(data.truncated[row]) and not data.terminated[row]
    info: dict[str, Any] = {TRUNCATED: truncated, "source": data.sources[data.source_id[row]]}
    if data.costs is not None:
        info["cost"] = float(data.costs[row])
    return info


def _terminated(trajectory: Any, number: int, assume_terminal: bool | None) -> bool:
    """Tell whether a trajectory terminated, which its flag ``terminal`` alone does not say."""
    if not trajectory.terminal:
        return False
    last = _info(trajectory, -1)
    if TRUNCATED in last:
        return not last[TRUNCATED]
    if assume_terminal is None:
        raise ValueError(
            f"trajectory {number}: terminal=True, but its last info has no {TRUNCATED!r}, and imitation "
            "marks episodes whose time was up as terminal too: say assume_terminal=True or False"
        )
    return assume_terminal


def _info(trajectory: Any, step: int) -> dict[str, Any]:
    if trajectory.infos is None:
        return {}
    info: dict[str, Any] = trajectory.infos[step]
    return info
