"""What share of the exact optimum every kind of policy has on tiny pools."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.evaluation.plots import PALETTE, TEXT_WIDTH, styled
from sb3_greendc.evaluation.statistics import Interval
from sb3_greendc.experiments.comparison import VALUE, margin, matrix, mean_interval
from sb3_greendc.experiments.episodes import Variant
from sb3_greendc.experiments.exact.judging import LOST
from sb3_greendc.experiments.exact.learners import learners
from sb3_greendc.experiments.exact.pools import POOLS
from sb3_greendc.experiments.exact.tasks import (
    CLAIRVOYANT,
    DIVISIBLE,
    EXACT,
    NO_CLOCK,
    OPTIMUM,
    RANDOM_RULES,
    RULE,
    Distillation,
    Judged,
    Lines,
    Plays,
    Values,
)
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.rollouts import DEPTH
from sb3_greendc.experiments.tasks import Item, Task
from sb3_greendc.experiments.training import Training

FUTURES = ((32, 128), (8, 32, 128, 512, 1024))
"""Of the rollouts, in the quick budget and in the full one."""

TEACHER_FUTURES = 32
"""Futures of the rollouts that a network learns from, and that a network guides."""

FULL_SEEDS = 5

LEFT_OUT = ("random", RANDOM_RULES, CLAIRVOYANT, DIVISIBLE)
"""Of the figure, whose scale they would spoil."""


def rollouts(futures: int) -> Variant:
    """Return rollouts over ``deadline_never``.

    :param futures: of each decision
    """
    return Variant("rollout", {"futures": futures, "depth": DEPTH})


def items(budget: Budget) -> list[Item]:
    """Return the tasks of every pool."""
    return [
        item for pool in POOLS for item in labelled(_tasks(pool, budget), series=f"pool {pool}", pool=pool)
    ]


def _tasks(pool: str, budget: Budget) -> list[Task]:
    episodes = budget.episodes
    plays: tuple[str | Variant, ...] = (
        OPTIMUM,
        "random",
        RANDOM_RULES,
        Variant(RULE),
        *map(rollouts, budget.pick(*FUTURES)),
    )
    tasks: list[Task] = [
        Values(pool),
        Lines(pool, budget.pick(16, 64)),
        *(Plays(pool, one, episodes) for one in plays),
    ]
    labels, epochs = budget.pick(30_000, 200_000), 10
    for seed in budget.seeds_of("distilled", full=FULL_SEEDS):
        learned = Distillation(pool, rollouts(TEACHER_FUTURES), labels, epochs, seed)
        tasks.append(Judged(learned, pool, f"distilled, {TEACHER_FUTURES} futures", episodes))
        guided = rollouts(TEACHER_FUTURES)
        tasks.append(Judged(learned, pool, f"guided, {TEACHER_FUTURES} futures", episodes, guided))
        exact = Distillation(pool, EXACT, labels, epochs, seed)
        tasks.append(Judged(exact, pool, "distilled, exact values", episodes))
    for learner in learners(pool):
        decisions = budget.pick(learner.quick_decisions, learner.decisions)
        for seed in budget.seeds_of(learner.name, full=FULL_SEEDS):
            run = Training(POOLS[pool].scenario(), learner, decisions, seed, episodes=16)
            tasks.append(Judged(run, pool, learner.name, episodes))
    return tasks


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return each policy's share of the optimum, and the figure."""
    exact, played = results.table("exact"), results.table()
    found = [row for pool in POOLS for row in _of_pool(pool, exact, played)]
    table = pd.DataFrame(found)
    pools = exact.groupby("series", sort=False).first().reset_index()
    about = pools[["series", "load", "states", "seconds", "value"]].rename(columns={"value": "optimum"})
    return Analysis({"results": table, "pools": about}, {"figure": draw(table)}, notes(table))


