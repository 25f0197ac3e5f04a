"""The LSTM over sequences of a rollout: as sb3-contrib's, in one call."""

from __future__ import annotations

from typing import Any

import pytest
import torch as th
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from torch import nn

from sb3_greendc import RecurrentPIDLagrangianPPO
from sb3_greendc.recurrent_pid_ppo.policies import CostRecurrentActorCriticPolicy

SEQUENCES, LENGTH, SEEN, HIDDEN = 4, 6, 3, 5


def sequences(layers: int) -> tuple[nn.LSTM, th.Tensor, tuple[th.Tensor, th.Tensor]]:
    """An LSTM, features of padded sequences, and the states before them."""
    th.manual_seed(0)
    lstm = nn.LSTM(SEEN, HIDDEN, num_layers=layers)
    states = (th.randn(layers, SEQUENCES, HIDDEN), th.randn(layers, SEQUENCES, HIDDEN))
    return lstm, th.randn(SEQUENCES * LENGTH, SEEN), states


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(
    ("begin", "calls"),
    [
        ([], 1),
        ([(0, 0), (2, 0)], 1),
        ([(k, 0) for k in range(SEQUENCES)], 1),
        ([(1, 3)], LENGTH),  # no buffer makes such sequences
        ([(0, 0), (1, LENGTH - 1)], LENGTH),
    ],
)
def test_outputs_states_and_gradients_are_those_of_sb3_contrib(
    layers: int, begin: list[tuple[int, int]], calls: int
) -> None:
    lstm, features, states = sequences(layers)
    starts = th.zeros(SEQUENCES, LENGTH)
    for place in begin:
        starts[place] = 1.0
    counted: list[int] = []
    lstm.register_forward_hook(lambda *_: counted.append(1))
    found = []
    for policy in (CostRecurrentActorCriticPolicy, RecurrentActorCriticPolicy):
        counted.clear()
        output, after = policy._process_sequence(features, states, starts.flatten(), lstm)
        if policy is CostRecurrentActorCriticPolicy:
            assert len(counted) == calls
        lstm.zero_grad()
        (output**2).sum().backward()
        found.append([output, *after, *(weights.grad for weights in lstm.parameters())])
    for ours, theirs in zip(*found, strict=True):
        th.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_training_never_goes_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("an episode begins within a sequence")

    monkeypatch.setattr(RecurrentActorCriticPolicy, "_process_sequence", staticmethod(refuse))
    model = RecurrentPIDLagrangianPPO(
        "MlpLstmPolicy", "CartPole-v1", cost_limit=float("inf"), n_steps=64, batch_size=48, seed=0
    )
    episodes: list[int] = []
    model.learn(128, callback=lambda scope, _: bool(episodes.extend(scope["dones"].tolist()) or True))
    assert sum(episodes) > 2
