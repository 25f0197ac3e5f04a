"""Fixtures for everything that runs environments by id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest
from toy_simulator import TOY_FAMILY, Level

import greendc.registration
from greendc import baselines


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register ``Toy``, ``DiscreteToy`` and ``MaskedToy``, with baselines ``all`` and ``half``."""
    levels = {"all": 1.0, "half": 0.5}
    names, make_policy = baselines.names, baselines.make_policy

    def names_with_toy(family: str) -> Any:
        return list(levels) if family == "toy" else names(family)

    def make_policy_with_toy(name: str, env: Any) -> Any:
        return Level(env, levels[name]) if name in levels else make_policy(name, env)

    monkeypatch.setattr(greendc.registration, "FAMILIES", (*greendc.registration.FAMILIES, TOY_FAMILY))
    monkeypatch.setattr(baselines, "names", names_with_toy)
    monkeypatch.setattr(baselines, "make_policy", make_policy_with_toy)
    greendc.registration.register_all()
    yield
    for env_id in TOY_FAMILY.presets:
        del gym.registry[env_id]
