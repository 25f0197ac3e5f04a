"""Experiments on data: what their tasks measure, and what the tables make of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.experiments.experiment import Budget, Results
from sb3_greendc.experiments.offline import OfflineTraining
from sb3_greendc.experiments.online import EXPERIMENT as ONLINE
from sb3_greendc.experiments.online import Finetuning
from sb3_greendc.experiments.rare.agreement import (
    CRR_OPTIONS,
    PRINTED,
    agreement_levels,
    agreement_table,
    gain_table,
    trainings,
)
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.experiments.vcc_shift import EXPERIMENT as SHIFT
from sb3_greendc.runs.hyperparameters import load_hyperparameters

SHORT = Scenario("ResourcePool-10", {"episode_steps": 20})


def test_a_clone_is_compared_with_its_teacher_while_the_teacher_drives():
    options = {"weight_mode": "bc", "batch_size": 32}
    task = OfflineTraining("BC", SHORT, ("sjf",), 400, 3, 0, 2, options, agreement=True)
    tables = task.compute().tables
    assert list(tables["episodes"]["episode"]) == [0, 1]
    agreement = tables["agreement"]
    assert (agreement["decisions"] >= 20).all() and agreement["teacher"].unique() == ["sjf"]
    assert (agreement["same_choices"] <= agreement["choices"]).all()
    assert (
        agreement["same"] - agreement["same_choices"] == agreement["decisions"] - agreement["choices"]
    ).all()


def test_finetuning_is_judged_before_and_along_the_way():
    task = Finetuning(
        SHORT, ("hvf",), 400, 2, 32, 2, 0, 1, n_envs=4, options={**CRR_OPTIONS, "batch_size": 32}
    )
    rows = task.compute().tables["episodes"]
    assert list(rows["online_steps"]) == [0, 16, 32]


class _Table(Results):
    def __init__(self, rows: pd.DataFrame) -> None:
        super().__init__([], None)  # type: ignore[arg-type]
        object.__setattr__(self, "rows", rows)

    def table(self, name: str = "episodes") -> pd.DataFrame:
        return self.rows  # type: ignore[attr-defined,no-any-return]


def test_what_finetuning_keeps_is_a_share_of_each_runs_own_start():
    values = [(0, 0, 10.0), (0, 50, 8.0), (0, 100, 12.0), (1, 0, 20.0), (1, 50, 20.0), (1, 100, 22.0)]
    rows = pd.DataFrame(values, columns=["train_seed", "online_steps", "total_job_value"]).assign(
        series="hvf", policy="CRR"
    )
    heuristic = {"series": "hvf", "policy": "hvf", "total_job_value": 30.0}
    rows = pd.concat([rows, pd.DataFrame([heuristic])], ignore_index=True)
    tables = ONLINE.analyze(_Table(rows), Budget()).tables
    runs = tables["results"][tables["results"]["policy"] == "CRR"]
    assert runs["lowest_percent"].tolist() == pytest.approx([80.0, 100.0])
    assert runs["last_percent"].tolist() == pytest.approx([120.0, 110.0])
    assert tables["results"].iloc[-1][["policy", "last_percent"]].tolist() == ["hvf", 200.0]
    assert tables["heuristics"]["percent_of_offline"].tolist() == pytest.approx([200.0])


def test_capacity_is_compared_by_carbon_with_always_on_and_by_objective_with_the_best_plan():
    episodes = {
        "always_on": [(100.0, 0.0), (200.0, 0.0)],
        "day_ahead": [(80.0, 40.0), (180.0, 40.0)],  # the least carbon of the plans, and too late
        "rolling": [(95.0, 0.0), (195.0, 0.0)],
        "PPO": [(87.0, 0.0), (174.0, 0.0)],
    }
    rows = pd.DataFrame(
        {"test": "May", "policy": policy, "episode": k, "carbon_kg": carbon, "overdue_work": overdue}
        for policy, found in episodes.items()
        for k, (carbon, overdue) in enumerate(found)
    ).assign(train_seed=0, trained_decisions=np.nan, mean_delay=0.0, **{"return": 0.0})
    tables = SHIFT.analyze(_Table(rows), Budget()).tables
    table = tables["comparison"].set_index("policy")
    assert (table["best_plan"] == "rolling").all()
    assert table["carbon_percent"].to_dict() == pytest.approx(
        {"always_on": 0.0, "day_ahead": -40 / 3, "rolling": -10 / 3, "PPO": -13.0}
    )
    assert table["objective_percent"]["PPO"] == pytest.approx(-10.0)
    assert table["objective_low"]["PPO"] < -10 < table["objective_high"]["PPO"] < 0
    assert tables["results"].set_index("policy")["objective"]["day_ahead"] == pytest.approx(170.0)


def test_gains_and_agreement_by_hand():
    common = {"series": "hvf", "train_seed": 0}
    values = {"BC": (10.0, 10.0), "CRR": (11.0, 13.0), PRINTED: (5.0, 5.0)}
    rows = pd.DataFrame(
        {**common, "policy": policy, "episode": k, "total_job_value": value}
        for policy, found in values.items()
        for k, value in enumerate(found)
    )
    gains = gain_table(rows)
    assert gains["against"].tolist() == ["BC", "BC"]
    by_learner = gains.set_index("learner")["margin_percent"].to_dict()
    assert by_learner == pytest.approx({"CRR": 20.0, PRINTED: -50.0})
    counts = {"teacher": "hvf", "decisions": 10, "same": 9, "choices": 4, "same_choices": 3}
    found = pd.DataFrame([{**common, "policy": "CRR", "episode": k, **counts} for k in range(2)])
    (level,) = agreement_levels(found).to_dict("records")
    assert (level["policy"], level["x"], level["metric"]) == ("CRR", "hvf", "agreement")
    assert level["level_percent"] == pytest.approx(90.0)
    agreement = agreement_table(found)
    assert agreement["agreement_percent"].item() == pytest.approx(90.0)
    assert agreement["agreement_choices_percent"].item() == pytest.approx(75.0)


def test_clone_and_crr_see_the_same_data_and_crr_has_the_zoos_hyperparameters():
    clone, crr, printed = trainings(Budget(quick=True), 20, ("hvf",), 0)
    assert (printed.seed, printed.transitions, printed.steps) == (crr.seed, crr.transitions, crr.steps)
    assert printed.options["preset"] == "rare"
    assert clone.agreement and crr.agreement and printed.agreement
    assert (clone.seed, clone.transitions, clone.steps) == (crr.seed, crr.transitions, crr.steps)
    zoo = dict(load_hyperparameters("crr", "ResourcePool-20").settings)
    assert all(zoo[key] == value for key, value in crr.options.items())
