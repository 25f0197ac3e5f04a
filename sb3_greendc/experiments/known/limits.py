"""PIDLagrangianPPO under a limit on a cost, and PPO with penalties that were tried out."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FormatStrFormatter, NullLocator

from sb3_greendc.experiments.comparison import matrix, mean_interval
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import color_of, panels
from sb3_greendc.experiments.known.common import EPISODES, asked_for, left_out, run
from sb3_greendc.experiments.known.players import RANDOM
from sb3_greendc.experiments.known.problems import CARTPOLE_COST, GRID, LAVA, LIMITS, Problem
from sb3_greendc.experiments.known.tasks import Played, tested_in
from sb3_greendc.experiments.tasks import Item, Task
from sb3_greendc.experiments.training import Learner

PENALTIES = (0.1, 0.3, 1.0)
"""Fixed penalties of PPO: as many trials as the controller has."""

RECURRENT_PENALTY = 1.0
"""The fixed penalty of PPO with an LSTM: the one that brought PPO nearest to LunarLander's limits."""

GAINS: tuple[dict[str, float], ...] = ({}, {"ki": 0.3}, {"kp": 0.3, "ki": 0.03})
"""The controller's trials, in place of its defaults."""

QUICK = (GRID.name, CARTPOLE_COST.name, LAVA.name)
"""Problems of the quick budget; LunarLander is left to the full one, and to those who ask for it."""


def items(budget: Budget) -> list[Item]:
    """Return the trials of every problem with a limit."""
    return [
        item
        for problem in asked_for(budget, QUICK, LIMITS)
        for item in labelled(tasks(problem, budget), series=problem.name)
    ]


def tasks(problem: Problem, budget: Budget) -> list[Task]:
    """Return PPO under a limit and PPO with fixed penalties, as many trials of each, and chance.

    With an LSTM, which takes longer, each has one trial: the controller its defaults, PPO the penalty
    :data:`RECURRENT_PENALTY` and the same settings. That PPO is the controller's class without a limit: it
    learns what sb3-contrib's ``RecurrentPPO`` does, but for rounding, in less time.
    """
    limit = LIMITS[problem.name]
    trials = [
        Learner(
            f"PIDLagrangianPPO {said(gains)}",
            "pid_ppo",
            {"cost_limit": limit, **gains},
            deterministic=False,
            speed=2_000.0,
        )
        for gains in GAINS
    ]
    trials.append(
        Learner(
            "RecurrentPIDLagrangianPPO defaults",
            "recurrent_pid_ppo",
            {"cost_limit": limit},
            deterministic=False,
            speed=400.0,
        )
    )
    trials += [
        Learner(f"PPO penalty {one}", "ppo", {}, {"penalty": one}, deterministic=False, speed=2_500.0)
        for one in PENALTIES
    ]
    trials.append(
        Learner(
            f"RecurrentPPO penalty {RECURRENT_PENALTY}",
            "recurrent_pid_ppo",
            {"cost_limit": math.inf},
            {"penalty": RECURRENT_PENALTY},
            deterministic=False,
            speed=400.0,
        )
    )
    found: list[Task] = [Played(problem.name, tested_in(problem), RANDOM, 2 * EPISODES)]
    for learner in trials:
        for seed in budget.seeds_of(learner.name, 1, 5):
            found.append(run(problem, learner, seed, budget, checkpoints=1, episodes=2 * EPISODES))
    return found


