"""Bounds beside results: what the best possible policy could do in each episode, at most.

A bound belongs to a sequence of jobs and power, so it is computed once and kept in a cache, by the hash of
the sequence. Where a bound cannot be had (a solver is missing, or gives up) it is left out, with one message
for each reason, and the results stand without it.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from gymnasium.utils import seeding

import greendc
from greendc.baselines.linear import NoBoundError
from greendc.baselines.resource_pool.cpsat import clairvoyant_optimum
from greendc.baselines.resource_pool.instance import recorded_instance
from greendc.baselines.resource_pool.lp_bound import lp_bound
from greendc.baselines.vcc.bound import cost_bound, digest
from greendc.config import require_one_of
from greendc.resource_pool import ResourcePoolSimulator
from greendc.simulator import Simulator
from greendc.vcc import VCCSimulator
from sb3_greendc.core.files import user_cache, write_json
from sb3_greendc.core.progress import progress_over

METHODS = ("lp", "cpsat", "none")
"""A linear programme, for every policy; the clairvoyant optimum (resource pool only); nothing."""

SHARE = "share_of_bound"
_NOTHING = 1e-9
"""What may be had below this is rounding."""
FORMAT = 2
"""Counts up when the same sequence gets another bound, so that old cache files are not read."""


def episode_bounds(
    env_id: str,
    seeds: Sequence[int],
    method: str = "lp",
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    time_limit: float = 120.0,
    cache: Path | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Bound what any policy can do in the first episode of environments seeded ``seeds``.

    Of the resource pool that is a ``total_job_value`` that none exceeds, of virtual capacity curves a
    ``total_cost`` that none undercuts.

    :param env_id: an environment id, with or without a version
    :param seeds: of the episodes
    :param method: one of :data:`METHODS`
    :param env_kwargs: keyword arguments of the environment
    :param time_limit: seconds for each episode
    :param cache: folder of the bounds known already; default: :func:`cache_folder`
    :param progress: show a progress bar
    :return: a row an episode: ``seed``, ``bound`` (NaN where there is none)
    :raises ValueError: for an unknown method
    """
    require_one_of("bound", method, METHODS)
    seeds = list(dict.fromkeys(seeds))
    bounds = np.full(len(seeds), np.nan)
    if method != "none":
        simulator = greendc.make_simulator(env_id, 1, **(env_kwargs or {}))
        folder = cache_folder() if cache is None else cache
        reasons: dict[str, None] = {}
        shown = progress_over(seeds, len(seeds), "episode", disable=not progress, desc=f"{method} bound")
        for i, seed in enumerate(shown):
            simulator.reset_env(0, seeding.np_random(seed)[0])
            try:
                bounds[i] = _bound(simulator, method, time_limit, folder)
            except NoBoundError as error:
                reasons[str(error)] = None
        for reason in reasons:
            warnings.warn(f"no {method} bound for some episodes of {env_id}: {reason}", stacklevel=2)
    return pd.DataFrame({"seed": seeds, "bound": bounds})


def add_share_of_bound(
    results: pd.DataFrame, method: str | None, env_kwargs: Mapping[str, Any] | None = None, **options: Any
) -> pd.DataFrame:
    """Return a table of episodes with the columns ``bound`` and ``share_of_bound``, where there is a bound.

    Of the resource pool the share is that of the value; of virtual capacity curves, that of the saving
    against the no-delay schedule (below 0 for a policy that costs more than that).

    :param results: what :func:`~sb3_greendc.evaluation.paired.evaluate` returns
    :param method: one of :data:`METHODS`; default: ``"lp"`` for the resource pool, none for others
    :param env_kwargs: keyword arguments of the environments
    :param options: of :func:`episode_bounds`
    """
    parts = []
    for env_id, of_env in results.groupby("env_id", sort=False):
        of_pool = greendc.family(str(env_id)) == "resource_pool"
        chosen = method or ("lp" if of_pool else "none")
        bounds = episode_bounds(str(env_id), of_env["seed"].tolist(), chosen, env_kwargs, **options)
        if bounds["bound"].isna().all():
            parts.append(of_env)
            continue
        part = of_env.merge(bounds, on="seed", how="left")
        # By the id: a table of several families has the columns of all.
        if of_pool:
            reached, possible = part["total_job_value"], part["bound"]
        else:
            config = greendc.make_simulator(str(env_id), 1, **(env_kwargs or {})).config  # type: ignore[attr-defined]
            at_once = config.carbon_weight * part["carbon_no_delay_kg"]
            reached, possible = at_once - part["total_cost"], at_once - part["bound"]
        # Where nothing can be had, every policy has all there is.
        share = reached / possible.where(possible > _NOTHING)
        part[SHARE] = share.where(possible.isna() | (possible > _NOTHING), 1.0)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def cache_folder() -> Path:
    """Return where bounds are kept: ``GREENDC_CACHE``, or ``sb3-greendc`` in the user's cache folder."""
    given = os.environ.get("GREENDC_CACHE")
    if given:
        return Path(given) / "bounds"
    return user_cache() / "sb3-greendc" / "bounds"


def _bound(simulator: Simulator, method: str, time_limit: float, folder: Path) -> float:
    """Return the bound of the episode that a simulator is at the beginning of."""
    if isinstance(simulator, ResourcePoolSimulator):
        key = recorded_instance(simulator).digest()
    elif isinstance(simulator, VCCSimulator):
        key = digest(simulator)
    else:
        raise NoBoundError(f"there is none for {type(simulator).__name__}")
    path = folder / f"{method}-{FORMAT}-{key}.json"
    known = _read(path)
    if known is not None:
        return known
    record: dict[str, Any]
    if isinstance(simulator, VCCSimulator):
        if method != "lp":
            raise NoBoundError("virtual capacity curves have the bound 'lp' alone")
        record = vars(cost_bound(simulator, time_limit=time_limit))
    elif method == "lp":
        record = vars(lp_bound(recorded_instance(simulator), time_limit))
    else:
        optimum = clairvoyant_optimum(simulator, time_limit=time_limit)
        record = {"value": optimum.bound, "reached": optimum.value, "proved": optimum.proved}
        record["seconds"] = optimum.seconds
    try:
        write_json(path, record)
    except OSError as error:
        warnings.warn(f"the bound cannot be kept for another time: {error}", stacklevel=2)
    return float(record["value"])


def _read(path: Path) -> float | None:
    """Return the bound in a cache file; a missing or damaged one counts as not there."""
    try:
        bound = json.loads(path.read_text())["value"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return float(bound) if isinstance(bound, int | float) else None
