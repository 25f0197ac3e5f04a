"""The controller by itself: reference traces, hand-computed steps, bounds, and resuming."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_greendc.pid_ppo import PRESETS, PIDController

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "vectors.json"
RENAMED = {"limit": "cost_limit", "a_p": "p_ema", "a_d": "d_ema", "lam_max": "lambda_max"}


def test_reference_traces() -> None:
    pid = json.loads(VECTORS.read_text())["pid"]
    for case in pid["cases"]:
        params = {RENAMED.get(name, name): value for name, value in case["params"].items()}
        params["lambda_max"] = math.inf if params["lambda_max"] is None else params["lambda_max"]
        controller = PIDController(**params)
        for step, cost in enumerate(pid["sequences"][case["sequence"]]):
            where = f"{case['sequence']}, {case['config']}, update {step}"
            assert controller.update(cost) == pytest.approx(case["lam"][step], rel=1e-9, abs=1e-9), where
            state = controller.state_dict()
            traced = {"integral": "I", "error": "P", "rise": "D", "cost": "C"}
            for name, letter in traced.items():
                assert state[name] == pytest.approx(case[letter][step], rel=1e-9, abs=1e-9), (where, letter)


def test_default_by_hand() -> None:
    controller = PIDController(10.0)  # scale 10, gains 1, .1, .5, smoothing .5, delay 2
    # e = 1, c = 2, both averages and the history start there, so there is no derivative yet.
    assert controller.update(20.0) == pytest.approx(0.1 + 1.0)
    # e = 2, c = 3: I = .3, P = 1.5, C = 2.5, two updates ago (before the first) C was 2.
    assert controller.update(30.0) == pytest.approx(0.3 + 1.5 + 0.5 * 0.5)
    # e = -1, c = 0: I = .2, P = .25, C = 1.25 < 2, a falling cost has no derivative.
    assert controller.update(0.0) == pytest.approx(0.2 + 0.25)


def test_no_finished_episode_changes_nothing() -> None:
    controller = PIDController(10.0)
    controller.update(15.0)
    before = controller.state_dict()
    assert controller.update(None) == before["lagrange_multiplier"]
    assert controller.state_dict() == before


def test_scale_and_bound_prevent_windup() -> None:
    costs = 6 * [200.0] + 6 * [0.0]
    printed = PIDController.from_preset("cocorl", 25.0)
    bounded = PIDController.from_preset("cocorl", 25.0, scale=None, lambda_max=5.0)
    printed_trace = [printed.update(cost) for cost in costs]
    bounded_trace = [bounded.update(cost) for cost in costs]
    assert printed_trace[5] == 1400.0
    assert printed_trace[-1] == 850.0
    assert bounded_trace[5] == 5.0
    assert bounded_trace[8] == 0.0  # the third safe update


def test_scale_makes_gains_independent_of_units() -> None:
    small, large = PIDController(15.0), PIDController(1500.0)
    for cost in (30.0, 10.0, 18.0, 15.0, 40.0):
        assert small.update(cost) == pytest.approx(large.update(100.0 * cost))


def test_no_limit_no_multiplier() -> None:
    controller = PIDController(math.inf, init=3.0)
    assert controller.lagrange_multiplier == 0.0
    assert controller.update(1e9) == 0.0


def test_starts_at_init_within_bounds() -> None:
    assert PIDController(1.0, init=0.5).lagrange_multiplier == 0.5
    assert PIDController(1.0, init=5.0, lambda_max=2.0).lagrange_multiplier == 2.0


@given(
    costs=st.lists(st.one_of(st.none(), st.floats(0.0, 1e6)), max_size=12),
    limit=st.floats(0.0, 1e4),
    preset=st.sampled_from(sorted(PRESETS)),
    lambda_max=st.floats(0.1, 50.0),
    cut=st.integers(0, 12),
)
def test_bounded_and_resumable(
    costs: list[float | None], limit: float, preset: str, lambda_max: float, cut: int
) -> None:
    whole = PIDController.from_preset(preset, limit, lambda_max=lambda_max)
    part = PIDController.from_preset(preset, limit, lambda_max=lambda_max)
    for step, cost in enumerate(costs):
        if step == cut:
            state = json.loads(json.dumps(part.state_dict()))  # plain numbers
            part = PIDController.from_preset(preset, limit, lambda_max=lambda_max)
            part.load_state_dict(state)
        multiplier = whole.update(cost)
        assert 0.0 <= multiplier <= lambda_max
        assert part.update(cost) == multiplier


@pytest.mark.parametrize(
    "wrong",
    [
        {"cost_limit": -1.0},
        {"cost_limit": math.nan},
        {"scale": 0.0},
        {"kp": -0.1},
        {"ki": -0.1},
        {"kd": math.nan},
        {"p_ema": 1.0},
        {"d_ema": -0.5},
        {"delay": 0},
        {"delay": 1.5},
        {"init": -1.0},
        {"lambda_max": 0.0},
        {"ema_init": "frist"},
    ],
)
def test_bad_settings_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PIDController(**{"cost_limit": 1.0, **wrong})


def test_bad_costs_presets_and_states() -> None:
    controller = PIDController(1.0)
    for cost in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="episode_cost"):
            controller.update(cost)
    with pytest.raises(ValueError, match="did you mean 'stooke'"):
        PIDController.from_preset("stoke", 1.0)
    with pytest.raises(KeyError, match="integral"):
        controller.load_state_dict({"error": 0.0})
    controller.load_state_dict({"error": 0.25}, strict=False)
    assert controller.state_dict()["error"] == 0.25


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("n_updates", [0, 1, 5])
@pytest.mark.parametrize(("before", "limit"), [(100.0, 10.0), (10.0, 100.0)])
def test_the_error_is_judged_by_a_new_limit(preset: str, n_updates: int, before: float, limit: float) -> None:
    """The proportional term is what it were had the limit been the new one from the beginning."""
    changed, always = (PIDController.from_preset(preset, of) for of in (before, limit))
    for cost in [20.0, 30.0, 25.0, 40.0, 20.0][:n_updates]:
        changed.update(cost)
        always.update(cost)
    new = PIDController.from_preset(preset, limit)
    new.continue_from(changed)
    assert new.terms[0] == pytest.approx(always.terms[0])
    assert new.terms[2] == pytest.approx(always.terms[2])


@pytest.mark.parametrize("preset", PRESETS)
def test_after_a_time_without_a_limit_the_integral_alone_goes_on(preset: str) -> None:
    first, none, last = (PIDController.from_preset(preset, limit) for limit in (10.0, math.inf, 100.0))
    for cost in (20.0, 30.0):
        first.update(cost)
    none.continue_from(first)
    assert none.lagrange_multiplier == none.update(1e6) == 0.0
    last.continue_from(none)
    integral = first.terms[1]
    assert integral > 0.0 and last.terms == (0.0, integral, 0.0)
    assert last.lagrange_multiplier == integral
    fresh = PIDController.from_preset(preset, 100.0, init=integral)
    assert last.update(120.0) == fresh.update(120.0)
    assert last.state_dict() == fresh.state_dict()
