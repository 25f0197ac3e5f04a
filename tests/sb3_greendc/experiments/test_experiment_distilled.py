"""Networks that rollouts teach: the floor is found by trial, and the same arguments teach the same."""

from __future__ import annotations

import pytest
import torch as th

from sb3_greendc.experiments import distilled
from sb3_greendc.experiments.distilled import NAME, SEARCHED, DistilledTraining, best_floor, teach
from sb3_greendc.experiments.experiment import CHOICE
from sb3_greendc.experiments.tasks import Problem

POOL = Problem("ResourcePool-10-v0", {**CHOICE, "episode_steps": 100})


@pytest.fixture
def _few(monkeypatch):
    monkeypatch.setattr(distilled, "FLOOR_EPISODES", 4)


@pytest.mark.usefixtures("_few")
def test_the_floor_that_earns_most_is_taken():
    crowded = POOL.with_kwargs(offered_load=3.0)
    assert best_floor(crowded, (0.0, 0.5)) == best_floor(crowded, (0.5, 0.0)) == 0.5


def test_a_single_floor_is_not_tried(monkeypatch):
    monkeypatch.setattr(distilled, "evaluate", None)
    assert best_floor(POOL, (0.3,)) == 0.3


def test_the_record_names_the_teacher_and_the_floor_matters():
    plain, floored = (teach(POOL, 600, 2, 1, floors=(floor,)) for floor in (0.0, 0.5))
    assert plain.record["taught"] == "by rollout:futures=2 on 600 decisions, in 1 passes"
    assert floored.record["taught"] == "by rollout:futures=2,floor=0.5 on 600 decisions, in 1 passes"
    weights = [clone.model.policy.state_dict() for clone in (plain, floored)]
    assert any(not th.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_the_network_and_the_search_on_top_play_the_same_episodes():
    steps = {"episode_steps": 60}
    task = DistilledTraining(Problem(POOL.env_id), CHOICE, 600, 4, 4, 0, 2, steps, (0.2,), search=4)
    episodes = task.compute().tables["episodes"]
    assert episodes["policy"].tolist() == [NAME, NAME, SEARCHED, SEARCHED]
    assert episodes["episode"].tolist() == [0, 1, 0, 1]
    jobs = episodes.pivot(index="episode", columns="policy", values="arrived_jobs")
    assert (jobs[NAME] == jobs[SEARCHED]).all()
    searched = episodes[episodes["policy"] == SEARCHED]
    assert (searched["total_job_value_ratio"] > 0.2).all()
