"""The heuristics' tables of ``docs/heuristics.md``.

``python -m greendc.baselines.resource_pool.table > docs/results/heuristics.csv`` plays all episodes (some
minutes); with ``--markdown docs/results/heuristics.csv`` it prints the page's tables from that file.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from greendc.baselines.registry import make_policy
from greendc.baselines.resource_pool import HEURISTICS
from greendc.baselines.resource_pool.policy import SCOPES
from greendc.resource_pool import ResourcePoolVectorEnv
from greendc.resource_pool.orders import DISPATCHES

LOADS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
LENGTHS = (500, 2_000, 8_000)
METRIC = "total_job_value_ratio"


@dataclass(frozen=True)
class Case:
    """A heuristic in a problem.

    :param table: the table that it belongs to: ``"load"``, ``"dispatch"`` or ``"late"``
    """

    table: str
    policy: str
    units: int = 10
    offered_load: float = 1.0
    episode_steps: int = 500
    late_jobs: str = "demote"
    dispatch: str = "skip"
    scope: str = "ready"


def cases() -> Iterator[Case]:
    """Yield the cases of all tables."""
    policies = tuple(HEURISTICS)
    for units in (10, 50):
        for load in LOADS:
            for policy in policies:
                yield Case("load", policy, units, load)
    for dispatch in DISPATCHES:
        for scope in SCOPES:
            for policy in policies:
                yield Case("dispatch", policy, dispatch=dispatch, scope=scope)
    for late_jobs in ("stay", "demote", "leave"):
        for steps in LENGTHS:
            for policy in policies:
                yield Case("late", policy, episode_steps=steps, late_jobs=late_jobs)


def play(case: Case, seeds: int = 20) -> NDArray[np.float64]:
    """Return the value ratio of episodes seeded 0, 1, ..., over the value of all jobs that arrived."""
    env = ResourcePoolVectorEnv(
        seeds,
        units=case.units,
        offered_load=case.offered_load,
        episode_steps=case.episode_steps,
        late_jobs=case.late_jobs,
    )
    policy = make_policy(case.policy, env, dispatch=case.dispatch, scope=case.scope)
    observations, _ = env.reset(seed=0)
    ratios = np.full(seeds, np.nan)
    while np.isnan(ratios).any():
        observations, _, _, truncated, infos = env.step(policy.predict(observations)[0])
        for i in np.flatnonzero(truncated & np.isnan(ratios)):
            ratios[i] = infos["final_info"][i]["episode_metrics"][METRIC]
    return ratios


def summarize(case: Case, ratios: NDArray[np.float64]) -> dict[str, object]:
    """Return a row of the CSV: the case, the mean and its 95 % interval (Student's t)."""
    mean, error = float(ratios.mean()), float(stats.sem(ratios))
    half = error * float(stats.t.ppf(0.975, len(ratios) - 1))
    numbers = {"mean": mean, "low": mean - half, "high": mean + half}
    rounded = {name: round(value, 4) for name, value in numbers.items()}
    return {**dataclasses.asdict(case), "seeds": len(ratios), **rounded}


def markdown(results: pd.DataFrame) -> str:
    """Return the tables of a CSV as Markdown."""
    load, late = results[results["table"] == "load"], results[results["table"] == "late"]
    dispatch = results[results["table"] == "dispatch"]
    parts = [
        (f"{units} units, by offered load", of_size, ["offered_load"])
        for units, of_size in load.groupby("units")
    ]
    parts.append(("10 units, offered load 1.0, by dispatch and scope", dispatch, ["dispatch", "scope"]))
    for rule, of_rule in late.groupby("late_jobs", sort=False):
        parts.append((f'`late_jobs="{rule}"`, by episode length', of_rule, ["episode_steps"]))
    return "\n".join(f"**{title}**\n\n{_pivot(rows, columns)}" for title, rows, columns in parts)


def _pivot(rows: pd.DataFrame, columns: list[str]) -> str:
    """Return a table with a line for each policy: the mean, and half the width of its interval."""
    heads = rows[columns].drop_duplicates().to_numpy().tolist()
    lines = [["policy", *("/".join(map(str, head)) for head in heads)], ["---"] * (len(heads) + 1)]
    for policy, of_policy in rows.groupby("policy", sort=False):
        cells = [
            f"{row['mean']:.2f} ± {(row['high'] - row['low']) / 2:.2f}".replace("0.", ".")
            for _, row in of_policy.iterrows()
        ]
        lines.append([f"`{policy}`", *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the CSV, or the tables of one."""
    parser = argparse.ArgumentParser(prog="python -m greendc.baselines.resource_pool.table")
    parser.add_argument("--seeds", type=int, default=20, help="episodes of each case, seeded 0, 1, ...")
    parser.add_argument("--markdown", type=Path, metavar="CSV", help="print the tables of this file instead")
    options = parser.parse_args(argv)
    if options.markdown is not None:
        print(markdown(pd.read_csv(options.markdown)), end="")
        return
    rows = [summarize(case, play(case, options.seeds)) for case in cases()]
    pd.DataFrame(rows).to_csv(sys.stdout, index=False)


if __name__ == "__main__":
    main()
