"""What a rollout collects: episode costs, cost values and returns, minibatches, masks; by brute force."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch as th
from cmdp_envs import ScriptedEnv
from gymnasium import spaces
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_greendc.pid_ppo import PIDLagrangianPPO
from sb3_greendc.pid_ppo.buffers import CostDictRolloutBuffer, CostRolloutBuffer
from sb3_greendc.pid_ppo.lagrangian import PIDLagrangian
from sb3_greendc.recurrent_pid_ppo import RecurrentPIDLagrangianPPO
from sb3_greendc.recurrent_pid_ppo.buffers import RecurrentCostDictRolloutBuffer, RecurrentCostRolloutBuffer

SMALL: dict[str, Any] = {
    "n_steps": 8,
    "batch_size": 8,
    "n_epochs": 2,
    "seed": 0,
    "device": "cpu",
    "policy_kwargs": {"net_arch": [8]},
}
FORMS = ["feed-forward", "recurrent"]


def build(form: str, env: Any, **kwargs: Any) -> PIDLagrangian:
    """Make a small model of the given form."""
    is_dict = isinstance(env.observation_space, spaces.Dict)
    settings = {"cost_limit": 10.0, **SMALL, **kwargs}
    if form == "recurrent":
        settings["policy_kwargs"] = {"lstm_hidden_size": 6, **settings["policy_kwargs"]}
        return RecurrentPIDLagrangianPPO(
            "MultiInputLstmPolicy" if is_dict else "MlpLstmPolicy", env, **settings
        )
    return PIDLagrangianPPO("MultiInputPolicy" if is_dict else "MlpPolicy", env, **settings)


def learn(model: PIDLagrangian, n_rollouts: int) -> PIDLagrangian:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.learn(n_rollouts * model.n_steps * model.n_envs)
    return model


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_envs", [1, 8])
def test_controller_sees_whole_episodes(shown: list[float | None], form: str, n_envs: int) -> None:
    """Episodes of 5 steps in rollouts of 8: every second or third crosses a boundary, none is cut or lost."""
    # Environment i costs i, i+1, ... per episode, 5 i + 10 in all; all environments are in step.
    env = DummyVecEnv([lambda base=base: ScriptedEnv(length=5, base=base) for base in range(n_envs)])
    model = learn(build(form, env), 5)
    assert shown == 5 * [5 * (n_envs - 1) / 2 + 10.0]
    assert model.episode_costs.running.tolist() == n_envs * [0.0]  # 40 steps are eight episodes

    # A second `learn` resets the environments, in the middle of an episode, whose cost must be forgotten.
    shown.clear()
    learn(model, 1)
    assert model.episode_costs.running[0] == 0 + 1 + 2
    learn(model, 1)
    assert shown == 2 * [5 * (n_envs - 1) / 2 + 10.0]


@pytest.mark.parametrize("form", FORMS)
def test_short_rollouts_hold_the_multiplier_and_warn_once(form: str) -> None:
    env = make_vec_env(ScriptedEnv, 2, env_kwargs={"length": 20})
    model = build(form, env, cost_limit=0.0, init=0.5)
    with pytest.warns(UserWarning, match=r"n_steps=8 .* raise n_steps") as caught:
        model.learn(2 * 2 * 8)  # 16 of 20 steps
    assert len([w for w in caught if "raise n_steps" in str(w.message)]) == 1
    assert model.lagrange_multiplier == 0.5
    assert model.controller.state_dict()["n_updates"] == 0
    model.learn(2 * 8, reset_num_timesteps=False)
    assert model.controller.state_dict()["n_updates"] == 1
    assert model.controller.state_dict()["cost"] == sum(range(20))


def test_min_episodes_waits() -> None:
    model = build("feed-forward", make_vec_env(ScriptedEnv, 1, env_kwargs={"length": 8}), min_episodes=3)
    learn(model, 7)
    assert model.controller.state_dict()["n_updates"] == 2
    assert len(model.episode_costs.finished) == 1


class NoActionAtTheFirstStep(ScriptedEnv):
    """The mask of an episode's first step allows none, or none of the second component."""

    def _observe(self) -> Any:
        observation = super()._observe()
        if self.t == 0:
            self.mask[-self.sizes[-1] :] = False
            if self.masks == "observation":
                observation["action_mask"] = self.mask.astype(np.int8)
        return observation

    def step(self, action: Any) -> Any:
        self.mask = self.mask | (self.t == 0)
        return super().step(action)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("masks", ["method", "observation"])
