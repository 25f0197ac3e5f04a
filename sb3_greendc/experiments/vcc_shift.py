"""Virtual capacity curves when the grid changes: trained on 2019 and 2020, tested on 2019 and 2021.

The training split is May 2019 to April 2020 without September. May 2019 is thus in-sample for the emissions,
September 2019 is a held-out month of the training year, and May 2021 is the shifted test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from greendc import baselines
from sb3_greendc.experiments.comparison import margin, matrix
from sb3_greendc.experiments.episodes import Baselines, Variant
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import panels
from sb3_greendc.experiments.offline import OfflineTraining
from sb3_greendc.experiments.tasks import Item, Scenario
from sb3_greendc.experiments.training import Learner, Training

BOX, DISCRETE = "VCC-2019", "DiscreteVCC-2019"
MONTHS = {
    "May 2019 (in-sample)": "2019-05",
    "Sept. 2019 (held out)": "2019-09",
    "May 2021 (shifted)": "2021-05",
}
REFERENCE = "always_on"
CHANCE = "random"
METRICS = ["return", "carbon_kg", "overdue_work", "objective", "mean_delay"]
"""The objective is carbon and overdue work together; a return of PID-PPO leaves overdue work to its cost."""
FULL_SEEDS = 5

LEARNERS = (
    Learner("PPO", "ppo", env_id=DISCRETE, decisions=800_000, quick_decisions=200_000, speed=24_000.0),
    Learner(
        "DiscreteSAC",
        "discrete_sac",
        env_id=DISCRETE,
        decisions=200_000,
        quick_decisions=64_000,
        speed=2_500.0,
    ),
    Learner("SAC", "sac", decisions=200_000, quick_decisions=40_000, speed=1_100.0),
    Learner(
        "PID-PPO",
        "pid_ppo",
        env_id=DISCRETE,
        hyperparameters={"lambda_max": 25, "init": 15},
        choice={"constrained": True},
        decisions=800_000,
        quick_decisions=200_000,
        speed=20_000.0,
    ),
)
"""Hyperparameters are those of ``zoo_hparams/`` but for the bound on PID-PPO's multiplier: from 40 it has not
come back after 200,000 hours, and nothing is saved; with 15 the cost ends at nine times the limit."""

PAGE = "VCC-2019-v0"
PAGE_MONTHS = {"page's rules, May 2019": "2019-05", "page's rules, May 2021": "2021-05"}
PAGE_PPO = Learner("PPO, the page's rules", "ppo", decisions=800_000, quick_decisions=100_000, speed=24_000.0)
"""SustainGym's page has no learner of its own: plain PPO on the page's scenario, with actions from 0 to 1,
trained on the emissions of May 2019 and tested on those of May 2021. The page's jobs are real; without their
folder they are generated."""

OFFLINE = "CRR from day_ahead"
GREEN, GREY = "#2a9d5c", "#777777"
LEARNER_NAMES = (*(learner.name for learner in LEARNERS), PAGE_PPO.name, OFFLINE)


def items(budget: Budget) -> list[Item]:
    """Return the baselines, chance among them, in each month, and the learners' runs."""
    episodes = budget.pick(8, 32)
    found: list[Item] = []
    for name, month in MONTHS.items():
        variants = tuple(Variant(policy) for policy in baselines.names("vcc"))
        found += labelled([Baselines(Scenario(BOX, {"month": month}), variants, episodes)], test=name)
    boxes = {name: Scenario(BOX, {"month": month}) for name, month in MONTHS.items()}
    for learner in LEARNERS:
        decisions = budget.pick(learner.quick_decisions, learner.decisions)
        for seed in budget.seeds_of(learner.name, full=FULL_SEEDS):
            task_ = Training(Scenario(BOX), learner, decisions, seed, episodes, tests=boxes)
            found += labelled([task_])
    for seed in budget.seeds_of(OFFLINE, full=FULL_SEEDS):
        found += labelled([offline(budget, seed, episodes, boxes)])
    return found + page_items(budget, episodes)


def page_items(budget: Budget, episodes: int) -> list[Item]:
    """Return the page's scenario: baselines, chance among them, in both months, PPO trained on the first."""
    jobs = {"workload": budget.google} if budget.google else {}
    months = {name: Scenario(PAGE, {"month": month, **jobs}) for name, month in PAGE_MONTHS.items()}
    found: list[Item] = []
    for name, at in months.items():
        variants = tuple(Variant(policy) for policy in baselines.names("vcc"))
        found += labelled([Baselines(at, variants, episodes)], test=name)
    decisions = budget.pick(PAGE_PPO.quick_decisions, PAGE_PPO.decisions)
    trained_on = next(iter(months.values()))
    for seed in budget.seeds_of(PAGE_PPO.name, full=FULL_SEEDS):
        found += labelled([Training(trained_on, PAGE_PPO, decisions, seed, episodes, tests=months)])
    return found


