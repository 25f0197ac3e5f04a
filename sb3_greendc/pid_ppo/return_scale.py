"""Critics that learn returns in units of their own spread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch as th
from torch import nn

WEIGHT = 0.5
"""Of a rollout's returns in the running moments."""
LEAST_STD = 1e-6
"""Returns with less spread than this, such as those of a cost that never occurs, are left as they are."""


class Moments(NamedTuple):
    """Mean and standard deviation of the returns that a critic's output is to have 0 and 1 of."""

    mean: float = 0.0
    std: float = 1.0

    def moved(self, values: th.Tensor, before: Moments) -> th.Tensor:
        """Return the values, of the same shape, that outputs mean here which meant ``values`` before."""
        return self.mean + self.std * ((values - before.mean) / before.std)


class ReturnScale(nn.Module):
    """From a critic's output, which is to have mean 0 and standard deviation 1, to returns.

    Returns may be tens of units from 0, and differ by less. A network of saturating units that has to carry
    such an offset learns nothing else for long. Here mean and standard deviation are measured, and the
    network learns the rest (Yu et al., "The Surprising Effectiveness of PPO in Cooperative Multi-Agent
    Games", arXiv 2103.01955; van Hasselt et al., arXiv 1602.07714).
    """

    mean: th.Tensor
    std: th.Tensor
    n_updates: th.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", th.zeros(()))
        self.register_buffer("std", th.ones(()))
        self.register_buffer("n_updates", th.zeros((), dtype=th.int64))

    def forward(self, outputs: th.Tensor) -> th.Tensor:
        """Return returns, of the same shape."""
        return self.mean + self.std * outputs

    @property
    def moments(self) -> Moments:
        """Mean and standard deviation, 0 and 1 before any returns were seen."""
        return Moments(self.mean.item(), self.std.item())

    def update(self, returns: npt.NDArray[np.floating]) -> None:
        """Take in the returns of a rollout, of any shape."""
        mean, square = float(returns.mean()), float(np.square(returns, dtype=np.float64).mean())
        if self.n_updates > 0:
            seen, seen_square = self.mean.item(), self.mean.item() ** 2 + self.std.item() ** 2
            mean, square = seen + WEIGHT * (mean - seen), seen_square + WEIGHT * (square - seen_square)
        std = float(np.sqrt(max(square - mean**2, 0.0)))
        if std > LEAST_STD:
            self.mean.fill_(mean)
            self.std.fill_(std)
            self.n_updates += 1