@pytest.mark.parametrize("action", ["discrete", "multidiscrete"])
def test_masks_that_allow_nothing_are_told_once(form: str, masks: str, action: str) -> None:
    model = build(
        form, make_vec_env(NoActionAtTheFirstStep, 2, env_kwargs={"masks": masks, "action": action})
    )
    with pytest.warns(UserWarning, match="allows no action in 4 of the rollout's 16 decisions") as caught:
        model.learn(2 * 16)
    assert len([one for one in caught if "allows no action" in str(one.message)]) == 1
    usual = build(form, make_vec_env(ScriptedEnv, 2, env_kwargs={"masks": masks, "action": action}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usual.learn(16)  # a mask of any component has a valid action


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("masks", [None, "observation"])
@pytest.mark.parametrize("truncate", [False, True])
def test_cost_values_and_returns(form: str, masks: str | None, truncate: bool) -> None:
    """Step through the rollout as a value call at each step would have, and sum what the definition says."""
    gamma, gae_lambda, n_envs = 0.9, 0.7, 3
    env = make_vec_env(ScriptedEnv, n_envs, env_kwargs={"truncate": truncate, "masks": masks})
    model = build(form, env, cost_gamma=gamma, cost_gae_lambda=gae_lambda, n_epochs=1)
    learn(model, 2)
    _, callback = model._setup_learn(1, reset_num_timesteps=False)
    states = model._last_lstm_states.vf if form == "recurrent" else None
    starts = model._last_episode_starts.copy()
    assert model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    buffer = model.rollout_buffer

    def tensors(obs: Any) -> Any:
        obs = {key: obs[key] for key in obs} if isinstance(obs, dict) else obs
        return model.policy.obs_to_tensor(obs)[0]

    def value(obs: Any, states: Any, starts: Any) -> np.ndarray:
        extra = () if states is None else (states, th.as_tensor(starts, dtype=th.float32))
        with th.no_grad():
            return model.policy.predict_cost_values(tensors(obs), *extra).numpy().flatten()

    def advance(obs: Any, states: Any, starts: Any) -> Any:
        if states is None:
            return None
        policy = model.policy
        with th.no_grad():
            features = policy.extract_features(tensors(obs))
            return policy._process_sequence(
                features, states, th.as_tensor(starts, dtype=th.float32), policy.lstm_critic
            )[1]

    timeouts = {(step, index): obs for step, index, obs in buffer.timeouts}
    assert sorted(timeouts) == ([(3, 0), (3, 1), (3, 2)] if truncate else [])  # the 20th step of all
    costs, values, dones = buffer.costs.astype(np.float64), [], []
    for step in range(model.n_steps):
        obs = buffer.observations
        obs = {key: obs[key][step] for key in obs} if isinstance(obs, dict) else obs[step]
        values.append(value(obs, states, starts))
        states = advance(obs, states, starts)
        starts = (
            buffer.episode_starts[step + 1] if step + 1 < model.n_steps else model._last_episode_starts
        ).astype(bool)
        dones.append(starts)
        for index in np.flatnonzero(starts):
            if (step, index) in timeouts:
                own = None if states is None else tuple(s[:, index : index + 1].contiguous() for s in states)
                last_obs = timeouts[step, index]
                last_obs = (
                    {key: last_obs[key][None] for key in last_obs}
                    if isinstance(last_obs, dict)
                    else last_obs[None]
                )
                costs[step, index] += gamma * value(last_obs, own, [False])[0]
    values.append(value(model._last_obs, states, starts))
    assert buffer.cost_values == pytest.approx(np.array(values[:-1]), rel=1e-4, abs=1e-5)

    for index in range(n_envs):
        for step in range(model.n_steps):
            advantage, weight = 0.0, 1.0
            for later in range(step, model.n_steps):
                going_on = 0.0 if dones[later][index] else 1.0
                delta = costs[later, index] - values[later][index]
                delta += gamma * going_on * values[later + 1][index]
                advantage += weight * delta
                weight *= gamma * gae_lambda * going_on
            assert buffer.cost_advantages[step, index] == pytest.approx(advantage, rel=1e-4, abs=1e-4)
    assert buffer.cost_returns == pytest.approx(buffer.cost_advantages + buffer.cost_values)
    assert buffer.costs.max() == 4.0  # bootstrapping changes a copy; the costs stay raw


@pytest.mark.parametrize(
    "buffer_class",
    [
        CostRolloutBuffer,
        CostDictRolloutBuffer,
        RecurrentCostRolloutBuffer,
        RecurrentCostDictRolloutBuffer,
    ],
)
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_minibatches_keep_rows_together(
    buffer_class: type[CostRolloutBuffer], n_envs: int, batch_size: int | None
) -> None:
    n_steps = 6
    box = spaces.Box(-1e3, 1e3, (1,), np.float32)
    space = spaces.Dict(x=box) if "Dict" in buffer_class.__name__ else box
    args: list[Any] = [n_steps, space, spaces.Discrete(2)]
    recurrent = "Recurrent" in buffer_class.__name__
    if recurrent:
        args.append((n_steps, 1, n_envs, 2))
    buffer = buffer_class(*args, device="cpu", n_envs=n_envs)
    for step in range(n_steps):
        label = 100.0 * step + np.arange(n_envs)
        row = th.as_tensor(label)
        buffer.add_costs(label, [{} for _ in range(n_envs)], np.zeros(n_envs, bool))
        buffer.add_action_masks(np.stack([label % 2 == 0, label % 3 == 0], axis=1))
        obs = label[:, None].astype(np.float32)
        kwargs: dict[str, Any] = {}
        if recurrent:
            state = tuple(row.float()[None, :, None].expand(1, n_envs, 2) for _ in range(2))
            kwargs["lstm_states"] = type("States", (), {"pi": state, "vf": state})
        starts = np.array([step == 4] * n_envs)
        buffer.add(
            {"x": obs} if isinstance(space, spaces.Dict) else obs,
            np.zeros((n_envs, 1)),
            label,
            starts,
            row,
            row,
            **kwargs,
        )
    buffer.cost_values = buffer.costs.copy()
    buffer.cost_returns = 2.0 * buffer.costs
    seen = []
    for data in buffer.get(batch_size):
        obs = data.observations["x"] if isinstance(data.observations, dict) else data.observations
        valid = data.mask > 0.5 if recurrent else slice(None)
        label = obs.flatten()[valid]
        seen.extend(label.tolist())
        assert th.equal(data.old_values.flatten()[valid], label)
        assert th.equal(data.old_cost_values[valid], label)
        assert th.equal(data.cost_returns[valid], 2.0 * label)
        assert th.equal(data.action_masks[valid], th.stack([label % 2 == 0, label % 3 == 0], dim=1))
    assert sorted(seen) == sorted(100.0 * step + i for step in range(n_steps) for i in range(n_envs))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("action", ["discrete", "multidiscrete"])
@pytest.mark.parametrize("masks", ["observation", "method"])
def test_masks_are_obeyed(form: str, action: str, masks: str) -> None:
    """The environment fails on an invalid action: in rollouts, in ``predict``, and in the training step."""
    env_kwargs = {"action": action, "masks": masks, "length": 7}
    env = make_vec_env(ScriptedEnv, 3, env_kwargs=env_kwargs)
    model = build(form, env, n_steps=32, batch_size=16)
    invalid: list[float] = []
    evaluate = model._evaluate

    def spy(data: Any, actions: th.Tensor) -> Any:
        values = evaluate(data, actions)
        log_prob, valid = values[2], values[4]
        log_prob = log_prob.detach()[valid]
        invalid.append(float(log_prob.min()))
        if (
            len(invalid) % 12 == 1
        ):  # the first minibatch: nothing trained yet, and the masks are those of then
            assert th.allclose(log_prob, data.old_log_prob[valid], atol=1e-4)
        return values

    model._evaluate = spy
    model.learn(3 * 32 * 2)
    assert min(invalid) > -50.0  # a masked action would have about -1e8

    eval_env = make_vec_env(ScriptedEnv, 2, env_kwargs=env_kwargs)
    for deterministic in (False, True):
        if masks == "observation":
            evaluate_policy(model, eval_env, 8, deterministic=deterministic)
        else:
            evaluate_masked(model, eval_env, 8, deterministic=deterministic)
    single = ScriptedEnv(**env_kwargs)
    observation, _ = single.reset(seed=1)
    for _ in range(6):
        given = {} if masks == "observation" else {"action_masks": single.action_masks()}
        chosen, _ = model.predict(observation, **given)
        observation, *_ = single.step(chosen)


def test_masked_distribution() -> None:
    env = ScriptedEnv(masks="observation")
    policy = build("feed-forward", env).policy
    observation, _ = env.reset(seed=0)
    observation["action_mask"] = np.array([0, 1, 1, 0], np.int8)
    batch, _ = policy.obs_to_tensor(observation)
    probs = policy.get_distribution(batch).distribution.probs[0]
    assert probs[[0, 3]].tolist() == [0.0, 0.0]
    with th.no_grad():
        values, log_prob, entropy = policy.evaluate_actions(batch, th.tensor([1]))
        both = policy.evaluate_actions_with_cost(batch, th.tensor([1]))
        cost_values = policy.predict_cost_values(batch)
    probs = probs.detach()
    assert entropy.item() == pytest.approx(-float((probs[1:3] * probs[1:3].log()).sum()), rel=1e-5)
    assert (values, log_prob, entropy) == (both[0], both[2], both[3])
    assert th.equal(both[1], cost_values)
    # Given masks replace the observation's; an all-zero one counts as none.
    given = policy.get_distribution(batch, action_masks=th.tensor([[1, 0, 0, 0]])).distribution.probs[0]
    assert given.tolist() == [1.0, 0.0, 0.0, 0.0]
    observation["action_mask"][:] = 0
    batch, _ = policy.obs_to_tensor(observation)
    assert (policy.get_distribution(batch).distribution.probs > 0).all()


def test_masks_that_do_not_fit() -> None:
    class Wrong(ScriptedEnv):
        def __init__(self, action: str) -> None:
            super().__init__(action=action, observation="dict")
            self.observation_space = spaces.Dict(action_mask=spaces.Box(0, 1, (5,), np.int8))

    with pytest.raises(ValueError, match=r"must be \(4,\)"):
        build("feed-forward", Wrong("discrete"))
    with pytest.raises(ValueError, match="only Discrete and MultiDiscrete"):
        build("recurrent", Wrong("box"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("observation", ["box", "dict", "discrete", "image"])
@pytest.mark.parametrize("action", ["discrete", "multidiscrete", "multibinary", "box"])
def test_every_space_runs(form: str, observation: str, action: str) -> None:
    env_kwargs = {"observation": observation, "action": action, "truncate": True}
    env = make_vec_env(ScriptedEnv, 2, env_kwargs=env_kwargs)
    assert learn(build(form, env, n_epochs=1), 2).lagrange_multiplier >= 0.0


@pytest.mark.parametrize("form", FORMS)
def test_cnn_policies_and_state_dependent_exploration(form: str) -> None:
    recurrent = form == "recurrent"
    env = make_vec_env(ScriptedEnv, 2, env_kwargs={"observation": "image"})
    model_class = RecurrentPIDLagrangianPPO if recurrent else PIDLagrangianPPO
    kwargs = {**SMALL, "policy_kwargs": {"lstm_hidden_size": 8} if recurrent else {}, "n_epochs": 1}
    learn(model_class("CnnLstmPolicy" if recurrent else "CnnPolicy", env, cost_limit=1.0, **kwargs), 1)
    env = make_vec_env(ScriptedEnv, 2, env_kwargs={"action": "box"})
    learn(build(form, env, use_sde=True), 1)


def test_last_observations_are_copied() -> None:
    """Batched environments write observations in place."""
    buffer = CostRolloutBuffer(2, spaces.Box(0, 9, (1,)), spaces.Discrete(2), device="cpu")
    reused = np.array([1.0])
    info = {"terminal_observation": reused, "TimeLimit.truncated": True}
    buffer.add_costs(np.ones(1), [info], np.array([True]))
    reused[:] = 2.0
    assert buffer.timeouts == [(0, 0, np.array([1.0]))]


def test_cost_is_raw_under_vec_normalize() -> None:
    env = VecNormalize(make_vec_env(ScriptedEnv, 2), gamma=0.9)
    model = learn(build("feed-forward", env), 3)
    assert model.controller.state_dict()["cost"] == 10.0 / 10.0  # an episode costs 10, and so does the scale


@pytest.mark.parametrize("form", FORMS)
def test_normalized_masks_are_refused(form: str) -> None:
    env = make_vec_env(ScriptedEnv, 2, env_kwargs={"masks": "observation"})
    learn(build(form, VecNormalize(env, norm_obs_keys=["x"])), 1)
    model = build(form, VecNormalize(env))
    with pytest.raises(ValueError, match="VecNormalize normalizes 'action_mask'"):
        model.learn(1)
    assert model.num_timesteps == 0
    observation = model.env.reset()
    with pytest.raises(ValueError, match="action_mask holds numbers other than 0 and 1"):
        model.predict(observation)
