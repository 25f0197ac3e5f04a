"""What earns the margin: six headline points, from the papers' heuristics to the bound, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from greendc.shipped.release import release_for
from sb3_greendc.evaluation.policy_specs import PRETRAINED
from sb3_greendc.experiments import curricula
from sb3_greendc.experiments.bounds import BOUND
from sb3_greendc.experiments.claims import BEST_OF_PAPER
from sb3_greendc.experiments.comparison import BEST_MASKED, VALUE, best_form, final, margin, matrix
from sb3_greendc.experiments.controls import ORDER_MASKED, UNIFORM_MASKED, UNIFORM_VALID, masked
from sb3_greendc.experiments.distilled import NAME, SEARCHED
from sb3_greendc.experiments.episodes import HEURISTICS, PAPER, Baselines, Variant
from sb3_greendc.experiments.experiment import (
    LOOKAHEAD,
    ON_TIME,
    Analysis,
    Budget,
    Experiment,
    Results,
    labelled,
)
from sb3_greendc.experiments.figures import panels
from sb3_greendc.experiments.printed import COCORL_LIMITS, RARE, SC20, cocorl
from sb3_greendc.experiments.sc20.fig6 import TRAINING_ARRIVALS
from sb3_greendc.experiments.sc20.training import scenario as sc20_scenario
from sb3_greendc.experiments.tasks import ALL_WAITING, NO_OVERTAKING, Item, Scenario
from sb3_greendc.experiments.training import Learner

AS_PRINTED, MASK, TIME = "learner as printed", "+ our mask", "+ discount by time"
NETWORK, AHEAD = "+ network that scores jobs", "+ lookahead features"
DISTILLED, SHIPPED = "distilled from the planner", "the policy that ships"
QUICK_DECISIONS = {RARE.algorithm: 12_000, SC20.algorithm: 50_000, "recurrent_pid_ppo": 40_000}
"""The quick budget's budgets, the same for all rungs of a point."""

_SET: Mapping[str, Any] = {
    "features_extractor_kwargs": {"job_dim": 64, "context_dim": 64},
    "net_arch": [64, 64],
}


def _adding(learner: Learner, steps: Mapping[str, Mapping[str, Any]]) -> tuple[Learner, ...]:
    """Return a learner and what it becomes as one ingredient after another is added.

    :param learner: as printed
    :param steps: for each rung ``choice`` and ``hyperparameters`` to add, or an ``algorithm``
    """
    quick = QUICK_DECISIONS[learner.algorithm]
    found = [replace(learner, name=f"{learner.name}: {AS_PRINTED}", quick_decisions=quick, judged_at=())]
    for rung, changes in steps.items():
        last = found[-1]
        found.append(
            replace(
                last,
                name=f"{learner.name}: {rung}",
                algorithm=changes.get("algorithm", last.algorithm),
                choice={**last.choice, **changes.get("choice", {})},
                hyperparameters=changes.get(
                    "all", {**last.hyperparameters, **changes.get("hyperparameters", {})}
                ),
            )
        )
    return tuple(found)


RARE_RUNGS = _adding(
    RARE,
    {
        MASK: {"choice": ON_TIME},
        TIME: {"hyperparameters": {"callback": "DiscountByTime"}},
        NETWORK: {"hyperparameters": {"policy_kwargs": {"features_extractor": "job_set", **_SET}}},
        AHEAD: {"choice": LOOKAHEAD},
    },
)
SC20_RUNGS = _adding(
    SC20,
    {
        MASK: {"choice": ON_TIME},
        TIME: {"hyperparameters": {"callback": "DiscountByTime"}},
        NETWORK: {"hyperparameters": {"policy": "JobSetPolicy", "policy_kwargs": dict(_SET)}},
        AHEAD: {"choice": LOOKAHEAD},
    },
)
COCORL_RUNGS = _adding(
    cocorl(COCORL_LIMITS[0]),
    {
        MASK: {"choice": ON_TIME},
        TIME: {"hyperparameters": {"callback": "DiscountByTime"}},
        NETWORK: {
            "algorithm": "pid_ppo",
            "hyperparameters": {
                "policy": "CostJobSetPolicy",
                "policy_kwargs": {"features_extractor": "job_set", "share_cost_features_extractor": False},
            },
        },
        AHEAD: {"choice": LOOKAHEAD},
    },
)
"""The network that scores jobs has no memory."""


