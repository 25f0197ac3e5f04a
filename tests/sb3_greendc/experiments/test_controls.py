from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.experiments.cocorl import cost
from sb3_greendc.experiments.controls import (
    CONTROLS,
    ORDER_MASKED,
    UNIFORM_MASKED,
    UNIFORM_VALID,
    UniformlyRandom,
    UniformPlay,
    controls,
)
from sb3_greendc.experiments.episodes import Baselines
from sb3_greendc.experiments.exact.tasks import Plays
from sb3_greendc.experiments.experiment import CHOICE, Budget
from sb3_greendc.experiments.known.tasks import Played
from sb3_greendc.experiments.registry import experiment_names, load_experiment
from sb3_greendc.experiments.rlscheduler.windows import Windows
from sb3_greendc.experiments.tasks import Scenario

WITHOUT_POLICIES = {"rare-fig3"}
"""A figure about power alone."""


def plays_at_random(task):
    if isinstance(task, Baselines):
        return any(one.name in ("random", "random_actions") for one in task.variants)
    if isinstance(task, Plays | Played):
        return task.policy == "random"
    if isinstance(task, Windows):
        return task.search is None
    return isinstance(task, UniformPlay)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", sorted(set(experiment_names()) - WITHOUT_POLICIES))
def test_a_random_policy_stands_in_every_comparison(name, quick):
    """Each place that a learner is judged at has one, on the same episodes."""
    random, judged = set(), set()
    for item in load_experiment(name).items(Budget(quick)):
        # Experiments over training label runs by their learner: the place is the series.
        place = item.labels.get("series", item.labels.get("test"))
        if plays_at_random(item.task):
            random.add(place)
        judged.add(place)
    assert random
    assert judged - {None} <= random


def test_uniform_actions_are_valid_and_equally_likely():
    mask = np.tile([1, 0, 1, 1, 0], (30_000, 1)).astype(np.int8)
    actions, _ = UniformlyRandom(0).predict({"action_mask": mask})
    shares = np.bincount(actions, minlength=5) / len(actions)
    assert shares == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3, 0], abs=0.01)


def test_controls_play_the_test_episodes_and_are_named_by_their_mask():
    scenario = Scenario("ResourcePool-10", {"episode_steps": 80})
    tables = [task.compute().tables["episodes"] for task in controls(scenario, dict(CHOICE), 4)]
    means = {
        policy: rows["total_job_value_ratio"].mean()
        for table in tables
        for policy, rows in table.groupby("policy")
    }
    assert set(CONTROLS) == {UNIFORM_VALID, UNIFORM_MASKED, ORDER_MASKED} < set(means)
    assert {"hvf/skip/ready/masked", "qos/skip/queue/masked"} < set(means)
    assert means[UNIFORM_VALID] < means[UNIFORM_MASKED] < means["hvf/skip/ready/masked"]
    baselines = {name for table in tables for name in table["baseline"]}
    assert {"hvf, masked", UNIFORM_VALID} < baselines
    assert not {"hvf", "random"} & baselines
    arrived = [table.groupby("episode")["arrived_jobs"].first() for table in tables]
    assert all(one.equals(arrived[0]) for one in arrived)


def test_figures_of_costs_show_uniform_choices_under_both_masks(monkeypatch):
    drawn: list[str] = []
    monkeypatch.setattr(cost, "lines", lambda _table, _metric, shown, *_rest: drawn.extend(shown))
    monkeypatch.setattr(cost, "budgets", lambda *_: {})
    cost.draw(pd.DataFrame(), pd.DataFrame(), pd.DataFrame(), {"learner": 2000.0})
    assert {UNIFORM_VALID, UNIFORM_MASKED, "learner"} <= set(drawn)
