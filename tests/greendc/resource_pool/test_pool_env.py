"""The resource-pool environments as Gymnasium and its users expect them."""

from __future__ import annotations

import copy
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from greendc.environments import FINAL_OBSERVATION
from greendc.resource_pool import (
    REWARDS,
    ResourcePoolConfig,
    ResourcePoolEnv,
    ResourcePoolSimulator,
    ResourcePoolVectorEnv,
)
from greendc.resource_pool.jobs import JobArrays
from greendc.resource_pool.observation import JOB_FEATURES, context_features
from greendc.resource_pool.presets import presets
from greendc.resource_pool.view import READY_JOB_COLUMNS

SHORT = {"episode_steps": 30}
VARIANTS = {
    "default": {},
    "flat": {"observation": "flat", "power_level": 0.8},
    "float image": {"image_dtype": "float32"},
    "green, wrong forecasts": {"power": "trace", "forecast_error": 0.1, "suspend": True, "reward": "dense"},
    "raw jobs": {"info_jobs": True, "units": 70, "horizon": 30},
    "markov": {"power": "markov", "power_low": 0.5, "skip_forced": True},
    "hpc": {"workload": "hpc", "late_jobs": "leave"},
}


def valid_action(mask, rng):
    return int(rng.choice(np.flatnonzero(mask)))


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return np.array_equal(a, b)


def trajectory(env, seed, steps=60):
    """Observations, rewards, costs and metrics under seeded actions, through two episodes or so."""
    rng = np.random.default_rng(99)
    observation, info = env.reset(seed=seed)
    rows = [(observation, info)]
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(valid_action(env.action_masks(), rng))
        assert not terminated and env.observation_space.contains(observation)
        rows.append((observation, reward, truncated, info))
        if truncated:
            rows.append(env.reset())
    return rows


def flatten(rows):
    for row in rows:
        for part in row:
            if isinstance(part, dict):
                yield from flatten([list(part.values())])
            else:
                yield np.asarray(part)


def assert_same(first, second):
    first, second = list(flatten(first)), list(flatten(second))
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_id_is_registered():
    ours = presets()
    assert len(ours) == 10
    for env_id in ours:
        assert env_id in gym.registry
    assert gym.make("ResourcePool-300-v0").unwrapped.config.horizon == 72


