"""Training that is stopped, resumed or given another limit: no episode is lost, merged or counted late."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from cmdp_envs import ScriptedEnv
from lagrangian_cases import FORMS, build, same_weights
from stable_baselines3.common.callbacks import BaseCallback, StopTrainingOnMaxEpisodes
from stable_baselines3.common.env_util import make_vec_env

from sb3_greendc.pid_ppo.lagrangian import PIDLagrangian
from sb3_greendc.runs.resume import Checkpointing, learn

FIVE_STEPS = 10.0
"""Cost of an episode of five steps."""


def masked(form: str) -> PIDLagrangian:
    """Return a model whose masks come from the method of its environments."""
    env = make_vec_env(ScriptedEnv, 2, seed=0, env_kwargs={"masks": "method"})
    return build(form, env)


@pytest.mark.parametrize("form", FORMS)
def test_a_run_under_masks_of_the_environment_is_resumed_bit_for_bit(form: str, tmp_path: Path) -> None:
    whole, checkpoints = masked(form), Checkpointing(tmp_path, 64, {})
    learn(whole, 192, checkpoints)
    path = next(path for path in checkpoints.folder.paths() if "128" in path.name)
    resumed, others = masked(form), Checkpointing(tmp_path / "others", 64, {})
    others.resume(resumed, checkpoints.folder.read(path))
    assert resumed.policy.mask_source is None
    assert not same_weights(whole, resumed)
    learn(resumed, 192, others)
    assert others.resumed_at == 128
    assert same_weights(whole, resumed)
    assert whole.controller.state_dict() == resumed.controller.state_dict()
    assert whole.episode_costs.running.tolist() == resumed.episode_costs.running.tolist()
    for name in ("actions", "action_masks", "log_probs", "cost_values"):
        np.testing.assert_array_equal(
            getattr(whole.rollout_buffer, name), getattr(resumed.rollout_buffer, name)
        )
    state = whole.policy.optimizer.state_dict()["state"]
    for key, entries in resumed.policy.optimizer.state_dict()["state"].items():
        assert all(th.equal(entries[name], value) for name, value in state[key].items())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["set", "load"])
def test_a_limit_judges_no_episode_from_before_it_was_set(
    form: str, how: str, tmp_path: Path, shown: list[float | None]
) -> None:
    model = build(form, make_vec_env(ScriptedEnv, 2, env_kwargs={"base": 20.0}), cost_limit=math.inf)
    model.learn(128)
    model.episode_costs.finished = [110.0] * 128  # as files of earlier versions have them
    if how == "load":
        model.save(tmp_path / "model")
        model = type(model).load(tmp_path / "model", cost_limit=FIVE_STEPS)
    else:
        model.cost_limit = FIVE_STEPS
    model.set_env(make_vec_env(ScriptedEnv, 2))
    assert model.episode_costs.finished == []
    model.learn(64, reset_num_timesteps=False)
    assert shown == [FIVE_STEPS]
    assert model.lagrange_multiplier == 0.0


def test_another_limit_keeps_the_episodes_that_wait() -> None:
    model = build("feed-forward", make_vec_env(ScriptedEnv, 2), min_episodes=100)
    model.learn(64)
    model.cost_limit = 1.0
    assert model.episode_costs.finished == 12 * [FIVE_STEPS]


class Longest(BaseCallback):
    """Notes the largest number of finished episodes that are kept."""

    longest = 0

    def _on_step(self) -> bool:
        self.longest = max(self.longest, len(self.model.episode_costs.finished))
        return True


@pytest.mark.parametrize("form", FORMS)
def test_without_a_limit_episodes_of_one_rollout_are_kept(form: str) -> None:
    model, longest = build(form, make_vec_env(ScriptedEnv, 2), cost_limit=math.inf), Longest()
    model.learn(4 * 64, longest)
    assert 10 <= longest.longest <= 14  # a rollout has 2 * 6 or 2 * 7
    assert model.episode_costs.finished == []


@pytest.mark.parametrize("other", [False, True], ids=["reset", "another environment"])
def test_episodes_that_wait_are_forgotten_with_their_environment(
    other: bool, shown: list[float | None]
) -> None:
    model = build("feed-forward", make_vec_env(ScriptedEnv, 1, env_kwargs={"base": 20.0}), min_episodes=8)
    model.learn(32)
    assert len(model.episode_costs.finished) == 6
    if other:
        model.set_env(make_vec_env(ScriptedEnv, 1))
    model.learn(64, reset_num_timesteps=not other)
    assert shown == [None, None, FIVE_STEPS + (0.0 if other else 100.0)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limit", [4.0, math.inf])
def test_a_callback_that_stops_in_an_episodes_last_step_loses_none(
    form: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(form, make_vec_env(ScriptedEnv, 1), cost_limit=limit)
    model.learn(32, callback=StopTrainingOnMaxEpisodes(3))
    assert model.num_timesteps == 15
    assert model.episode_costs.finished == 3 * [FIVE_STEPS]
    reported: list[Any] = []
    monkeypatch.setattr(model, "_report_episodes", reported.extend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(32, reset_num_timesteps=False)
    assert reported == 6 * [FIVE_STEPS]
    assert model.episode_costs.running.tolist() == [0 + 1]
