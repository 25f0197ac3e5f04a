"""CRR that goes online: tuned to an environment, or handed over to DiscreteSAC."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from algorithm_cases import toy_vec_env
from stable_baselines3.common.logger import configure
from toy_data import (
    SMALL,
    parameters_of,
    same,
    toy_env,
    toy_model,
)

from sb3_greendc.crr import CRR
from sb3_greendc.discrete_sac import DiscreteSAC


@pytest.mark.parametrize(
    ("observation", "action"), [("box", "discrete"), ("masked", "discrete"), ("dict", "box")]
)
@pytest.mark.parametrize("fraction", [0.0, 0.5, 1.0])
def test_finetunes(observation, action, fraction, tmp_path):
    model = toy_model(observation, action).learn(5)
    before = parameters_of(model)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    env = toy_vec_env(observation, action, 2)  # the masked one asserts that its mask is obeyed
    model.finetune(env, 60, offline_fraction=fraction, learning_starts=20, log_interval=2, progress_bar=True)
    assert model.num_timesteps == 60
    assert not same(before, parameters_of(model))
    assert "rollout/ep_rew_mean" in (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert model._online.buffer.buffer_size * model._online.buffer.n_envs <= 62
    model.finetune(None, 10, offline_fraction=fraction, learning_starts=0, reset_num_timesteps=False)
    assert model.num_timesteps == 70


@pytest.mark.parametrize(("given", "rate"), [(None, 0.125), (0.5, 0.5), (lambda left: 0.25 * left, 0.0)])
def test_finetuning_may_have_a_learning_rate_of_its_own(given, rate, tmp_path):
    model = toy_model("box", learning_rate=0.125).learn(1)
    model.finetune(toy_vec_env("box", "discrete"), 28, learning_starts=0, learning_rate=given)
    assert model.policy.optimizer.param_groups[0]["lr"] == rate
    model.save(tmp_path / "model")
    assert CRR.load(tmp_path / "model").lr_schedule(0.0) == rate


@pytest.mark.parametrize("rate", [0.0, -1e-3, float("nan"), float("inf"), "1e-3"])
def test_learning_rates_that_are_none_are_refused(rate):
    model = toy_model("box").learn(1)
    with pytest.raises(ValueError, match=f"learning_rate={rate!r}: must be finite and above 0"):
        model.finetune(toy_vec_env("box", "discrete"), 10, learning_rate=rate)


def test_finetuning_sees_the_ends_of_episodes_as_they_are():
    model = toy_model("box").learn(1)
    model.finetune(toy_vec_env("box", "discrete"), 28, offline_fraction=0, learning_starts=100)
    buffer = model._online.buffer
    ends = np.flatnonzero(buffer.dones[:28, 0])
    assert ends.tolist() == [6, 13, 20, 27]
    assert buffer.timeouts[ends, 0].tolist() == [0, 1, 0, 1]
    inside = np.setdiff1d(np.arange(27), ends)
    np.testing.assert_array_equal(buffer.next_observations[inside], buffer.observations[inside + 1])
    assert not np.array_equal(buffer.next_observations[ends[0]], buffer.observations[ends[0] + 1])


def test_finetuning_needs_what_it_needs():
    model = toy_model().learn(1)
    with pytest.raises(ValueError, match="env"):
        model.finetune(None, 10)
    with pytest.raises(ValueError, match=r"offline_fraction=1.5"):
        model.finetune(toy_vec_env("box", "discrete"), 10, offline_fraction=1.5)
    with pytest.raises(ValueError, match="do not match"):
        model.finetune(toy_vec_env("dict", "discrete"), 10)
    bare = CRR("MlpPolicy", toy_env("box", "discrete"), reward_scale=1.0, **SMALL)
    with pytest.raises(ValueError, match=r"offline_fraction=0.5: there are no data"):
        bare.finetune(None, 10)
    bare.finetune(None, 10, offline_fraction=0)


@pytest.mark.parametrize("target_actor", [True, False])
def test_hands_its_networks_over_to_discrete_sac(target_actor):
    model = toy_model("masked", target_actor=target_actor).learn(30)
    online = model.to_discrete_sac(toy_vec_env("masked", "discrete"), buffer_size=500, batch_size=16,
                                   learning_starts=20, actor_starts=30)  # fmt: skip
    assert isinstance(online, DiscreteSAC)
    ours, theirs = parameters_of(model), parameters_of(online)
    assert all(th.equal(ours[name], theirs[name]) for name in theirs)
    assert online.reward_scale == model.scale
    moments = model.policy.optimizer.state
    mine, its = dict(model.policy.named_parameters()), dict(online.policy.named_parameters())
    states = {**online.policy.actor_optimizer.state, **online.policy.critic_optimizer.state}
    for name in ("actor.net.weight", "critic.net.bias"):
        assert th.equal(states[its[name]]["exp_avg"], moments[mine[name]]["exp_avg"])
    online.learn(50)  # thirty updates, in which the policy rests: the actor, and the encoder that it reads
    rested = parameters_of(online)
    assert all(
        th.equal(rested[name], ours[name])
        for name in ours
        if name.startswith(("actor.", "features_extractor."))
    )
    assert not th.equal(parameters_of(online)["critic.net.weight"], ours["critic.net.weight"])
    online.learn(20, reset_num_timesteps=False)
    assert not th.equal(parameters_of(online)["actor.net.weight"], ours["actor.net.weight"])


@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_data_fill_half_of_the_replay_buffer(n_envs):
    model = toy_model("masked")
    online = model.to_discrete_sac(toy_vec_env("masked", "discrete", n_envs), buffer_size=120)
    buffer, data = online.replay_buffer, model.dataset
    assert buffer.pos == buffer.buffer_size // 2 == 60 // n_envs
    everything = data.batch(np.arange(len(data)))
    flat = buffer.observations["vector"][: buffer.pos].reshape(-1, 3)
    for k in range(len(flat)):
        (row,) = np.flatnonzero((everything["observations"]["vector"] == flat[k]).all(axis=1))
        step, env = divmod(k, n_envs)
        assert buffer.actions[step, env] == everything["actions"][row]
        assert buffer.rewards[step, env] == pytest.approx(everything["rewards"][row])
        after = {key: array[step, env] for key, array in buffer.next_observations.items()}
        assert all((after[key] == everything["next_observations"][key][row]).all() for key in after)
        assert buffer.dones[step, env] == 1
        assert buffer.timeouts[step, env] == (not everything["terminated"][row])


def test_rows_of_the_data_have_the_entropy_of_the_policy_that_is_handed_over():
    """Zeros would pull the policy's entropy down."""
    model = toy_model("masked").learn(5)
    env = toy_vec_env("masked", "discrete", 2)
    online = model.to_discrete_sac(env, buffer_size=120, entropy_penalty=0.5)
    buffer = online.replay_buffer
    n = buffer.pos
    seen = {key: th.as_tensor(array[:n]).flatten(0, 1) for key, array in buffer.observations.items()}
    log_pi = model.policy.action_log_probs(seen).detach()
    entropies = -(log_pi.exp() * log_pi).sum(dim=1)
    assert float(entropies.max()) > 0.5
    np.testing.assert_allclose(buffer.entropies[:n].flatten(), entropies, rtol=1e-5, atol=1e-6)
    assert not buffer.entropies[n:].any()
    online.learn(30)


