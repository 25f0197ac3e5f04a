"""Adam whose step is torch's fused kernel and little else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch as th

_LISTS = ("exp_avg", "exp_avg_sq", "step")


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
        hooks = self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
        parts = [] if closure is not None or hooks else [self._ready(group) for group in self.param_groups]
        if not all(parts) or not parts:
            return super().step(closure)
        with th.no_grad():
            for group, part in zip(self.param_groups, parts, strict=True):
                if part is not None and part[0]:
                    self._move(group, *part)
        return None

    step.hooked = True  # type: ignore[attr-defined]  # torch wraps a profiler around every other step

    def _move(
        self,
        group: dict[str, Any],
        parameters: list[th.Tensor],
        gradients: list[th.Tensor],
        averages: list[th.Tensor],
        squares: list[th.Tensor],
        steps: list[th.Tensor],
    ) -> None:
        th._foreach_add_(steps, 1)
        th._fused_adam_(
            parameters,
            gradients,
            averages,
            squares,
            [],
            steps,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients; see torch."""
        if not set_to_none:
            super().zero_grad(set_to_none)
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def _ready(self, group: dict[str, Any]) -> tuple[list[th.Tensor], ...] | None:
        """Return parameters, gradients, averages, squares and steps; ``None`` for what torch must do."""
        if (
            not group["fused"]
            or group["amsgrad"]
            or group["maximize"]
            or isinstance(group["lr"], th.Tensor)
            or group.get("decoupled_weight_decay", False)
        ):
            return None
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        states = [self.state[parameter] for parameter in parameters]
        if not all(states) or any(parameter.device.type != "cpu" for parameter in parameters):
            return None
        gradients = cast("list[th.Tensor]", [parameter.grad for parameter in parameters])
        return parameters, gradients, *([state[name] for state in states] for name in _LISTS)
