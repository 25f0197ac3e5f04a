"""RLScheduler's table: the printed figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from greendc.cluster.rlscheduler import PRINTED, PRINTED_RL, TRACES
from sb3_greendc.evaluation.statistics import bootstrap, paired_difference
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.figures import outer_legend, panels
from sb3_greendc.experiments.rlscheduler.evolved import EVOLVED, GENERATIONS, Evolution, JudgedRule
from sb3_greendc.experiments.rlscheduler.learned import (
    DISTILLED,
    ENV_ID,
    FROM_SCRATCH,
    PRACTICE,
    PRACTICE_EPISODES,
    TEACHER,
    TRAINING_SEEDS,
    ClusterDistillation,
    Judged,
    Teaching,
    generated,
    training_jobs,
)
from sb3_greendc.experiments.rlscheduler.windows import (
    DRAWS,
    GENERATED,
    RANDOM,
    ROLLOUT,
    RULES,
    SEARCH,
    Windows,
)
from sb3_greendc.experiments.tasks import Item, Scenario, Task
from sb3_greendc.experiments.training import Training

REPORTED, CHOOSING = 1, (2, 3)
"""Seed of the printed sequences, and seeds on which fixed rules (and settings) are chosen."""
BENCHMARK = "rlscheduler"
"""Profile of the table; the others are those of ``rlscheduler-power``."""
BACKFILLS = ("none", "easy")
LEARNED = "RL (printed)"
LABELS = (36_000, 288_000)
"""Decisions of rollouts that a network is distilled from, quick and full."""
LEARNERS = {learner.name: learner.algorithm for learner in FROM_SCRATCH}
"""Column of each learner's slowdown."""
BEST_RULE = "best fixed rule"
SLOWDOWN = "mean_bounded_slowdown"


def traces(budget: Budget) -> dict[str, str | None]:
    """Return the file of each trace at hand: those of a folder given as job log, and generated jobs.

    :raises ValueError: for a folder that lacks a trace
    """
    found: dict[str, str | None] = {}
    folder = None if budget.job_log is None else Path(budget.job_log)
    if folder is not None and folder.is_dir():
        for name, file in TRACES.items():
            here = [path for path in (folder / file, folder / f"{file}.gz") if path.is_file()]
            if not here:
                raise ValueError(f"--job-log {folder}: must have {file} (plain or .gz); see docs/cluster.md")
            found[name] = str(here[0])
    return {**found, GENERATED: None}


def items(budget: Budget) -> list[Item]:
    """Return rules and rollouts for each trace, backfilling and seed, then networks."""
    found = []
    for trace, path in traces(budget).items():
        for backfill in BACKFILLS:
            for seed in (REPORTED, *CHOOSING):
                labels = {"trace": trace, "profile": BENCHMARK, "backfill": backfill, "seed": seed}
                where = (trace, path, backfill, BENCHMARK, seed)
                found.append(Item(Windows(*where), labels))
                draws = DRAWS if seed == REPORTED else 1
                found.append(Item(Windows(*where, SEARCH, draws), labels))
                if seed == REPORTED:
                    found.append(Item(Teaching(*where, TEACHER), labels))
    return [*found, *_evolved(budget), *_networks(budget)]


def _evolved(budget: Budget) -> list[Item]:
    """Return what evolved rules make of each trace, by training seed."""
    at_hand = traces(budget)
    found: list[Item] = []
    if find_spec("cmaes") is None:
        return found
    for backfill in BACKFILLS:
        for of_training in budget.seeds_of(EVOLVED):
            evolution = Evolution(backfill, at_hand.get("HPC2N"), budget.pick(*GENERATIONS), of_training)
            for trace, path in at_hand.items():
                for seed in budget.pick((REPORTED,), (REPORTED, *CHOOSING)):
                    labels = {"trace": trace, "profile": BENCHMARK, "backfill": backfill, "seed": seed}
                    judged = JudgedRule(evolution, trace, path, seed)
                    found.append(Item(judged, {**labels, "train_seed": of_training}))
    return found


