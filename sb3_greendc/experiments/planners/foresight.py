"""What knowing the arrivals of the next steps is worth to rollouts."""

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
KNOWN_ARRIVALS = (0, 1, 3, 6, 12, 24, 48, 96)
RIVALS = (*PAPER, "edf")
FUTURES = 32


def study(
    loads: Sequence[float],
    known_arrivals: Sequence[int],
    episodes: int,
    env_id: str = ENV_ID,
    settings: Mapping[str, Any] | None = None,
    rivals: Sequence[str] = RIVALS,
) -> pd.DataFrame:
    """Return a row for each load and number of steps that rollouts are told the arrivals of.

    Columns: ``load``, ``policy`` (the papers' best heuristic first), ``known_arrivals``, ``mean`` (value of
    jobs on time over that of all jobs), ``low``, ``high``, ``gain`` (per cent over that heuristic on the same
    episodes), ``gain_low``, ``gain_high``, ``share`` of the linear programme's bound.

    :param loads: offered loads
    :param known_arrivals: steps; rollouts look one step farther, and at least as far as those that know none
    :param episodes: of each, seeded from 0 on
    :param env_id: environment id
    :param settings: further keyword arguments of the environment
    :param rivals: heuristics, the best of which in the better of its scopes is what gains are over
    """
    heuristics = [variant.spec for variant in all_variants(rivals, dispatches=("skip",))]
    scenarios = [{**(settings or {}), "offered_load": load} for load in loads]
    return pd.concat(
        [_of_scenario(env_id, scenario, heuristics, known_arrivals, episodes) for scenario in scenarios],
        ignore_index=True,
    )


def _of_scenario(
    env_id: str,
    scenario: dict[str, Any],
    heuristics: Sequence[str],
    known_arrivals: Sequence[int],
    episodes: int,
) -> pd.DataFrame:
    played = evaluate(heuristics, env_id, episodes, env_kwargs=scenario, progress=True)
    best = str(played.groupby("policy", sort=False)[RATIO].mean().idxmax())
    informed = evaluate(
        {_name(steps): _spec(steps) for steps in known_arrivals},
        env_id,
        episodes,
        env_kwargs={**scenario, **STUDENT},
        progress=True,
    )
    results = pd.concat([played[played["policy"] == best], informed], ignore_index=True)
    results = add_share_of_bound(results, "lp", scenario, progress=True)
    table = estimates(results, RATIO, best)
    table["share"] = table["policy"].map(results.groupby("policy")[SHARE].mean())
    table.insert(0, "load", scenario["offered_load"])
    table.insert(2, "known_arrivals", table["policy"].map({_name(steps): steps for steps in known_arrivals}))
    return table


def _name(known_arrivals: int) -> str:
    return f"known_arrivals={known_arrivals}"


def _spec(known_arrivals: int) -> str:
    options = strong(FUTURES, depth=max(DEPTH, known_arrivals + 1)).options
    return "foresight:" + ",".join(
        f"{key}={value}" for key, value in {"known_arrivals": known_arrivals, **options}.items()
    )


def describe(table: pd.DataFrame) -> str:
    """Return the Markdown of :func:`study`: gains by load, a row for each number of steps."""
    rows = []
    for known_arrivals, of_steps in table.dropna(subset="known_arrivals").groupby("known_arrivals"):
        cells = [
            f"{interval(row, 'gain', 'gain_low', 'gain_high', '+.1f')} ({100 * row['share']:.1f} %)"
            for _, row in of_steps.iterrows()
        ]
        rows.append([f"{known_arrivals:.0f}", *cells])
    rivals = table[table["known_arrivals"].isna()]
    names = [f"`{row['policy']}` ({100 * row['share']:.1f} %)" for _, row in rivals.iterrows()]
    heads = [f"load {load:g}" for load in rivals["load"]]
    return markdown(["known arrivals, steps", *heads], [*rows, [BEST_OF_PAPER, *names]])
