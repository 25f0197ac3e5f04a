"""Fixtures for everything that runs environments by id."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym
import pytest
from toy_simulator import TOY_BASELINES, TOY_FAMILY

import greendc.registration
from greendc.baselines import registry


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register ``Toy``, ``DiscreteToy`` and ``MaskedToy``, with baselines ``all`` and ``half``."""
    monkeypatch.setattr(greendc.registration, "FAMILIES", (*greendc.registration.FAMILIES, TOY_FAMILY))
    monkeypatch.setitem(registry._FAMILIES, "toy", TOY_BASELINES)
    greendc.registration.register_all()
    yield
    for env_id in TOY_FAMILY.presets:
        del gym.registry[env_id]
