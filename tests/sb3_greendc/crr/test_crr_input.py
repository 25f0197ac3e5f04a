"""Options and data that make no sense: one clear error each."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from algorithm_cases import ACTIONS, OBSERVATIONS, toy_vec_env
from gymnasium import spaces
from toy_data import (
    SMALL,
    toy_dataset,
    toy_env,
    toy_model,
)

from sb3_greendc.crr import CRR
from sb3_greendc.crr.data import SourceSampler
from sb3_greendc.discrete_sac import DiscreteSAC


def model_without_data(**kwargs):
    given = {"observation_space": OBSERVATIONS["box"], "action_space": ACTIONS["discrete"], **SMALL, **kwargs}
    return CRR("MlpPolicy", **given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value_mode": "max"}, "every weight would be 0"),
        ({"weight_mode": "exponential"}, "weight_mode='exponential'.*'exp'"),
        ({"value_mode": "sampled"}, "value_mode='sampled'.*'sample'"),
        ({"combine": "max"}, "combine='max'"),
        ({"critic_loss": "l1"}, "critic_loss='l1'"),
        ({"beta": 0.0}, "beta=0.0"),
        ({"max_weight": -1}, "max_weight=-1"),
        ({"n_value_samples": 0}, "n_value_samples=0"),
        ({"batch_size": 2.5}, "batch_size=2.5"),
        ({"tau": 0.0}, "tau=0.0"),
        ({"gamma": 1.1}, "gamma=1.1"),
        ({"cql_alpha": -1.0}, "cql_alpha=-1.0"),
        ({"tau": "0.1"}, "tau='0.1': must be a number"),
        ({"gamma": None}, "gamma=None: must be a number"),
        ({"cql_alpha": "x"}, "cql_alpha='x': must be a number"),
        ({"normalize_adv": "no"}, "normalize_adv='no': must be true or false"),
        ({"self_normalize": "no"}, "self_normalize='no': must be true or false"),
        ({"actor_trains_encoder": 1}, "actor_trains_encoder=1: must be true or false"),
        ({"reward_scale": "big"}, "reward_scale='big'"),
        ({"reward_scale": 0}, "reward_scale=0"),
        ({"target_update_interval": 0}, "target_update_interval=0"),
        ({"n_critics": 3}, "n_critics=3"),
        ({"preset": "acme"}, "preset='acme'"),
        ({"preset": "rare", "tau": 0.1}, "tau=0.1 contradicts preset='rare'"),
        ({"weight_mode": "bc", "actor_trains_encoder": False}, "actor_trains_encoder=False"),
        ({"weight_mode": "bc", "cql_alpha": 1.0}, "cql_alpha=1.0"),
        ({"policy_kwargs": {"net_arch": {"vf": [4]}}}, "net_arch: unknown part 'vf'"),
        ({"policy_kwargs": {"net_arch": [0]}}, "net_arch.*0"),
        ({"action_space": spaces.MultiBinary(3)}, "action space"),
        ({"action_space": spaces.Discrete(4, start=1)}, "start at 0"),
        ({"action_space": spaces.Box(-np.inf, np.inf, (1,))}, "finite bounds"),
        ({"action_space": spaces.Box(0, 4, (2,), np.int64)}, "must be of floats"),
        ({"action_space": ACTIONS["box"], "value_mode": "exact"}, "value_mode='exact'.*Discrete"),
        ({"observation_space": OBSERVATIONS["dict"]}, "MultiInputPolicy"),
        ({"observation_space": None}, "CRR needs"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        model_without_data(**options)


@pytest.mark.parametrize("log_interval", [0, "x"])
def test_wrong_intervals_of_logs_are_named_before_training(log_interval):
    model = toy_model("box")
    for learn in (
        model.learn,
        lambda steps, **kwargs: model.finetune(toy_vec_env("box", "discrete"), steps, **kwargs),
    ):
        with pytest.raises(ValueError, match=f"log_interval={log_interval!r}: must be"):
            learn(10, log_interval=log_interval)
    assert model.num_timesteps == 0


def test_a_fraction_that_is_no_number_is_named():
    with pytest.raises(ValueError, match="offline_fraction='half': must be a number"):
        toy_model("box").finetune(toy_vec_env("box", "discrete"), 10, offline_fraction="half")


def test_data_of_other_spaces_are_refused(tmp_path):
    model = model_without_data()
    for other, message in [
        (toy_dataset("dict"), "observation space"),
        (toy_dataset("box", "box"), "action space"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.set_dataset(other)
    with pytest.raises(ValueError, match="key 'action_mask' is None"):
        toy_model("masked").set_dataset(toy_dataset("dict"))
    with pytest.raises(ValueError, match="observation space"):
        CRR("MultiInputPolicy", toy_env("dict", "discrete"), toy_dataset("box"), **SMALL)
    with pytest.raises(TypeError, match="observation_space: must be a Dict; others take 'MlpPolicy'"):
        CRR("MultiInputPolicy", dataset=toy_dataset("box"), **SMALL)
    with pytest.raises(TypeError, match="set"):
        model.set_dataset({1, 2})
    with pytest.raises(FileNotFoundError):
        model.set_dataset(tmp_path / "missing.npz")


def test_wrong_shares_of_sources_leave_the_model_as_it_was():
    model = toy_model(source_weights={"sjf": 1.0, "fcfs": 3.0})
    for wrong, message in [
        ({"typo": 1}, "no source 'typo'"),
        (3, "source_weights=3: must be 2 numbers"),
        ({"sjf": "x"}, "must be numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.set_dataset(toy_dataset(), source_weights=wrong)
    model.set_dataset(toy_dataset())
    assert model.learn(1)._data.sampler.shares.tolist() == [1.0, 3.0]


def test_a_log_interval_of_0_is_refused():
    with pytest.raises(ValueError, match="log_interval=0"):
        toy_model().learn(1, log_interval=0)


def test_returns_of_transitions_that_others_are_missing_between_are_not_known():
    data = toy_dataset()
    assert not toy_model()._data.broken.any()
    with pytest.warns(UserWarning, match="are not followed by the next one of their episode"):
        model = toy_model(dataset=data.select(np.arange(0, len(data), 3)), gamma=0.99)
    assert model._data.broken.sum() > 20
    assert model._data.returns.known.mean() < 0.5 < toy_model(gamma=0.99)._data.returns.known.mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        toy_model(dataset=model.dataset, reward_scale=0.1)
        toy_model(dataset=model.dataset, weight_mode="bc")


def test_a_model_of_another_environment_is_refused(tmp_path):
    model = toy_model("box")
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="do not match"):
        CRR.load(tmp_path / "model", env=toy_vec_env("image", "discrete"))
    with pytest.raises(ValueError, match="observation space"):
        CRR.load(tmp_path / "model", dataset=toy_dataset("dict"))
    sac = DiscreteSAC("MlpPolicy", toy_env("box", "discrete"), buffer_size=10, device="cpu")
    sac.save(tmp_path / "sac")
    with pytest.raises(ValueError, match="saved by DiscreteSAC"):
        CRR.load(tmp_path / "sac")


def test_damaged_data_leave_the_file_as_it_was(tmp_path):
    toy_dataset().save(tmp_path / "data.npz")
    path = tmp_path / "cut.npz"
    path.write_bytes((tmp_path / "data.npz").read_bytes()[:-200])
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"cut\.npz"):
        CRR("MlpPolicy", dataset=path, **SMALL)
    assert path.read_bytes() == before


def test_wrong_data_are_named():
    data = toy_dataset("masked")
    arrays = data.batch(np.arange(len(data)))
    plain = {"obs": arrays["observations"], "next_obs": arrays["next_observations"]}
    plain |= {key: arrays[key] for key in ("actions", "rewards", "terminated", "truncated", "episode_id")}
    model = toy_model("masked", dataset=None, env=toy_env("masked", "discrete"))
    invalid = plain["actions"].copy()
    invalid[3] = int(np.flatnonzero(plain["obs"]["action_mask"][3] == 0)[0])
    unfinished = {key: value for key, value in plain.items() if key != "truncated"}
    rewards = plain["rewards"].copy()
    rewards[5] = np.nan
    for wrong, message in [
        ({**plain, "actions": invalid}, r"1 of 150.*mask|mask.*1 of 150"),
        (unfinished, "truncated"),
        ({**plain, "rewards": rewards}, "rewards"),
        ({key: value[:0] if not isinstance(value, dict) else {k: v[:0] for k, v in value.items()}
          for key, value in plain.items()}, "no transitions|at least one"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            model.set_dataset(wrong)


def test_data_that_say_nothing_about_actions_are_warned_of():
    data = toy_dataset()
    arrays = data.batch(np.arange(len(data)))
    plain = {"obs": arrays["observations"], "next_obs": arrays["next_observations"]}
    plain |= {key: arrays[key] for key in ("actions", "truncated", "episode_id")}
    same, never = np.full(len(data), 2.5, np.float32), np.zeros(len(data), bool)
    silent = {**plain, "rewards": same, "terminated": never}
    with pytest.warns(
        UserWarning, match="every reward in the data is 2.5.*weight_mode='bc'.*cql_alpha"
    ) as said:
        toy_model(dataset=silent)
    assert len(said) == 1
    assert arrays["terminated"].any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        toy_model(dataset={**silent, "rewards": arrays["rewards"]})
        toy_model(dataset={**silent, "terminated": arrays["terminated"]})
        toy_model(dataset=silent, weight_mode="bc")
        toy_model(dataset=silent, cql_alpha=0.001)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"sfj": 1.0}, "no source 'sfj'; did you mean 'sjf'"),
        ([1.0], "must be 2 numbers"),
        ([1.0, -1.0], "at least 0"),
        ([0.0, 0.0], "not all 0"),
    ],
)
def test_wrong_source_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        toy_model(source_weights=weights)


def test_an_empty_source_is_named():
    with pytest.raises(ValueError, match="source 'b' has no transitions"):
        SourceSampler(np.zeros(3, int), ["a", "b"])


def test_no_normalization():
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(toy_vec_env("box", "discrete"))
    with pytest.raises(ValueError, match="VecNormalize"):
        CRR("MlpPolicy", env, **SMALL)
    with pytest.raises(ValueError, match="VecNormalize"):
        toy_model().finetune(env, 10)
    with pytest.raises(ValueError, match="VecNormalize"):
        toy_model().to_discrete_sac(env, buffer_size=100)


def test_cloning_cannot_go_online_and_box_actions_cannot_go_to_discrete_sac():
    clone = toy_model(weight_mode="bc").learn(1)
    with pytest.raises(ValueError, match="no critic"):
        clone.to_discrete_sac(toy_vec_env("box", "discrete"))
    with pytest.raises(ValueError, match="no critic"):
        clone.finetune(toy_vec_env("box", "discrete"), 10)
    with pytest.raises(ValueError, match="Discrete"):
        toy_model("box", "box").to_discrete_sac(toy_vec_env("box", "box"))
