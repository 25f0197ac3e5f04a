"""Networks distilled from rollouts: min_qos, training tasks, evaluation with and without rollouts."""

from __future__ import annotations

import json

import pytest
import torch as th

from sb3_greendc.experiments import distillation
from sb3_greendc.experiments.distillation import Distillation, best_min_qos, distill_rollouts, record
from sb3_greendc.experiments.distilled import NAME, SEARCHED, Evaluation
from sb3_greendc.experiments.episodes import Baselines, play
from sb3_greendc.experiments.experiment import CHOICE, LOOKAHEAD, Budget
from sb3_greendc.experiments.rollouts import plain, strong
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.runs.models import RUN_FILE

POOL = Scenario("ResourcePool-10-v0", {**CHOICE, **LOOKAHEAD, "episode_steps": 100})


@pytest.fixture
def _few(monkeypatch):
    monkeypatch.setattr(distillation, "MIN_QOS_EPISODES", 4)


@pytest.mark.usefixtures("_few")
def test_the_min_qos_that_earns_most_is_taken():
    crowded = POOL.with_kwargs(offered_load=3.0)
    assert best_min_qos(crowded, (0.0, 0.5)) == best_min_qos(crowded, (0.5, 0.0)) == 0.5


def test_a_single_min_qos_is_not_tried(monkeypatch):
    monkeypatch.setattr(distillation, "evaluate", None)
    assert best_min_qos(POOL, (0.3,)) == 0.3


