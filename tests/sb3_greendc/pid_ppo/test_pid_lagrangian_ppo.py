"""The algorithms as a whole: PPO without a limit, the cost critic trains, saving, logging, wrong use."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from cmdp_envs import ContextCMDP, CueCMDP, ScriptedEnv
from lagrangian_cases import FORMS, LSTM, SMALL, build, same_weights, weights
from sb3_contrib import RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_greendc.pid_ppo import PIDController, PIDLagrangianPPO
from sb3_greendc.recurrent_pid_ppo import CocorlPolicy, RecurrentPIDLagrangianPPO
from sb3_greendc.recurrent_pid_ppo.policies import CostRecurrentActorCriticPolicy


class WithoutCost(gym.Wrapper):
    """An environment that reports no cost."""

    def step(self, action):
        *outcome, info = self.env.step(action)
        return (*outcome, {key: value for key, value in info.items() if key != "cost"})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("n_envs", "extra"),
    [
        (1, {}),
        (3, {"clip_range_vf": 0.2, "ent_coef": 0.01, "target_kl": 1e-4}),
        (1, {"normalize_advantage": False}),
    ],
    ids=["plain", "clipped", "unnormalized"],
)
def test_without_limit_it_is_ppo(
    monkeypatch: pytest.MonkeyPatch, form: str, n_envs: int, extra: dict[str, Any]
) -> None:
    """Bit by bit by default, without a call to the controller, and in an environment that reports no cost.

    An LSTM that takes whole sequences rounds otherwise than step by step; so here it goes step by step.
    """
    monkeypatch.delattr(CostRecurrentActorCriticPolicy, "_process_sequence")

    def fail(*_: Any) -> float:
        raise AssertionError("the controller was called")

    monkeypatch.setattr(PIDController, "update", fail)
    extra = dict(extra)
    kwargs = {**SMALL, **(LSTM if form == "recurrent" else {}), **extra}
    parent = (
        RecurrentPPO("MlpLstmPolicy", make_vec_env(CueCMDP, n_envs, seed=0), **kwargs)
        if form == "recurrent"
        else PPO("MlpPolicy", make_vec_env(CueCMDP, n_envs, seed=0), **kwargs)
    )
    if extra.pop("normalize_advantage", True) is False:
        extra["adv_norm"] = "none"
    env = make_vec_env(CueCMDP, n_envs, seed=0, wrapper_class=WithoutCost)
    model = build(form, env, cost_limit=math.inf, init=2.0, **extra)
    for seed in (1, 2):
        for each in (parent, model):  # they share the global generators
            set_random_seed(seed)
            each.learn(n_envs * 32)
        ours = weights(model)
        for name, value in weights(parent).items():
            assert th.equal(ours[name], value), name
        assert model.lagrange_multiplier == 0.0
    untouched = weights(build(form, make_vec_env(CueCMDP, n_envs, seed=0)))
    assert all(th.equal(ours[name], untouched[name]) for name in ours if name.startswith("cost_net"))


def test_with_a_limit_a_missing_cost_is_an_error() -> None:
    model = build("feed-forward", make_vec_env(CueCMDP, 1, seed=0, wrapper_class=WithoutCost), cost_limit=1.0)
    with pytest.raises(KeyError, match="reports no info"):
        model.learn(8)


def test_without_limit_a_cost_that_is_reported_is_still_counted() -> None:
    model, recorder = build("feed-forward", make_vec_env(CueCMDP, 1, seed=0), cost_limit=math.inf), Recorder()
    model.set_logger(Logger(None, [recorder]))
    model.learn(64)
    assert [row["rollout/ep_cost_n"] for row in recorder.rows] == [4, 4]
    assert all(row["rollout/ep_cost_mean"] > 0.0 for row in recorder.rows)


class CostAtTheEnd(gym.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Any, info: dict[str, Any]) -> None:
        super().__init__(env)
        self.info = info

    def step(self, action: Any) -> Any:
        *result, _ = self.env.step(action)
        return *result, self.info if result[2] or result[3] else {}


def test_without_limit_a_cost_may_be_reported_in_some_steps_only() -> None:
    infos: list[dict[str, Any]] = [{"cost": 3.0}, {}]
    env = DummyVecEnv([lambda info=info: CostAtTheEnd(CueCMDP(), info) for info in infos])
    model, recorder = build("feed-forward", env, cost_limit=math.inf), Recorder()
    model.set_logger(Logger(None, [recorder]))
    model.learn(128)
    assert {row["rollout/ep_cost_mean"] for row in recorder.rows} == {1.5}
    with pytest.raises(KeyError, match="reports no info"):
        build("feed-forward", env, cost_limit=1.0).learn(8)


@pytest.mark.parametrize("limit", [1.0, math.inf])
def test_the_cost_critic_learns_with_a_limit_only_also_after_loading(limit: float, tmp_path: Path) -> None:
    other = 1.0 if math.isinf(limit) else math.inf
    build("feed-forward", make_vec_env(CueCMDP, 1, seed=0), cost_limit=other).save(tmp_path / "model")
    env = make_vec_env(CueCMDP, 1, seed=0)
    model = PIDLagrangianPPO.load(tmp_path / "model", env=env, cost_limit=limit)
    before = weights(model)
    model.learn(32)
    after = weights(model)
    learned = [not th.equal(after[name], before[name]) for name in after if name.startswith("cost_net")]
    assert all(learned) if limit == 1.0 else not any(learned)


@pytest.mark.parametrize(
    ("form", "share"), [("feed-forward", True), ("feed-forward", False), ("recurrent", True)]
)
def test_cost_critic_is_in_the_optimizer_and_learns(form: str, share: bool) -> None:
    extra: dict[str, Any] = {}
    if not share:
        extra["policy_kwargs"] = {
            "share_cost_features_extractor": False,
            "net_arch": {"pi": [8], "cost": [9]},
        }
    extra |= {"cost_limit": math.inf, "cost_vf_coef": 0.5}
    model = build(form, make_vec_env(CueCMDP, 2, seed=0), learning_rate=1e-2, **extra)
    policy = model.policy
    optimized = {id(p) for group in policy.optimizer.param_groups for p in group["params"]}
    assert {id(p) for p in policy.parameters()} == optimized
    assert {id(p) for p in policy.cost_net.parameters()} <= optimized
    if not share:
        assert policy.cost_features_extractor is not policy.features_extractor
        assert policy.cost_net[0].out_features == 9
    before = weights(model)
    model.learn(64)
    for name, value in weights(model).items():
        if name.startswith("cost_net"):
            assert not th.equal(value, before[name]), name
    model.learn(64 * 12)  # the cost to come shrinks with the time, which the observation shows
    assert model.logger.name_to_value["train/cost_explained_variance"] > 0.3


class Recorder(KVWriter):
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        self.rows.append(dict(key_values))

    def close(self) -> None:
        pass


@pytest.mark.parametrize("form", FORMS)
def test_logged_quantities(form: str) -> None:
    recorder = Recorder()
    model = build(form, make_vec_env(ScriptedEnv, 2), cost_limit=6.0, clip_range_cost_vf=5.0)
    model.set_logger(Logger(None, [recorder]))
    model.learn(32 * 2 * 2)
    first, second = recorder.rows
    assert first["rollout/ep_cost_mean"] == 10.0
    assert first["rollout/cost_violation"] == 4.0
    assert first["rollout/ep_cost_n"] == 2 * 6
    error = 4.0 / 6.0
    assert second["train/pid_p"] == pytest.approx(error)
    assert second["train/pid_i"] == pytest.approx(0.1 * error)
    assert second["train/pid_d"] == 0.0
    assert second["train/lagrange_multiplier"] == pytest.approx(1.1 * error)
    for name in ("cost_value_loss", "cost_explained_variance", "adv_r_std", "adv_c_std", "approx_kl", "loss"):
        assert math.isfinite(second[f"train/{name}"]), name
    assert second["train/clip_range_cost_vf"] == 5.0


@pytest.mark.parametrize("adv_norm", ["combined", "separate", "center", "none"])
def test_advantage_modes(adv_norm: str) -> None:
    """The buffer holds what the mode says; only "combined" is normalized again by minibatch."""
    model = build("feed-forward", make_vec_env(ContextCMDP, 2, seed=0), adv_norm=adv_norm, init=0.7)
    seen: dict[str, Any] = {}

    class Keep(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            seen["advantages"] = self.model.rollout_buffer.advantages.copy()

    model.learn(64, callback=Keep())
    raw, cost = seen["advantages"], model.rollout_buffer.cost_advantages
    multiplier = model.lagrange_multiplier
    if adv_norm in ("separate", "center"):
        raw = (raw - raw.mean()) / raw.std(ddof=1)
        cost = cost - cost.mean()
    if adv_norm == "separate":
        cost = cost / cost.std(ddof=1)
    expected = (raw - multiplier * cost) / (1.0 + multiplier)
    used = model.rollout_buffer.advantages.reshape(2, 32).T  # flattened by environment
    assert used == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert model.normalize_advantage == (adv_norm == "combined")


def test_a_second_train_holds_the_multiplier() -> None:
    model = build("feed-forward", make_vec_env(ScriptedEnv, 2), cost_limit=1.0)
    model.learn(64)
    state, advantages = model.controller.state_dict(), model.rollout_buffer.advantages.copy()
    model.train()
    assert model.controller.state_dict() == state
    assert np.array_equal(model.rollout_buffer.advantages, advantages)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("masks", [None, "observation"])
def test_save_load_resume(form: str, masks: str | None, tmp_path: Path) -> None:
    env_kwargs = {"length": 7, "masks": masks}

    def fresh_env() -> Any:
        return make_vec_env(ScriptedEnv, 2, env_kwargs=env_kwargs)

    policy = {"feed-forward": "MlpPolicy", "recurrent": "MlpLstmPolicy"}[form]
    if masks is not None:
        policy = {"MlpPolicy": "MultiInputPolicy", "MlpLstmPolicy": "MultiInputLstmPolicy"}[policy]
    model_class = {"feed-forward": PIDLagrangianPPO, "recurrent": RecurrentPIDLagrangianPPO}[form]
    kwargs = {**SMALL, **(LSTM if form == "recurrent" else {})}
    model = model_class(
        policy,
        fresh_env(),
        cost_limit=12.0,
        preset="stooke",
        kp=0.7,
        adv_norm="separate",
        cost_gamma=1.0,
        min_episodes=3,
        clip_range_cost_vf=0.3,
        **kwargs,
    )
    model.learn(64 * 3)
    path = tmp_path / "model.zip"
    model.save(path)
    loaded = model_class.load(path, device="cpu")
    assert same_weights(model, loaded)
    assert loaded.controller.state_dict() == model.controller.state_dict()
    assert loaded.lagrange_multiplier == model.lagrange_multiplier > 0.0
    assert (loaded.controller.kp, loaded.controller.delay, loaded.controller.scale) == (0.7, 10, 1.0)
    assert (loaded.adv_norm, loaded.cost_gamma, loaded.min_episodes) == ("separate", 1.0, 3)
    assert loaded.clip_range_cost_vf(1.0) == 0.3
    assert loaded.episode_costs.finished == model.episode_costs.finished

    # Predicts without an environment.
    observation = fresh_env().reset()
    assert np.array_equal(
        model.predict(observation, deterministic=True)[0], loaded.predict(observation, deterministic=True)[0]
    )

    # Both go on from the same seed: the same multipliers, and the same weights bit by bit.
    for each in (model, loaded):
        each.set_env(fresh_env())
        if form == "recurrent":
            each._last_lstm_states = loaded._last_lstm_states
        set_random_seed(5)
        each.env.seed(5)
        each.learn(64 * 2, reset_num_timesteps=False)
    assert model.controller.state_dict() == loaded.controller.state_dict()
    assert same_weights(model, loaded)
    assert model.num_timesteps == loaded.num_timesteps == 64 * 5

    # Another limit, or another controller setting, may be given when loading.
    assert model_class.load(path, cost_limit=math.inf).lagrange_multiplier == 0.0
    assert model_class.load(path, cost_limit=3.0).controller.cost_limit == 3.0


def test_zip_loads_with_weights_only(tmp_path: Path) -> None:
    model = build("feed-forward", make_vec_env(ScriptedEnv, 2), cost_limit=1.0)
    model.learn(64)
    model.save(tmp_path / "model.zip", include=())  # SB3's form
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        names = [name for name in archive.namelist() if name.endswith(".pth")]
        assert "controller.pth" in names
        parts = {name: th.load(io.BytesIO(archive.read(name)), weights_only=True) for name in names}
    assert parts["controller.pth"] == model.controller.state_dict()


@pytest.mark.parametrize("form", FORMS)
def test_policy_alone_saves_and_loads(form: str, tmp_path: Path) -> None:
    changed = {"lstm_hidden_size": 8} if form == "recurrent" else {"share_cost_features_extractor": False}
    changed["normalize_returns"] = True
    policy = build(form, ContextCMDP(), policy_kwargs=changed).policy
    policy.save(tmp_path / "policy.pth")
    loaded = type(policy).load(tmp_path / "policy.pth", device="cpu")
    for name, value in changed.items():
        assert loaded._get_constructor_parameters()[name] == value
    assert all(th.equal(policy.state_dict()[name], value) for name, value in loaded.state_dict().items())


def test_plain_ppo_zip_is_refused(tmp_path: Path) -> None:
    PPO("MlpPolicy", ContextCMDP(), **SMALL).save(tmp_path / "ppo.zip")
    with pytest.raises(ValueError, match="cannot be loaded as PIDLagrangianPPO"):
        PIDLagrangianPPO.load(tmp_path / "ppo.zip")
    RecurrentPPO("MlpLstmPolicy", ContextCMDP(), **SMALL, **LSTM).save(tmp_path / "rppo.zip")
    with pytest.raises(ValueError, match="cannot be loaded as RecurrentPIDLagrangianPPO"):
        RecurrentPIDLagrangianPPO.load(tmp_path / "rppo.zip")


class BadCost(gym.Wrapper[Any, Any, Any, Any]):
    """Reports the given costs in turn; ``None`` is no cost at all."""

    def __init__(self, costs: list[float | None]) -> None:
        super().__init__(ContextCMDP())
        self.costs = iter(costs)

    def step(self, action: Any) -> Any:
        *values, _ = self.env.step(action)
        cost = next(self.costs)
        return *values, {} if cost is None else {"cost": cost}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("costs", "error", "steps"),
    [
        ([None], KeyError, 1),
        ([1.0, None], KeyError, 2),
        ([-0.5], ValueError, 1),
        ([0.0, 0.0, math.nan], ValueError, 3),
    ],
)
def test_bad_costs_stop_at_once(
    form: str, costs: list[float | None], error: type[Exception], steps: int
) -> None:
    model = build(form, BadCost(costs))
    with pytest.raises(error, match="cost"):
        model.learn(64)
    assert model.num_timesteps == steps


@pytest.mark.parametrize("form", FORMS)
def test_actions_that_start_elsewhere_are_refused(form: str) -> None:
    """PPO's distributions draw from 0 on, whatever the space says."""
    for space in (gym.spaces.Discrete(3, start=1), gym.spaces.MultiDiscrete([3, 2], start=[0, 1])):
        env = ContextCMDP()
        env.action_space = space
        with pytest.raises(ValueError, match=r"start=.*: actions must start at 0"):
            build(form, env)