@dataclass(frozen=True)
class Headline:
    """A headline point.

    :param name: what the figure calls it
    :param scenario: the scenario
    :param rungs: the paper's learner, as printed and with one ingredient after another
    :param taught_on: what the network distilled from rollouts is trained on
    :param papers: the paper's heuristics
    :param quick: whether the quick budget trains the learners here, unasked
    """

    name: str
    scenario: Scenario
    rungs: tuple[Learner, ...]
    taught_on: tuple[Scenario, ...]
    papers: tuple[str, ...] = PAPER
    quick: bool = False

    def learners(self, budget: Budget) -> tuple[Learner, ...]:
        """Return the rungs that a budget trains."""
        return self.rungs if self.quick or budget.problems or not budget.quick else ()


_COCORL_PAPERS = (*PAPER, "edf")


def _cocorl(load: float) -> Headline:
    at = Scenario("ResourcePool-10", {"offered_load": load})
    return Headline(f"CoCoRL, load {load:.0%}", at, COCORL_RUNGS, curricula.synthetic(), _COCORL_PAPERS, True)


POINTS = (
    *(
        Headline(
            f"RARE, {size} units",
            Scenario(f"ResourcePool-{size}"),
            RARE_RUNGS,
            curricula.of_size(size),
            quick=size == 10,
        )
        for size in (10, 100, 300)
    ),
    Headline(
        "SC20, 60 % arrivals",
        sc20_scenario(0.6),
        SC20_RUNGS,
        tuple(sc20_scenario(rate) for rate in TRAINING_ARRIVALS),
        ("fcfs", "hvf"),
        True,
    ),
    _cocorl(0.6),
    _cocorl(1.0),
)


def items(budget: Budget) -> list[Item]:
    """Return at each point the baselines, chance, the bound, the learners, and distilled policies."""
    found: list[Item] = []
    for point in filter(lambda point: budget.wants(point.name), POINTS):
        tasks = [*budget.baselines(point.scenario), shipped(budget, point.scenario)]
        for learner in point.learners(budget):
            tasks += budget.trainings(point.scenario, learner, full_seeds=3)
        tasks += budget.distilled(point.scenario, point.taught_on, search=True)
        found += labelled(tasks, series=point.name, x="")
    return found


def shipped(budget: Budget, scenario: Scenario) -> Baselines:
    """Return the distilled policy that ships for a scenario."""
    release = release_for(scenario.env_id)
    acting = scenario.with_kwargs(**release.choice, episode_steps=budget.test_steps)
    return Baselines(acting, (Variant(PRETRAINED),), budget.episodes)


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return the table of all rungs, and the figure."""
    rows = results.table()
    points = [point for point in POINTS if budget.wants(point.name)]
    table = pd.DataFrame(row for point in points for row in _rungs(rows[rows["series"] == point.name], point))
    notes = [
        "The papers' heuristics choose among all waiting jobs, as RARE's do; or among these or the "
        "ready pool, whichever earns more; or they let no job overtake another that does not fit. The second "
        "is zero of the figure, and the third may be the harder rival.",
        'From "learner as printed" on, each rung adds one change to the one before.',
    ]
    if budget.quick:
        notes.append(
            "The quick budget trains the learners on ten units, and elsewhere with --problems, for 12,000 "
            "(RARE), 50,000 (SC20, of the paper's 2.5 million) and 40,000 decisions (CoCoRL). Distilled "
            f"policies learn from {budget.labels(False):,} decisions of a planner."
        )
    return Analysis({"results": table}, {"figure": _figure(table)}, notes)


def _rungs(rows: pd.DataFrame, point: Headline) -> Iterator[dict[str, Any]]:
    """Return a row for each rung of a point that was run."""
    rows = final(rows)
    papers = best_form(rows, point.papers, VALUE, dispatch="skip")
    theirs = matrix(rows[rows["policy"] == papers], VALUE)
    policies = {
        UNIFORM_VALID: UNIFORM_VALID,
        BEST_OF_PAPER + ALL_WAITING: best_form(rows, point.papers, VALUE, dispatch="skip", scope="queue"),
        BEST_OF_PAPER: papers,
        BEST_OF_PAPER + NO_OVERTAKING: best_form(rows, point.papers, VALUE, dispatch="block"),
        BEST_MASKED: best_form(rows, masked(point.papers), VALUE),
        UNIFORM_MASKED: UNIFORM_MASKED,
        ORDER_MASKED: ORDER_MASKED,
        "best heuristic of any form": best_form(rows, (*HEURISTICS, *masked(HEURISTICS)), VALUE),
        **{learner.name.split(": ")[1]: learner.name for learner in point.rungs},
        DISTILLED: NAME,
        SEARCHED: SEARCHED,
        SHIPPED: PRETRAINED,
    }
    for rung, policy in policies.items():
        ours = rows[rows["policy"] == policy]
        if ours.empty:
            continue
        values = matrix(ours, VALUE)
        found = margin(values, theirs)
        learned = ours["baseline"].isna().all()
        yield {
            "series": point.name,
            "rung": rung,
            "policy": policy,
            "seeds": len(values) if learned else None,
            "decisions": ours["trained_decisions"].max() if learned else None,
            "value_ratio": ours["total_job_value_ratio"].mean(),
            "margin_percent": found.estimate,
            "low": found.low,
            "high": found.high,
        }
    yield from _bound(rows, point, papers)


def _bound(rows: pd.DataFrame, point: Headline, papers: str | None) -> Iterator[dict[str, Any]]:
    """Return the bound's row, compared in the episodes that have one."""
    bound = rows[rows["policy"] == BOUND]
    if bound.empty:
        return
    theirs = rows[(rows["policy"] == papers) & rows["episode"].isin(bound["episode"])]
    found = margin(matrix(bound, VALUE), matrix(theirs, VALUE))
    ends = {"margin_percent": found.estimate, "low": found.low, "high": found.high}
    share = theirs["total_job_value_ratio"].mean() * (1 + found.estimate / 100)
    yield {"series": point.name, "rung": "bound", "policy": BOUND, "value_ratio": share, **ends}


