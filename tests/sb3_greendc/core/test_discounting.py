from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback

from sb3_greendc import DiscreteSAC, PIDLagrangianPPO, RecurrentPIDLagrangianPPO
from sb3_greendc.cli.train import main as train
from sb3_greendc.core.discounting import DiscountByTime, advantages_by_time, steps_of
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.experiments.learners import SC20_A2C
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.experiments.training import Training
from sb3_greendc.rl_zoo3_plugin import block_for_rl_zoo3
from sb3_greendc.runs.hyperparameters import load_hyperparameters
from sb3_greendc.tuning import make_objective
from sb3_greendc.tuning.training import train_and_score

POOL = "ResourcePoolSuspend-10"
CONSTRAINED = (PIDLagrangianPPO, RecurrentPIDLagrangianPPO)


class Watch(BaseCallback):
    """Keeps what the buffer held before and after the advantages were computed anew."""

    def __init__(self, *inside: BaseCallback) -> None:
        super().__init__()
        self.inside = inside

    def _init_callback(self) -> None:
        for one in self.inside:
            one.init_callback(self.model)

    def _on_rollout_start(self) -> None:
        for one in self.inside:
            one.on_rollout_start()

    def _on_step(self) -> bool:
        for one in self.inside:
            one.update_locals(self.locals)
            one.on_step()
        return True

    def _on_rollout_end(self) -> None:
        buffer: Any = self.model.rollout_buffer  # type: ignore[attr-defined]
        self.before = buffer.advantages.copy()
        for one in self.inside:
            one.on_rollout_end()
        self.after, self.returns, self.values = buffer.advantages, buffer.returns, buffer.values


def test_by_hand() -> None:
    column = lambda *numbers: np.array(numbers, dtype=np.float32)[:, None]  # noqa: E731
    found = advantages_by_time(
        rewards=column(1, 2, 4),
        values=column(0.5, 1, 2),
        episode_starts=column(1, 0, 0),
        last_values=np.array([8], dtype=np.float32),
        steps=column(1, 0, 2),
        gamma=0.5,
        gae_lambda=0.5,
    )
    last = 4 + 0.25 * 8 - 2  # two steps: 0.5 squared
    middle = (2 + 2 - 1) + last  # no time passes: neither gamma nor lambda
    first = (1 + 0.5 * 1 - 0.5) + 0.25 * middle
    np.testing.assert_allclose(found, column(first, middle, last))


def test_nothing_leaks_from_the_next_episode() -> None:
    ones = np.ones((3, 1), dtype=np.float32)
    starts = np.array([[1], [0], [1]], dtype=np.float32)
    found = advantages_by_time(ones, 7 * ones, starts, 9 * ones[0], ones, 0.9, 0.8)
    assert found[1, 0] == 1 - 7


