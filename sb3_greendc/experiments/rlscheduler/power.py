"""RLScheduler's sequences under the textbook's rules, and under sun and wind: rules and guarded rollouts."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from greendc.cluster.config import BACKFILLS
from greendc.cluster.rlscheduler import TRACES
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.rlscheduler.table import (
    BEST_RULE,
    CHOOSING,
    LEARNERS,
    REPORTED,
    bars,
    compared,
    traces,
)
from sb3_greendc.experiments.rlscheduler.windows import DRAWS, METRICS, RANDOM, ROLLOUT, SEARCH, Windows
from sb3_greendc.experiments.tasks import Item

SHOWN = ("easy", "green")
"""Profiles; the benchmark's own is that of the experiment ``rlscheduler``."""
QUICK_DRAWS = 1


def logs(budget: Budget) -> dict[str, str | None]:
    """Return the benchmark's traces, and the other logs (SWF) of the same folder, on which nothing was tuned.

    :raises ValueError: for a folder that lacks a trace
    """
    found = traces(budget)
    if budget.job_log is not None and Path(budget.job_log).is_dir():
        known = {name.removesuffix(".swf") for name in TRACES.values()}
        for path in sorted(Path(budget.job_log).iterdir()):
            name = path.name.removesuffix(".gz").removesuffix(".swf")
            if path.name.removesuffix(".gz").endswith(".swf") and name not in known:
                found[name] = str(path)
    return found


def items(budget: Budget) -> list[Item]:
    """Return rules on the sequences of three seeds and, on the reported ones, rollouts."""
    found = []
    for trace, path in logs(budget).items():
        for profile in SHOWN:
            for backfill in BACKFILLS:
                for seed in (REPORTED, *CHOOSING):
                    labels = {"trace": trace, "profile": profile, "backfill": backfill, "seed": seed}
                    where = (trace, path, backfill, profile, seed)
                    found.append(Item(Windows(*where), labels))
                    if seed == REPORTED:
                        draws = budget.pick(QUICK_DRAWS, DRAWS)
                        found.append(Item(Windows(*where, SEARCH, draws), labels))
    return found


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return the best fixed rule chosen apart, rollouts against it, and what each policy came to."""
    rows = results.table()
    keys = ["trace", "profile", "backfill"]
    comparison = pd.DataFrame([compared(key, at) for key, at in rows.groupby(keys, sort=False)])
    reported = rows[rows["seed"] == REPORTED]
    means = reported.groupby([*keys, "policy"], sort=False)[list(METRICS)].mean().reset_index()
    notes = [
        "Mean bounded slowdown of ten sequences of 1,024 jobs; less is better. Fixed rules are chosen on the "
        f"sequences of seeds {CHOOSING[0]} and {CHOOSING[1]} and tested on those of seed {REPORTED}. "
        "Sequences of a trace overlap.",
        f"{ROLLOUT.capitalize()} play each sequence with {budget.pick(QUICK_DRAWS, DRAWS)} draws of their "
        "futures. Their options were chosen under the benchmark's rules: nothing was tuned on these "
        "profiles, or on other logs than the benchmark's.",
        "easy: jobs end at their limits, and every end of a job is an occasion to start others. green: the "
        "same, and the processors that have power follow generated sun and wind, half of them always on; "
        "jobs that lose it are suspended. Rules know no forecast; rollouts have the true one.",
    ]
    shown = comparison.drop(columns=["printed_best", *LEARNERS.values()])
    figure = bars(comparison, (BEST_RULE, ROLLOUT, RANDOM))
    return Analysis({"comparison": shown, "results": means}, {"figure": figure}, notes)


EXPERIMENT = Experiment(
    "rlscheduler-power",
    "RLScheduler's sequences under textbook rules, and under sun and wind: rules and guarded rollouts",
    items,
    analyze,
)
