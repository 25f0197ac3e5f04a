"""SB3's ``evaluate_policy`` warns of masks that it does not give; ours gives them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env as make_sb3_vec_env
from stable_baselines3.common.evaluation import evaluate_policy as without_masks
from stable_baselines3.common.monitor import Monitor

from greendc.baselines import make_policy
from sb3_greendc import RecurrentPIDLagrangianPPO, evaluate_policy, make_vec_env
from sb3_greendc.evaluation.masked_evaluation import MaskedEvalCallback

POOL: dict[str, Any] = {"episode_steps": 30}


def single() -> Any:
    env = Monitor(gym.make("ResourcePool-10-v0", **POOL))
    env.reset(seed=1)
    return env


def batch() -> Any:
    return make_vec_env("ResourcePool-10-v0", 2, seed=1, **POOL)


def masked_model() -> MaskablePPO:
    """Return one of sb3-contrib's own policies, which needs masks in ``predict``."""
    return MaskablePPO("MultiInputPolicy", batch(), n_steps=8, batch_size=16, seed=0, device="cpu")


@pytest.mark.parametrize("make", [single, batch])
def test_sb3s_function_warns_and_names_ours_which_gives_masks(make: Any) -> None:
    model = masked_model()
    with pytest.warns(
        UserWarning, match=r"gives MaskablePPO no action masks: \d+ .*sb3_greendc.evaluate_policy"
    ):
        without_masks(model, make(), 2)
    invalid: list[float] = []

    def note(values: dict[str, Any], _: dict[str, Any]) -> None:
        if "episode_metrics" in values["info"]:
            invalid.append(values["info"]["episode_metrics"]["invalid_actions"])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean, std = evaluate_policy(model, make(), 2, callback=note)
    assert invalid == [0.0, 0.0]
    returns, lengths = evaluate_policy(model, make(), 2, deterministic=True, return_episode_rewards=True)
    assert isinstance(returns, list) and isinstance(lengths, list) and len(lengths) == 2
    assert mean == pytest.approx(sum(returns) / 2) and std >= 0.0


@pytest.mark.parametrize("make", [gym.make, make_vec_env])
@pytest.mark.parametrize(
    ("env_id", "options", "instead"),
    [
        ("ResourcePool-10-v0", POOL, "let time go on"),
        ("Cluster-v0", {"episode_jobs": 4, "workload_jobs": 20, "visible_jobs": 4}, "took the job in row 0"),
    ],
)
def test_the_warning_says_what_an_invalid_action_does(
    make: Any, env_id: str, options: dict[str, Any], instead: str
) -> None:
    batch = make_vec_env(env_id, 1, seed=1, **options)
    model = MaskablePPO("MultiInputPolicy", batch, n_steps=8, batch_size=8, seed=0, device="cpu")
    with pytest.warns(UserWarning, match=rf"were invalid and {instead}\. sb3_greendc"):
        without_masks(model, make(env_id, **options), 1, deterministic=False, warn=False)


def test_no_warning_for_models_without_masks() -> None:
    """Invalid actions are part of their learning. And a baseline takes valid ones only."""
    env = batch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PPO("MultiInputPolicy", env, n_steps=8, batch_size=16, seed=0, device="cpu")
        without_masks(model, batch(), 2, deterministic=False)
        without_masks(make_policy("hvf", env), env, 2)  # type: ignore[arg-type]
        assert evaluate_policy(make_policy("hvf", env), env, 2)[0] > 0.0


def test_the_same_as_sb3s_function_where_there_are_no_masks() -> None:
    env = make_vec_env("VCC-2019-v1", 2, seed=0, days=1)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=16, seed=0, device="cpu")
    env.seed(3)
    expected = without_masks(model, env, 2)
    env.seed(3)
    assert evaluate_policy(model, env, 2) == expected


class CueEnv(gym.Env[Any, Any]):
    """Shows which of three actions earns 1 at the first of six steps only; a mask forbids one other."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(3)

    def _observe(self) -> Any:
        return np.eye(3, dtype=np.float32)[self.cue] if self.t == 0 else np.zeros(3, np.float32)

    def action_masks(self) -> Any:
        return np.arange(3) != (self.cue + 1 + self.t % 2) % 3

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.cue = 0, int(self.np_random.integers(3))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_masks()[action], "an invalid action"
        reward = float(action == self.cue)
        self.t += 1
        return self._observe(), reward, self.t == 6, False, {"cost": 0.0}


class Remembers:
    """Plays the cue that its state holds; without a state, the first valid action."""

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        cues = np.full(len(observation), -1) if state is None else np.where(episode_start, -1, state[0])
        cues = np.where(observation.any(axis=1), observation.argmax(axis=1), cues)
        assert episode_start[observation.any(axis=1)].all() and deterministic
        return np.where(cues >= 0, cues, action_masks.argmax(axis=1)), (cues,)


class Spied(RecurrentPIDLagrangianPPO):
    """Notes the states that ``predict`` is given, and those that it returns."""

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        actions, after = super().predict(observation, state, episode_start, deterministic, action_masks)
        self.states = [*getattr(self, "states", []), (state, after)]
        return actions, after

    def carried(self) -> list[bool]:
        """Return for each prediction whether it was given what the one before returned; forget them."""
        given, returned = zip(*self.states, strict=True)
        self.states = []
        return [one is other for one, other in zip(given, (None, *returned[:-1]), strict=True)]


def recurrent_model(env: Any) -> Spied:
    return Spied("MlpLstmPolicy", env, cost_limit=1.0, n_steps=8, seed=0, device="cpu")


def test_a_recurrent_model_keeps_its_state_under_masks() -> None:
    env = make_sb3_vec_env(CueEnv, 3, seed=0)
    assert evaluate_policy(Remembers(), env, 20) == (6.0, 0.0)
    model = recurrent_model(env)
    evaluate_policy(model, env, 9)  # the environment fails on an invalid action
    assert model.carried() == [True] * 18
    assert model.states == []


def test_so_it_does_in_evaluations_during_training(tmp_path: Path) -> None:
    model = recurrent_model(make_sb3_vec_env(CueEnv, 2, seed=0))
    callback = MaskedEvalCallback(
        make_sb3_vec_env(CueEnv, 3, seed=1),
        n_eval_episodes=9,
        eval_freq=8,
        log_path=str(tmp_path),
        verbose=0,
    )
    model.learn(16, callback)
    assert model.carried() == [True] * 18
    assert callback.model is model
    assert np.load(tmp_path / "evaluations.npz")["ep_lengths"].tolist() == [[6] * 9]


def test_evaluations_during_training_are_those_of_sb3_where_there_are_no_masks(tmp_path: Path) -> None:
    means = []
    for kind in (EvalCallback, MaskedEvalCallback):
        env = make_vec_env("VCC-2019-v1", 2, seed=0, days=1)
        model = PPO("MlpPolicy", env, n_steps=8, batch_size=16, seed=0, device="cpu")
        best = tmp_path / kind.__name__
        callback = kind(
            make_vec_env("VCC-2019-v1", 2, seed=3, days=1), None, None, 2, 8, None, str(best), verbose=0
        )
        model.learn(16, callback)
        means.append(callback.last_mean_reward)
        assert (best / "best_model.zip").is_file()
    assert means[0] == means[1] > -np.inf
