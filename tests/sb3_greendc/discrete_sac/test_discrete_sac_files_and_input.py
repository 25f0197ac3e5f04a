"""DiscreteSAC: what survives saving, and bad input."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from discrete_sac_cases import make
from gymnasium import spaces
from known_mdps import OneState, SoftMDP
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_greendc.discrete_sac import DiscreteSAC

# ------------------------------------------------------------------ saving


def random_states():
    return np.random.get_state(), th.get_rng_state()  # noqa: NPY002


def restore(states):
    np.random.set_state(states[0])  # noqa: NPY002
    th.set_rng_state(states[1])


@pytest.mark.parametrize(
    "options", [{}, {"ent_coef": 0.2}, {"n_steps": 3, "entropy_penalty": 0.1, "q_clip": 1.0}]
)
def test_resuming_is_exact(tmp_path, options):
    """60 steps, saved and loaded, and 60 more: the same weights, optimizers and buffer as 120 steps."""
    straight = make(SoftMDP(), learning_rate=1e-3, **options)
    straight.learn(60)
    env, states = straight.get_env(), random_states()
    straight.save(tmp_path / "model")
    straight.save_replay_buffer(tmp_path / "buffer")
    snapshot = copy.deepcopy([(e.unwrapped.state, e.unwrapped.t, e.unwrapped.np_random) for e in env.envs])
    straight.learn(60, reset_num_timesteps=False)

    fresh = DummyVecEnv([SoftMDP])
    fresh.reset()
    for e, (state, t, generator) in zip(fresh.envs, snapshot, strict=True):
        e.unwrapped.state, e.unwrapped.t, e.unwrapped.np_random = state, t, generator
    resumed = DiscreteSAC.load(tmp_path / "model", fresh, device="cpu", force_reset=False)
    resumed.load_replay_buffer(tmp_path / "buffer")
    restore(states)
    resumed.learn(60, reset_num_timesteps=False)

    assert resumed.num_timesteps == straight.num_timesteps == 120
    assert resumed._n_updates == straight._n_updates
    for name, value in straight.policy.state_dict().items():
        assert th.equal(value, resumed.policy.state_dict()[name]), name
    for name in straight._get_torch_save_params()[0][1:]:
        a, b = straight.get_parameters()[name]["state"], resumed.get_parameters()[name]["state"]
        assert a.keys() == b.keys() != set()
        for key in a:
            assert all(th.equal(a[key][part], b[key][part]) for part in a[key]), name
    if straight.log_ent_coef is not None:
        assert th.equal(straight.log_ent_coef, resumed.log_ent_coef)
    np.testing.assert_array_equal(
        straight.replay_buffer.observations["state"], resumed.replay_buffer.observations["state"]
    )


def test_load_keeps_options_and_predicts_alone(tmp_path):
    model = make(preset="rare", reward_scale=0.5, combine="mean", n_steps=2).learn(60)
    model.save(tmp_path / "model")
    loaded = DiscreteSAC.load(tmp_path / "model.zip")
    for name in ("preset", "reward_scale", "combine", "n_steps", "soft_critic", "ent_coef", "tau"):
        assert getattr(loaded, name) == getattr(model, name), name
    observation = {"state": np.eye(4, dtype=np.float32)[0], "action_mask": np.array([0, 1, 0], np.int8)}
    assert loaded.predict(observation)[0] == 1


def test_policy_saves_alone(tmp_path):
    model = make().learn(40)
    model.policy.save(tmp_path / "policy.pth")
    policy = type(model.policy).load(tmp_path / "policy.pth", device="cpu")
    for name, value in model.policy.state_dict().items():
        assert th.equal(value, policy.state_dict()[name])


# ------------------------------------------------------------------ bad input


class Broken(gym.Env):
    """Does what it is told to do wrong at its third step."""

    def __init__(self, what="", n_mask=3):
        self.what = what
        self.observation_space = spaces.Dict(
            x=spaces.Box(-1, 1, (2,), np.float32), action_mask=spaces.Box(0, 1, (n_mask,), np.int8)
        )
        self.action_space = spaces.Discrete(3)

    def _observation(self):
        wrong = self.t == 3
        mask = np.full(
            self.observation_space["action_mask"].shape, 0 if wrong and self.what == "mask" else 1, np.int8
        )
        if wrong and self.what == "mask values":
            mask[0] = 2
        x = np.full(2, np.nan if wrong and self.what == "observation" else 0.0, np.float32)
        return {"x": x, "action_mask": mask}

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self._observation(), {}

    def step(self, action):
        self.t += 1
        return (
            self._observation(),
            float("nan") if self.t == 3 and self.what == "reward" else 0.0,
            False,
            False,
            {},
        )


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("mask", "environment 0: no action is valid"),
        ("mask values", "other than 0 and 1"),
        ("reward", "reward is nan"),
        ("observation", "observation 'x' is nan"),
    ],
)
def test_broken_environments(what, message):
    model = make(DummyVecEnv([lambda: Broken(what)]))
    with pytest.raises(ValueError, match=message):
        model.learn(50)


def test_mask_of_wrong_length():
    with pytest.raises(ValueError, match=r"shape \(4,\): must be \(3,\)"):
        make(DummyVecEnv([lambda: Broken(n_mask=4)]))


def test_predict_refuses_dead_masks_and_nan():
    model = make()
    good = {"state": np.ones(4, np.float32), "action_mask": np.ones(3, np.int8)}
    with pytest.raises(ValueError, match="no action is valid"):
        model.predict(good | {"action_mask": np.zeros(3, np.int8)})
    with pytest.raises(ValueError, match="not finite"):
        model.predict(good | {"state": np.full(4, np.nan, np.float32)})


def test_predict_takes_views_that_run_backwards():
    model, states = make(OneState()), np.linspace(0, 1, 5, dtype=np.float32)[:, None]
    tensor, _ = model.policy.obs_to_tensor(states[::-1])
    np.testing.assert_array_equal(tensor.numpy(), states[::-1])
    assert len(model.predict(states[::-1])[0]) == 5
    batch = {"state": np.eye(4, dtype=np.float32)[:3], "action_mask": np.eye(3, dtype=np.int8)}
    backwards = {key: array[::-1] for key, array in batch.items()}
    assert make().predict(backwards, deterministic=True)[0].tolist() == [2, 1, 0]


def test_normalized_masks():
    env = VecNormalize(DummyVecEnv([SoftMDP]))
    with pytest.raises(ValueError, match="norm_obs_keys"):
        make(env).learn(10)
    make(VecNormalize(DummyVecEnv([SoftMDP]), norm_obs_keys=["state"])).learn(50)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_entropy_ratio": 1.0}, "target_entropy_ratio=1.0"),
        ({"target_entropy_ratio": -0.1}, "target_entropy_ratio=-0.1"),
        ({"target_entropy_ratio_final": 1.5}, "target_entropy_ratio_final=1.5"),
        ({"target_entropy_ratio_final": 0.1, "ent_coef": 0.2}, "fixed ent_coef"),
        ({"ent_coef": "automatic"}, "ent_coef='automatic'"),
        ({"ent_coef": "auto_-1"}, "ent_coef='auto_-1'"),
        ({"ent_coef": -0.5}, "ent_coef=-0.5"),
        ({"combine": "max"}, "combine='max'"),
        ({"soft_critic": "maybe"}, "soft_critic='maybe'"),
        ({"actor_trains_encoder": 1}, "actor_trains_encoder=1"),
        ({"critic_loss": "l1"}, "critic_loss='l1'"),
        ({"q_clip": 0.0}, "q_clip=0.0"),
        ({"q_clip": 0.5, "critic_loss": "huber"}, "critic_loss='huber'"),
        ({"tau": 0.0}, "tau=0.0"),
        ({"gamma": 1.1}, "gamma=1.1"),
        ({"reward_scale": 0.0}, "reward_scale=0.0"),
        ({"reward_scale": "automatic"}, "reward_scale='automatic'"),
        ({"entropy_penalty": -1.0}, "entropy_penalty=-1.0"),
        ({"entropy_penalty": np.inf}, "entropy_penalty=inf"),
        ({"buffer_size": -1}, "buffer_size=-1"),
        ({"buffer_size": 1e3}, "buffer_size=1000.0: must be a whole number"),
        ({"learning_starts": np.nan}, "learning_starts=nan"),
        ({"learning_starts": "x"}, "learning_starts='x': must be a number"),
        ({"gradient_steps": 1.5}, "gradient_steps=1.5: must be a whole number"),
        ({"gradient_steps": -2}, "gradient_steps=-2"),
        ({"policy_kwargs": {"net_arch": [0]}}, "net_arch, pi: a width of 0"),
        ({"policy_kwargs": {"net_arch": {"pi": [8], "qf": [8.5]}}}, "net_arch, qf: a width of 8.5"),
        ({"n_steps": 0}, "n_steps=0"),
        ({"n_steps": 2.5}, "n_steps=2.5: must be a whole number"),
        ({"batch_size": 16.0}, "batch_size=16.0: must be a whole number"),
        ({"target_update_interval": 2.5}, "target_update_interval=2.5: must be a whole number"),
        ({"actor_starts": 0.5}, "actor_starts=0.5: must be a whole number"),
        ({"gamma": "0.9"}, "gamma='0.9': must be a number"),
        ({"n_critics": 3}, "n_critics=3"),
        ({"warmup": "none"}, "warmup='none'"),
        ({"target_update_interval": 0}, "target_update_interval=0"),
        ({"optimize_memory_usage": True}, "optimize_memory_usage"),
        ({"preset": "rar"}, "did you mean 'rare'"),
        ({"preset": "rare", "ent_coef": 0.3}, "ent_coef=0.3 contradicts preset='rare'"),
        ({"preset": "rare", "n_critics": 1, "tau": 0.1}, "tau=0.1 contradicts"),
        ({"n_steps": 3, "env": OneState(), "replay_buffer_class": ReplayBuffer}, "has no n-step returns"),
        (
            {"entropy_penalty": 0.1, "env": OneState(), "replay_buffer_class": ReplayBuffer},
            "does not store entropies",
        ),
    ],
)
def test_contradictory_options(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_continuous_actions_are_refused():
    with pytest.raises((AssertionError, ValueError), match="Discrete"):
        DiscreteSAC("MlpPolicy", "Pendulum-v1")


def test_actions_that_do_not_start_at_zero():
    env = OneState()
    env.action_space = spaces.Discrete(2, start=1)
    with pytest.raises(ValueError, match="start at 0"):
        make(env)


@pytest.mark.parametrize("other", [PPO, DQN])
def test_zip_of_another_algorithm(tmp_path, other):
    other("MlpPolicy", OneState(), device="cpu").save(tmp_path / "model")
    with pytest.raises(ValueError, match="not a model of DiscreteSAC"):
        DiscreteSAC.load(tmp_path / "model")


def test_load_into_other_spaces_and_from_nonsense(tmp_path):
    make().save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"[Ss]paces do not match"):
        DiscreteSAC.load(tmp_path / "model", SoftMDP(5))
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(ValueError, match=r"wasn.t a zip-file"):
        DiscreteSAC.load(tmp_path / "text.zip")
