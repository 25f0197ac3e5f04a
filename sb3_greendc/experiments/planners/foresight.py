"""What knowing the arrivals of the next steps is worth to rollouts, and to nobody who does not know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from sb3_greendc.evaluation.bounds import SHARE, add_share_of_bound
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.experiments.claims import BEST_OF_PAPER
from sb3_greendc.experiments.episodes import PAPER, all_variants
from sb3_greendc.experiments.planners.common import ENV_ID, RATIO, STUDENT, estimates, interval, markdown
from sb3_greendc.experiments.rollouts import DEPTH, strong

LOADS = (0.4, 0.6)
TOLD = (0, 1, 3, 6, 12, 24, 48, 96)
RIVALS = (*PAPER, "edf")
FUTURES = 32


def study(
    loads: Sequence[float],
    told: Sequence[int],
    episodes: int,
    env_id: str = ENV_ID,
    settings: Mapping[str, Any] | None = None,
    rivals: Sequence[str] = RIVALS,
) -> pd.DataFrame:
    """Return a row for each load and number of steps that rollouts are told the arrivals of.

    Columns: ``load``, ``policy`` (with the papers' best heuristic first), ``told``, ``mean`` (value of jobs
    on time over that of all jobs), ``low``, ``high``, ``gain`` (per cent over that heuristic on the same
    episodes), ``gain_low``, ``gain_high``, ``share`` of the linear programme's bound.

    :param loads: offered loads
    :param told: steps; rollouts look one step farther, and no less far than those that are told nothing
    :param episodes: of each, seeded from 0 on
    :param env_id: environment id
    :param settings: further keyword arguments of the environment
    :param rivals: heuristics, the best of which in the better of its scopes is what gains are over
    """
    heuristics = [variant.spec for variant in all_variants(rivals, dispatches=("skip",))]
    problems = [{**(settings or {}), "offered_load": load} for load in loads]
    return pd.concat(
        [_of_problem(env_id, problem, heuristics, told, episodes) for problem in problems], ignore_index=True
    )


def _of_problem(
    env_id: str, problem: dict[str, Any], heuristics: Sequence[str], told: Sequence[int], episodes: int
) -> pd.DataFrame:
    played = evaluate(heuristics, env_id, episodes, env_kwargs=problem)
    best = str(played.groupby("policy", sort=False)[RATIO].mean().idxmax())
    informed = evaluate(
        {_name(steps): _spec(steps) for steps in told}, env_id, episodes, env_kwargs={**problem, **STUDENT}
    )
    results = pd.concat([played[played["policy"] == best], informed], ignore_index=True)
    results = add_share_of_bound(results, "lp", problem)
    table = estimates(results, RATIO, best)
    table["share"] = table["policy"].map(results.groupby("policy")[SHARE].mean())
    table.insert(0, "load", problem["offered_load"])
    table.insert(2, "told", table["policy"].map({_name(steps): steps for steps in told}))
    return table


def _name(told: int) -> str:
    return f"told {told}"


def _spec(told: int) -> str:
    options = strong(FUTURES, depth=max(DEPTH, told + 1)).options
    return "foresight:" + ",".join(f"{key}={value}" for key, value in {"told": told, **options}.items())


def describe(table: pd.DataFrame) -> str:
    """Return the Markdown of :func:`study`: gains by load, a row for each number of steps."""
    rows = []
    for told, of_steps in table.dropna(subset="told").groupby("told"):
        cells = [
            f"{interval(row, 'gain', 'gain_low', 'gain_high', '+.1f')} ({100 * row['share']:.1f} %)"
            for _, row in of_steps.iterrows()
        ]
        rows.append([f"{told:.0f}", *cells])
    rivals = table[table["told"].isna()]
    names = [f"`{row['policy']}` ({100 * row['share']:.1f} %)" for _, row in rivals.iterrows()]
    heads = [f"load {load:g}" for load in rivals["load"]]
    return markdown(["steps told", *heads], [*rows, [BEST_OF_PAPER, *names]])
