"""Shipped policies without torch: they load, act, draw, and say what is wrong with a release."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
import safetensors.numpy

import greendc
from greendc.shipped.policy import ShippedPolicy
from greendc.shipped.release import CONFIG_FILE, TENSORS_FILE, pretrained_directory

ACTS = """
import sys
import greendc
policy = greendc.load_policy("ResourcePool-10")
env = policy.make_env(episode_steps=20)
observation, _ = env.reset(seed=0)
ended = False
while not ended:
    action, _ = policy.predict(observation)
    assert observation["action_mask"][action]
    observation, _, terminated, truncated, _ = env.step(int(action))
    ended = terminated or truncated
heavy = {"torch", "stable_baselines3", "sb3_contrib", "sb3_greendc"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """One release in a folder of its own."""
    folder = tmp_path / "ResourcePool"
    shutil.copytree(pretrained_directory() / "ResourcePool", folder)
    monkeypatch.setenv("GREENDC_PRETRAINED", str(tmp_path))
    return folder


def test_it_acts_without_torch():
    subprocess.run([sys.executable, "-c", ACTS], check=True, timeout=300)


def test_a_batch_is_its_observations_one_by_one():
    policy = greendc.load_policy("ResourcePool-10")
    env = greendc.make_vec(policy.env_id, 4, **policy.env_kwargs)
    batch, _ = env.reset(seed=1)
    for _ in range(30):
        actions, _ = policy.predict(batch)
        for i in range(4):
            assert policy.predict({key: value[i] for key, value in batch.items()})[0] == actions[i]
        batch, *_ = env.step(actions)


def test_an_observation_of_other_settings_is_refused_and_the_right_ones_are_named():
    policy = greendc.load_policy("ResourcePool-10")
    observation, _ = gym.make("ResourcePool-10-v0").reset(seed=0)
    trained = "mask='now_on_time', lookahead=24, fragmentation=True"
    told = rf"\(jobs has shape \(10, 15\), not \(10, 64\)\): .*{trained}\)"
    with pytest.raises(ValueError, match=told):
        policy.predict(observation)
    with pytest.raises(ValueError, match="jobs has nothing, not"):
        policy.logits({key: part for key, part in policy.make_env().reset()[0].items() if key != "jobs"})


@pytest.mark.parametrize("name", ["VCC-2021", "DiscreteVCC-2020", "ResourcePool-20", "ResourcePool-300"])
def test_the_environment_is_the_one_that_was_asked_for(name):
    policy = greendc.load_policy(name)
    env = policy.make_env()
    assert env.spec.id.startswith(f"{name}-v")
    assert policy.predict(env.reset(seed=0)[0])[0] in env.action_space


def test_an_invalid_action_is_never_taken():
    policy = greendc.load_policy("ResourcePool-10")
    observation, _ = policy.make_env(episode_steps=20).reset(seed=0)
    for allowed in range(len(observation["action_mask"])):
        mask = np.zeros_like(observation["action_mask"])
        mask[allowed] = 1
        masked = {**observation, "action_mask": mask}
        assert np.flatnonzero(np.isfinite(policy.logits(masked))).tolist() == [allowed]
        assert policy.predict(masked)[0] == policy.predict(masked, deterministic=False)[0] == allowed


@pytest.mark.parametrize("key", ["jobs", "resources", "context"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_numbers_of_an_observation_that_are_not_finite_are_refused_and_named(key, number):
    policy = greendc.load_policy("ResourcePool-10")
    observation = {name: value.copy() for name, value in _with_jobs(policy).items()}
    observation[key] = observation[key].astype(np.float32)
    assert policy.predict(observation)[0] in policy.action_space
    observation[key].flat[-1] = number
    for deterministic in (False, True):
        with pytest.raises(ValueError, match=f"^{key}: must hold finite numbers alone"):
            policy.predict(observation, deterministic=deterministic)
    batch = {name: np.stack([value, value]) for name, value in observation.items()}
    with pytest.raises(ValueError, match=f"^{key}: must hold"):
        policy.predict(batch)


@pytest.mark.parametrize("name", ["VCC-2021", "DiscreteVCC-2021"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_of_a_vector_that_are_not_finite_are_refused(name, number):
    policy = greendc.load_policy(name)
    observation = policy.make_env().reset(seed=0)[0].copy()
    observation[3] = number
    with pytest.raises(ValueError, match=r"^observation: must hold finite numbers alone"):
        policy.predict(observation)
    observation[3] = 1e30  # its square is too large for float32
    assert policy.predict(observation)[0] in policy.action_space


def test_a_mask_that_allows_nothing_is_refused():
    policy = greendc.load_policy("ResourcePool-10")
    observation, _ = policy.make_env().reset(seed=0)
    none = {**observation, "action_mask": np.zeros_like(observation["action_mask"])}
    with pytest.raises(ValueError, match=r"^action_mask allows no action"):
        policy.predict(none)


def test_drawn_actions_follow_the_logits():
    policy = greendc.load_policy("DiscreteVCC-2021", seed=0)
    observation, _ = policy.make_env().reset(seed=0)
    logits = policy.logits(observation).astype(np.float64)
    expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    drawn = [int(policy.predict(observation, deterministic=False)[0]) for _ in range(4000)]
    frequency = np.bincount(drawn, minlength=len(logits)) / len(drawn)
    assert np.abs(frequency - expected).max() < 4 * np.sqrt(0.25 / len(drawn))


def test_continuous_actions_stay_in_their_space():
    policy = greendc.load_policy("VCC-2021", seed=0)
    observation, _ = policy.make_env().reset(seed=0)
    assert policy.predict(observation)[0] in policy.action_space
    drawn = np.array([policy.predict(observation, deterministic=False)[0] for _ in range(200)])
    assert drawn.std() > 0
    assert all(action in policy.action_space for action in drawn)


def test_actions_drawn_twice_from_a_seed_are_the_same():
    observation, _ = greendc.load_policy("VCC-2021").make_env().reset(seed=0)
    drawn = [
        [greendc.load_policy("VCC-2021", seed=seed).predict(observation, deterministic=False)[0].item()]
        for seed in (3, 3, 4)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hyperparameters": {"policy_kwargs": {"activation_fn": "ReLU"}}}, "policy_kwargs=.*without torch"),
        ({"sha256": "0" * 64}, "policy.safetensors: damaged"),
        ({"env_kwargs": {"mask": "valid", "lookahead": 0}}, "not the tensors of this network"),
    ],
)
def test_what_is_wrong_is_named(copied, change, said):
    path = copied / CONFIG_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=said):
        greendc.load_policy("ResourcePool")


def test_numbers_that_are_not_finite_are_refused(copied):
    tensors = safetensors.numpy.load((copied / TENSORS_FILE).read_bytes())
    key = sorted(tensors)[0]
    tensors[key] = np.full_like(tensors[key], np.nan)
    data = safetensors.numpy.save(tensors)
    (copied / TENSORS_FILE).write_bytes(data)
    path = copied / CONFIG_FILE
    changed = {**json.loads(path.read_text()), "sha256": hashlib.sha256(data).hexdigest()}
    path.write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=rf"tensor '{key}': must be of finite float32 numbers"):
        greendc.load_policy("ResourcePool")


def test_a_missing_file_and_an_unknown_name(copied):
    (copied / TENSORS_FILE).unlink()
    with pytest.raises(ValueError, match=r"policy\.safetensors: .*No such file"):
        greendc.load_policy("ResourcePool")
    with pytest.raises(ValueError, match="pretrained 'ResourcePol': no such policy; did you mean"):
        greendc.load_policy("ResourcePol")


FORMS = {
    "one number": lambda tensor: tensor.ravel()[:1],
    "one more axis": lambda tensor: tensor[None],
    "a column": lambda tensor: tensor.reshape(-1, 1),
    "twice": lambda tensor: np.concatenate([tensor, tensor]),
    "less": lambda tensor: tensor[..., :-1],
    "one row": lambda tensor: tensor[:1],
    "nothing": lambda tensor: tensor[:0],
    "missing": lambda tensor: None,
}


def _with_jobs(policy):
    """An observation in which jobs wait, where there are such: all that the network computes counts."""
    env = policy.make_env()
    observation, _ = env.reset(seed=0)
    while isinstance(observation, dict) and "jobs" in observation and not observation["jobs"].any():
        observation = env.step(np.flatnonzero(observation["action_mask"])[-1])[0]  # time goes on
    return observation


@pytest.mark.parametrize("name", ["ResourcePool", "DiscreteVCC", "VCC"])
def test_tensors_of_another_size_are_refused_and_never_stretched(name):
    """NumPy stretches axes of length 1: a bias of one number would give other logits without a word."""
    policy = greendc.load_policy(name)
    tensors = safetensors.numpy.load((pretrained_directory() / name / TENSORS_FILE).read_bytes())
    spaces = (policy.observation_space, policy.action_space)
    observation = _with_jobs(policy)
    logits = policy.logits(observation)
    shapes = {key: tensor.shape for key, tensor in tensors.items()}
    refusals = []
    changes = [({key: form(tensor)}, key) for key, tensor in tensors.items() for form in FORMS.values()]
    changes += [  # both tensors of a layer, so that they fit each other
        ({key: tensor[:1], bias: tensors[bias][:1]}, key)
        for key, tensor in tensors.items()
        if (bias := key.removesuffix(".weight") + ".bias") in tensors and bias != key
    ]
    for change, key in changes:
        others = {other: value for other, value in {**tensors, **change}.items() if value is not None}
        if {name: tensor.shape for name, tensor in others.items()} == shapes:
            continue
        try:
            other = ShippedPolicy(policy.release, policy.env_id, policy.env_kwargs, *spaces, others)
        except ValueError as error:
            refusals.append(str(error))
        else:  # of the critic
            np.testing.assert_array_equal(other.logits(observation), logits, err_msg=key)
    assert len(refusals) >= 20
    assert {text.partition(":")[0] for text in refusals} == {"not the tensors of this network"}
