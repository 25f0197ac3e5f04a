"""The critics' target comes from the target networks, and from the actor that acts now."""

from __future__ import annotations

import pytest
import torch as th
from algorithm_cases import MaskedToyEnv

from sb3_greendc import DiscreteSAC


@pytest.mark.parametrize(("network", "moves"), [("critic", False), ("critic_target", True), ("actor", True)])
def test_whose_values_the_target_is_made_of(network: str, moves: bool) -> None:
    model = DiscreteSAC(
        "MultiInputPolicy",
        MaskedToyEnv("discrete"),
        learning_starts=20,
        batch_size=16,
        policy_kwargs={"net_arch": [16]},
        device="cpu",
        seed=0,
    ).learn(40)
    batch = model._sample_batch(32)
    before = model.losses(batch, 0.1).target
    generator = th.Generator().manual_seed(1)
    with th.no_grad():
        for parameter in getattr(model.policy, network).parameters():
            parameter.add_(th.randn(parameter.shape, generator=generator))
    assert th.equal(before, model.losses(batch, 0.1).target) != moves
