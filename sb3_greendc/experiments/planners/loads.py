"""Policies against load: value, share of the bound, gain over ``deadline_never``, time of a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from sb3_greendc.evaluation.bounds import SHARE, add_share_of_bound
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.evaluation.policy_sources import policy_sources
from sb3_greendc.experiments.planners.common import (
    CHANCE,
    ENV_ID,
    LEARNED,
    RATIO,
    REFERENCE,
    ROLLOUTS,
    STUDENT,
    VALUE,
    decision_time,
    estimates,
    interval,
    markdown,
)

LOADS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
POLICIES = (CHANCE, "sjf", "qos", "hvf", "fcfs", "deadline_last", REFERENCE, ROLLOUTS)
BOUND = "bound (lp)"


def study(
    loads: Sequence[float], policies: Sequence[str], episodes: int, model: str | None, trust: bool = False
) -> pd.DataFrame:
    """Return a row for each load and policy, and one for the bound.

    Columns: ``load``, ``policy``, ``mean`` (value of jobs on time over that of all jobs), ``low``, ``high``,
    ``gain`` (per cent over ``deadline_never`` on the same episodes), ``gain_low``, ``gain_high``, ``share``
    of the linear programme's bound, ``milliseconds`` of a decision.

    :param loads: offered loads
    :param policies: baselines
    :param episodes: of each policy and load, seeded from 0 on
    :param model: saved models of learned policies (a path or a pattern), or None
    :param trust: load models that hold pickled code, too, and run it
    """
    parts = [_of_load(load, policies, episodes, model, trust) for load in loads]
    return pd.concat(parts, ignore_index=True)


def _of_load(
    load: float, policies: Sequence[str], episodes: int, model: str | None, trust: bool
) -> pd.DataFrame:
    scenario: dict[str, Any] = {"offered_load": load}
    named = list(dict.fromkeys([*policies, REFERENCE]))
    results = evaluate(named, ENV_ID, episodes, env_kwargs=scenario, trust=trust, progress=True)
    acting = policy_sources(named, ENV_ID, trust)
    if model is not None:
        view = {**scenario, **STUDENT}
        student = evaluate({LEARNED: model}, ENV_ID, episodes, env_kwargs=view, trust=trust, progress=True)
        results = pd.concat([results, student], ignore_index=True)
        acting += policy_sources({LEARNED: model}, ENV_ID, trust)[:1]
    results = add_share_of_bound(results, "lp", scenario, progress=True)
    best = results[results["policy"] == REFERENCE].copy()
    best["policy"], best[RATIO], best[SHARE] = BOUND, best["bound"] * best[RATIO] / best[VALUE], 1.0
    results = pd.concat([results, best], ignore_index=True)
    table = estimates(results, RATIO, REFERENCE)
    table.insert(0, "load", load)
    times = {one.name: decision_time(one, {**scenario, **STUDENT}) for one in acting}
    table["share"] = table["policy"].map(results.groupby("policy")[SHARE].mean())
    table["milliseconds"] = table["policy"].map(times)
    return table


def describe(table: pd.DataFrame) -> str:
    """Return the Markdown of :func:`study`: value and share of the bound, then gains, by load."""
    loads = table["load"].unique()
    heads = [f"{load:g}" for load in loads]
    values, gains = [], []
    for policy, rows in table.groupby("policy", sort=False):
        by_load = [rows[rows["load"] == load].iloc[0] for load in loads]
        spent = rows["milliseconds"].mean()
        cells = [f"{row['mean']:.3f} ({100 * row['share']:.1f} %)" for row in by_load]
        values.append([f"`{policy}`", *cells, "" if np.isnan(spent) else f"{spent:.2g}"])
        if policy not in (REFERENCE, BOUND):
            names = ("gain", "gain_low", "gain_high")
            gains.append([f"`{policy}`", *(interval(row, *names, form="+.1f") for row in by_load)])
    return "\n\n".join(
        (markdown(["policy", *heads, "ms a decision"], values), markdown(["policy", *heads], gains))
    )