def _networks(budget: Budget) -> list[Item]:
    """Return what networks make of each trace under the benchmark's rules, by training seed."""
    at_hand = traces(budget)
    found = []
    for backfill in BACKFILLS:
        training: list[tuple[str, int, Task]] = []
        for seed in budget.seeds_of(DISTILLED):
            jobs = training_jobs(backfill, at_hand.get("HPC2N"))
            distillation = ClusterDistillation(jobs, TEACHER, budget.pick(*LABELS), 8, seed)
            training.append((DISTILLED, seed, distillation))
        for learner in FROM_SCRATCH:
            decisions = budget.pick(learner.quick_decisions, learner.decisions)
            practice = generated(backfill, TRAINING_SEEDS[0], PRACTICE, PRACTICE_EPISODES[learner.name])
            scenario = Scenario(ENV_ID, practice)
            for seed in budget.seeds_of(learner.name, learner.quick_seeds):
                from_scratch = Training(scenario, learner, decisions, seed, episodes=4)
                training.append((learner.name, seed, from_scratch))
        for trace, path in at_hand.items():
            for seed in budget.pick((REPORTED,), (REPORTED, *CHOOSING)):
                labels = {"trace": trace, "profile": BENCHMARK, "backfill": backfill, "seed": seed}
                for name, of_training, task in training:
                    judged = Judged(name, task, trace, path, backfill, seed)
                    found.append(Item(judged, {**labels, "train_seed": of_training}))
    return found


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return printed and own figures, the best fixed rule chosen apart, and rollouts against it."""
    rows = results.table()
    keys = ["trace", "profile", "backfill"]
    groups = [(key, at) for key, at in rows.groupby(keys, sort=False)]
    table = pd.DataFrame([line for key, at in groups for line in _lines(key, at)])
    comparison = pd.DataFrame([compared(key, at) for key, at in groups])
    means = rows.groupby([*keys, "policy", "seed"], sort=False).mean(numeric_only=True)
    notes = [
        "Mean bounded slowdown of ten sequences of 1,024 jobs; less is better. Fixed rules are chosen on the "
        f"sequences of seeds {CHOOSING[0]} and {CHOOSING[1]} and tested on those of seed {REPORTED}, the "
        "printed ones. Sequences of a trace overlap.",
        f"{ROLLOUT.capitalize()} play each sequence {DRAWS} times, with other futures each time; "
        f"those of seeds {CHOOSING[0]} and {CHOOSING[1]} once. The difference is that of their mean less "
        "that of the chosen rule.",
        "Rules and rollouts see the whole queue. The printed learned policy sees 128 jobs and was trained on "
        "the trace on which it is tested. Rollouts repeat parts of the trace, before and in the sequence, "
        "whose jobs have arrived.",
        f"{', '.join((DISTILLED.capitalize(), *LEARNERS))} see 128 jobs and decide in one pass. They are "
        "trained on generated jobs of other seeds and, the first where HPC2N's log is at hand, on later jobs "
        "of it: on none that they are tested on. There is a network for each kind of backfilling, the same "
        f"for all traces. {DISTILLED.capitalize()}, difference: less the chosen rule. Their teacher "
        f"({Teaching.rollouts}) is not the search of the table: it starts from F2 and looks farther ahead.",
        f"{EVOLVED.capitalize()}s see the whole queue. They are evolved on generated jobs of other seeds, on "
        "such jobs with other widths, lengths and loads, and, where it is at hand, on later jobs of HPC2N's "
        "log.",
        _budgets(rows, budget),
        "By mistake, the wait in the printed WFP3 and UNICEP is -1 less the time of submission.",
    ]
    found = {
        "comparison": comparison,
        "table": table,
        "results": means.drop(columns=["start", "train_seed", "draw"]).reset_index(),
    }
    return Analysis(found, {"figure": bars(comparison)}, notes)


def _budgets(rows: pd.DataFrame, budget: Budget) -> str:
    """Say on how much each network was trained, and how many of each there are."""
    seeds = rows.groupby("policy")["train_seed"].nunique()
    found = ["no evolved rule, which needs cmaes (pip install 'sb3-greendc[tune]')"]
    if EVOLVED in seeds:
        found = [f"{EVOLVED} {budget.pick(*GENERATIONS)} generations ({seeds[EVOLVED]})"]
    found.append(f"{DISTILLED} {budget.pick(*LABELS):,} decisions of rollouts ({seeds.get(DISTILLED, 0)})")
    for learner in FROM_SCRATCH:
        decisions = budget.pick(learner.quick_decisions, learner.decisions)
        found.append(f"{learner.name} {decisions:,} of its own ({seeds.get(learner.name, 0)})")
    return f"Budgets and training seeds: {', '.join(found)}."


def chosen_rule(rows: pd.DataFrame) -> str:
    """Return the fixed rule that is best on the sequences of the other seeds."""
    apart = rows[rows["seed"].isin(CHOOSING) & rows["policy"].isin(tuple(RULES))]
    return str(apart.groupby("policy")[SLOWDOWN].mean().idxmin())


def _lines(key: Any, rows: pd.DataFrame) -> list[dict[str, object]]:
    trace, profile, backfill = key
    printed = {**PRINTED.get((trace, backfill), {}), LEARNED: PRINTED_RL.get((trace, backfill))}
    lines = []
    for policy in (*RULES, RANDOM, ROLLOUT, Teaching.rollouts, EVOLVED, DISTILLED, *LEARNERS, LEARNED):
        figure = printed.get(policy) if profile == BENCHMARK else None
        of_policy = rows[rows["policy"] == policy]
        if figure is None and of_policy.empty:
            continue
        reported = of_policy[of_policy["seed"] == REPORTED]
        line = {"trace": trace, "profile": profile, "backfill": backfill, "policy": policy, "printed": figure}
        line["ours"] = reported[SLOWDOWN].mean()
        line["seeds 2, 3"] = of_policy[of_policy["seed"] != REPORTED][SLOWDOWN].mean()
        line["p95 wait, h"] = reported["p95_wait_h"].mean()
        line["longest wait, h"] = reported["longest_wait_h"].mean()
        lines.append(line)
    return lines


def compared(key: Any, rows: pd.DataFrame) -> dict[str, object]:
    """Return printed best, chosen rule, rollouts, and their difference with its interval.

    :param key: trace, profile and backfilling
    :param rows: sequences that policies played there
    """
    trace, profile, backfill = key
    known = {**PRINTED.get((trace, backfill), {}), LEARNED: PRINTED_RL.get((trace, backfill), float("nan"))}
    rule = chosen_rule(rows)
    reported = rows[rows["seed"] == REPORTED]
    means = reported.groupby("policy")[SLOWDOWN].mean()
    ours = reported[reported["policy"] == ROLLOUT].pivot(index="draw", columns="start", values=SLOWDOWN)
    draws = ours.mean(axis=1)
    theirs = reported[reported["policy"] == rule].set_index("start")[SLOWDOWN].reindex(ours.columns)
    spread = bootstrap(ours.to_numpy())
    gain = paired_difference([ours.to_numpy()], [theirs.to_numpy()[None]])
    return {
        "trace": trace,
        "profile": profile,
        "backfill": backfill,
        "printed_best": min(known.values()) if profile == BENCHMARK else float("nan"),
        "rule": rule,
        "rule_slowdown": theirs.mean(),
        "rollouts": spread.estimate,
        "rollouts_low": spread.low,
        "rollouts_high": spread.high,
        "rollouts_best_draw": float(draws.min()),
        "rollouts_worst_draw": float(draws.max()),
        "difference": gain.estimate,
        "difference_low": gain.low,
        "difference_high": gain.high,
        "teacher": means.get(Teaching.rollouts, float("nan")),
        **_trained("evolved", reported[reported["policy"] == EVOLVED], theirs),
        **_trained("distilled", reported[reported["policy"] == DISTILLED], theirs),
        **{column: means.get(name, float("nan")) for name, column in LEARNERS.items()},
        "random": means.get(RANDOM, float("nan")),
    }


def _trained(column: str, rows: pd.DataFrame, rule: pd.Series) -> dict[str, float]:
    """Return the mean, best and worst of the trained policies, and their difference to the chosen rule."""
    if rows.empty:
        return {}
    ours = rows.pivot(index="train_seed", columns="start", values=SLOWDOWN)
    gain = paired_difference([ours.to_numpy()], [rule.reindex(ours.columns).to_numpy()[None]])
    return {
        column: float(ours.to_numpy().mean()),
        f"{column}_best_seed": float(ours.mean(axis=1).min()),
        f"{column}_worst_seed": float(ours.mean(axis=1).max()),
        f"{column}_difference": gain.estimate,
        f"{column}_difference_low": gain.low,
        f"{column}_difference_high": gain.high,
    }


BARS = {
    "printed best": ("printed_best", "#c6c6c6"),
    BEST_RULE: ("rule_slowdown", "#e6842a"),
    ROLLOUT: ("rollouts", "#a04a00"),
    EVOLVED: ("evolved", "#4c78a8"),
    DISTILLED: ("distilled", "#54a24b"),
    RANDOM: ("random", "#7f7f7f"),
    **{name: (LEARNERS[name], color) for name, color in zip(LEARNERS, ("#b279a2", "#5c3566"), strict=True)},
}
"""Column and color of each policy in figures."""


def bars(comparison: pd.DataFrame, shown: Sequence[str] = tuple(BARS)) -> Figure:
    """Draw a panel for each profile, a group of bars for each trace and backfilling.

    :param comparison: rows of :func:`compared`
    :param shown: names in :data:`BARS`
    """
    profiles = list(comparison["profile"].unique())
    figure, axes = panels(profiles, columns=1)
    width = 0.8 / len(shown)
    for panel, profile in zip(axes, profiles, strict=True):
        rows = comparison[comparison["profile"] == profile]
        for k, name in enumerate(shown):
            column, color = BARS[name]
            places = [place + width * (k - (len(shown) - 1) / 2) for place in range(len(rows))]
            panel.bar(places, rows[column].fillna(0.0), width, color=color, label=name)
        names = rows["trace"] + rows["backfill"].map(lambda kind: "" if kind == "none" else f", {kind}")
        panel.set_xticks(
            range(len(rows)), list(names), fontsize="x-small", rotation=40, ha="right", rotation_mode="anchor"
        )
        panel.set_yscale("log")
        panel.set_ylabel("mean bounded slowdown")
    outer_legend(figure, axes[0])
    return figure


EXPERIMENT = Experiment(
    "rlscheduler", "RLScheduler's table: printed, rules, guarded rollouts, networks", items, analyze
)
