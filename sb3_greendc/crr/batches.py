"""Transitions as tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch as th


class Batch(NamedTuple):
    """Transitions, rewards scaled.

    :param observations: ``(B, ...)``, or a dict of such
    :param actions: ``(B,)`` integers, or ``(B, d)`` as the environment takes them
    :param next_observations: like the observations
    :param rewards: ``(B,)``
    :param discounts: ``(B,)``, γ, or 0 where the episode terminated (truncation does not count)
    """

    observations: Any
    actions: th.Tensor
    next_observations: Any
    rewards: th.Tensor
    discounts: th.Tensor

    def part(self, rows: slice) -> Batch:
        """Return some of the transitions."""

        def of(values: Any) -> Any:
            return (
                {key: array[rows] for key, array in values.items()}
                if isinstance(values, dict)
                else values[rows]
            )

        return Batch(*map(of, self))

    def joined(self, other: Batch) -> Batch:
        """Return these transitions and then the others."""

        def both(a: Any, b: Any) -> Any:
            if isinstance(a, dict):
                return {key: th.cat([a[key], b[key]]) for key in a}
            return th.cat([a, b])

        return Batch(*(both(a, b) for a, b in zip(self, other, strict=True)))