def _of_pool(pool: str, exact: pd.DataFrame, played: pd.DataFrame) -> Iterator[dict[str, object]]:
    exact, played = exact[exact["pool"] == pool], played[played["pool"] == pool]
    best = float(exact.loc[exact["policy"] == OPTIMUM, "value"].iloc[0])
    head = {"series": f"pool {pool}"}
    for _, row in exact.iterrows():
        none = {"share_low": row["percent"], "share_high": row["percent"], "seeds": 0, "episodes": 0}
        yield {
            **head,
            "policy": row["policy"],
            "share_percent": row["percent"],
            **none,
            "value": row["value"],
        }
    optimum = matrix(played[played["policy"] == OPTIMUM], VALUE)
    for name, rows in played.groupby("policy", sort=False):
        policy, values = str(name), matrix(rows, VALUE)
        if rows[LOST].notna().all():
            share = mean_interval(100 - 100 * matrix(rows, LOST) / best)
        else:
            over = margin(values, optimum[:, : values.shape[1]])
            share = Interval(100 + over.estimate, 100 + over.low, 100 + over.high)
        if policy in (OPTIMUM, RULE):  # there to check the exact values by what was played
            policy = f"{policy}, played"
        yield {
            **head,
            "policy": policy,
            "share_percent": share.estimate,
            "share_low": share.low,
            "share_high": share.high,
            "seeds": len(values) if "train_seed" in rows and rows["train_seed"].notna().any() else 0,
            "episodes": values.shape[1],
            "value": values.mean(),
        }


def notes(table: pd.DataFrame) -> list[str]:
    """Return what has to be known to read the table."""
    checks = []
    for series, rows in table.groupby("series", sort=False):
        values = rows.set_index("policy")["value"]
        pairs = ", ".join(
            f"{name} {values[f'{name}, played']:.2f} played and {values[name]:.2f} computed"
            for name in (OPTIMUM, RULE)
        )
        checks.append(f"{series}: {pairs}")
    return [
        "Rows without episodes are computed, not played. For the other rows, the share is 100 % less the "
        "mean loss of the actions against the best action, whose value is known from the solution. For "
        "random choice under the usual rules, divisible jobs and the clairvoyant bound, it is the value over "
        "what the optimum earned in the same episodes.",
        f'"{NO_CLOCK}" plays at every step as the optimum does at the first. Networks do not see the time.',
        "As a check: " + "; ".join(checks) + ".",
    ]


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw a panel for each pool: a dot with its interval for each policy.

    :param table: rows of :func:`analyze`
    """
    shown = table[~table["policy"].isin(LEFT_OUT) & ~table["policy"].str.endswith("played")]
    series = list(shown["series"].unique())
    order = shown.groupby("policy")["share_percent"].mean().sort_values().index
    figure = Figure(figsize=(TEXT_WIDTH, 1.0 + 0.17 * len(order)), layout="constrained")
    panels = figure.subplots(1, len(series), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, series, strict=True):
        rows = shown[shown["series"] == name].set_index("policy").reindex(order)
        place = np.arange(len(order))
        spread = rows["share_percent"] - rows["share_low"], rows["share_high"] - rows["share_percent"]
        learns, computed = rows["seeds"] > 0, rows["episodes"] == 0
        for kind, color, title in (
            (computed, "0.35", "computed exactly"),
            (~computed & ~learns, PALETTE[0], "plans in sampled futures"),
            (learns, PALETTE[1], "learned"),
        ):
            if kind.any():
                bars = [part[kind].clip(lower=0.0) for part in spread]
                axes.errorbar(
                    rows["share_percent"][kind],
                    place[kind],
                    xerr=bars,
                    fmt="o",
                    ms=3,
                    lw=1,
                    color=color,
                    label=title,
                )
        axes.axvline(100.0, color="0.6", lw=0.6)
        axes.axvline(99.0, color="0.6", lw=0.6, ls=":")
        axes.set_title(name)
        axes.set_xlabel("% of the optimum")
        axes.grid(axis="y")
        axes.set_yticks(place, order)
        axes.set_xlim(float(shown["share_low"].min()) - 1.0, 100.5)
    handles, titles = panels[0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="outside upper center", ncols=3)
    return figure


EXPERIMENT = Experiment("exact", "shares of the exact optimum on tiny pools", items, analyze)