@pytest.mark.parametrize("env_id", sorted(presets()))
def test_gymnasium_checker_has_nothing_to_say(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*version.*")
        check_env(gym.make(env_id, disable_env_checker=True).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_gymnasium_checker_passes_every_variant(variant):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(ResourcePoolEnv(**SHORT, **VARIANTS[variant]), skip_render_check=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_seed_fixes_everything_and_pickling_changes_nothing(variant):
    def make():
        return ResourcePoolEnv(**SHORT, **VARIANTS[variant])

    first = trajectory(make(), 3)
    assert_same(first, trajectory(make(), 3))
    assert_same(first, trajectory(pickle.loads(pickle.dumps(make())), 3))
    with pytest.raises(AssertionError):
        assert_same(first, trajectory(make(), 4))
    env = make()
    trajectory(env, 5, steps=17)
    twin = pickle.loads(pickle.dumps(env))
    third = copy.deepcopy(env)
    rng = np.random.default_rng(0)
    for _ in range(5):
        action = valid_action(env.action_masks(), rng)
        step = env.step(action)
        assert_same([step], [twin.step(action)])
        assert_same([step], [third.step(action)])


@pytest.mark.parametrize("variant", VARIANTS)
def test_environment_i_of_a_batch_is_the_single_one_seeded_s_plus_i(variant):
    options = {**SHORT, **VARIANTS[variant]}
    batch = ResourcePoolVectorEnv(3, **options)
    singles = [ResourcePoolEnv(**options) for _ in range(3)]
    observations, _ = batch.reset(seed=7)
    single = [env.reset(seed=7 + i)[0] for i, env in enumerate(singles)]
    rng = np.random.default_rng(0)
    ended = 0

    def part(i):
        return (
            {k: v[i] for k, v in observations.items()} if isinstance(observations, dict) else observations[i]
        )

    while ended < 3:
        masks = batch.action_masks()
        actions = np.array([valid_action(mask, rng) for mask in masks])
        observations, rewards, _, truncated, infos = batch.step(actions)
        for i, env in enumerate(singles):
            np.testing.assert_array_equal(masks[i], env.action_masks())
            single[i], reward, _, over, info = env.step(int(actions[i]))
            assert (reward, over) == (rewards[i], truncated[i])
            last = infos["final_info"][i] if over else {key: infos[key][i] for key in info}
            assert (info["cost"], info["time_advanced"]) == (last["cost"], last["time_advanced"])
            if over:
                ended += 1
                assert same(infos[FINAL_OBSERVATION][i], single[i])
                assert last["episode_metrics"] == info["episode_metrics"]
                single[i], _ = env.reset()
            assert same(part(i), single[i])


def test_an_episode_is_truncated_after_its_time_steps_and_tells_its_metrics():
    env = gym.make("ResourcePool-10-v0", episode_steps=12)
    env.reset(seed=0)
    passed = 0
    while True:
        action = valid_action(env.unwrapped.action_masks(), np.random.default_rng(passed))
        _, _, terminated, truncated, info = env.step(action)
        passed += info["time_advanced"]
        assert not terminated and truncated == (passed == 12)
        assert ("episode_metrics" in info) == truncated
        if truncated:
            break
    metrics = info["episode_metrics"]
    assert metrics["time_steps"] == 12
    assert all(type(value) is float for value in metrics.values())
    with pytest.raises(RuntimeError, match="call reset"):
        env.unwrapped.step(0)


def test_a_step_before_reset_is_refused():
    with pytest.raises(RuntimeError, match="call reset"):
        ResourcePoolEnv().step(0)


@pytest.mark.parametrize("variant", ["default", "flat"])
def test_actions_outside_the_space_are_refused(variant):
    env = ResourcePoolEnv(**VARIANTS[variant])
    env.reset(seed=0)
    for action in (-1, 12):
        with pytest.raises(ValueError, match=rf"actions\[0\]={action}: must be in 0 .. 11"):
            env.step(action)
    with pytest.raises((TypeError, ValueError), match=r"whole number"):
        env.step(1.5)
    batch = ResourcePoolVectorEnv(2)
    batch.reset(seed=0)
    before = batch.simulator.view(0).now
    with pytest.raises(ValueError, match=r"actions\[1\]=99"):
        batch.step(np.array([11, 99]))
    assert batch.simulator.view(0).now == before, "a refused step must change nothing"
    with pytest.raises(ValueError, match=r"\(3,\)"):
        batch.step(np.zeros(3, np.int64))
    batch.step(np.zeros(2, np.int32))


def test_observations_that_the_kernel_cannot_write_into_are_refused():
    simulator = ResourcePoolSimulator(ResourcePoolConfig(), 2)
    for i in range(2):
        simulator.reset_env(i, np.random.default_rng(i))
    out = simulator.empty_observations()
    for bad in (out["jobs"].astype(np.float64), np.asfortranarray(out["jobs"]), out["jobs"][:1]):
        with pytest.raises(ValueError, match=r"out\['jobs'\]"):
            simulator.step(np.zeros(2, np.int64), {**out, "jobs": bad})


def test_flat_observation_is_the_dict_one_in_a_row():
    options = {**SHORT, "power": "random", "power_level": 0.8}
    flat = ResourcePoolEnv(observation="flat", **options)
    parts = ResourcePoolEnv(image_dtype="float32", **options)
    a, b = flat.reset(seed=2)[0], parts.reset(seed=2)[0]
    for action in (0, 0, 11, 0, 11):
        expected = np.concatenate([b[key].ravel() for key in ("resources", "jobs", "context")])
        np.testing.assert_array_equal(a, expected)
        a, b = flat.step(action)[0], parts.step(action)[0]


def test_the_image_in_float_is_the_one_in_bytes():
    a, b = (ResourcePoolEnv(image_dtype=dtype, power_level=0.7) for dtype in ("uint8", "float32"))
    for env in (a, b):
        env.reset(seed=0)
    for action in (0, 0, 11, 0, 0, 11, 0):
        x, y = a.step(action)[0]["resources"], b.step(action)[0]["resources"]
        np.testing.assert_allclose(x / 255.0, y, atol=1e-7)
    assert len(np.unique(x)) > 3 and y.max() == 1.0


def test_names_fit_the_numbers():
    for options in ({}, {"power": "trace", "resource_types": 3, "context_rows": 100}):
        env = ResourcePoolEnv(**options)
        table = env.observation_space["jobs"].shape
        assert table == (10, len(JOB_FEATURES) + env.config.resource_types)
        assert env.observation_space["context"].shape == (len(context_features(env.config)),)
    assert context_features(env.config)[4] == "state_of_charge"


def test_raw_ready_jobs_are_in_info_on_request():
    env = ResourcePoolEnv(info_jobs=True)
    _, info = env.reset(seed=3)
    while (info["ready_jobs"][:, 0] < 0).all():
        _, _, _, _, info = env.step(11)
    job = dict(zip((*READY_JOB_COLUMNS, "cpu", "gpu"), info["ready_jobs"][0], strict=True))
    assert job["value"] == pytest.approx(job["duration"] * (job["cpu"] + job["gpu"]) * job["qos"])
    assert job["latest_finish"] == job["arrival"] + np.floor(job["duration"] / job["qos"] + 1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": 0}, "units=0: must be at least 1"),
        ({"units": "ten"}, "units='ten': must be a whole number"),
        ({"horizon": 2.5}, "horizon=2.5: must be a whole number"),
        ({"episode_steps": True}, "episode_steps=True: must be a whole number"),
        ({"offered_load": "high"}, "offered_load='high': must be a number or None"),
        ({"prices": "dear"}, "prices='dear': must be a sequence of numbers"),
        ({"prices": (True, False)}, r"prices=\(True, False\): must be a sequence of numbers"),
        ({"cost_weights": (1.0, "x")}, r"cost_weights=\(1.0, 'x'\): must be a sequence of numbers"),
        ({"reward": {"on_time": "x"}}, "reward.on_time='x': must be a number"),
        ({"power": "trace", "site": {"total_kw": "x"}}, "site.total_kw='x': must be a number"),
        ({"power": "trace", "site": {"battery": {"efficiency": "x"}}}, "battery.efficiency='x': must be"),
        ({"start_delay": 30, "end_delay": 18}, "horizon=48: must be above start_delay"),
        ({"power_level": 1.1}, "power_level=1.1"),
        ({"late_jobs": "demot"}, "late_jobs='demot': must be one of .*; did you mean 'demote'"),
        ({"reward": "dens"}, "reward='dens': must be one of .*; did you mean 'dense'"),
        ({"reward": {"suspension": 0.1, "resumption": 0.2}}, "reward.resumption=0.2"),
        ({"cost_weights": (1.0,)}, "cost_weights="),
        (
            {"cost_weights": (1.0, 0.5)},
            r'cost_weights=\(1.0, 0.5\): has no effect with cost="delayed"',
        ),
        ({"prices": (1.0,)}, "prices="),
        ({"site": {"grid": "off"}}, 'site=.*has no effect with power="constant"; its default is None'),
        (
            {"power": "trace", "site": {"pv_kw": 0.5}, "trace": "ones", "episode_steps": 24},
            "site.pv_kw=0.5: must be at least the trace's peak of 1 kW",
        ),
        ({"carbon": "year.csv"}, "carbon='year.csv': has no effect with power=\"constant\""),
        ({"carbon": 0.5, "power": "markov"}, 'carbon=0.5: has no effect with power="markov"'),
        ({"carbon": "short"}, "carbon='<carbon>': has no effect with power"),
        ({"price": 99.0}, "price=99.0: has no effect with power"),
        ({"trace": "ones"}, "trace='<trace>': has no effect with power"),
        ({"trace": "power.csv"}, "trace='power.csv': has no effect with power"),
        ({"power": "trace", "episode_steps": 9000, "trace": "short"}, "trace='100 steps'"),
        ({"offered_load": 90}, r"offered_load=90: must be in \[0, 10\] .*90 % is 0.9"),
        ({"step_hours": 3600.0}, r"step_hours=3600.0: must be above 0 and at most 168 \(hours\)"),
        (
            {"power": "trace", "carbon": 370.0},
            r"carbon=370.0: must be in \[0, 5\] kg/kWh \(370 g/kWh is 0.37\)",
        ),
        ({"power": "trace", "carbon": "short"}, "carbon="),
        ({"power_low": 0.2, "on_steps": 6}, 'power_low=0.2: has no effect with power="constant"'),
        ({"power": "markov", "on_steps": 3}, 'on_steps=3: has no effect with power="markov"'),
        ({"power": "on_off", "stay_on": 0.3}, 'stay_on=0.3: has no effect with power="on_off"'),
        ({"power": "random", "power_low": 0.2}, 'power_low=0.2: has no effect with power="random"'),
        ({"power": "trace", "power_level": 0.5}, 'power_level=0.5: has no effect with power="trace"'),
        ({"power": "trace", "power_low": 0.5}, 'power_low=0.5: has no effect with power="trace"'),
        ({"power": "trace", "on_steps": 3}, 'on_steps=3: has no effect with power="trace"'),
        ({"power": "trace", "off_steps": 3}, 'off_steps=3: has no effect with power="trace"'),
        ({"power": "trace", "stay_on": 0.5}, 'stay_on=0.5: has no effect with power="trace"'),
        ({"power": "trace", "stay_off": 0.5}, 'stay_off=0.5: has no effect with power="trace"'),
        ({"forecast_error": -0.1}, "forecast_error=-0.1"),
        ({"cost": "carbon"}, "cost='carbon': needs power=\"trace\""),
        ({"reward": {"carbon": 1.0}}, 'reward.carbon=1.0: needs power="trace"'),
        ({"reward": "completion", "shaping_gamma": 0.5}, "shaping_gamma=0.5: has no effect with a reward"),
        ({"skip_forced": 1}, "skip_forced=1"),
        ({"workload": "syntetic"}, "workload='syntetic'"),
    ],
)
def test_wrong_options_are_refused_by_name(options, message):
    from greendc.traces.power import CarbonTrace, PowerTrace

    if options.get("trace") in ("short", "ones"):
        options = {**options, "trace": PowerTrace(np.ones(100), np.ones(100))}
    if options.get("carbon") == "short":
        options = {**options, "carbon": CarbonTrace(np.ones(100))}
    with pytest.raises(ValueError, match=message):
        ResourcePoolEnv(**options)


def test_unknown_options_are_refused_by_name():
    with pytest.raises(TypeError, match="unknown option 'offered_lod'; did you mean 'offered_load'"):
        ResourcePoolEnv(offered_lod=0.5)


@pytest.mark.parametrize("reward", sorted(REWARDS))
def test_every_preset_takes_overrides(reward):
    env = gym.make(
        "ResourcePoolGreen-10-v0",
        units=8,
        horizon=36,
        ready_pool_size=4,
        offered_load=0.5,
        late_jobs="leave",
        placement="now",
        reward=reward,
        cost="weighted",
        site={"grid": "qos_above", "grid_qos_above": 0.7, "battery": {"energy_kwh": 200.0}},
        **SHORT,
    )
    trajectory(env.unwrapped, 0)


@pytest.mark.parametrize("power", ["markov", "random", "trace"])
def test_given_jobs_have_the_power_of_the_seed(power):
    env = ResourcePoolEnv(power=power, forecast_error=0.1, **SHORT)
    env.reset(seed=3)
    usual, hour = env.simulator.power_series()
    env.reset(seed=3, options={"jobs": JobArrays(*(np.array(x) for x in ([0], [1], [[1, 1]], [0.5])))})
    given, same_hour = env.simulator.power_series()
    np.testing.assert_array_equal(given, usual)
    assert same_hour == hour
    assert env.simulator.view().job_table()["duration"].tolist() == [1]


def test_reset_options_are_checked():
    env = ResourcePoolEnv(**SHORT)
    with pytest.raises(ValueError, match="reset options \\['job'\\]: only 'jobs' is known"):
        env.reset(options={"job": None})
    with pytest.raises(TypeError, match="reset options: must be a mapping, not list"):
        env.reset(options=["jobs"])
    nothing = JobArrays(*(np.zeros(shape, np.int64) for shape in ((0,), (0,), (0, 2))), np.zeros(0))
    env.reset(seed=0, options={"jobs": nothing})
    assert len(env.simulator.view().job_table()["value"]) == 0
    for _ in range(30):
        _, reward, _, truncated, info = env.step(11)
        assert reward == 0.0
    assert truncated and info["episode_metrics"]["arrived_jobs"] == 0.0
    wide = JobArrays(
        np.zeros(1, np.int64), np.ones(1, np.int64), np.array([[11, 0]], np.int64), np.full(1, 0.5)
    )
    with pytest.raises(ValueError, match=r"units\[0\]=\[11  0\]: the job can never fit"):
        env.reset(options={"jobs": wide})