def said(gains: dict[str, float]) -> str:
    """Return a trial's settings in words."""
    return " ".join(f"{name} {gain}" for name, gain in gains.items()) or "defaults"


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return reward and cost of every trial."""
    table = under_limits(results.table())
    notes = [*broken(table), *left_out(budget, QUICK, LIMITS)]
    return Analysis({"results": table}, {"figure": draw(table)} if len(table) else {}, notes)


def under_limits(rows: pd.DataFrame) -> pd.DataFrame:
    """Return reward and cost of every trial on half of the episodes; the other half chose among trials.

    :param rows: episodes with ``series``, ``policy``, ``episode``, ``return``, ``cost``, ``train_seed``
    :return: a row for each trial, with 95 % intervals over seeds and episodes; ``within the limit``
        says whether the mean cost is. Of each kind one is ``chosen`` at most, see :func:`choose`
    """
    if rows.empty:
        return rows
    found = []
    for (series, policy), mine in rows.groupby(["series", "policy"], sort=False):
        choosing, judging = mine[mine["episode"] % 2 == 0], mine[mine["episode"] % 2 == 1]
        earned, paid = (mean_interval(matrix(judging, metric)) for metric in ("return", "cost"))
        limit = LIMITS[str(series)]
        found.append(
            {
                "series": series,
                "policy": policy,
                "limit": limit,
                "seeds": int(mine["train_seed"].nunique()),
                "return": earned.estimate,
                "return low": earned.low,
                "return high": earned.high,
                "cost": paid.estimate,
                "cost low": paid.low,
                "cost high": paid.high,
                "within the limit": paid.estimate <= limit,
                "_return": choosing["return"].mean(),
                "_cost": choosing["cost"].mean(),
            }
        )
    table = pd.DataFrame(found)
    trials = table[table["policy"] != RANDOM]
    by_kind = trials.groupby(["series", trials["policy"].map(kind_of)], sort=False)
    chosen = [choose(mine) for _, mine in by_kind]
    return table.assign(chosen=table.index.isin(chosen)).drop(columns=["_return", "_cost"])


def kind_of(policy: str) -> str:
    """Return which kind a trial is of: its algorithm."""
    return policy.partition(" ")[0]


def choose(trials: pd.DataFrame) -> Any:
    """Return the index of the greatest reward within the limit, ``None`` if no trial is within it.

    :param trials: of one kind, with the mean ``_return`` and ``_cost`` of the episodes that choose
    """
    within = trials[trials["_cost"] <= trials["limit"]]
    return within["_return"].idxmax() if len(within) else None


def broken(table: pd.DataFrame) -> list[str]:
    """Return a sentence for each problem and kind of which no trial kept the limit where trials are chosen.

    :param table: of :func:`under_limits`
    """
    if table.empty:
        return []
    trials = table[table["policy"] != RANDOM]
    by_kind = trials.groupby(["series", trials["policy"].map(kind_of)], sort=False)
    return [
        f"{series}: no trial of {kind} kept the limit on the episodes that choose, so none is chosen."
        for (series, kind), mine in by_kind
        if not mine["chosen"].any()
    ]


FAR = 3.0
"""Costs of up to so many times the limit are drawn to one scale."""


def draw(table: pd.DataFrame) -> Figure:
    """Draw return over cost, a panel for each problem: a point with its intervals for each trial.

    Full points are the chosen trials. The dashed line is the limit; beyond it the scale is logarithmic where
    a cost is above :data:`FAR` times it.

    :param table: of :func:`under_limits`
    """
    names = [str(name) for name in table["series"].unique()]
    kinds = list(dict.fromkeys(kind_of(str(policy)) for policy in table["policy"]))
    figure, axes = panels(names)
    colors = {kind: "0.5" if kind == RANDOM else color_of(kind, kinds) for kind in kinds}
    for panel, name in zip(axes, names, strict=True):
        mine = table[table["series"] == name]
        limit = float(mine["limit"].iloc[0])
        panel.axvline(limit, color="black", lw=0.9, ls="--")
        for _, row in mine.iterrows():
            color = colors[kind_of(str(row["policy"]))]
            across, up = (
                [[row[metric] - row[f"{metric} low"]], [row[f"{metric} high"] - row[metric]]]
                for metric in ("cost", "return")
            )
            fill = color if row["chosen"] else "white"
            panel.errorbar(
                row["cost"], row["return"], up, across, fmt="o", ms=5, mfc=fill, color=color, lw=0.8
            )
        most = float(mine["cost high"].max())
        if most > FAR * limit:
            panel.set_xscale("symlog", linthresh=limit)
            ticks = [share * limit for share in (0, 0.5, 1, 3, 10, 30, 100)]
            panel.xaxis.set_major_locator(FixedLocator(ticks))
            panel.xaxis.set_minor_locator(NullLocator())
            panel.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        panel.set_xlim(0, 1.1 * max(most, 1.5 * limit))
        panel.set_xlabel("cost of an episode" + ", logarithmic beyond the limit" * (most > FAR * limit))
        panel.set_ylabel("return")
    handles = [point_of(color, color, kind) for kind, color in colors.items()]
    handles.append(point_of("0.2", "white", "not chosen"))
    handles.append(Line2D([], [], color="black", linewidth=0.9, linestyle="--", label="limit"))
    figure.legend(handles=handles, loc="outside right upper", fontsize="small", frameon=False)
    return figure


def point_of(color: str, fill: str, label: str) -> Line2D:
    """Return a point for a legend."""
    handle = Line2D([], [], color=color, marker="o", linestyle="", markersize=5, label=label)
    handle.set_markerfacecolor(fill)
    return handle


EXPERIMENT = Experiment(
    "learners-limits", "PIDLagrangianPPO and PPO with fixed penalties under limits", items, analyze, True
)
