"""Baselines by name: which there are, and finding the simulator behind any environment."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from vcc_small import small_config

from greendc.baselines import make_policy, names
from greendc.resource_pool import ResourcePoolEnv
from greendc.vcc import VCCEnv, VCCSimulator, VCCVectorEnv

ONLINE = ("always_on", "constant", "random", "moer_threshold", "day_ahead", "rolling")


class HoldsSimulator:
    """What an SB3 ``VecEnv`` over a simulator looks like from here."""

    def __init__(self, simulator):
        self.simulator = simulator


def test_names():
    assert names("vcc") == ONLINE
    assert names("vcc", hindsight=True) == (*ONLINE, "best_known")
    with pytest.raises(ValueError, match="vcc"):
        names("vc")


@pytest.mark.parametrize("name", ONLINE)
@pytest.mark.parametrize("discrete", [None, 11])
@pytest.mark.parametrize("page", [False, True])
def test_every_policy_acts_in_any_kind_of_environment(name, discrete, page):
    kind = {"observation": "page", "normalize": False} if page else {}
    config = small_config(discrete_actions=discrete, **kind)
    simulator = VCCSimulator(config, 3)
    wrapped = gym.wrappers.TimeLimit(VCCEnv(config), 100)
    for env, n in ((wrapped, None), (VCCVectorEnv(3, config), 3), (HoldsSimulator(simulator), 3)):
        if n is None:
            observation = env.reset(seed=0)[0]
            action, state = make_policy(name, env).predict(observation)
            assert state is None
            assert env.action_space.contains(action)
            env.step(action)
            continue
        if isinstance(env, HoldsSimulator):
            for i in range(n):
                simulator.reset_env(i, np.random.default_rng(i))
            observations = simulator.empty_observations()
            simulator.observe(observations)
        else:
            observations = env.reset(seed=0)[0]
        actions, _ = make_policy(name, env).predict(observations)
        assert actions.shape == (n, *simulator.action_space.shape)
        assert all(simulator.action_space.contains(action) for action in actions)


def test_unknown_names_and_options_are_told_apart_from_known_ones():
    env = VCCEnv(small_config())
    with pytest.raises(ValueError, match=r"'moer_treshold'; did you mean 'moer_threshold'"):
        make_policy("moer_treshold", env)
    with pytest.raises(TypeError, match=r"'quantil'; did you mean 'quantile'"):
        make_policy("moer_threshold", env, quantil=0.5)
    with pytest.raises(TypeError, match="known: none"):
        make_policy("always_on", env, level=0.5)


@pytest.mark.parametrize("env", [object(), None])
def test_environments_of_others_are_refused(env):
    with pytest.raises(ValueError, match="must be an environment of greendc"):
        make_policy("always_on", env)


def test_gymnasiums_own_environments_are_refused():
    with pytest.raises(ValueError, match="must be an environment of greendc"):
        make_policy("always_on", gym.make("CartPole-v1"))


def test_wrappers_that_change_actions_are_refused():
    """A baseline would choose actions of another space than the one that the wrapper takes."""
    low, high = np.float32(-1), np.float32(1)
    rescaled = gym.wrappers.RescaleAction(VCCEnv(small_config()), low, high)
    with pytest.raises(ValueError, match=r"take actions of Box\(-1.0.* but .* choose from Box\(0.0.* own"):
        make_policy("day_ahead", rescaled)
    assert make_policy("day_ahead", rescaled.env).simulator is rescaled.unwrapped.simulator


def test_a_name_is_text_and_options_are_keywords():
    env = ResourcePoolEnv()
    with pytest.raises(TypeError, match="name: must be the name of a baseline, not int"):
        make_policy(5, env)
    with pytest.raises(ValueError, match=r"'hvf:dispatch=easy': options are keywords here, as in "):
        make_policy("hvf:dispatch=easy", env)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("constant", {"level": 1.5}),
        ("constant", {"level": float("nan")}),
        ("random", {"seed": -1}),
        ("moer_threshold", {"quantile": -0.1}),
        ("moer_threshold", {"low": 0.6, "high": 0.5}),
        ("day_ahead", {"reserve": -1}),
        ("rolling", {"margin": 25}),
        ("best_known", {"budget": -1}),
        ("best_known", {"starts": [np.ones(3)]}),
    ],
)
def test_bad_options_are_named(name, options):
    with pytest.raises(ValueError, match=f"{list(options)[-1]}=|starts="):
        make_policy(name, VCCEnv(small_config()), **options)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rollout", {"futures": 1.5}, "rollout: futures=1.5: must be a whole number"),
        ("rollout", {"min_qos": "nan"}, "rollout: min_qos='nan': must be a number"),
        ("rollout", {"min_qos": float("nan")}, "min_qos=nan: must be at least 0"),
        ("rollout", {"min_qos": True}, "rollout: min_qos=True: must be a number"),
        ("rollout", {"base": 7}, "rollout: base=7: must be text"),
        ("rollout", {"prior": "a/path"}, "prior='a/path': must be a function of observations"),
        ("plan", {"threshold": "x"}, "plan: threshold='x': must be a number"),
    ],
)
def test_options_of_another_kind_are_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_policy(name, ResourcePoolEnv(), **options)


def test_whole_numbers_of_numpy_and_whole_floors_are_numbers():
    rollout = make_policy("rollout", ResourcePoolEnv(), futures=np.int64(4), min_qos=0)
    assert (rollout.futures, rollout.min_qos) == (4, 0.0)
