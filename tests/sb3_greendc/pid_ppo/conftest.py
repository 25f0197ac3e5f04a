"""What tests of PIDLagrangianPPO share."""

from __future__ import annotations

import pytest

from sb3_greendc.pid_ppo.controller import PIDController


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """What controllers are shown."""
    seen: list[float | None] = []
    update = PIDController.update

    def spy(self: PIDController, episode_cost: float | None) -> float:
        seen.append(episode_cost)
        return update(self, episode_cost)

    monkeypatch.setattr(PIDController, "update", spy)
    return seen
