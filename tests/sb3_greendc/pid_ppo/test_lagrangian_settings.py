"""Settings of the constrained algorithms: wrong ones, and ones that change when a model is loaded."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from cmdp_envs import ContextCMDP, ScriptedEnv
from lagrangian_cases import FORMS, build
from stable_baselines3.common.env_util import make_vec_env

from sb3_greendc.pid_ppo import PIDLagrangianPPO
from sb3_greendc.pid_ppo.buffers import CostRolloutBuffer
from sb3_greendc.pid_ppo.lagrangian import PIDLagrangian
from sb3_greendc.recurrent_pid_ppo import RecurrentPIDLagrangianPPO

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cost_limit": -1.0}, ValueError, "cost_limit=-1.0"),
    ({"cost_limit": None}, ValueError, "needs cost_limit"),
    ({"cost_limit": "15"}, ValueError, "cost_limit='15': must be a number"),
    ({"cost_limit": [15.0]}, ValueError, r"cost_limit=\[15\.0\]: must be a number"),
    ({"kp": -1.0}, ValueError, "kp=-1.0"),
    ({"kp": "1"}, ValueError, "kp='1': must be a number"),
    ({"preset": "cocrl"}, ValueError, "did you mean 'cocorl'"),
    ({"adv_norm": "both"}, ValueError, "adv_norm='both'"),
    ({"normalize_advantage": False}, TypeError, "use adv_norm"),
    ({"min_episodes": 0}, ValueError, "min_episodes=0"),
    ({"min_episodes": "a"}, ValueError, "min_episodes='a': must be a whole number"),
    ({"min_episodes": math.nan}, ValueError, "min_episodes=nan"),
    ({"cost_gamma": 1.5}, ValueError, "cost_gamma=1.5"),
    ({"cost_gamma": "x"}, ValueError, "cost_gamma='x': must be a number"),
    ({"gamma": math.nan}, ValueError, "gamma=nan"),
    ({"gae_lambda": "x"}, ValueError, "gae_lambda='x': must be a number"),
    ({"n_epochs": 0}, ValueError, "n_epochs=0"),
    ({"delay": math.nan}, ValueError, "delay=nan: must be a whole number"),
    ({"cost_vf_coef": -1.0}, ValueError, "cost_vf_coef=-1.0"),
    ({"cost_vf_coef": math.inf}, ValueError, "cost_vf_coef=inf"),
]
"""Settings that a constructor and ``load`` refuse, and what they say."""


def settings_of(model: PIDLagrangian) -> dict[str, Any]:
    """Return what a new model of the same settings has in common with this one."""
    controller = {key: value for key, value in vars(model.controller).items() if key[0] != "_"}
    names = ("cost_limit", "controller_settings", "adv_norm", "normalize_advantage", "cost_gamma", "gamma")
    return {**controller, **{name: getattr(model, name) for name in names}}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("include", [None, ()], ids=["safe", "of SB3"])
@pytest.mark.parametrize(
    "changes",
    [
        {"kp": 7.0, "lambda_max": 2.0},
        {"preset": "cocorl"},
        {"preset": "default", "ki": 0.4},
        {"cost_limit": 15.0, "scale": 2.0},
        {"cost_limit": 1.5, "adv_norm": "separate"},
        {"gamma": 0.5},
    ],
    ids=str,
)
def test_settings_change_when_a_model_is_loaded(
    form: str, include: Any, changes: dict[str, Any], tmp_path: Path
) -> None:
    """They are those of a new model with the saved settings and the changed ones; the multiplier goes on."""
    saved = {"preset": "stooke", "kp": 0.7, "cost_limit": 4.0}
    model = build(form, make_vec_env(ScriptedEnv, 2), **saved)
    model.learn(64)
    model.save(tmp_path / "model", include=include)
    loaded = type(model).load(tmp_path / "model", env=make_vec_env(ScriptedEnv, 2), device="cpu", **changes)
    if "preset" in changes:
        saved.pop("kp")
    assert settings_of(loaded) == settings_of(
        build(form, make_vec_env(ScriptedEnv, 2), **{**saved, **changes})
    )
    bound = changes.get("lambda_max", math.inf)
    assert loaded.lagrange_multiplier == min(model.lagrange_multiplier, bound) > 0.0
    assert not set(changes) & (vars(loaded).keys() - {"cost_limit", "adv_norm", "gamma"})
    loaded.learn(64, reset_num_timesteps=False)
    loaded.save(tmp_path / "again")
    assert settings_of(type(model).load(tmp_path / "again")) == settings_of(loaded)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        *WRONG,
        ({"init": 1.0}, ValueError, "init=1.0: a loaded model goes on from the multiplier"),
    ],
    ids=str,
)
def test_loading_checks_settings_as_the_constructor_does(
    wrong: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    build("feed-forward", ContextCMDP()).save(tmp_path / "model")
    with pytest.raises(error, match=message):
        PIDLagrangianPPO.load(tmp_path / "model", **wrong)


def test_the_limit_may_change_between_two_calls_of_learn() -> None:
    """An episode costs 10. What was smoothed is judged by the new limit, on its scale."""
    model = build("feed-forward", make_vec_env(ScriptedEnv, 2), cost_limit=4.0)
    model.learn(64)
    multiplier = model.lagrange_multiplier
    model.cost_limit = 5.0
    assert model.cost_limit == model.controller.cost_limit == model.controller.scale == 5.0
    assert model.lagrange_multiplier == multiplier > 0.0
    model.learn(64, reset_num_timesteps=False)
    proportional, integral, derivative = model.controller.terms
    assert proportional == pytest.approx((10 - 5) / 5.0)
    assert integral == pytest.approx(0.1 * (10 - 4) / 4.0 + 0.1 * (10 - 5) / 5.0)
    assert derivative == pytest.approx(0.0)  # the cost did not rise
    with pytest.raises(ValueError, match=r"cost_limit=-1\.0"):
        model.cost_limit = -1.0
    assert model.cost_limit == model.controller.cost_limit == 5.0
    model.cost_limit = math.inf
    assert model.lagrange_multiplier == 0.0


@pytest.mark.parametrize("form", FORMS)
def test_costs_are_discounted_as_rewards_unless_said_otherwise(
    form: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    used: list[tuple[float, float]] = []
    compute = CostRolloutBuffer.compute_cost_returns_and_advantage

    def spy(self: CostRolloutBuffer, *args: Any) -> None:
        used.append(args[-2:])
        compute(self, *args)

    monkeypatch.setattr(CostRolloutBuffer, "compute_cost_returns_and_advantage", spy)
    build(form, make_vec_env(ScriptedEnv, 2), gamma=0.9, gae_lambda=0.8).learn(64).save(tmp_path / "a")
    build(form, make_vec_env(ScriptedEnv, 2), cost_gamma=0.7, cost_gae_lambda=0.6).learn(64).save(
        tmp_path / "b"
    )
    for name in ("a", "b"):
        cls = RecurrentPIDLagrangianPPO if form == "recurrent" else PIDLagrangianPPO
        cls.load(tmp_path / name, env=make_vec_env(ScriptedEnv, 2), gamma=0.5).learn(64)
    assert used == [(0.9, 0.8), (0.7, 0.6), (0.5, 0.8), (0.7, 0.6)]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        *WRONG,
        ({"cost_limit": math.nan}, ValueError, "cost_limit=nan"),
        ({"cost_gae_lambda": -0.5}, ValueError, "cost_gae_lambda=-0.5"),
        ({"clip_range_cost_vf": 0.0}, ValueError, "clip_range_cost_vf=0.0"),
        ({"clip_range_cost_vf": "x"}, ValueError, "clip_range_cost_vf='x'"),
        ({"k_p": 1.0}, TypeError, "k_p"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_wrong_settings(form: str, wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(form, ContextCMDP(), **wrong)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("include", [None, ()], ids=["safe", "of SB3"])
def test_settings_among_custom_objects_are_settings(form: str, include: Any, tmp_path: Path) -> None:
    model = build(form, make_vec_env(ScriptedEnv, 2))
    model.learn(64)
    model.save(tmp_path / "model", include=include)
    changes: dict[str, Any] = {"kp": 9.0, "cost_limit": 1.5, "adv_norm": "separate"}
    wanted = type(model).load(tmp_path / "model", **changes)
    found = type(model).load(tmp_path / "model", custom_objects=dict(changes))
    assert settings_of(found) == settings_of(wanted)
    assert found.controller.state_dict() == wanted.controller.state_dict()
    assert found.controller.kp == 9.0
    assert "kp" not in vars(found)
    both = type(model).load(tmp_path / "model", custom_objects={"kp": 9.0}, kp=3.0)
    assert both.controller.kp == 3.0
    with pytest.raises(TypeError, match="use adv_norm"):
        type(model).load(tmp_path / "model", custom_objects={"normalize_advantage": False})


@pytest.mark.parametrize("form", FORMS)
def test_settings_that_are_set_later_are_checked_and_followed(form: str) -> None:
    for name, value in (
        ("cost_gamma", 7.0),
        ("min_episodes", 0),
        ("adv_norm", "both"),
        ("cost_vf_coef", -1.0),
    ):
        model = build(form, make_vec_env(ScriptedEnv, 2))
        setattr(model, name, value)
        with pytest.raises(ValueError, match=f"{name}="):
            model.learn(64)
    model = build(form, make_vec_env(ScriptedEnv, 2))
    model.adv_norm = "none"
    model.learn(64)
    assert not model.normalize_advantage
