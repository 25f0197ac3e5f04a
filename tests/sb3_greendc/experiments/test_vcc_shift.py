from __future__ import annotations

import dataclasses

import pandas as pd
import pytest

from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.vcc_shift import analyze

# kg of CO2 and overdue machine-unit-hours of two months of jobs; the thrifty plan leaves most work overdue.
MONTHS = {
    ("always_on", None): ([100.0, 110.0], [0.0, 0.0]),
    ("thrifty plan", None): ([80.0, 88.0], [40.0, 40.0]),
    ("good plan", None): ([90.0, 99.0], [3.0, 3.0]),
    ("PPO", 0): ([84.0, 94.5], [5.0, 5.0]),
    ("PPO", 1): ([86.0, 93.0], [6.0, 6.0]),
}


@dataclasses.dataclass(frozen=True)
class Fixed:
    rows: pd.DataFrame

    def table(self) -> pd.DataFrame:
        return self.rows.copy()


@pytest.fixture
def analysis():
    rows = [
        {
            **{"test": "May", "policy": policy, "train_seed": seed, "episode": episode},
            **{"carbon_kg": carbon, "overdue_work": overdue, "return": 0.0, "mean_delay": 0.0},
            "trained_decisions": None if seed is None else 200_000,
        }
        for (policy, seed), (carbons, overdues) in MONTHS.items()
        for episode, (carbon, overdue) in enumerate(zip(carbons, overdues, strict=True))
    ]
    return analyze(Fixed(pd.DataFrame(rows)), Budget())


def test_carbon_is_compared_with_no_shifting_and_the_objective_with_the_best_plan(analysis):
    at = analysis.tables["comparison"].set_index("policy")
    assert (at["best_plan"] == "good plan").all()
    assert at["carbon_percent"].to_dict() == pytest.approx(
        {"always_on": 0.0, "thrifty plan": -20.0, "good plan": -10.0, "PPO": 100 * (357.5 / 420 - 1)}
    )
    objective = {"always_on": 210.0, "thrifty plan": 248.0, "good plan": 195.0, "PPO": (357.5 + 22) / 2}
    assert at["objective_percent"].to_dict() == pytest.approx(
        {policy: 100 * (value / 195 - 1) for policy, value in objective.items()}
    )
    low, estimate, high = at.loc["PPO", ["objective_low", "objective_percent", "objective_high"]]
    assert low < estimate < high
    assert at["seeds"].to_dict() == {"always_on": 1, "thrifty plan": 1, "good plan": 1, "PPO": 2}


def test_the_means_are_those_of_all_seeds_and_months(analysis):
    at = analysis.tables["results"].set_index("policy")
    assert at.loc["PPO", ["carbon_kg", "overdue_work", "objective"]].tolist() == [89.375, 5.5, 94.875]


def test_the_picture_says_what_a_learner_had(analysis):
    (panel,) = (axes for axes in analysis.figures["figure"].axes if axes.get_title() == "May")
    assert {text.get_text() for text in panel.texts} == {
        "always_on",
        "thrifty plan",
        "good plan",
        "PPO, 200 k",
    }
