"""The VCC environments as Gymnasium and its users expect them."""

from __future__ import annotations

import multiprocessing
import pickle
import warnings

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from vcc_cases import random_trace

import greendc
from greendc.environments import FINAL_OBSERVATION
from greendc.traces import load_moer
from greendc.vcc import VCCEnv, VCCVectorEnv, columns

IDS = [env_id for env_id in gym.registry if env_id.split("-")[0] in ("VCC", "DiscreteVCC")]
SHORT = {"days": 2}


def trajectory(env_id, seed, actions, **kwargs):
    """Observations, rewards and costs of one environment under given actions."""
    env = gym.make(env_id, **kwargs)
    observation, _ = env.reset(seed=seed)
    rows = [observation]
    rewards, costs = [], []
    for action in actions:
        observation, reward, _, _, info = env.step(action)
        rows.append(observation)
        rewards.append(reward)
        costs.append(info["cost"])
    return np.array(rows), np.array(rewards), np.array(costs)


def test_every_id_is_registered():
    assert len(IDS) == 16
    assert greendc.resolve_env_id("VCC-2021") == "VCC-2021-v1"
    assert greendc.resolve_env_id("DiscreteVCC-2019-v0") == "DiscreteVCC-2019-v0"


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_checker_has_nothing_to_say(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*version.*")
        env = gym.make(env_id, disable_env_checker=True).unwrapped
        warnings.filterwarnings("ignore", message=".*symmetric.*")
        before = plt.get_figlabels()
        check_env(env)
        assert plt.get_figlabels() == before  # the window of the mode "human" is closed


def test_rendering_modes():
    env = gym.make("VCC-2021", render_mode="rgb_array", **SHORT).unwrapped
    env.reset(seed=0)
    for _ in range(30):
        env.step(np.array([0.5], dtype=np.float32))
    picture = env.render()
    assert picture.dtype == np.uint8 and picture.shape == (600, 900, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50
    text = gym.make("VCC-2021", render_mode="ansi", **SHORT).unwrapped
    text.reset(seed=0)
    assert "hour 0" in text.render()
    text.step(np.array([0.5], dtype=np.float32))
    assert "hour 1 of 48" in text.render() and "kg CO2/kWh" in text.render()
    with pytest.raises(ValueError, match="render_mode='video'"):
        VCCEnv(render_mode="video")


@pytest.mark.parametrize("env_id", ["VCC-2021-v1", "DiscreteVCC-2019-v0"])
@pytest.mark.parametrize("forecast", ["sgip", "noisy"])
def test_seed_fixes_everything(env_id, forecast):
    space = gym.make(env_id).action_space
    space.seed(0)
    actions = [space.sample() for _ in range(48)]
    options = {**SHORT, "forecast": forecast, "split": "train", "month": None}
    first = trajectory(env_id, 3, actions, **options)
    for a, b in zip(first, trajectory(env_id, 3, actions, **options), strict=True):
        np.testing.assert_array_equal(a, b)
    other = trajectory(env_id, 4, actions, **options)
    assert not np.array_equal(first[0], other[0])


@pytest.mark.parametrize("forecast", ["sgip", "noisy"])
def test_batch_equals_single_over_several_episodes(forecast):
    n, options = 3, {**SHORT, "forecast": forecast, "split": "train"}
    batch = greendc.make_vec("VCC-2019", n, **options)
    singles = [gym.make("VCC-2019", **options) for _ in range(n)]
    observations, infos = batch.reset(seed=7)
    for i, env in enumerate(singles):
        observation, info = env.reset(seed=7 + i)
        np.testing.assert_array_equal(observations[i], observation)
        assert infos["month"][i] == info["month"]
    rng = np.random.default_rng(0)
    for _ in range(100):
        actions = rng.random((n, 1), dtype=np.float32)
        observations, rewards, terminated, truncated, infos = batch.step(actions)
        for i, env in enumerate(singles):
            observation, reward, ended, cut, info = env.step(actions[i])
            assert (reward, ended, cut) == (rewards[i], terminated[i], truncated[i])
            last = infos["final_info"][i] if cut else {"cost": infos["cost"][i]}
            assert info["cost"] == last["cost"]
            if cut:
                np.testing.assert_array_equal(infos[FINAL_OBSERVATION][i], observation)
                assert last["episode_metrics"] == info["episode_metrics"]
                observation, _ = env.reset()
            np.testing.assert_array_equal(observations[i], observation)


def test_pickling_in_mid_episode_changes_nothing():
    env = gym.make("VCC-2021", **SHORT).unwrapped
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(20):
        env.step(rng.random(1))
    copy = pickle.loads(pickle.dumps(env))
    for _ in range(28):
        action = rng.random(1)
        a, b = env.step(action), copy.step(action)
        np.testing.assert_array_equal(a[0], b[0])
        assert a[1:4] == b[1:4]
        assert {key: a[4][key] for key in columns.INFO} == {key: b[4][key] for key in columns.INFO}
    np.testing.assert_array_equal(env.reset()[0], copy.reset()[0])


def _work(queue):
    env = gym.make("greendc:VCC-2021-v0", days=1)
    observation, _ = env.reset(seed=5)
    queue.put(observation.tolist())


@pytest.mark.default_row
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_make_it_by_module_and_id(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    worker = context.Process(target=_work, args=(queue,))
    worker.start()
    observation = queue.get(timeout=120)
    worker.join()
    expected, _ = gym.make("VCC-2021-v0", days=1).reset(seed=5)
    assert observation == expected.tolist()


def test_gymnasium_makes_the_batch():
    mode = "custom" if gym.__version__.startswith("0.") else "vector_entry_point"
    env = gym.make_vec("VCC-2021-v1", num_envs=4, vectorization_mode=mode)
    assert isinstance(env.unwrapped, VCCVectorEnv)
    observations, _ = env.reset(seed=0)
    assert observations.shape == (4, 43) and env.observation_space.contains(observations)
    observations, rewards, *_ = env.step(env.action_space.sample())
    assert rewards.shape == (4,)


def test_episode_is_truncated_with_metrics_not_terminated():
    env = VCCEnv(days=1)
    env.reset(seed=0)
    for hour in range(24):
        _, _, terminated, truncated, info = env.step(np.ones(1))
        assert not terminated
        assert truncated == (hour == 23) == ("episode_metrics" in info)
        assert info["cost"] >= 0
    assert all(isinstance(value, float) for value in info["episode_metrics"].values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_load": "high"}, "target_load='high': must be a number"),
        ({"days": 2.5}, "days=2.5: must be a whole number"),
        ({"normalize": 3}, "normalize=3: must be true or false"),
        ({"capacity": "all"}, "capacity='all': must be a number or None"),
        ({"month": 3}, "month=3: must be a month"),
        ({"moer": 3}, "moer=3: must be a MoerSeries"),
        ({"workload": 3}, "workload=3: must be 'google_like'"),
    ],
)
def test_options_of_another_kind_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        VCCEnv(**options)


def test_observations_stay_within_their_space():
    env = VCCEnv(forecast="noisy", forecast_noise=0.5, split="train")
    observation, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(720):
        assert env.observation_space.contains(observation)
        observation, _, _, _, info = env.step(rng.integers(0, 2, 1).astype(float))
    raw = info["observation"]
    np.testing.assert_allclose(observation, raw * env.simulator.world.scale, rtol=1e-6)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.array([1.5]), r"action\[0\].*\[0, 1\]"),
        (np.array([-0.1]), r"action\[0\].*\[0, 1\]"),
        (np.array([np.nan]), r"action\[0\].*\[0, 1\]"),
        (np.array([0.5, 0.5]), r"shape"),
        (0.5, r"shape"),
    ],
)
def test_bad_actions_change_nothing(action, message):
    env = VCCEnv(days=1)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(action)
    after = env.step(np.array([0.5]))[0]
    env.reset(seed=0)
    np.testing.assert_array_equal(after, env.step(np.array([0.5]))[0])


