"""The papers' learners as printed, each also with late jobs as in the papers' text."""

from __future__ import annotations

import pandas as pd

from sb3_greendc.experiments.as_printed import ARMS, CASES, EXPERIMENT, STAY, budget_notes
from sb3_greendc.experiments.controls import UNIFORM_MASKED, UNIFORM_VALID
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.rare import large
from sb3_greendc.experiments.training import Training


def test_each_case_stands_beside_one_whose_late_jobs_stay():
    assert len(CASES) == 6
    for case, staying in zip(CASES[::2], CASES[1::2], strict=True):
        assert staying.name == f"{case.name}, {STAY}"
        assert staying.scenario.env_kwargs == {**case.scenario.env_kwargs, "late_jobs": "stay"}
        (alone,) = staying.learners
        assert len(case.learners) == len(ARMS)
        assert alone.name == case.learner.name
        assert alone.decisions == case.learners[0].decisions // 10


def test_both_rules_have_the_same_rivals_and_chance():
    found: dict[str, list[str]] = {}
    for item in EXPERIMENT.items(Budget()):
        task = item.task
        if not isinstance(task, Training):
            found.setdefault(str(item.labels["series"]), []).append(task.title)
            assert (task.scenario.env_kwargs.get("late_jobs") == "stay") == (
                STAY in str(item.labels["series"])
            )
    for case, staying in zip(CASES[::2], CASES[1::2], strict=True):
        assert found[case.name] == found[staying.name]
        for chance in (UNIFORM_VALID, UNIFORM_MASKED):
            assert any(title.startswith(chance) for title in found[staying.name])


def test_the_note_on_a_budget_is_of_its_own_case():
    case, staying = CASES[:2]
    rows = pd.DataFrame(
        {
            "series": [case.name, staying.name],
            "policy": case.learner.name,
            "trained_decisions": [200_000, 20_000],
            "trained_seconds": 60.0,
            "train_seed": 0,
        }
    )
    whole, tenth = budget_notes(rows, (case, staying))
    assert "had 200,000 of 200,000 decisions" in whole
    assert "had 20,000 of 200,000 decisions" in tenth


def test_large_pools_have_the_same_learners_and_rivals():
    small, *larger = CASES[0], *large.CASES
    assert [case.scenario.env_id for case in larger] == ["ResourcePool-100", "ResourcePool-300"]
    for case in larger:
        assert case.learners == small.learners
        assert case.papers == small.papers
    asked = Budget(quick=True, problems=("RARE, 300 units",))
    series = {item.labels["series"] for item in large.EXPERIMENT.items(Budget(quick=True))}
    assert series == {"RARE, 100 units"}
    assert {item.labels["series"] for item in large.EXPERIMENT.items(asked)} == {"RARE, 300 units"}
    assert len({item.labels["series"] for item in large.EXPERIMENT.items(Budget())}) == 2
