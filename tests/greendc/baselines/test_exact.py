"""The exact model of tiny pools is the environment, and its optimum is one."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_pools import CLASSES, play, tiny_config

from greendc.baselines import make_policy
from greendc.baselines.resource_pool.exact import WAIT, ExactPool, State
from greendc.baselines.resource_pool.exact_policy import ExactPolicy
from greendc.baselines.resource_pool.job_classes import ClassWorkload, JobClass
from greendc.resource_pool import ResourcePoolSimulator

EPISODES = 500


@pytest.fixture(scope="module")
def pool():
    return ExactPool(tiny_config())


@pytest.fixture(scope="module")
def optimum(pool):
    return pool.optimum()


class Holder:
    def __init__(self, simulator):
        self.simulator = simulator


@pytest.fixture(scope="module")
def simulator():
    return ResourcePoolSimulator(tiny_config(), EPISODES)


def test_deadline_never_earns_the_same_in_the_model_and_in_the_environment(pool, simulator):
    earned = play(make_policy("deadline_never", Holder(simulator)), simulator)
    actions = pool.deadline_never()
    kinds = {(one.duration, one.units, one.qos): k for k, one in enumerate(CLASSES)}
    for seed in range(EPISODES):
        jobs = pool.workload.sample(np.random.default_rng(seed), 40)
        rows = zip(
            jobs.arrival.tolist(),
            jobs.duration.tolist(),
            jobs.units[:, 0].tolist(),
            jobs.qos.tolist(),
            strict=True,
        )
        coming = {arrival: kinds[tuple(rest)] for arrival, *rest in rows}
        assert walk(pool, actions, coming) == pytest.approx(earned[seed], abs=1e-9)


def walk(pool, actions, coming):
    """Play one sequence of arrivals in the model."""
    first = coming.get(0)
    state = State((0,) * 3, () if first is None else ((first, 0),))
    total = 0.0
    for step in range(40):
        while (place := int(actions[pool._index[state]])) != WAIT:
            kind = state.queue[place][0]
            total += pool.value[kind] if step + pool.duration[kind] <= 40 else 0.0
            state = pool.start(state, place)
        state = pool.wait(state, coming.get(step + 1))
    return total


def test_what_is_played_earns_its_exact_value(pool, optimum, simulator):
    for played in (optimum, pool.evaluate(pool.deadline_never())):
        earned = play(ExactPolicy(simulator, pool, played), simulator)
        error = earned.std(ddof=1) / np.sqrt(EPISODES)
        assert abs(earned.mean() - pool.first_value(played)) < 2.0 * error


def test_improvement_goes_from_the_rule_to_the_optimum(pool, optimum):
    policy = pool.evaluate(pool.deadline_never())
    values = [pool.first_value(policy)]
    for _ in range(8):
        policy = pool.improve(policy)
        values.append(pool.first_value(policy))
    assert values == sorted(values)
    assert values[1] > 1.001 * values[0]
    assert values[-1] == pytest.approx(pool.first_value(optimum), rel=1e-12)
    # No other policy is better anywhere, at any time.
    assert (policy.values <= optimum.values + 1e-9).all()


def test_the_optimum_is_that_of_all_plans_that_wait_for_what_comes():
    # Two units, three steps: every policy as a tree over what may come, tried one by one.
    workload = ClassWorkload((JobClass(2, 2, 0.7), JobClass(1, 1, 0.5)), 0.6)
    pool = ExactPool(tiny_config(units=2, episode_steps=3, workload=workload))
    assert pool.first_value(pool.optimum()) == pytest.approx(best_tree(pool, workload), rel=1e-12)


def best_tree(pool, workload):
    def best(state, step):
        if step == 3:
            return 0.0
        found = sum(
            p * best(pool.wait(state, k), step + 1)
            for p, k in zip(pool.probabilities, (None, 0, 1), strict=True)
        )
        for place in range(len(state.queue)):
            after = pool.start(state, place)
            if after is not None:
                one = workload.classes[state.queue[place][0]]
                paid = one.duration * one.units * one.qos if step + one.duration <= 3 else 0.0
                found = max(found, paid + best(after, step))
        return found

    return sum(p * best(state, 0) for p, state in zip(pool.probabilities, pool.first_states(), strict=True))


def test_losses_are_what_a_policy_earns_less(pool, optimum, simulator):
    judged = Judged(make_policy("hvf", Holder(simulator)), ExactPolicy(simulator, pool, optimum))
    play(judged, simulator)
    exact = pool.first_value(pool.evaluate(pool.by_rule(-pool.value[pool.kinds])))
    lost = pool.first_value(optimum) - exact
    error = judged.first_episodes().std(ddof=1) / np.sqrt(EPISODES)
    assert abs(judged.first_episodes().mean() - lost) < 3.0 * error
    assert lost > 20.0 * error


def test_the_optimum_loses_nothing(pool, optimum, simulator):
    policy = ExactPolicy(simulator, pool, optimum)
    judged = Judged(policy, policy)
    play(judged, simulator)
    assert judged.first_episodes() == pytest.approx(0.0, abs=1e-9)


class Judged:
    """Adds up what a policy loses in the first episode of each environment."""

    def __init__(self, policy, judge):
        self.policy, self.judge = policy, judge
        self.lost, self.over = np.zeros(EPISODES), np.zeros(EPISODES, bool)

    def predict(self, out):
        actions, state = self.policy.predict(out)
        losses = self.judge.losses(actions)
        assert (losses > -1e-9).all()
        self.over |= self.judge.simulator.episodes > self.begun()
        self.lost += np.where(self.over, 0.0, losses)
        return actions, state

    def begun(self):
        self.at_first = getattr(self, "at_first", self.judge.simulator.episodes.copy())
        return self.at_first

    def first_episodes(self):
        return self.lost


def test_advantages_are_greatest_at_the_best_action(pool, optimum):
    simulator = ResourcePoolSimulator(tiny_config(), 1)
    judge = ExactPolicy(simulator, pool, optimum)
    simulator.reset_env(0, np.random.default_rng(3))
    out = simulator.empty_observations()
    simulator.observe(out)
    for _ in range(60):
        if simulator.truncated[0]:
            break
        advantages = judge.advantages(out)
        assert (np.isfinite(advantages) == simulator.action_masks()).all()
        action = np.nanargmax(advantages, axis=1)
        assert judge.losses(action) == pytest.approx(0.0, abs=1e-5)
        simulator.step(action, out)


def test_every_state_has_one_number(pool):
    judge = ExactPolicy(ResourcePoolSimulator(tiny_config(), 1), pool, pool.evaluate(pool.deadline_never()))
    codes = [judge._reader._code(state.taken, state.queue) for state in pool.states]
    assert len(set(codes)) == len(codes) == len(pool)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"resource_types": 2, "workload": "synthetic"}, "resource_types=2"),
        ({"workload": "synthetic"}, "workload='synthetic': must be a ClassWorkload"),
        ({"placement": "earliest"}, "placement='earliest'"),
        ({"late_jobs": "demote"}, "late_jobs='demote'"),
        ({"queue_order": "latest_start"}, "queue_order='latest_start'"),
        ({"power": "markov"}, "power='markov'"),
        ({"suspend": True}, "suspend=True"),
        ({"ready_pool_size": 1}, "ready_pool_size=1: must be at least 3"),
    ],
)
def test_other_rules_are_refused_by_name(options, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        ExactPool(tiny_config(**options))


def test_jobs_of_other_classes_are_refused(pool, optimum):
    simulator = ResourcePoolSimulator(tiny_config(), 1)
    policy = ExactPolicy(simulator, pool, optimum)
    with pytest.raises(ValueError, match="units"):
        ExactPolicy(ResourcePoolSimulator(tiny_config(units=4), 1), pool, optimum)
    other = ClassWorkload((JobClass(5, 1, 0.2),), 1.0)
    simulator.reset_env(0, np.random.default_rng(0), {"jobs": other.sample(np.random.default_rng(0), 40)})
    out = simulator.empty_observations()
    simulator.observe(out)
    with pytest.raises(ValueError, match="environment 0: is in a state that the exact model"):
        policy.predict(out)


def test_class_workloads():
    workload = ClassWorkload(CLASSES, 0.5)
    jobs = workload.sample(np.random.default_rng(0), 20_000)
    assert (np.diff(jobs.arrival) >= 1).all()
    assert len(jobs) / 20_000 == pytest.approx(0.5, abs=0.02)
    assert workload.mean_duration == pytest.approx(jobs.duration.mean(), rel=0.02)
    assert workload.mean_units[0] == pytest.approx(jobs.units.mean(), rel=0.02)
    assert workload.mean_value((2.0,)) == pytest.approx(
        np.mean(jobs.duration * jobs.units[:, 0] * jobs.qos) * 2, rel=0.02
    )
    for classes in ((), (JobClass(1, 1, 0.5), JobClass(1, 1, 0.5))):
        with pytest.raises(ValueError, match="classes"):
            ClassWorkload(classes, 0.5)
    with pytest.raises(ValueError, match=r"probability=1\.5"):
        ClassWorkload(CLASSES, 1.5)
    with pytest.raises(ValueError, match=r"classes\[0\].weight"):
        ClassWorkload((JobClass(1, 1, 0.5, 0.0),), 0.5)
