"""DiscreteSAC: what each option does, and who trains whom."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from discrete_sac_cases import collected, gradients, logged, make
from gymnasium import spaces
from known_mdps import OneState, SoftMDP
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_greendc.discrete_sac import DictNStepReplayBuffer, DiscreteSAC, FlatNStepReplayBuffer
from sb3_greendc.discrete_sac.collection import uniform_valid_actions
from sb3_greendc.discrete_sac.losses import combine_critics

# ------------------------------------------------------------------ who trains whom


def test_the_critic_alone_trains_the_encoder():
    model = collected()
    encoder, actor, critic = model.policy.features_extractor, model.policy.actor, model.policy.critic
    loss = model.losses(model._sample_batch(32), 0.3)
    assert all(g is not None and g.abs().any() for g in gradients(loss.critic, encoder.parameters()))
    assert all(g is None for g in gradients(loss.actor, encoder.parameters()))
    assert all(g is not None and g.abs().any() for g in gradients(loss.actor, actor.parameters()))
    assert all(g is None for g in gradients(loss.critic, actor.parameters()))
    assert all(g is None for g in gradients(loss.actor, critic.parameters()))
    assert all(p.grad is None and not p.requires_grad for p in model.policy.critic_target.parameters())


def test_the_actor_trains_the_encoder_on_demand():
    model = collected(actor_trains_encoder=True)
    encoder = model.policy.features_extractor
    loss = model.losses(model._sample_batch(32), 0.3)
    assert all(g is not None and g.abs().any() for g in gradients(loss.actor, encoder.parameters()))
    assert all(g is None for g in gradients(loss.actor, model.policy.critic.parameters()))


def state_of(model):
    return {name: x.clone() for name, x in model.policy.state_dict().items()}


def changed_parts(model, before):
    after = model.policy.state_dict()
    return {name.split(".")[0] for name in before if not th.equal(before[name], after[name])}


def test_one_update_moves_every_part_once():
    model = collected(tau=0.5)
    before = state_of(model)
    model.train(1, 32)
    everything = {"features_extractor", "actor", "critic", "features_extractor_target", "critic_target"}
    assert changed_parts(model, before) == everything
    after = model.policy.state_dict()
    for name in before:
        if "_target" in name:
            middle = 0.5 * before[name] + 0.5 * after[name.replace("_target", "")]
            th.testing.assert_close(after[name], middle)


def test_actor_and_temperature_rest_until_actor_starts():
    model = collected(actor_starts=3)
    before, alpha = state_of(model), model.log_ent_coef.item()
    model.train(3, 32)
    assert "actor" not in changed_parts(model, before)
    assert model.log_ent_coef.item() == alpha
    model.train(1, 32)
    assert "actor" in changed_parts(model, before)
    assert model.log_ent_coef.item() != alpha


@pytest.mark.parametrize("interval", [1, 3])
def test_target_interval_counts_updates_over_calls(interval):
    model = collected(target_update_interval=interval)
    moves = []
    for _ in range(6):
        before = state_of(model)
        model.train(1, 32)
        moves.append("critic_target" in changed_parts(model, before))
    assert moves == [(i + 1) % interval == 0 for i in range(6)]


def test_tau_one_makes_target_and_online_equal():
    model = collected(tau=1.0)
    model.train(5, 32)
    state = model.policy.state_dict()
    for name in state:
        if "_target" in name:
            assert th.equal(state[name], state[name.replace("_target", "")])


@pytest.mark.parametrize(
    ("options", "asks"), [({"tau": 1.0}, 0), ({}, 1), ({"tau": 1.0, "target_update_interval": 2}, 1)]
)
def test_a_target_that_follows_at_once_is_not_asked(options, asks, monkeypatch):
    """The critic itself says the same, with an encoding that the actor has anyway."""
    model = collected(**options)
    asked = []
    target_q_values = model.policy.target_q_values
    monkeypatch.setattr(
        model.policy, "target_q_values", lambda obs: (asked.append(1), target_q_values(obs))[1]
    )
    model.train(3, 32)
    batch = model._sample_batch(32)
    asked.clear()
    ours = model.losses(batch, 0.3).target
    assert len(asked) == asks
    model.tau = 0.5  # asks the target network
    assert th.equal(model.losses(batch, 0.3).target, ours)


# ------------------------------------------------------------------ options


def test_rare_preset():
    model = collected(preset="rare")
    assert (model.soft_critic, model.ent_coef, model.tau) == (False, 0.0, 1.0)
    assert model.policy.n_critics == 1
    model.train(2, 32)
    assert model.log_ent_coef is None
    assert logged(model)["train/twin_gap"] == 0.0
    assert "train/ent_coef_loss" not in logged(model)


def taken_and_target(model, batch, alpha=0.3):
    loss = model.losses(batch, alpha)
    return loss.q_taken, loss.target


@pytest.mark.parametrize("combine", ["min", "mean"])
@pytest.mark.parametrize("soft_critic", [True, False])
def test_target_of_the_algorithm(combine, soft_critic):
    """The whole path from observations to target, recomputed from the networks; dones and masks included."""
    model = collected(combine=combine, soft_critic=soft_critic)
    policy, batch, alpha = model.policy, model._sample_batch(64), 0.3
    with th.no_grad():
        next_q = policy.target_q_values(batch.next_observations)
        log_pi = policy.action_log_probs(batch.next_observations)
        valid = batch.next_observations["action_mask"].bool()
        valid |= ~valid.any(dim=1, keepdim=True)
        q = combine_critics(next_q, combine)
        bonus = alpha * log_pi if soft_critic else 0.0
        value = th.where(valid, log_pi.exp() * (q - bonus), 0.0).sum(dim=1)
        expected = batch.rewards[:, 0] + (1 - batch.dones[:, 0]) * 0.99 * value
    th.testing.assert_close(taken_and_target(model, batch, alpha)[1], expected)
    assert batch.dones.any()
    assert not valid.all()


def test_reward_scale_scales_what_is_learned_and_nothing_else():
    a, b = collected(), collected(reward_scale=0.1)
    np.random.seed(1)  # noqa: NPY002 (SB3's buffers draw there)
    x = a._sample_batch(64)
    np.random.seed(1)  # noqa: NPY002 (SB3's buffers draw there)
    y = b._sample_batch(64)
    th.testing.assert_close(y.rewards, 0.1 * x.rewards)
    assert x.rewards.abs().max() > 1
    assert [info["r"] for info in a.ep_info_buffer] == [info["r"] for info in b.ep_info_buffer]
    np.testing.assert_array_equal(a.replay_buffer.rewards, b.replay_buffer.rewards)


class Times(gym.RewardWrapper):
    """Rewards in another unit."""

    def __init__(self, env, factor):
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return self.factor * reward


def test_the_unit_of_the_rewards_does_not_matter():
    def learned(factor):
        env = DummyVecEnv([lambda: Times(gym.make("CartPole-v1"), factor)])
        model = make(env, learning_starts=40).learn(100)
        return model, [*model.policy.parameters(), model.log_ent_coef]

    (a, ours), (b, theirs) = learned(1), learned(64)
    assert a.scale == 64 * b.scale != 1
    assert all(th.equal(x, y) for x, y in zip(ours, theirs, strict=True))


def test_the_scale_is_found_before_the_first_update_kept_and_saved(tmp_path):
    model = make(learning_starts=100)
    assert model.scale is None
    model.learn(100)
    assert model.scale is None
    model.learn(20, reset_num_timesteps=False)
    found = model.scale
    assert found not in (None, 1.0)
    model.learn(20, reset_num_timesteps=False)
    model.save(tmp_path / "model")
    loaded = DiscreteSAC.load(tmp_path / "model", env=model.get_env(), device="cpu")
    assert found == model.scale == loaded.scale
    np.random.seed(1)  # noqa: NPY002 (SB3's buffers draw there)
    scaled = model._sample_batch(64).rewards
    model.scale = 1.0
    np.random.seed(1)  # noqa: NPY002 (SB3's buffers draw there)
    th.testing.assert_close(scaled, found * model._sample_batch(64).rewards)


def test_a_fixed_temperature_is_in_units_of_the_reward():
    assert make(ent_coef=0.1).scale == make(preset="rare").scale == 1.0
    assert make(ent_coef=0.1, reward_scale=0.5).scale == make(reward_scale=0.5).scale == 0.5


@pytest.mark.parametrize("option", [{"q_clip": 0.1}, {"critic_loss": "huber"}, {"entropy_penalty": 5.0}])
def test_options_change_the_loss_they_should(option):
    plain, other = collected(), collected(**option)
    for model in (plain, other):  # the target network must differ from the online one for q_clip to bind
        with th.no_grad():
            for parameter in model.policy.critic_target.parameters():
                parameter.mul_(0.5)
    np.random.seed(1)  # noqa: NPY002 (SB3's buffers draw there)
    a = plain.losses(plain._sample_batch(64), 0.3)
    np.random.seed(1)  # noqa: NPY002 (SB3's buffers draw there)
    b = other.losses(other._sample_batch(64), 0.3)
    assert (a.critic.item() == pytest.approx(b.critic.item())) == ("entropy_penalty" in option)
    assert (a.actor.item() == pytest.approx(b.actor.item())) == ("entropy_penalty" not in option)
    other.train(3, 16)


def test_entropy_at_collection_is_stored():
    """Uniform in the warm-up: the logarithm of the number of valid actions; the policy's own afterwards."""
    model = make(entropy_penalty=0.1, learning_starts=50, gradient_steps=0).learn(100)
    buffer = model.replay_buffer
    n_valid = buffer.observations["action_mask"][:100, 0].sum(axis=1)
    np.testing.assert_allclose(buffer.entropies[:50, 0], np.log(n_valid[:50]), rtol=1e-6)
    tensors = {key: th.as_tensor(x[50:100, 0]) for key, x in buffer.observations.items()}
    with th.no_grad():
        log_pi = model.policy.action_log_probs(tensors)
    np.testing.assert_allclose(buffer.entropies[50:100, 0], -(log_pi.exp() * log_pi).sum(1), rtol=1e-4)


