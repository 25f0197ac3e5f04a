"""Presets set options, unless one was given that contradicts them."""

from __future__ import annotations

from typing import Any

import pytest

from sb3_greendc.core.presets import apply_preset

PRESETS: dict[str, dict[str, Any]] = {"slow": {"rate": 0.1, "critics": 1}}


def learner(rate: float = 0.5, critics: int = 2, scale: float = 1.0) -> None:
    """Have defaults."""


def test_a_preset_sets_its_options_and_no_others() -> None:
    given = {"rate": 0.5, "critics": 2, "scale": 3.0}
    assert apply_preset(PRESETS, "slow", given, learner) == {"rate": 0.1, "critics": 1, "scale": 3.0}
    assert apply_preset(PRESETS, None, given, learner) == given


def test_what_was_given_may_agree_but_not_contradict() -> None:
    assert apply_preset(PRESETS, "slow", {"rate": 0.1, "critics": 2}, learner)["critics"] == 1
    with pytest.raises(ValueError, match=r"rate=0\.2 contradicts preset='slow', which sets 0\.1"):
        apply_preset(PRESETS, "slow", {"rate": 0.2, "critics": 2}, learner)
    with pytest.raises(ValueError, match=r"preset='slwo': must be one of 'slow'"):
        apply_preset(PRESETS, "slwo", {"rate": 0.1, "critics": 2}, learner)