def test_wrong_classes() -> None:
    from stable_baselines3.common.buffers import RolloutBuffer
    from stable_baselines3.common.policies import ActorCriticPolicy

    with pytest.raises(ValueError, match="needs a policy with a cost critic"):
        PIDLagrangianPPO(ActorCriticPolicy, ContextCMDP(), cost_limit=1.0)
    for algorithm, other, name in [
        (PIDLagrangianPPO, RecurrentPIDLagrangianPPO, "MlpLstmPolicy"),
        (RecurrentPIDLagrangianPPO, PIDLagrangianPPO, "MlpPolicy"),
    ]:
        with pytest.raises(ValueError, match="needs a policy with a cost critic"):
            algorithm(other.policy_aliases[name], ContextCMDP(), cost_limit=1.0)
    with pytest.raises(ValueError, match="rollout_buffer_class"):
        build("feed-forward", ContextCMDP(), rollout_buffer_class=RolloutBuffer)


@pytest.mark.parametrize("masks", [None, "observation"])
def test_cocorl_policy(masks: str | None) -> None:
    """Two layers before the LSTMs, nothing after them but the heads; the mask is no feature."""
    env = make_vec_env(ScriptedEnv, 2, env_kwargs={"masks": masks})
    model = RecurrentPIDLagrangianPPO("CocorlPolicy", env, cost_limit=4.0, **SMALL)
    policy = model.policy
    assert isinstance(policy, CocorlPolicy)
    assert [type(layer).__name__ for layer in policy.features_extractor.mlp] == 2 * ["Linear", "Tanh"]
    assert policy.features_extractor.mlp[0].in_features == 3
    assert policy.lstm_actor.input_size == policy.lstm_critic.input_size == 64
    assert policy.action_net.in_features == policy.value_net.in_features == policy.lstm_actor.hidden_size
    assert len(policy.cost_net) == 1
    model.learn(64)


