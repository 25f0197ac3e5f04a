"""Fixtures for everything that runs environments by id."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from typing import Any

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


@pytest.fixture
def without_module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what makes a package look as if it were not installed."""
    imported = builtins.__import__

    def hide(package: str) -> None:
        def refuse(name: str, *rest: Any, **more: Any) -> Any:
            if name == package:
                raise ImportError(name)
            return imported(name, *rest, **more)

        monkeypatch.delitem(sys.modules, package, raising=False)
        monkeypatch.setattr(builtins, "__import__", refuse)

    return hide