class Bandit(gym.Env):
    """One step, four actions of different reward, the last one invalid."""

    observation_space = spaces.Dict(
        x=spaces.Box(0, 1, (1,), np.float32), action_mask=spaces.Box(0, 1, (4,), np.int8)
    )
    action_space = spaces.Discrete(4)
    observation = {"x": np.ones(1, np.float32), "action_mask": np.array([1, 1, 1, 0], np.int8)}  # noqa: RUF012

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation, {}

    def step(self, action):
        return self.observation, (0.0, 1.0, 2.0, 100.0)[action], True, False, {}


@pytest.mark.parametrize(("ratio", "ent_coef"), [(0.3, "auto"), (0.8, "auto_0.5")])
def test_entropy_follows_its_target(ratio, ent_coef):
    """H settles at ρ log 3, for the three valid actions, as α comes down or goes up."""
    model = make(Bandit(), target_entropy_ratio=ratio, ent_coef=ent_coef, learning_rate=0.01, train_freq=2)
    model.learn(1000)
    tensors, _ = model.policy.obs_to_tensor(Bandit.observation)
    with th.no_grad():
        log_pi = model.policy.action_log_probs(tensors)
    assert -(log_pi.exp() * log_pi).sum() == pytest.approx(ratio * np.log(3), abs=0.1)
    assert log_pi[0, 3].exp() == 0