def offline(budget: Budget, seed: int, episodes: int, tests: dict[str, Scenario]) -> OfflineTraining:
    """Return CRR from what the day-ahead plan does in the training months."""
    return OfflineTraining(
        OFFLINE,
        Scenario(BOX, {"split": "train"}),
        ("day_ahead",),
        transitions=budget.pick(23_040, 115_200),
        steps=budget.pick(4_000, 50_000),
        seed=seed,
        episodes=episodes,
        options={"gamma": 0.985, "policy_kwargs": {"net_arch": [64, 64]}},
        tests=tests,
    )


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return what every policy did in every month: means, and comparisons.

    Carbon is compared with that of ``always_on``, the objective with that of the best policy that does not
    learn.
    """
    rows = results.table()
    rows["objective"] = rows["carbon_kg"] + rows["overdue_work"]
    months = list(rows.groupby("test", sort=False))
    comparison = pd.DataFrame(row for month, at in months for row in _compared(month, at))
    means = rows.groupby(["test", "policy"], sort=False)[METRICS].mean().reset_index()
    table = means.rename(columns={"test": "series"})
    notes = [
        f"Carbon is compared with that of {REFERENCE}, the objective (carbon plus overdue work) with that of "
        "the best plan. Less is better.",
        f"The rules of SustainGym's page (`{PAGE}`) have {'real' if budget.google else 'generated'} jobs.",
        "The picture leaves chance out (`random`): it would need another scale. Behind a learner's name are "
        "its decisions, in thousands; CRR's are gradient steps on recorded hours.",
    ]
    figures = {"figure": _figure(comparison, _called(rows))}
    return Analysis({"comparison": comparison, "results": table}, figures, notes)


def _compared(month: object, rows: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Return a row per policy: carbon and objective in per cent of others', with intervals."""
    reference = matrix(rows[rows["policy"] == REFERENCE], "carbon_kg")
    plans = rows[~rows["policy"].isin(LEARNER_NAMES)]
    best = plans.groupby("policy")["objective"].mean().idxmin()
    best_objective = matrix(plans[plans["policy"] == best], "objective")
    for policy, of_policy in rows.groupby("policy", sort=False):
        carbon = margin(matrix(of_policy, "carbon_kg"), reference)
        objective = margin(matrix(of_policy, "objective"), best_objective)
        yield {
            "series": month,
            "policy": policy,
            "seeds": of_policy["train_seed"].nunique() or 1,
            "overdue_work": of_policy["overdue_work"].mean(),
            "carbon_percent": carbon.estimate,
            "carbon_low": carbon.low,
            "carbon_high": carbon.high,
            "best_plan": best,
            "objective_percent": objective.estimate,
            "objective_low": objective.low,
            "objective_high": objective.high,
        }


def _called(rows: pd.DataFrame) -> dict[str, str]:
    """Return what the picture calls each learner: its name and its decisions, which differ."""
    most = rows.groupby("policy")["trained_decisions"].max().dropna()
    return {str(name): f"{name}, {decisions / 1000:.0f} k" for name, decisions in most.items()}


def _figure(table: pd.DataFrame, called: Mapping[str, str]) -> Figure:
    """Draw carbon against overdue work, each policy by its name: further left and lower is better."""
    shown = table[table["policy"] != CHANCE]
    months = list(shown["series"].unique())
    figure, axes = panels(months, columns=3)
    figure.set_size_inches(15, 9)
    for panel, month in zip(axes, months, strict=True):
        here = shown[shown["series"] == month].round({"carbon_percent": 6, "overdue_work": 1})
        near = 0.07 * (here["carbon_percent"].max() - here["carbon_percent"].min())
        last = {"left": math.inf, "right": math.inf}
        for (carbon, overdue), of_place in here.groupby(["carbon_percent", "overdue_work"]):
            row = of_place.iloc[-1]
            learned = row["policy"] in LEARNER_NAMES
            around = [row["carbon_low"], row["carbon_high"]]
            spread = [[abs(end - row["carbon_percent"])] for end in around]
            color = GREEN if learned else GREY
            panel.errorbar(overdue, carbon, yerr=spread, fmt="o" if learned else "s", color=color, ms=5, lw=1)
            names = ", ".join(called.get(name, name) for name in of_place["policy"])
            # Learners' names to the left, the others' to the right, and higher where the last is near.
            side = "left" if learned and len(of_place) == 1 else "right"
            lifted = 5 if abs(carbon - last[side]) < near else 0
            last[side] = carbon
            panel.annotate(
                names,
                (overdue, carbon),
                (-8 if side == "left" else 8, lifted),
                textcoords="offset points",
                ha="right" if side == "left" else "left",
                va="center",
                fontsize="small",
                color=color,
            )
        panel.set_xscale("symlog", linthresh=1.0)
        panel.xaxis.set_major_locator(FixedLocator([0, 1, 10, 100]))
        panel.margins(x=0.45, y=0.12)
        panel.set_xlabel("overdue work (machine-unit-hours)")
        panel.set_ylabel(f"carbon, per cent against {REFERENCE}")
    return figure


EXPERIMENT = Experiment(
    "vcc-shift", "carbon of PPO, SAC, DiscreteSAC, PID-PPO, CRR and plans, 2019 and 2021", items, analyze
)