def _labelled(row: pd.Series) -> str:
    """Return a rung's name, with what a learner had: decisions in thousands, and seeds."""
    seeds, decisions = row["seeds"], row["decisions"]
    had = [f"{decisions / 1000:.0f} k"] if pd.notna(decisions) else []
    had += [f"{seeds:.0f} seed{'s' if seeds > 1 else ''}"] if pd.notna(seeds) else []
    return f"{row['rung']} ({', '.join(had)})" if had else str(row["rung"])


COLORS = {
    BEST_OF_PAPER: "#3182bd",
    BEST_MASKED: "#08306b",
    UNIFORM_MASKED: "#bdbdbd",
    ORDER_MASKED: "#8c8c8c",
    "best heuristic of any form": "#e6842a",
    UNIFORM_VALID: "#dddddd",
    BEST_OF_PAPER + ALL_WAITING: "#9ecae1",
    BEST_OF_PAPER + NO_OVERTAKING: "#08519c",
    DISTILLED: "#c0392b",
    SEARCHED: "#6b0f1a",
    SHIPPED: "#e07b6e",
    "bound": "#000000",
}
"""Of the rungs; the learners are green."""


def _figure(table: pd.DataFrame) -> Figure:
    """Draw a panel for each point, a bar for each rung, with its margin written beside it."""
    names = list(table["series"].unique())
    figure, axes = panels(names, columns=3)
    figure.set_size_inches(16, 9)
    for panel, name in zip(axes, names, strict=True):
        rows = table[table["series"] == name].iloc[::-1].reset_index(drop=True)
        colors = [COLORS.get(rung, "#2a9d5c") for rung in rows["rung"]]
        spread = abs(rows[["low", "high"]].to_numpy().T - rows["margin_percent"].to_numpy())
        panel.barh(rows.index, rows["margin_percent"], xerr=spread, color=colors, error_kw={"lw": 0.8})
        for k, row in rows.iterrows():
            at = max(row["high"], 0.0)
            panel.annotate(f" {row['margin_percent']:+.0f}", (at, k), va="center", fontsize="small")
        panel.set_yticks(rows.index, [_labelled(row) for _, row in rows.iterrows()], fontsize="small")
        panel.grid(axis="y", visible=False)
        panel.axvline(0, color="#555555", lw=0.8)
        panel.set_xlabel("over the best of the papers', %")
        panel.margins(x=0.12)
    return figure


EXPERIMENT = Experiment(
    "what-earns-the-margin",
    "six headline points, from the papers' heuristics to the bound, step by step",
    items,
    analyze,
    by_problem=True,
)
