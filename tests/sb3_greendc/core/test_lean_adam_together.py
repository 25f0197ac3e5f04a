"""A joint step of Adam optimizers is one step of each, bit by bit, whatever their state and settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch as th

from sb3_greendc.core import lean_adam
from sb3_greendc.core.lean_adam import clear_gradients, step_together

FUSED = {"fused": True}
CASES: dict[str, list[dict[str, Any]]] = {
    "alike": [FUSED, FUSED, FUSED],
    "one": [FUSED],
    "with decay": [{**FUSED, "weight_decay": 0.1}] * 2,
    "other rates": [{**FUSED, "lr": 0.1}, FUSED],
    "other eps": [FUSED, {**FUSED, "eps": 1e-3}],
    "amsgrad": [{**FUSED, "amsgrad": True}, FUSED],
    "not fused": [{}, FUSED],
}
ONE_KERNEL = {"alike", "one", "with decay"}


def make(settings: Sequence[dict[str, Any]]) -> list[th.optim.Optimizer]:
    th.manual_seed(0)
    return [
        th.optim.Adam([th.randn(4, 3, requires_grad=True), th.randn((), requires_grad=True)], **options)
        for options in settings
    ]


def parameters(optimizers: Sequence[th.optim.Optimizer]) -> list[th.Tensor]:
    return [p for optimizer in optimizers for p in optimizer.param_groups[0]["params"]]


def each(optimizers: Sequence[th.optim.Optimizer]) -> None:
    for optimizer in optimizers:
        optimizer.step()


def trained(
    settings: Sequence[dict[str, Any]], step: Callable[[Sequence[th.optim.Optimizer]], None]
) -> list[th.Tensor]:
    """Return parameters and state after steps: only one optimizer begins, and one gradient lacks."""
    optimizers = make(settings)
    generator = th.Generator().manual_seed(1)
    for number in range(6):
        clear_gradients(optimizers)
        assert all(parameter.grad is None for parameter in parameters(optimizers))
        stepping = optimizers if number >= 2 else optimizers[:1]
        for k, parameter in enumerate(parameters(stepping)):
            if (number, k) != (4, 1):
                parameter.grad = th.randn(parameter.shape, generator=generator)
        step(stepping)
    state = [value for one in optimizers for entry in one.state.values() for value in entry.values()]
    return [*parameters(optimizers), *state]


@pytest.mark.parametrize("case", CASES)
def test_a_joint_step_is_a_step_of_each(case: str) -> None:
    ours, theirs = trained(CASES[case], step_together), trained(CASES[case], each)
    assert len(ours) == len(theirs)
    assert all(th.equal(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_optimizers_of_one_setting_step_by_one_kernel(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    kernel = th._fused_adam_
    monkeypatch.setattr(
        lean_adam.th, "_fused_adam_", lambda *a, **k: calls.append(len(a[0])) or kernel(*a, **k)
    )
    trained(CASES[case], step_together)
    everything = 2 * len(CASES[case])
    assert (everything in calls) == (case in ONE_KERNEL or everything == 2)


def test_hooks_and_schedulers_hear_of_each_step() -> None:
    (optimizer,) = make([FUSED])
    heard = []
    optimizer.register_step_post_hook(lambda *_: heard.append(1))
    for _ in range(3):
        for parameter in parameters([optimizer]):
            parameter.grad = th.ones_like(parameter)
        step_together([optimizer])
    assert len(heard) == 3
