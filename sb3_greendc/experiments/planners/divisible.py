"""What can be earned without knowing the arrivals if jobs can be divided, beside the bound and policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from gymnasium.utils import seeding

from greendc.baselines.resource_pool.divisible import divisible_schedule
from greendc.baselines.resource_pool.instance import recorded_instance
from greendc.baselines.resource_pool.lp_bound import lp_bound
from greendc.resource_pool import ResourcePoolSimulator
from sb3_greendc.core.progress import progress_over
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.experiments.planners.common import ENV_ID, interval, markdown, share_of

LOADS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
LABEL = "divisible jobs, arrivals unknown"


def study(
    loads: Sequence[float], episodes: int, steps: int, futures: int, depth: int, first_seed: int = 0
) -> pd.DataFrame:
    """Return a row for each load and episode.

    Columns: ``load``, ``seed``, ``arrived`` (value of all jobs), ``divisible`` (what the schedule of
    fractions earns; it is checked for feasibility), ``bound`` (the linear programme's).

    :param loads: offered loads
    :param episodes: of each load
    :param steps: of an episode
    :param futures: sampled futures of each programme
    :param depth: steps that it looks ahead
    :param first_seed: of the episodes
    """
    rows = []
    for load in loads:
        env = make_vec_env(ENV_ID, 1, offered_load=load, episode_steps=steps)
        assert isinstance(env, SimulatorVecEnv)
        pool = env.simulator
        assert isinstance(pool, ResourcePoolSimulator)
        seeds = range(first_seed, first_seed + episodes)
        for seed in progress_over(seeds, episodes, "episode", desc=f"divisible, load {load:g}"):
            pool.reset_env(0, seeding.np_random(seed)[0])
            instance = recorded_instance(pool)
            arrived = float(pool.state.jobs["value"][0, : int(pool.state.env["n_jobs"][0])].sum())
            schedule = divisible_schedule(pool, futures=futures, depth=depth)
            earned, bound = schedule.value(instance), lp_bound(instance).value
            row = {"load": load, "seed": seed, "arrived": arrived, "divisible": earned, "bound": bound}
            rows.append(row)
        env.close()
    return pd.DataFrame(rows)


def describe(table: pd.DataFrame) -> str:
    """Return the Markdown of :func:`study`: shares of all jobs' value, then of the bound, by load."""
    heads = ["", *(f"{load:g}" for load in table["load"].unique())]
    by_load = [rows for _, rows in table.groupby("load", sort=False)]
    sums = table.groupby("load", sort=False).sum(numeric_only=True)
    values: list[Any] = [
        [name, *(f"{value:.3f}" for value in sums[column] / sums["arrived"])]
        for name, column in (("bound (lp)", "bound"), (LABEL, "divisible"))
    ]
    shares = [
        interval(vars(share_of(rows["divisible"], rows["bound"])), "estimate", form=".1f") for rows in by_load
    ]
    return markdown(heads, [*values, ["% of the bound", *shares]])
