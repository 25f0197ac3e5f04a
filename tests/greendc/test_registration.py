"""Ids of one's own: they are the package's environments with other defaults, in one form and in batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, load_env_creator

import greendc
from greendc.registration import family_of, register_variant, resolve_env_id

MINE = "MyPool-v0"


@pytest.fixture
def mine() -> Iterator[str]:
    register_variant(MINE, "ResourcePoolGreen-10", offered_load=0.5, units=6)
    yield MINE
    del gym.registry[MINE]
    entry = family_of("ResourcePoolGreen-10")
    assert entry is not None
    del entry.presets[MINE]


def test_a_variant_is_the_base_with_other_defaults(mine: str) -> None:
    single, base = gym.make(mine), gym.make("ResourcePoolGreen-10-v0", offered_load=0.5, units=6)
    first, _ = single.reset(seed=3)
    second, _ = base.reset(seed=3)
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[key], second[key]) for key in first)


def test_a_variant_has_compiled_batches_and_a_short_name(mine: str) -> None:
    batch = greendc.make_vec("MyPool", 3, offered_load=0.8)
    assert (batch.simulator.config.units, batch.simulator.config.offered_load) == (6, 0.8)
    assert greendc.family(mine) == "resource_pool"


@pytest.mark.parametrize(
    ("env_id", "base", "kwargs", "error", "says"),
    [
        ("MyPool", "ResourcePool-10", {}, ValueError, "with a version"),
        ("ResourcePool-10-v0", "ResourcePool-20", {}, ValueError, "registered already"),
        (MINE, "CartPole-v1", {}, ValueError, "must be an environment of greendc"),
        (5, "ResourcePool-10", {}, TypeError, "env_id: must be a name with a version, .* not int"),
        (MINE, "ResourcePool-10", {"unit": 3}, TypeError, "units"),
        (MINE, "VCC-2021", {"render_mode": "rgb_array"}, TypeError, "^render_mode: an id has no default"),
        (MINE, "Cluster", {"threads": 2}, TypeError, "^threads: an id has no default"),
        (MINE, "ResourcePool-10", {"units": -1}, ValueError, "units"),
    ],
)
def test_what_cannot_be_registered_is_refused_and_leaves_nothing(
    env_id: Any, base: str, kwargs: dict[str, object], error: type[Exception], says: str
) -> None:
    before = set(gym.registry)
    with pytest.raises(error, match=says):
        register_variant(env_id, base, **kwargs)
    assert set(gym.registry) == before


def test_an_unknown_id_may_be_one_that_is_not_registered_yet():
    with pytest.raises(ValueError, match=r"unknown environment 'MyPool-v0'.*registered first.*--import"):
        resolve_env_id(MINE)


def test_an_id_without_a_version_is_the_latest():
    assert resolve_env_id("VCC-2019") == "VCC-2019-v1"
    assert resolve_env_id("VCC-2019-v0") == "VCC-2019-v0"


@pytest.mark.skipif(not gym.__version__.startswith("0.29"), reason="later ones hand no limit to batches")
def test_a_batch_takes_no_limit_of_steps_that_it_would_not_keep(mine: str) -> None:
    assert gym.make_vec(mine, num_envs=2, vectorization_mode="custom").num_envs == 2
    limited = dataclasses.replace(gym.spec(mine), max_episode_steps=5)
    with pytest.raises(ValueError, match="max_episode_steps=5: must be None in a compiled batch"):
        gym.make_vec(limited, num_envs=2, vectorization_mode="custom")


def test_a_batch_has_its_options_as_the_page_on_environments_says(mine: str) -> None:
    """Gymnasium 0.29 takes them in ``vector_kwargs``, later ones as keywords."""
    options = {"episode_steps": 7}
    old = gym.__version__.startswith("0.29")
    given: dict[str, Any] = {"vector_kwargs": options} if old else options
    made: Any = gym.make_vec(mine, num_envs=2, vectorization_mode="custom" if old else None, **given)
    assert made.simulator.config.episode_steps == 7


@pytest.mark.parametrize("env_id", ["MyPool-v0", "VCC-2021-v1", "Cluster-Lublin-v0"])
def test_the_spec_of_an_environment_survives_json(mine: str, env_id: str) -> None:
    """As Minari's collector writes it, and Gymnasium reads it."""
    made = gym.make(env_id)
    assert made.spec is not None
    read = EnvSpec.from_json(made.spec.to_json())
    assert isinstance(read.vector_entry_point, str)
    assert (read.id, read.kwargs) == (env_id, made.spec.kwargs)
    first, _ = gym.make(read).reset(seed=1)
    second, _ = made.reset(seed=1)
    assert str(first) == str(second)
    mode = "custom" if gym.__version__.startswith("0.") else "vector_entry_point"
    batch = gym.make_vec(read, num_envs=2, vectorization_mode=mode)
    assert batch.num_envs == 2
    assert batch.single_observation_space == made.observation_space


def test_what_is_no_id_has_no_vector_entry_point() -> None:
    with pytest.raises(AttributeError, match="no attribute 'CartPole-v1'"):
        load_env_creator("greendc.vector_entry_points:CartPole-v1")
