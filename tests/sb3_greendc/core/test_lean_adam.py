"""LeanAdam is Adam: the same parameters and the same state, and torch does what it leaves to it."""

from __future__ import annotations

import copy

import pytest
import torch as th

from sb3_greendc.core.lean_adam import LeanAdam

CASES = {
    "plain": {},
    "decay": {"weight_decay": 0.1, "betas": (0.5, 0.9), "eps": 1e-3},
    "amsgrad": {"amsgrad": True},
    "maximize": {"maximize": True},
    "not fused": {"fused": False},
}


def steps(optimizer, parameters, n, start=0):
    for k in range(start, start + n):
        optimizer.zero_grad()
        for i, parameter in enumerate(parameters):
            if (i, k) != (1, 0) and (i, k) != (0, 2):  # one comes later, one rests
                parameter.grad = th.sin(parameter.detach() * (k + 2) + i)
        optimizer.step()


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_steps_are_those_of_adam(options):
    th.manual_seed(0)
    ours = [th.randn(4, 3, requires_grad=True), th.randn(3, requires_grad=True)]
    theirs = copy.deepcopy(ours)
    lean, adam = (
        cls(x, lr=0.01, **{"fused": True, **options})
        for cls, x in ((LeanAdam, ours), (th.optim.Adam, theirs))
    )
    for optimizer, parameters in ((lean, ours), (adam, theirs)):
        steps(optimizer, parameters, 4)
        optimizer.param_groups[0]["lr"] = 0.1
        steps(optimizer, parameters, 2, start=4)
    assert all(th.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    found, expected = lean.state_dict(), adam.state_dict()
    assert found["param_groups"] == expected["param_groups"]
    for i in expected["state"]:
        assert all(th.equal(found["state"][i][key], value) for key, value in expected["state"][i].items())


def test_it_goes_on_from_adams_state():
    theirs = [th.ones(3, requires_grad=True), th.ones(2, requires_grad=True)]
    adam = th.optim.Adam(theirs, lr=0.01, fused=True)
    steps(adam, theirs, 3)
    ours = copy.deepcopy(theirs)
    lean = LeanAdam(ours, lr=1.0, fused=True)
    lean.load_state_dict(copy.deepcopy(adam.state_dict()))
    steps(adam, theirs, 3, start=3)
    steps(lean, ours, 3, start=3)
    assert all(th.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_hooks_are_called():
    parameters = [th.ones(2, requires_grad=True)]
    optimizer = LeanAdam(parameters, lr=0.1, fused=True)
    steps(optimizer, parameters, 1)
    called = []
    optimizer.register_step_pre_hook(lambda *_: called.append("before"))
    steps(optimizer, parameters, 1)
    assert called == ["before"]


def test_gradients_are_dropped_or_zeroed_and_a_closure_is_called():
    (parameter,) = parameters = [th.ones(2, requires_grad=True)]
    optimizer = LeanAdam(parameters, lr=0.1, fused=True)
    parameter.grad = th.ones(2)
    optimizer.zero_grad(set_to_none=False)
    assert parameter.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert parameter.grad is None
    assert optimizer.step(lambda: 3.0) == 3.0
