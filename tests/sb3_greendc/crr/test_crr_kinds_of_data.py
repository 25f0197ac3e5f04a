"""Data whose arrays are of another kind than the networks': images with channels last, actions of float64."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecTransposeImage
from toy_data import SMALL, parameters_of, same

from sb3_greendc import collect, evaluate
from sb3_greendc.crr import CRR
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.datasets.images import channels_first, channels_first_space

LAST, FIRST = spaces.Box(0, 255, (36, 38, 3), np.uint8), spaces.Box(0, 255, (3, 36, 38), np.uint8)
VECTOR = spaces.Box(-1, 1, (2,), np.float32)
SPACES = {"image": LAST, "dict": spaces.Dict(z=LAST, a=VECTOR)}  # not in the order of their names
ACTIONS = spaces.Discrete(2)
POLICIES = {"image": "CnnPolicy", "dict": "MultiInputPolicy"}


class Camera(gym.Env):
    """Images with the channels last."""

    action_space = ACTIONS

    def __init__(self, kind):
        self.observation_space = SPACES[kind]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.t += 1
        return self.observation_space.sample(), float(action), self.t > 4, False, {}


def arrays(kind, names=("obs", "next_obs"), n=40, nested=False):
    """Return plain arrays as a camera gives them."""
    rng = np.random.default_rng(0)

    def part(space):
        shape = (n, *space.shape)
        return rng.integers(0, 255, shape, np.uint8) if space is LAST else rng.random(shape, np.float32)

    ends = np.arange(n) % 5 == 4
    data = {"actions": rng.integers(0, 2, n), "rewards": rng.normal(size=n), "terminated": ends}
    data["truncated"] = np.zeros(n, bool)
    for name in names:
        if kind == "image":
            data[name] = part(LAST)
        else:
            parts = {key: part(space) for key, space in SPACES[kind].spaces.items()}
            data |= {name: parts} if nested else {f"{name}/{key}": array for key, array in parts.items()}
    return data


def model_of(kind, data, **kwargs):
    net_arch = {"batch_size": 8, "policy_kwargs": {"net_arch": [8]}, "seed": 0, "device": "cpu"}
    return CRR(POLICIES[kind], dataset=data, **{**net_arch, **kwargs})


def image_of(model, rows=1):
    observations = model._data.batch(np.arange(rows)).observations
    return observations["z"] if isinstance(observations, dict) else observations


@pytest.mark.parametrize("kind", SPACES)
def test_images_with_channels_last_are_taken_with_and_without_environment(kind):
    data = arrays(kind)
    expected = np.moveaxis(data["obs" if kind == "image" else "obs/z"][:3], 3, 1)
    dataset = OfflineDataset.from_dict(data, SPACES[kind], ACTIONS)
    given = {"observation_space": SPACES[kind], "action_space": ACTIONS}
    learned = []
    for source, kwargs in [
        (data, {"env": Camera(kind)}),
        (dataset, {"env": Camera(kind)}),
        (data, given),
        (dataset, {}),
        (channels_first(dataset), {}),
        (arrays(kind, nested=True), given),
    ]:
        model = model_of(kind, source, **kwargs)
        assert (
            model.observation_space
            == VecTransposeImage(DummyVecEnv([lambda: Camera(kind)])).observation_space
        )
        np.testing.assert_array_equal(image_of(model, 3), expected)
        learned.append(parameters_of(model.learn(3)))
    assert all(same(one, learned[0]) for one in learned)


@pytest.mark.parametrize("kind", SPACES)
def test_a_model_of_such_images_is_judged_and_recorded_in_their_environment(kind):
    gym.register(f"Camera-{kind}-v0", entry_point=lambda: Camera(kind), max_episode_steps=10)
    try:
        model = model_of(kind, OfflineDataset.from_dict(arrays(kind), SPACES[kind], ACTIONS)).learn(2)
        assert len(evaluate({"model": model}, f"Camera-{kind}-v0", n_episodes=2)) == 2
        data = collect({"model": model}, f"Camera-{kind}-v0", 20)
        assert data.observation_space == SPACES[kind] and len(data) == 20
    finally:
        gym.registry.pop(f"Camera-{kind}-v0")


@pytest.mark.parametrize("kind", SPACES)
def test_a_model_of_such_images_acts_in_their_environment(kind, tmp_path):
    model = model_of(kind, OfflineDataset.from_dict(arrays(kind), SPACES[kind], ACTIONS)).learn(2)
    seen, _ = Camera(kind).reset(seed=0)
    assert model.predict(seen, deterministic=True)[0] in (0, 1)
    model.finetune(Camera(kind), 12, learning_starts=4)
    model.save(tmp_path / "model")
    loaded = CRR.load(tmp_path / "model", env=Camera(kind), dataset=arrays(kind), device="cpu")
    loaded.learn(2, reset_num_timesteps=False)
    assert (
        loaded.to_discrete_sac(Camera(kind), buffer_size=60, learning_starts=5).learn(10).num_timesteps == 10
    )


def test_data_that_are_given_later_and_by_other_names():
    model = model_of("image", None, observation_space=LAST, action_space=ACTIONS)
    assert model.observation_space == FIRST
    data = arrays("image", names=("observations", "next_observations"))
    data["terminals"], data["timeouts"] = data.pop("terminated"), data.pop("truncated")
    model.set_dataset(data)
    np.testing.assert_array_equal(image_of(model), np.moveaxis(data["observations"][:1], 3, 1))
    first = arrays("image")
    first |= {name: np.moveaxis(first[name], 3, 1) for name in ("obs", "next_obs")}
    model.set_dataset(first)
    np.testing.assert_array_equal(image_of(model), first["obs"][:1])
    model.learn(1)


def test_a_model_that_was_made_with_channels_last_keeps_them(tmp_path):
    """As files of earlier versions: their networks know the images so."""
    model = CRR("MlpPolicy", observation_space=LAST, action_space=ACTIONS, **SMALL)
    model.observation_space = LAST
    model.save(tmp_path / "model")
    loaded = CRR.load(tmp_path / "model", device="cpu", dataset=arrays("image"))
    assert loaded.observation_space == LAST
    np.testing.assert_array_equal(image_of(loaded), arrays("image")["obs"][:1])
    loaded.learn(1)


def test_what_is_no_image_with_channels_last_stays():
    for space in (FIRST, VECTOR, ACTIONS, spaces.Box(0, 1, (36, 36, 3), np.float32)):
        assert channels_first_space(space) is space
    assert channels_first_space(LAST) == FIRST
    assert channels_first_space(LAST, LAST) is LAST
    assert list(channels_first_space(SPACES["dict"]).spaces) == list(SPACES["dict"].spaces)
    with pytest.raises(ValueError, match=r"obs: of shape \(40, 36, 38, 3\); the space asks for"):
        model_of("image", arrays("image"), observation_space=spaces.Box(0, 255, (3, 38, 36), np.uint8),
                 action_space=ACTIONS)  # fmt: skip


@pytest.mark.parametrize("weight_mode", ["binary", "bc"])
def test_actions_of_float64_teach_what_those_of_float32_do(weight_mode):
    rng = np.random.default_rng(0)
    observations = rng.random((40, 2), np.float32)
    data = {"obs": observations, "next_obs": observations, "rewards": rng.normal(size=40)}
    data |= {"terminated": np.arange(40) % 5 == 4, "truncated": np.zeros(40, bool)}
    given = rng.uniform(-2, 2, (40, 3)).astype(np.float32)

    def learned(dtype):
        box = spaces.Box(-2, 2, (3,), dtype)
        model = CRR("MlpPolicy", dataset={**data, "actions": given.astype(dtype)}, observation_space=VECTOR,
                    action_space=box, weight_mode=weight_mode, seed=0, **SMALL).learn(6)  # fmt: skip
        action, _ = model.predict(observations[0])
        assert box.contains(action.astype(dtype))
        scaled = model.policy.scaled(th.as_tensor(given.astype(dtype)))
        assert scaled.dtype == th.float32
        return parameters_of(model)

    assert same(learned(np.float64), learned(np.float32))