@pytest.mark.parametrize(
    "lstm",
    [
        {"shared_lstm": True, "enable_critic_lstm": False},
        {"enable_critic_lstm": False},
        {"n_lstm_layers": 2, "share_features_extractor": False},
    ],
)
def test_lstm_arrangements(lstm: dict[str, Any]) -> None:
    env = make_vec_env(ScriptedEnv, 3, env_kwargs={"truncate": True})
    model = build("recurrent", env, policy_kwargs={"lstm_hidden_size": 8, **lstm})
    model.learn(32 * 3)
    data = next(model.rollout_buffer.get(16))
    actions = data.actions.long().flatten()
    with th.no_grad():
        four = model.policy.evaluate_actions_with_cost(
            data.observations, actions, data.lstm_states, data.episode_starts
        )
        three = model.policy.evaluate_actions(
            data.observations, actions, data.lstm_states, data.episode_starts
        )
    assert all(th.equal(a, b) for a, b in zip((four[0], *four[2:]), three, strict=True))


@pytest.mark.parametrize("form", FORMS)
def test_evaluation_during_training_with_masks_of_the_environment(form: str) -> None:
    """Masks of the training environments must not reach predictions for others."""
    callback = EvalCallback(make_vec_env(ScriptedEnv, 1), eval_freq=5, n_eval_episodes=1, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        env = make_vec_env(ScriptedEnv, 3, env_kwargs={"masks": "method"})
        model = build(form, env)
        model.learn(96, callback=callback)
    assert callback.n_calls == 32
    assert model.policy.mask_source is None  # nothing is left behind after a rollout


def test_callback_may_stop_a_rollout() -> None:
    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return self.n_calls < 20

    model = build("feed-forward", make_vec_env(ScriptedEnv, 2))
    before = weights(model)
    model.learn(64 * 4, callback=Stop())
    assert all(th.equal(before[name], value) for name, value in weights(model).items())
    model.learn(64, reset_num_timesteps=False)
    assert model.controller.state_dict()["n_updates"] == 1