@pytest.mark.parametrize("action", [11, -1, 0.5, np.array([1])])
def test_bad_discrete_actions(action):
    env = gym.make("DiscreteVCC-2021", **SHORT).unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match="0 to 10"):
        env.step(action)


def test_discrete_levels_are_tenths():
    box, discrete = VCCEnv(days=1), VCCEnv(days=1, discrete_actions=11)
    box.reset(seed=0), discrete.reset(seed=0)
    for level in (0, 3, 10, 7):
        assert box.step(np.array([level / 10]))[1] == discrete.step(level)[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forcast": "sgip"}, "'forcast'; did you mean 'forecast'"),
        ({"forecast": "orakle"}, "forecast='orakle'.*did you mean 'oracle'"),
        ({"month": "2018-01"}, "month='2018-01'.*2019-05 to 2021-08"),
        ({"month": "May"}, "month='May'.*YYYY-MM"),
        ({"split": "training"}, "split='training'.*did you mean 'train'"),
        ({"region": "LADWP"}, "region='LADWP'"),
        ({"days": 31}, "days=31.*1 to 30"),
        ({"target_load": 0.0}, "target_load=0.0"),
        ({"target_load": 1e-9}, "target_load=1e-09: must be at least"),
        ({"capacity": -1.0}, "capacity=-1.0"),
        ({"capacity": 1e-9}, "capacity=1e-09: must be 1e-6 to 1e6"),
        ({"eviction_loss_hours": 2**63}, "eviction_loss_hours=9223372036854775808.*below a million"),
        ({"workload_seed": -1}, "workload_seed=-1: must be 0 or more"),
        ({"eviction_loss_hours": -1}, "eviction_loss_hours=-1"),
        ({"eviction_loss_hours": 3, "evict": False}, "eviction_loss_hours=3: has no effect with evict=False"),
        ({"forecast_noise": float("inf")}, "forecast_noise=inf: must be finite"),
        ({"forecast_noise": 0.1}, "forecast_noise=0.1: has no effect with forecast='sgip'"),
        ({"capacity": 2.0, "target_load": 0.5}, "target_load=0.5: has no effect with a capacity"),
        (
            {"workload_seed": 1, "workload": "jobs.csv"},
            "workload_seed=1: has no effect with a workload",
        ),
        (
            {"workload_seed": 1, "workload": random_trace(np.random.default_rng(0))},
            "workload_seed=1: has no effect with a workload",
        ),
        ({"region": "SCE", "moer": load_moer("PGE")}, "region='SCE': has no effect with emissions of one's"),
        ({"slo": "page"}, "charge='incurred'.*day_end"),
        ({"workload": "no/such/folder"}, "workload='no/such/folder'"),
        ({"discrete_actions": 1}, "discrete_actions=1"),
        ({"discrete_actions": 2**63}, "discrete_actions=9223372036854775808: must be from 2 to a million"),
        ({"kw_per_unit": float("nan")}, "kw_per_unit=nan"),
    ],
)
def test_bad_options_name_the_culprit(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        VCCEnv(**options)


@pytest.mark.parametrize("num_envs", [0, -1])
def test_a_batch_has_an_environment(num_envs):
    with pytest.raises(ValueError, match=f"num_envs={num_envs}: must be at least 1"):
        VCCVectorEnv(num_envs)


def test_unknown_ids_and_reset_options():
    with pytest.raises(ValueError, match=r"'VCC-2012'.*did you mean"):
        greendc.resolve_env_id("VCC-2012")
    with pytest.raises(TypeError, match=r"env_id: must be the id of a registered environment, not VCCEnv"):
        greendc.resolve_env_id(VCCEnv())
    with pytest.raises(ValueError, match="not an environment of greendc"):
        greendc.make_vec("CartPole-v1", 2)
    env = VCCEnv(month=("2019-05", "2019-06"), days=1)
    assert env.reset(seed=0, options={"month": "2019-06"})[1]["month"] == "2019-06"
    with pytest.raises(ValueError, match="2019-05, 2019-06"):
        env.reset(options={"month": "2020-01"})
    with pytest.raises(ValueError, match="only 'month'"):
        env.reset(options={"day": 3})
    with pytest.raises(TypeError, match="reset options: must be a mapping, not list"):
        env.reset(options=["month"])
    with pytest.raises(ValueError, match="2 seeds were given for 3"):
        greendc.make_vec("VCC-2019", 3).reset(seed=[1, 2])
    for wrong, says in (
        (1.5, "seed=1.5: must be a whole"),
        ("ab", "seed='ab'"),
        ([1, 2.5], r"seed\[1\]=2.5"),
    ):
        with pytest.raises(TypeError, match=says):
            greendc.make_vec("VCC-2019", 2).reset(seed=wrong)


def test_high_target_load_warns():
    with pytest.warns(UserWarning, match=r"above 0\.8"):
        VCCEnv(target_load=0.9, days=1)


def test_splits_keep_months_apart():
    months = [set(greendc.vcc.SPLITS[split]) for split in ("train", "validation", "heldout", "test")]
    assert sum(map(len, months)) == len(set().union(*months)) == 28
    env = VCCEnv(split="train", days=1)
    seen = {env.reset(seed=seed)[1]["month"] for seed in range(60)}
    assert seen == months[0]
    assert (
        "2021-05" in months[3]
        and "2019-05" in months[0]
        and greendc.training_kwargs("VCC-2019") == {"split": "train"}
        and greendc.training_kwargs("VCC-2021") == {"split": "train", "month": None}
    )


def test_a_split_that_contradicts_an_id_is_refused():
    for env_id, split in (
        ("VCC-2021-v1", "train"),
        ("VCC-2019-v0", "test"),
        ("DiscreteVCC-2020-v1", "train"),
    ):
        with pytest.raises(
            ValueError, match=f"split='{split}': must be one that contains {env_id[-7:-3]}-05"
        ):
            gym.make(env_id, split=split)
        env = gym.make(env_id, split=split, month=None, days=1)
        assert env.reset(seed=0)[1]["month"] in greendc.vcc.SPLITS[split]
    assert gym.make("VCC-2021-v1", split="test", days=1).reset(seed=3)[1]["month"] >= "2020-09"
    assert gym.make("VCC-v1", split="validation", days=1).reset(seed=0)[1]["month"][:4] == "2020"
    assert VCCEnv(days=1).reset(seed=0)[1]["month"] == "2019-05"