def test_the_record_names_the_teacher_and_the_min_qos_matters():
    without, floored = (
        distill_rollouts([POOL], 600, 2, 1, min_qos_choices=(min_qos,)) for min_qos in (0.0, 0.5)
    )
    assert (
        without.record["distilled"]
        == "by rollout:futures=2,min_qos=0.0,depth=24,dispatch=easy on 600 decisions, in 1 passes"
    )
    assert (
        floored.record["distilled"]
        == "by rollout:futures=2,min_qos=0.5,depth=24,dispatch=easy on 600 decisions, in 1 passes"
    )
    weights = [clone.model.policy.state_dict() for clone in (without, floored)]
    assert any(not th.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_lessons_are_equal_shares_and_the_record_lists_them():
    training_tasks = [POOL.with_kwargs(offered_load=load) for load in (0.2, 1.5)]
    clone = distill_rollouts(training_tasks, 1200, 2, 1)
    assert clone.record["training_tasks"] == [training_task.env_kwargs for training_task in training_tasks]
    assert (
        clone.record["distilled"]
        == "by rollout:futures=2,min_qos=0.25,depth=24,dispatch=easy on 1,200 decisions, in 1 passes"
    )
    assert clone.record["transitions"] + clone.record["held_out"] == 1200
    assert clone.record["env_kwargs"] == POOL.env_kwargs  # what all training tasks have in common


def test_the_strongest_rollouts_have_a_floor_little_depth_and_backfilling():
    assert strong(8).spec == "rollout:futures=8,min_qos=0.25,depth=24,dispatch=easy"
    assert plain(8).spec == "rollout:futures=8"


def test_lessons_of_other_shapes_are_refused_before_anything_is_recorded(monkeypatch):
    monkeypatch.setattr(distillation, "collect", None)
    for other in ({"ready_pool_size": 7}, {"horizon": 60}, {"units": 12}):
        with pytest.raises(
            ValueError, match=r"training_tasks\[1\] = .*other shapes than the first training task's"
        ):
            distill_rollouts([POOL, POOL.with_kwargs(**other)], 600, 2, 1)


def test_each_lesson_is_learned_from():
    idle, crowded = (POOL.with_kwargs(offered_load=load) for load in (0.2, 2.0))
    weights = [
        distill_rollouts(training_tasks, 600, 2, 1).model.policy.state_dict()
        for training_tasks in ([idle, crowded], [idle, idle], [idle, crowded])
    ]
    assert any(not th.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert all(th.equal(weights[0][name], weights[2][name]) for name in weights[0])


def test_waiting_is_worth_less_by_the_reserve(monkeypatch):
    with_reserve = record(POOL, "rollout:futures=2", 100, 0).labels["advantages"]
    monkeypatch.setattr(distillation, "RESERVE", 0.0)
    without = record(POOL, "rollout:futures=2", 100, 0).labels["advantages"]
    assert without[:, -1] - with_reserve[:, -1] == pytest.approx(0.02, abs=1e-6)
    assert (with_reserve[:, :-1] == without[:, :-1])[~(without[:, :-1] != without[:, :-1])].all()


def test_advantages_that_spread_far_are_scaled_down(monkeypatch):
    assert distill_rollouts([POOL], 600, 2, 1).record["logit_scale"] <= 4.0
    monkeypatch.setattr(distillation, "SPREAD", 0.01)
    assert distill_rollouts([POOL], 600, 2, 1).record["logit_scale"] < 0.2


SMALL = Distillation((POOL,), 6000, 2, 4, 0, (0.2,))


def test_the_network_and_the_search_on_top_play_the_same_episodes(monkeypatch):
    played = POOL.with_kwargs(episode_steps=60)
    files = SMALL.compute().files
    monkeypatch.setattr(Distillation, "compute", None)  # with its files it is not distilled again
    found = [
        Evaluation(SMALL, played, 2, search).given(files).compute().tables["episodes"]
        for search in (None, strong(4))
    ]
    for name, episodes in zip((NAME, SEARCHED), found, strict=True):
        assert episodes["policy"].tolist() == [name, name]
        assert episodes["episode"].tolist() == [0, 1]
        assert episodes["trained_decisions"].tolist() == [6000, 6000]
        assert (episodes["time_steps"] == 60).all()
    assert found[0]["arrived_jobs"].tolist() == found[1]["arrived_jobs"].tolist()
    assert (found[1]["total_job_value_ratio"] > 0.2).all()
    alone = [episode["total_job_value"] for episode in play(strong(4).spec, played, 2)]
    assert found[1]["total_job_value"].tolist() != alone  # the network has a say in the search


def test_a_distillation_hands_its_depth_to_the_rollouts():
    run = json.loads(Distillation((POOL,), 600, 2, 1, 0, depth=5).compute().files[RUN_FILE])
    assert (
        run["distilled"]
        == "by rollout:futures=2,min_qos=0.25,depth=5,dispatch=easy on 600 decisions, in 1 passes"
    )


def test_rollouts_on_top_of_a_network_are_those_that_compete_by_themselves():
    budget = Budget(quick=True, seeds_by_learner={"distilled policy": 3})
    alone = budget.baselines(POOL, rollouts=True)[-1]
    assert isinstance(alone, Baselines)
    assert alone.variants == (plain(32), strong(32))
    crowded = Scenario("ResourcePoolSuspend-10", {"workload": "bernoulli"})
    among_many = budget.baselines(crowded, rollouts=True)[-1]
    assert isinstance(among_many, Baselines)
    assert among_many.variants == (strong(32),)
    assert among_many.scenario.with_kwargs(**LOOKAHEAD) == budget.distilled(crowded)[0].scenario
    assert [trial.search for trial in budget.distilled(POOL, search=True)] == 3 * [None, strong(32)]
    assert [trial.search for trial in budget.distilled(POOL)] == 3 * [None]


def test_a_network_is_tried_on_pools_of_other_sizes():
    larger = Scenario("ResourcePool-20", {**POOL.env_kwargs, "episode_steps": 60, "ready_pool_size": 7})
    trial = Evaluation(SMALL, larger, 2)
    assert (trial.compute().tables["episodes"]["total_job_value_ratio"] > 0).all()


def test_a_trial_needs_its_distillation_and_is_the_same_task_with_its_files():
    trial = Evaluation(SMALL, POOL, 2)
    assert trial.needs == (SMALL,)
    assert trial.given({"model.zip": b"weights"}).key == trial.key
    other = Evaluation(Distillation((POOL,), 6001, 2, 4, 0, (0.2,)), POOL, 2)
    assert other.key != trial.key
