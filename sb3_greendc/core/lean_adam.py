"""Adam by torch's fused kernel and little else: one optimizer, or several in one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch as th

_SHARED = ("lr", "betas", "eps", "weight_decay")
_NEEDED = {
    "fused": True,
    "amsgrad": False,
    "maximize": False,
    "differentiable": False,
    "capturable": False,
    "decoupled_weight_decay": False,
}


class LeanAdam(th.optim.Adam):
    """:class:`torch.optim.Adam` with ``fused=True``: the same numbers and state, in less time.

    torch goes through checks, hooks and groups of devices for every step, which takes longer than the
    arithmetic of small networks. Here only the first step goes through them, and what is not plain Adam on
    the processor.
    """

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move the parameters that have a gradient; see torch.

        :param closure: evaluates the loss anew; rarely used
        """
        if closure is None and _stepped([self]):
            return None
        return super().step(closure)

    step.hooked = True  # type: ignore[attr-defined]  # torch wraps a profiler around every other step

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients; see torch."""
        if set_to_none:
            clear_gradients([self])
        else:
            super().zero_grad(set_to_none)


def clear_gradients(optimizers: Sequence[th.optim.Optimizer]) -> None:
    """Set the gradients of all parameters to ``None``: ``zero_grad`` without its bookkeeping."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def step_together(optimizers: Sequence[th.optim.Optimizer]) -> None:
    """Step optimizers that share no parameter; the result is that of one ``step`` of each, bit by bit.

    What a step costs beside its arithmetic, it costs once for fused Adams of the same settings. Everything
    else, and the first step, which makes the state, goes by ``step``.

    :param optimizers: of any kind
    """
    if not _stepped(optimizers):
        for optimizer in optimizers:
            optimizer.step()


def _stepped(optimizers: Sequence[th.optim.Optimizer]) -> bool:
    """Step all optimizers by one kernel, and return whether that could be done."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    if not _are_alike(optimizers, groups):
        return False
    columns: tuple[list[th.Tensor], ...] = ([], [], [], [], [])
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = optimizer.state[parameter]
                    row = (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"], state["step"])
                    for column, value in zip(columns, row, strict=True):
                        column.append(value)
    parameters, gradients, averages, squares, steps = columns
    if not parameters:
        return True
    shared: dict[str, Any] = groups[0]
    beta1, beta2 = shared["betas"]
    with th.no_grad():
        th._foreach_add_(steps, 1)
        th._fused_adam_(
            parameters,
            gradients,
            averages,
            squares,
            [],
            steps,
            lr=shared["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=shared["weight_decay"],
            eps=shared["eps"],
            amsgrad=False,
            maximize=False,
        )
    return True


def _are_alike(optimizers: Sequence[th.optim.Optimizer], groups: Sequence[dict[str, Any]]) -> bool:
    """Tell whether one kernel can step all of them: fused Adams on one device, of one setting, and begun."""
    first = groups[0]
    return (
        all(type(one) in (th.optim.Adam, LeanAdam) and not _has_hooks(one) for one in optimizers)
        and all(group.get(name, False) == value for group in groups for name, value in _NEEDED.items())
        and not any(isinstance(group["lr"], th.Tensor) for group in groups)
        and all(group[name] == first[name] for group in groups[1:] for name in _SHARED)
        and all(
            parameter.grad is None
            or (
                bool(optimizer.state.get(parameter))
                and parameter.device.type == "cpu"
                and not parameter.grad.is_sparse
            )
            for optimizer in optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        )
    )


def _has_hooks(optimizer: th.optim.Optimizer) -> bool:
    """Tell whether something wants to know of each step: hooks, or a scheduler that wraps ``step``."""
    hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    return bool(hooks) or "step" in vars(optimizer)