@pytest.mark.parametrize(("start", "ratio", "bound"), [(-9.9, 0.0, -10.0), (4.9, 0.99, 5.0)])
def test_temperature_stays_in_range_when_its_target_is_out_of_reach(start, ratio, bound):
    model = collected(learning_rate=0.5, target_entropy_ratio=ratio)
    with th.no_grad():
        model.log_ent_coef.fill_(start)
        model.policy.actor.net[-1].bias[0, 0, 0] = 0.0 if ratio == 0 else 1e3
    model.train(1, 32)
    assert model.log_ent_coef.item() == bound


def test_target_entropy_ratio_decays_to_its_final_value():
    model = make(target_entropy_ratio=0.4, target_entropy_ratio_final=0.1)
    for remaining, expected in ((1.0, 0.4), (0.5, 0.25), (0.0, 0.1), (-0.1, 0.1)):
        model._current_progress_remaining = remaining
        assert model._current_entropy_ratio() == pytest.approx(expected)


def test_fixed_and_initial_temperature():
    assert make(ent_coef=0.7)._temperature() == 0.7
    assert make(ent_coef="auto_0.1")._temperature().item() == pytest.approx(0.1)
    assert make()._temperature().item() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("n_envs", "gradient_steps", "updates"), [(1, 1, 80), (4, 1, 20), (4, -1, 80), (1, 3, 240)]
)
def test_updates_per_transition(n_envs, gradient_steps, updates):
    model = make(n_envs=n_envs, learning_starts=20, gradient_steps=gradient_steps).learn(100)
    assert model._n_updates == updates


