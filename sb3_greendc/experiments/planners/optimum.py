"""The clairvoyant optimum of short episodes: how soon it is proved, and what separates it from policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from gymnasium.utils import seeding

from greendc.baselines.resource_pool.cpsat import clairvoyant_optimum
from greendc.baselines.resource_pool.instance import recorded_instance
from greendc.baselines.resource_pool.lp_bound import lp_bound
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator
from sb3_greendc.core.progress import progress_over
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.experiments.planners.common import (
    ENV_ID,
    LEARNED,
    REFERENCE,
    ROLLOUTS,
    STUDENT,
    VALUE,
    interval,
    markdown,
    share_of,
)
from sb3_greendc.experiments.planners.divisible import LABEL as DIVISIBLE

POLICIES = (REFERENCE, ROLLOUTS)
LINES = (*POLICIES[::-1], LEARNED)
LARGE: dict[str, Any] = {"units": 300, "horizon": 72, "ready_pool_size": 25}


def study(
    loads: Sequence[float],
    episodes: int,
    steps: int,
    time_limit: float,
    workers: int,
    model: str | None,
    trust: bool = False,
) -> pd.DataFrame:
    """Return a row for each load and episode, seeded from 0 on.

    Columns: ``load``, ``seed``, ``jobs`` that could be on time, ``lp`` (the linear programme's bound),
    ``bound`` (CP-SAT's), ``optimum`` (value of the schedule, replayed), ``proved``, ``gap``, ``seconds``, and
    the value that each policy earned.

    :param loads: offered loads
    :param episodes: of each load
    :param steps: of an episode
    :param time_limit: seconds for each optimum
    :param workers: threads of the solver
    :param model: saved models of learned policies (a path or a pattern), or None
    :param trust: load models that hold pickled code, too, and run it
    """
    parts = []
    for load in loads:
        scenario: dict[str, Any] = {"offered_load": load, "episode_steps": steps}
        pool = ResourcePoolSimulator(ResourcePoolConfig(units=10, **scenario))
        rows = []
        for seed in progress_over(range(episodes), episodes, "episode", desc=f"optimum, load {load:g}"):
            pool.reset_env(0, seeding.np_random(seed)[0])
            rows.append({"load": load, "seed": seed, **_solve(pool, time_limit, workers)})
        results = evaluate(POLICIES, ENV_ID, episodes, env_kwargs=scenario, progress=True)
        if model is not None:
            view = {**scenario, **STUDENT}
            student = evaluate(
                {LEARNED: model}, ENV_ID, episodes, env_kwargs=view, trust=trust, progress=True
            )
            results = pd.concat([results, student], ignore_index=True)
        values = results.pivot_table(VALUE, "seed", "policy", sort=False)  # the mean over runs
        parts.append(pd.DataFrame(rows).merge(values, on="seed"))
    return pd.concat(parts, ignore_index=True)


def _solve(pool: ResourcePoolSimulator, time_limit: float, workers: int) -> dict[str, Any]:
    instance = recorded_instance(pool)
    best = clairvoyant_optimum(pool, time_limit=time_limit, workers=workers)
    row = {"jobs": len(instance), "lp": lp_bound(instance).value, "bound": best.bound, "optimum": best.value}
    return {**row, "proved": best.proved, "gap": best.gap, "seconds": best.seconds}


def shares(table: pd.DataFrame, divided: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return what share of the linear programme's bound, in per cent, each line has at each load.

    Columns: ``load``, ``policy``, ``mean``, ``low``, ``high``. ``"optimum"`` is CP-SAT's bound on what
    whole jobs earn if the arrivals are known; the others are policies, and divisible jobs with
    unknown arrivals. Sums over all episodes of a load; intervals are over episodes.

    :param table: of :func:`study`
    :param divided: of :func:`~sb3_greendc.experiments.planners.divisible.study`, in episodes of as many steps
    """
    rows = []
    for load, of_load in table.groupby("load"):
        lines = {"optimum": of_load["bound"], **{name: of_load[name] for name in LINES if name in of_load}}
        found = {name: share_of(line, of_load["lp"]) for name, line in lines.items()}
        if divided is not None and (divided["load"] == load).any():
            here = divided[divided["load"] == load]
            found[DIVISIBLE] = share_of(here["divisible"], here["bound"])
        for name, share in found.items():
            row = {"load": load, "policy": name, "mean": share.estimate, "low": share.low, "high": share.high}
            rows.append(row)
    return pd.DataFrame(rows)


def describe(table: pd.DataFrame) -> str:
    """Return the Markdown of :func:`study`: seconds and gaps by load, then shares of the bound."""
    rows = []
    for load, of_load in table.groupby("load"):
        seconds, gap, n = of_load["seconds"], 100.0 * of_load["gap"], len(of_load)
        rows.append(
            [
                f"{load:g}",
                f"{of_load['jobs'].min()}–{of_load['jobs'].max()}",
                f"{of_load['proved'].sum()} of {n}",
                " / ".join(f"{seconds.quantile(q):.1f}" for q in (0.0, 0.5, 0.9, 1.0)),
                " / ".join(f"{gap.quantile(q):.2f}" for q in (0.0, 0.5, 0.9, 1.0)),
            ]
        )
    heads = ["load", "jobs", "proved", "seconds: least / median / 90 % / most", "gap in %: the same"]
    lines = [
        [str(policy), *(interval(row, form=".1f") for _, row in of_policy.iterrows())]
        for policy, of_policy in shares(table).groupby("policy", sort=False)
    ]
    loads = [f"{load:g}" for load in sorted(table["load"].unique())]
    return "\n\n".join((markdown(heads, rows), markdown(["% of the bound at a load of", *loads], lines)))


def large(episodes: int, steps: int) -> pd.DataFrame:
    """Return how long the linear programme takes for a pool of 300 units: ``seed``, ``jobs``, ``seconds``."""
    pool = ResourcePoolSimulator(ResourcePoolConfig(**LARGE, episode_steps=steps))
    rows = []
    for seed in progress_over(range(episodes), episodes, "episode", desc="linear programme"):
        pool.reset_env(0, seeding.np_random(seed)[0])
        instance = recorded_instance(pool)
        rows.append({"seed": seed, "jobs": len(instance), "seconds": lp_bound(instance).seconds})
    return pd.DataFrame(rows)


def describe_large(table: pd.DataFrame) -> str:
    """Return the Markdown of :func:`large`."""
    rows = [[f"{row.seed}", f"{row.jobs}", f"{row.seconds:.2f}"] for row in table.itertuples()]
    return markdown(["seed", "jobs", "seconds"], rows)
