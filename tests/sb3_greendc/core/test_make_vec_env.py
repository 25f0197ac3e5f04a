"""``make_vec_env`` takes what SB3's takes, and falls back to SB3's batches for what ours cannot do."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from stable_baselines3.common import env_util
from stable_baselines3.common.monitor import load_results
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import greendc
from greendc.resource_pool import ResourcePoolEnv
from sb3_greendc import make_vec_env
from sb3_greendc.core.vec_env import SimulatorVecEnv

POOL = "ResourcePool-10-v0"
SHORT: dict[str, Any] = {"episode_steps": 6, "offered_load": 0.8}


class Doubled(gym.RewardWrapper):  # type: ignore[type-arg,unused-ignore]
    def __init__(self, env: gym.Env[Any, Any], factor: float = 2.0) -> None:
        super().__init__(env)
        self.factor = factor

    def reward(self, reward: Any) -> float:
        return self.factor * float(reward)


def play(env: Any, steps: int = 60) -> tuple[list[Any], list[Any]]:
    """Return the images and rewards that some valid actions give."""
    observations = env.reset()
    images, rewards = [observations["resources"].copy()], []
    for _ in range(steps):
        masks = np.stack(env.env_method("action_masks"))
        observations, reward, _, _ = env.step(masks.argmax(axis=1))
        images.append(observations["resources"].copy())
        rewards.append(reward.copy())
    env.close()
    return images, rewards


def same(a: tuple[list[Any], list[Any]], b: tuple[list[Any], list[Any]], factor: float = 1.0) -> None:
    np.testing.assert_array_equal(a[0], b[0])
    np.testing.assert_allclose(factor * np.array(a[1]), b[1], rtol=1e-6)


def test_the_parameters_are_those_of_sb3_in_its_order() -> None:
    theirs = list(inspect.signature(env_util.make_vec_env).parameters)
    ours = inspect.signature(make_vec_env).parameters
    assert list(ours)[: len(theirs)] == theirs
    assert [p.kind for p in ours.values()][len(theirs) :] == [inspect.Parameter.VAR_KEYWORD]


def test_env_kwargs_and_the_short_form_are_the_same_compiled_batch() -> None:
    long, short = make_vec_env(POOL, 3, 5, env_kwargs=SHORT), make_vec_env("ResourcePool-10", 3, 5, **SHORT)
    both = make_vec_env(POOL, 3, 5, env_kwargs={"episode_steps": 6}, offered_load=0.8, start_index=4)
    assert all(type(env) is SimulatorVecEnv for env in (long, short, both))
    first = play(long)
    same(first, play(short))
    same(first, play(both))
    with pytest.raises(TypeError, match="episode_steps: given twice"):
        make_vec_env(POOL, 3, env_kwargs=SHORT, episode_steps=7)


@pytest.mark.parametrize("env_id", [POOL, "ResourcePool-10", ResourcePoolEnv])
def test_sb3s_batch_has_the_same_environments(env_id: Any) -> None:
    ours = play(make_vec_env(POOL, 2, 5, **SHORT))
    env = make_vec_env(env_id, 2, 5, vec_env_cls=DummyVecEnv, env_kwargs=SHORT)
    assert type(env) is DummyVecEnv
    same(ours, play(env))


def test_workers_that_never_heard_of_the_id() -> None:
    name = "WorkersOwnPool-v0"
    greendc.register_variant(name, POOL, units=4)
    try:
        ours = play(make_vec_env(name, 2, 5, **SHORT), 8)
        options: dict[str, Any] = {"start_method": "spawn"}
        env = make_vec_env(name, 2, 5, vec_env_cls=SubprocVecEnv, vec_env_kwargs=options, **SHORT)
        same(ours, play(env, 8))
    finally:
        entry = greendc.registration.family_of(name)
        assert entry is not None
        del gym.registry[name], entry.presets[name]


def test_wrappers_and_monitor_files(tmp_path: Path) -> None:
    ours = play(make_vec_env(POOL, 2, 5, **SHORT))
    env = make_vec_env(POOL, 2, 5, wrapper_class=Doubled, wrapper_kwargs={"factor": 3.0}, **SHORT)
    assert env.env_is_wrapped(Doubled) == [True, True]
    same(ours, play(env), factor=3.0)
    env = make_vec_env(POOL, 2, 5, 7, str(tmp_path), monitor_kwargs={"info_keywords": ("cost",)}, **SHORT)
    same(ours, play(env))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["7.monitor.csv", "8.monitor.csv"]
    assert {"r", "l", "cost"} <= set(load_results(str(tmp_path)).columns)


def test_what_a_compiled_batch_has_no_place_for_is_one_clear_error() -> None:
    with pytest.raises(TypeError, match="wrapper_class: a SimulatorVecEnv has none; leave vec_env_cls out"):
        make_vec_env(POOL, 2, vec_env_cls=SimulatorVecEnv, wrapper_class=Doubled)
    with pytest.raises(TypeError, match="vec_env_cls=SimulatorVecEnv: only for ids of greendc"):
        make_vec_env("CartPole-v1", 2, vec_env_cls=SimulatorVecEnv)
    assert type(make_vec_env(POOL, 2, vec_env_cls=SimulatorVecEnv, **SHORT)) is SimulatorVecEnv
    with pytest.raises(ValueError, match="did you mean"):
        make_vec_env("ResourcePol-10", 2, vec_env_cls=DummyVecEnv)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"seed": "a"}, ValueError, "seed='a': must be a whole number or None"),
        ({"seed": -1}, ValueError, "seed=-1: must be 0 or more, or None"),
        ({"n_envs": 0}, ValueError, "n_envs=0: must be 1 or more"),
        ({"n_envs": 1.5}, ValueError, "n_envs=1.5: must be a whole number"),
        ({"env_kwargs": 5}, TypeError, "env_kwargs: must be a mapping or None, not int"),
        ({"vec_env_cls": "x"}, TypeError, "vec_env_cls='x': must be a class of batches"),
        ({"wrapper_kwargs": {"factor": 3.0}}, TypeError, "wrapper_kwargs: have no effect without wrapper_cl"),
    ],
)
@pytest.mark.parametrize("env_id", [POOL, "Pendulum-v1"])
def test_wrong_values_are_named(
    env_id: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_vec_env(env_id, **options)


@pytest.mark.parametrize("part", ["all", "key", "view"])
@pytest.mark.parametrize("options", [{}, {"observation": "flat"}], ids=["dict", "flat"])
def test_an_observation_that_is_kept_stays_as_it_was(options: dict[str, Any], part: str) -> None:
    """Imitation keeps views; a list of observations keeps them whole."""
    env = make_vec_env(POOL, 3, seed=0, episode_steps=6, **options)

    def step() -> Any:
        valid = np.stack(env.env_method("action_masks")).argmax(axis=1)
        return env.step(valid)[0]

    def keep(observation: Any) -> Any:
        if part == "all":
            return observation
        array = observation["jobs"] if isinstance(observation, dict) else observation
        return array if part == "key" else array[1]

    env.reset()
    kept, copies = [], []
    for _ in range(12):
        kept.append(keep(step()))
        copies.append(copy.deepcopy(kept[-1]))
    for one, other in zip(kept, copies, strict=True):
        assert one.keys() == other.keys() if isinstance(one, dict) else True
        for key in one if isinstance(one, dict) else [...]:
            np.testing.assert_array_equal(one[key], other[key])


def test_observations_that_nobody_keeps_share_two_buffers() -> None:
    env = make_vec_env(POOL, 3, seed=0, **SHORT)
    env.reset()
    addresses = set()
    last: Any = None  # what SB3 holds while it steps
    for _ in range(20):
        last = env.step(np.stack(env.env_method("action_masks")).argmax(axis=1))[0]
        addresses.add(last["jobs"].ctypes.data)
    assert len(addresses) == 2


def test_other_packages_environments() -> None:
    env = make_vec_env("Pendulum-v1", 2, seed=0, env_kwargs={"g": 3.5})
    assert type(env) is DummyVecEnv
    assert env.get_attr("g") == [3.5, 3.5]


@pytest.mark.parametrize("options", [{}, {"vec_env_cls": DummyVecEnv}], ids=["ours", "SB3's"])
def test_a_batch_closes_its_window(options: dict[str, Any]) -> None:
    mpl.use("Agg")
    before = plt.get_figlabels()
    env = make_vec_env(POOL, 2, 0, **SHORT, render_mode="human", **options)
    env.reset()
    env.env_method("render", indices=0)
    assert set(plt.get_figlabels()) - set(before) == {"greendc: resource pool"}
    env.close()
    assert plt.get_figlabels() == before


@pytest.mark.parametrize("seed", [None, 3])
def test_other_packages_environments_follow_numpys_global_seed_as_sb3s_do(seed: int | None) -> None:
    """Without a seed, SB3 draws one there: a script that calls ``set_random_seed`` repeats itself."""
    seen = []
    for make in (env_util.make_vec_env, make_vec_env, make_vec_env):
        set_random_seed(7)
        env = make("Pendulum-v1", 2, seed)
        drawn = np.random.randint(2**31)  # noqa: NPY002
        seen.append([drawn, *np.ravel(env.reset())])
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen[0], seen[2])
    set_random_seed(7)
    assert (np.random.randint(2**31) == seen[0][0]) == (seed is not None)  # noqa: NPY002