def test_a_buffer_that_discounts_by_time_is_refused_where_the_data_fill_it(tmp_path):
    model = toy_model("masked").learn(1)
    env = toy_vec_env("masked", "discrete")
    options = {"buffer_size": 50, "replay_buffer_kwargs": {"by_time": True}}
    with pytest.raises(ValueError, match=r"replay_buffer_kwargs={'by_time': True}: the data"):
        model.to_discrete_sac(env, **options)
    model.save(tmp_path / "model")
    assert CRR.load(tmp_path / "model", device="cpu").to_discrete_sac(env, **options).replay_buffer.by_time


@pytest.mark.parametrize(
    ("given", "copied"),
    [
        ({"optimizer_class": th.optim.RMSprop}, False),
        ({"optimizer_class": th.optim.SGD, "optimizer_kwargs": {"momentum": 0.9}}, False),
        ({"optimizer_kwargs": {"amsgrad": True}}, False),
        ({"optimizer_kwargs": {"weight_decay": 0.1}}, True),
    ],
    ids=lambda value: str(value)[:60],
)
def test_another_optimizer_begins_without_moments(given, copied):
    model = toy_model().learn(5)
    env = toy_vec_env("box", "discrete")
    online = model.to_discrete_sac(
        env, buffer_size=100, learning_starts=5, actor_starts=0, policy_kwargs=given
    )
    assert bool(online.policy.critic_optimizer.state) == copied
    online.learn(20)