def test_episodes_as_training_frequency():
    model = make(train_freq=(2, "episode")).learn(60)
    assert 0 < model._n_updates < 60


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("env", [SoftMDP, OneState])
def test_n_steps(n_steps, env):
    model = make(make_vec_env(env, 2), n_steps=n_steps, gamma=0.9).learn(100)
    expected = DictNStepReplayBuffer if env is SoftMDP else FlatNStepReplayBuffer
    assert type(model.replay_buffer) is expected
    assert model.replay_buffer.n_steps == n_steps == model.n_steps
    discounts = set(np.round(model._sample_batch(300).discounts.flatten().tolist(), 4))
    assert discounts <= {round(0.9**k, 4) for k in range(1, n_steps + 1)}
    assert len(discounts) == n_steps


def test_second_learn_does_not_join_episodes():
    model = make(OneState(), n_steps=3).learn(7)
    model.learn(7)
    assert model.replay_buffer.dones[6, 0] == 1
    assert model.replay_buffer.timeouts[6, 0] == 1


@pytest.mark.parametrize("cls", [ReplayBuffer, NStepReplayBuffer])
def test_buffers_of_sb3(cls):
    kwargs = {"n_steps": 2, "gamma": 0.9} if cls is NStepReplayBuffer else {}
    model = make(OneState(), replay_buffer_class=cls, replay_buffer_kwargs=kwargs, gamma=0.9).learn(100)
    assert type(model.replay_buffer) is cls
    assert model._sample_batch(20).discounts.max().item() == pytest.approx(0.9)


def test_vec_normalize_of_rewards():
    env = VecNormalize(DummyVecEnv([SoftMDP, SoftMDP]), norm_obs=False)
    model = make(env).learn(200)
    raw = model.replay_buffer.sample(200).rewards.abs().max()
    assert model._sample_batch(200).rewards.abs().max() != raw


# ------------------------------------------------------------------ collecting


def test_warm_up_is_uniform_over_valid_actions():
    masks = np.array([[1, 0, 1, 1]], dtype=bool).repeat(30_000, axis=0)
    actions = uniform_valid_actions(masks, np.random.default_rng(0))
    shares = np.bincount(actions, minlength=4) / len(actions)
    np.testing.assert_allclose(shares, [1 / 3, 0, 1 / 3, 1 / 3], atol=0.01)


def test_no_invalid_action_is_ever_taken():
    # SoftMDP asserts that every action is valid.
    make(n_envs=2, learning_starts=100).learn(300)
    make(DummyVecEnv([lambda: SoftMDP(37)]), learning_starts=100).learn(300)


def test_warm_up_by_the_policy():
    def shares(warmup):
        model = make(OneState(), learning_starts=400, warmup=warmup)
        with th.no_grad():
            model.policy.actor.net[-1].bias[0, 0, 0] = 50.0
        model.learn(300)
        return model.replay_buffer.actions[:300].mean()

    assert shares("policy") == 0.0
    assert 0.4 < shares("uniform") < 0.6


def test_images_stay_bytes_in_the_buffer():
    env = FakeImageEnv(screen_height=40, screen_width=40, n_channels=1, discrete=True)
    model = DiscreteSAC(
        "CnnPolicy", env, buffer_size=100, learning_starts=10, batch_size=8, device="cpu"
    ).learn(20)
    assert model.replay_buffer.observations.dtype == np.uint8
    assert model._sample_batch(4).observations.dtype == th.uint8


def test_logged_values():
    model = make().learn(60)
    losses = "actor_loss critic_loss ent_coef ent_coef_loss"
    statistics = "entropy target_entropy q_mean q_max twin_gap td_abs n_valid"
    for name in (*losses.split(), *statistics.split(), "n_updates", "learning_rate"):
        assert np.isfinite(logged(model)[f"train/{name}"]), name
    assert 2 <= logged(model)["train/n_valid"] <= 3
    assert logged(model)["train/entropy"] <= np.log(3)
