"""Heuristics and guarded rollouts of clusters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import greendc
from greendc import baselines
from greendc.baselines.cluster import HEURISTICS, GuardedRollout, RandomJob
from greendc.cluster import ClusterConfig, ClusterJobs, ClusterSimulator, layout, lublin_jobs

JOBS = lublin_jobs(3, 600)


def simulator_of(num_envs=1, seeds=0, **options):
    config = ClusterConfig(**{"workload": JOBS, "episode_jobs": 80, "visible_jobs": 80, **options})
    simulator = ClusterSimulator(config, num_envs)
    for i in range(num_envs):
        simulator.reset_env(i, np.random.default_rng(seeds + i))
    return simulator


def played(simulator, policy):
    """The metrics of environment 0 after its episode by a policy."""
    out = simulator.empty_observations()
    simulator.observe(out)
    while not simulator.state.cluster["over"].all():
        actions, _ = policy.predict(out)
        assert (out["action_mask"][np.arange(simulator.num_envs), actions] == 1).all()
        simulator.step(actions, out)
    return simulator.episode_metrics(0)


@pytest.mark.parametrize("name", HEURISTICS)
@pytest.mark.parametrize("options", [{"profile": "rlscheduler"}, {"backfill": "easy"}, {"backfill": "none"}])
def test_a_policy_that_sees_all_decides_as_whole_episodes_do(name, options):
    simulator, other = simulator_of(**options), simulator_of(**options)
    fitting = name in ("saf", "f1")
    metrics = played(simulator, baselines.make_policy(name, Holder(simulator), fitting=fitting))
    other.play(0, name, fitting=fitting)
    for key in ("mean_bounded_slowdown", "mean_wait_h", "longest_wait_h", "span_h"):
        assert metrics[key] == other.episode_metrics(0)[key]


class Holder:
    def __init__(self, simulator):
        self.simulator = simulator


def test_names_of_the_family():
    assert baselines.names("cluster") == (*HEURISTICS, "random", "rollout")
    env = greendc.make_vec("ClusterGreen-v0", 2, episode_jobs=20, workload_jobs=200)
    env.reset(seed=0)
    for name in baselines.names("cluster"):
        policy = baselines.make_policy(name, env)
        actions, _ = policy.predict(env.reset(seed=1)[0])
        assert actions.shape == (2,)


def test_chance_takes_any_valid_action_equally_often():
    env = greendc.make_vec("ClusterGreen-v0", 64, episode_jobs=20, workload_jobs=200)
    observations, _ = env.reset(seed=0)
    policy = baselines.make_policy("random", env, seed=3)
    chosen, valid = np.zeros(observations["action_mask"].shape[1]), 0.0
    for _ in range(200):
        actions, _ = policy.predict(observations)
        masks = observations["action_mask"] > 0
        assert masks[np.arange(64), actions].all()
        chosen[: masks.shape[1]] += np.bincount(actions, minlength=masks.shape[1])
        valid = valid + (masks / masks.sum(axis=1, keepdims=True)).sum(axis=0)
        observations = env.step(actions)[0]
    often = valid > 100
    assert often.sum() >= 3
    assert chosen[often] == pytest.approx(valid[often], rel=0.25)
    again = baselines.make_policy("random", env, seed=3).predict(observations)[0]
    assert again.tolist() == baselines.make_policy("random", env, seed=3).predict(observations)[0].tolist()
    with pytest.raises(ValueError, match="seed=-1: must be at least 0"):
        baselines.make_policy("random", env, seed=-1)


@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize("profile", ["rlscheduler", "easy"])
def test_rollouts_beat_their_base_on_jobs_of_the_past_kind(profile, backfill):
    gains = []
    for start in (200, 260, 320, 380, 440, 500):
        figures = {}
        for name in ("base", "rollout"):
            simulator = simulator_of(profile=profile, backfill=backfill)
            simulator.reset_env(0, np.random.default_rng(0), {"start": start})
            if name == "base":
                simulator.play(0, "fcfs")
            else:
                GuardedRollout(simulator, base="fcfs", futures=3, horizon=8).play(0)
            figures[name] = simulator.episode_metrics(0)["mean_bounded_slowdown"]
        gains.append(figures["rollout"] / figures["base"])
    assert np.mean(gains) < 0.9


def test_a_rollout_takes_the_short_job_first():
    submit, run = np.array([0, 5, 5]), np.array([10, 1000, 10])
    jobs = ClusterJobs(submit, run, run, np.array([4, 4, 4]), 4)
    simulator = ClusterSimulator(ClusterConfig(workload=jobs, episode_jobs=3))
    simulator.reset_env(0, np.random.default_rng(0))
    simulator.take(0, 0)
    policy = GuardedRollout(simulator, base="fcfs", futures=1, horizon=0)
    assert policy.decide(0) == 2
    policy.play(0)
    assert simulator.state.jobs[0]["first_start"].tolist() == [0, 20, 10]


def test_the_lightest_jobs_are_candidates_beside_those_of_rules():
    count = 40
    submit, run = np.zeros(count, np.int64), np.arange(100, 100 + count)
    jobs = ClusterJobs(submit, run, run, np.full(count, 4), 4)
    simulator = ClusterSimulator(ClusterConfig(workload=jobs, episode_jobs=count, visible_jobs=count))
    simulator.reset_env(0, np.random.default_rng(0))
    out = simulator.empty_observations()
    simulator.observe(out)
    gains = {}
    for lightest in (0, 12):
        judge = GuardedRollout(simulator, futures=1, horizon=0, lightest=lightest)
        gains[lightest] = judge.advantages(out)[0, :count]
    assert gains[0].tolist() == [0.0] + [-1.0] * (count - 1)  # all rules take the shortest: nothing is tried
    assert (np.diff(gains[12][:12]) < 0).all()  # the longer a job, the worse to take it first
    assert gains[12][0] == 0 and (gains[12][12:] == gains[12].min()).all()


def test_a_guard_that_no_candidate_passes_leaves_the_base():
    guarded, base = simulator_of(seeds=4), simulator_of(seeds=4)
    GuardedRollout(guarded, base="saf", guard=1e8).play(0)
    base.play(0, "saf")
    np.testing.assert_array_equal(guarded.state.jobs[0]["finish"], base.state.jobs[0]["finish"])


@pytest.mark.parametrize("reward", ["slowdown", "wait"])
def test_a_job_that_needs_every_processor_does_not_wait_for_ever(reward):
    green = {"power": "green", "on_drop": "suspend", "power_start": "log"}
    simulator = simulator_of(backfill="easy", reward=reward, episode_jobs=120, **green)
    policy, cluster, idle = GuardedRollout(simulator), simulator.state.cluster[0], 0
    while not cluster["over"]:
        job = policy.decide(0)
        if cluster["running"] == 0:
            idle += 1
            assert job is not None
        simulator.take(0, job)
    assert idle > 0
    assert cluster["finished"] == 120


@pytest.mark.parametrize("predicted", [False, True])
def test_plans_do_not_know_run_times_of_jobs_that_are_not_done(predicted):
    rng = np.random.default_rng(0)
    count = 40
    submit, processors = np.cumsum(rng.integers(0, 20, count)), rng.integers(1, 5, count)
    request, user = rng.integers(5000, 90_000, count), rng.integers(0, 3, count)
    decisions = []
    for run in (request, rng.integers(2000, 5000, count)):
        jobs = ClusterJobs(submit, run, request, processors, 16, user=user)
        simulator = ClusterSimulator(ClusterConfig(workload=jobs, episode_jobs=count))
        simulator.reset_env(0, np.random.default_rng(0))
        policy = GuardedRollout(simulator, base="fcfs", futures=2, horizon=4, predicted=predicted, seed=5)
        made = []
        while simulator.state.cluster[0]["now"] < 2000:
            made.append(policy.decide(0))
            simulator.take(0, made[-1])
        decisions.append(made)
    assert len(decisions[0]) > 5 and decisions[0] == decisions[1]


def test_futures_know_run_times_of_jobs_that_are_done():
    count, horizon = 40, 8
    submit, run = np.arange(count) * 20, np.full(count, 10)
    submit[20:] = submit[20]  # then all at once
    jobs = ClusterJobs(submit, run, np.full(count, 5000), np.full(count, 4), 4)
    simulator = ClusterSimulator(ClusterConfig(workload=jobs, episode_jobs=20, visible_jobs=20))
    simulator.reset_env(0, np.random.default_rng(0), {"start": 20})
    policy = GuardedRollout(simulator, futures=16, horizon=horizon, guard=0.0)
    policy.decide(0)
    plans = policy._plan_world.log[: 16 * (20 + horizon)].reshape(16, 20 + horizon)
    assert (plans["run"][:, :20] == 5000).all()  # those that wait
    futures = plans["run"][:, 20:]
    assert np.isin(futures, (10, 5000)).all() and (futures == 10).any()


def test_futures_have_as_long_to_their_deadlines_as_the_jobs_that_they_repeat():
    count, horizon = 60, 8
    submit, run, size = np.arange(count) * 20, np.full(count, 100), np.full(count, 4)
    for due in (submit + 300, None):
        jobs = ClusterJobs(submit, run, run, size, 4, deadline=due)
        simulator = ClusterSimulator(ClusterConfig(workload=jobs, episode_jobs=20, visible_jobs=20))
        simulator.reset_env(0, np.random.default_rng(0), {"start": 40})
        simulator.take(0, simulator.first(0, "fcfs"))
        policy = GuardedRollout(simulator, futures=3, horizon=horizon)
        policy.decide(0)
        cluster = simulator.state.cluster[0]
        waiting, size_of_plan = (
            int(cluster["waiting"]),
            int(cluster["waiting"] + horizon + cluster["running"]),
        )
        plans = policy._plan_world.log[: 3 * size_of_plan].reshape(3, size_of_plan)
        futures = plans[:, waiting : waiting + horizon]
        if due is None:
            assert (futures["deadline"] == layout.NEVER).all()
        else:
            assert (futures["deadline"] - futures["submit"] == 300).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"base": "wsp"}, "base='wsp'.*did you mean 'wspt'"),
        ({"futures": 0}, "futures=0"),
        ({"horizon": -1}, "horizon=-1"),
        ({"guard": float("nan")}, "guard=nan"),
        ({"lightest": -1}, "lightest=-1"),
        ({"lightest": 2.5}, "lightest=2.5"),
        ({"horizon": "far"}, "horizon='far'"),
        ({"daytime": 13}, "daytime=13: must be from 0 to 12 hours"),
        ({"daytime": float("nan")}, "daytime=nan"),
        ({"first_round": 0}, "first_round=0"),
        ({"first_round": 1.5}, "first_round=1.5"),
        ({"guard": "none"}, "guard='none'"),
        ({"predicted": "maybe"}, "predicted='maybe'"),
    ],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        GuardedRollout(simulator_of(), **options)


def test_policies_of_other_families_are_refused():
    pool = greendc.make_simulator("ResourcePool-10")
    for kind in (*HEURISTICS.values(), RandomJob, GuardedRollout):
        with pytest.raises(TypeError, match="must be a ClusterSimulator"):
            kind(pool)


@pytest.mark.parametrize("options", [{"profile": "rlscheduler"}, {"backfill": "easy"}, {"backfill": "none"}])
def test_advantages_are_what_rollouts_compare(options):
    crowded = dataclasses.replace(JOBS, submit=JOBS.submit // 60)
    simulator, other = (simulator_of(2, workload=crowded, **options) for _ in range(2))
    judge = GuardedRollout(simulator, futures=3, horizon=8, guard=0.0)
    actor = GuardedRollout(other, futures=3, horizon=8, guard=0.0)
    out = simulator.empty_observations()
    simulator.observe(out)
    seen = 0
    while not simulator.state.cluster["over"].any():
        advantages = judge.advantages(out)
        assert (np.isfinite(advantages) == out["action_mask"].astype(bool)).all()
        actions = actor.act(out)  # without a guard: the cheapest, of equal ones the first that is named
        assert out["action_mask"][np.arange(2), actions].all()
        for i in range(2):
            best = np.nanmax(advantages[i])
            assert best >= 0
            assert np.isnan(advantages[i, actions[i]]) or advantages[i, actions[i]] == best
            worst = np.nanmin(advantages[i])
            seen += best > 0 and worst < 0
        simulator.step(actions, out)
        other.step(actions, other.empty_observations())
    assert seen > 3
    assert (simulator.state.cluster["now"] == other.state.cluster["now"]).all()


def test_advantages_are_less_the_errors_that_the_guard_asks_for():
    crowded = dataclasses.replace(JOBS, submit=JOBS.submit // 60)
    simulators = [simulator_of(2, workload=crowded, profile="rlscheduler") for _ in range(3)]
    judges = [GuardedRollout(simulators[k], futures=4, horizon=8, guard=float(k)) for k in range(3)]
    outs = [simulator.empty_observations() for simulator in simulators]
    for simulator, out in zip(simulators, outs, strict=True):
        simulator.observe(out)
    uncertain = kept = 0
    while not simulators[0].state.cluster["over"].any():
        free, once, twice = (judge.advantages(out) for judge, out in zip(judges, outs, strict=True))
        rounding = 1e-6 * np.nanmax(np.abs(twice))
        np.testing.assert_allclose(free - once, once - twice, rtol=1e-3, atol=rounding)
        assert not (once > free + rounding).any()  # an invalid action's NaN is neither
        uncertain += (once < free - rounding).any()
        actions = np.nanargmax(once, axis=1)
        kept += (np.nanmax(once, axis=1) == 0).any() and (np.nanmax(free, axis=1) > 0).any()
        for simulator, out in zip(simulators, outs, strict=True):
            simulator.step(actions, out)
    assert uncertain > 3 and kept > 0