@pytest.mark.parametrize(
    ("cls", "policy"),
    [
        (A2C, "MultiInputPolicy"),
        (PPO, "MultiInputPolicy"),
        (MaskablePPO, "MultiInputPolicy"),
        (RecurrentPPO, "MultiInputLstmPolicy"),
        (PIDLagrangianPPO, "MultiInputPolicy"),
        (RecurrentPIDLagrangianPPO, "MultiInputLstmPolicy"),
    ],
)
def test_with_one_step_a_decision_it_is_what_the_algorithm_does(
    cls: Any, policy: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(
        "sb3_greendc.core.discounting.steps_of", lambda infos: np.ones(len(infos), dtype=np.float32)
    )
    env = make_vec_env(POOL, 2, seed=0, episode_steps=20)  # several episodes end within the rollout
    limit = {} if cls not in CONSTRAINED else {"cost_limit": 1.0}
    brief = {} if cls is A2C else {"n_epochs": 1}  # what is learned after the rollout is not looked at
    model = cls(policy, env, n_steps=64, gamma=0.9, gae_lambda=0.8, seed=0, **limit, **brief)
    watch = Watch(DiscountByTime())
    model.learn(128, callback=watch)
    np.testing.assert_allclose(watch.after, watch.before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("cls", "policy"),
    [(PIDLagrangianPPO, "MultiInputPolicy"), (RecurrentPIDLagrangianPPO, "MultiInputLstmPolicy")],
)
@pytest.mark.filterwarnings("ignore:No episode finished")
def test_costs_are_discounted_by_the_same_time(cls: Any, policy: str) -> None:
    """What the critic of the cost learns is what the value function would, were the cost the reward."""
    env = make_vec_env(POOL, 2, seed=0, mask="now", cost="waiting")
    model = cls(policy, env, n_steps=64, cost_limit=1.0, gamma=0.9, gae_lambda=0.8, n_epochs=1, seed=0)
    watch = Watch(DiscountByTime())
    model.learn(128, callback=watch)
    buffer: Any = model.rollout_buffer
    steps = buffer.time_steps
    assert set(np.unique(steps)) == {0.0, 1.0}
    assert buffer.costs.sum() > 0
    # What minibatches are drawn from has been flattened, by environment.
    by_step = lambda array: array if array.shape == (64, 2) else array.reshape(2, 64).T  # noqa: E731
    values, starts = by_step(buffer.cost_values), by_step(buffer.episode_starts)
    # The value after the last decision is not in the buffer: the last decision gives it.
    last = (buffer.cost_advantages[-1] - buffer.costs[-1] + values[-1]) / np.float32(0.9) ** steps[-1]
    expected = advantages_by_time(buffer.costs, values, starts, last, steps, 0.9, 0.8)
    np.testing.assert_allclose(buffer.cost_advantages, expected, rtol=1e-3, atol=1e-4)
    by_decisions = advantages_by_time(buffer.costs, values, starts, last, np.ones_like(steps), 0.9, 0.8)
    assert not np.allclose(buffer.cost_advantages, by_decisions, rtol=1e-2, atol=1e-2)
    buffer.reset()
    assert buffer.time_steps == 1.0


def test_decisions_without_time_are_not_discounted() -> None:
    env = make_vec_env(POOL, 2, seed=0)
    model = A2C("MultiInputPolicy", env, n_steps=64, gamma=0.5, gae_lambda=0.5, seed=0)
    watch = Watch(DiscountByTime())
    model.learn(128, callback=watch)
    assert not np.allclose(watch.after, watch.before, atol=1e-3)
    np.testing.assert_allclose(watch.returns, watch.after + watch.values)


def test_it_is_a_setting_of_hyperparameter_files() -> None:
    chosen = load_hyperparameters("a2c", f"{POOL}-v0", {"callback": "DiscountByTime", "n_envs": 2})
    (callback,) = chosen.make_callbacks()
    assert isinstance(callback, DiscountByTime)
    assert chosen.settings["callback"] == "DiscountByTime"
    assert load_hyperparameters("a2c", f"{POOL}-v0", {"callback": None}).make_callbacks() == []
    for wrong in ("DiscountByTim", ["DiscountByTime", 3], {"DiscountByTime": {}}):
        with pytest.raises(ValueError, match=r"callback.*must be one of DiscountByTime"):
            load_hyperparameters("a2c", f"{POOL}-v0", {"callback": wrong})


@pytest.mark.parametrize(("algorithm", "name"), [("dqn", "DQN"), ("a2c", "gamma")])
def test_what_it_does_not_fit_is_said_before_training(algorithm: str, name: str) -> None:
    more = {"gamma": 0.0} if name == "gamma" else {}
    chosen = load_hyperparameters(algorithm, f"{POOL}-v0", {"callback": "DiscountByTime", **more})
    with pytest.raises(ValueError, match=rf"{algorithm} does not fit: DiscountByTime: {name}"):
        chosen.build(chosen.wrap(make_vec_env(POOL, chosen.n_envs, seed=0)), seed=0, device="cpu")


def test_environments_must_say_how_much_time_passes() -> None:
    model = PPO("MlpPolicy", make_vec_env("DiscreteVCC-2019", 2, seed=0), n_steps=8, batch_size=8)
    with pytest.raises(ValueError, match="time_advanced"):
        model.learn(16, callback=DiscountByTime())
    with pytest.raises(ValueError, match="environment 1 reports no"):
        steps_of([{"time_advanced": 1}, {}])


@pytest.mark.parametrize("n_steps", [1, 3])
def test_discrete_sac_discounts_its_targets_by_time(n_steps: int) -> None:
    env = make_vec_env(POOL, 2, seed=0)
    more: dict[str, Any] = {"learning_starts": 30, "batch_size": 16, "n_steps": n_steps}
    model = DiscreteSAC("MultiInputPolicy", env, gamma=0.5, buffer_size=200, seed=0, **more)
    model.learn(80, callback=DiscountByTime())
    assert model.replay_buffer is not None
    steps = model.replay_buffer.time_steps[: model.replay_buffer.size()]
    assert set(np.unique(steps)) == {0.0, 1.0}
    drawn = model._sample_batch(400).discounts.numpy()
    assert set(np.unique(drawn)) <= set(0.5 ** np.arange(n_steps + 1))
    assert len(np.unique(drawn)) > 1
    model.learn(20, callback=DiscountByTime(), reset_num_timesteps=False)  # goes on by time


def test_a_buffer_without_the_time_of_its_transitions_is_refused() -> None:
    model = DiscreteSAC("MultiInputPolicy", make_vec_env(POOL, 1, seed=0), buffer_size=100, learning_starts=5)
    model.learn(10)
    with pytest.raises(ValueError, match="DiscountByTime: the replay buffer holds transitions without"):
        model.learn(10, callback=DiscountByTime(), reset_num_timesteps=False)


def test_it_belongs_to_algorithms_that_know_the_time() -> None:
    model = DQN("MultiInputPolicy", make_vec_env(POOL, 1, seed=0), buffer_size=10)
    with pytest.raises(ValueError, match="DQN must be an on-policy algorithm, such as PPO"):
        model.learn(10, callback=DiscountByTime())


def test_commands_experiments_and_trials_train_with_it(monkeypatch: Any, tmp_path: Any) -> None:
    rollouts: list[Any] = []
    monkeypatch.setattr(DiscountByTime, "_on_rollout_end", lambda self: rollouts.append(self.model))
    sizes = {"n_envs": 2, "n_steps": 16}
    run = [
        "--algo",
        "a2c",
        "--env",
        POOL,
        "--timesteps",
        "64",
        "--no-progress",
        "--out",
        str(tmp_path / "run"),
    ]
    assert train([*run, "--hparams", "n_envs=2", "n_steps=16", "callback=DiscountByTime"]) == 0
    assert len(rollouts) == 2
    settings = {**SC20_A2C.hyperparameters, **sizes}
    scenario = Scenario(POOL, {"episode_steps": 20})
    Training(scenario, replace(SC20_A2C, hyperparameters=settings), 64, 0, 1).compute()
    assert len(rollouts) == 4
    trial = make_objective(POOL, "a2c", 64, {"episode_steps": 20}, {"n_envs": 2}, evaluations=1, episodes=1)
    chosen = load_hyperparameters("a2c", f"{POOL}-v0", {**sizes, "callback": "DiscountByTime"})
    train_and_score(trial, chosen, lambda *_: False, lambda: False)
    assert len(rollouts) == 6


def test_rl_zoo3_is_told_where_it_is(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("GREENDC_ZOO", str(tmp_path))
    (tmp_path / "a2c.yml").write_text(
        "default: {policy: MlpPolicy, n_timesteps: 10, callback: DiscountByTime}"
    )
    (path,) = block_for_rl_zoo3("a2c", f"{POOL}-v0", {})["callback"]
    module, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(module), name) is DiscountByTime
