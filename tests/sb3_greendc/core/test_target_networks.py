"""Slow copies of networks: where they begin, how they follow, and how often."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch as th
from gymnasium import spaces

from sb3_greendc.crr import CRR
from sb3_greendc.crr.policies import CRRPolicy
from sb3_greendc.datasets import OfflineDataset


def policy() -> CRRPolicy:
    spaces_ = spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(4)
    made = CRRPolicy(*spaces_, lambda _: 1e-3, net_arch={"shared": [8], "pi": [8], "qf": [8]})
    assert len(made._target) == len(made._online) >= 6
    return made


def test_targets_begin_as_copies() -> None:
    made = policy()
    for online, target in zip(made._online, made._target, strict=True):
        assert th.equal(online, target) and online is not target and not target.requires_grad


@pytest.mark.parametrize("tau", [0.25, 1.0])
def test_targets_move_by_a_share_of_the_way(tau: float) -> None:
    made = policy()
    with th.no_grad():
        for parameter in made._online:
            parameter.add_(1.0)
    before = [target.clone() for target in made._target]
    made.update_targets(tau)
    for start, online, target in zip(before, made._online, made._target, strict=True):
        th.testing.assert_close(target, start + tau * (online - start))


@pytest.mark.parametrize("interval", [1, 3])
def test_crr_moves_its_targets_at_its_interval(interval: int) -> None:
    data: dict[str, Any] = {
        "obs": th.randn(40, 3).clamp(-1, 1).numpy(),
        "next_obs": th.randn(40, 3).clamp(-1, 1).numpy(),
        "actions": th.arange(40).numpy() % 4,
        "rewards": th.randn(40).numpy(),
        "terminated": th.arange(40).numpy() % 10 == 9,
        "truncated": th.zeros(40, dtype=th.bool).numpy(),
    }
    spaces_ = spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(4)
    dataset = OfflineDataset.from_dict(data, *spaces_)
    model = CRR("MlpPolicy", dataset=dataset, target_update_interval=interval, batch_size=8, device="cpu")
    moved = []
    for _ in range(6):
        before = copy.deepcopy(model.policy._target)
        model.learn(1, reset_num_timesteps=False)
        moved.append(any(not th.equal(a, b) for a, b in zip(before, model.policy._target, strict=True)))
    assert moved == [update % interval == 0 for update in range(1, 7)]
