"""The Gaussian over scaled ``Box`` actions: draws, actions around its mean, densities, values of several."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch as th

LOWEST_LOG_STD = -5.0


def gaussian(outputs: th.Tensor) -> th.distributions.Normal:
    """Return the Gaussian of an actor's outputs ``(B, 2 d)``: mean in (-1, 1), deviation in (e⁻⁵, 1)."""
    mean, log_std = outputs.chunk(2, dim=-1)
    log_std = LOWEST_LOG_STD * th.sigmoid(-log_std)
    # Validation would cost more than the arithmetic.
    return th.distributions.Normal(th.tanh(mean), log_std.exp(), validate_args=False)


def draw(distribution: th.distributions.Normal, k: int, generator: th.Generator | None = None) -> th.Tensor:
    """Draw ``k`` scaled actions of every state, clipped to [-1, 1], ``(k, B, d)``, without gradient.

    The numbers come from the processor, so that a run on another device draws the same.

    :param distribution: of ``(B, d)``
    :param k: draws a state
    :param generator: source of randomness; torch's own if ``None``
    """
    noise = th.randn((k, *distribution.mean.shape), generator=generator)
    return _at(distribution, noise.to(distribution.mean.device))


def around_mean(distribution: th.distributions.Normal, k: int) -> th.Tensor:
    """Return the mean and ``k - 1`` actions around it, clipped to [-1, 1], ``(k, B, d)``, without gradient.

    They lie at the same multiples of the standard deviation in every state, and always.
    """
    mean = distribution.mean
    return _at(distribution, _offsets(k, mean.shape[-1]).to(mean.device))


@cache
def _offsets(k: int, dim: int) -> th.Tensor:
    """Return the multiples ``(k, 1, d)``: zeros, then draws that are the same for every process."""
    drawn = np.random.default_rng(0).standard_normal((k, 1, dim), np.float32)
    drawn[0] = 0.0
    return th.from_numpy(drawn)


def _at(distribution: th.distributions.Normal, noise: th.Tensor) -> th.Tensor:
    return (distribution.mean.detach() + distribution.stddev.detach() * noise).clamp(-1.0, 1.0)


def log_prob_of(distribution: th.distributions.Normal, actions: th.Tensor) -> th.Tensor:
    """Return the log-densities ``(B,)`` of scaled actions ``(B, d)``."""
    densities: th.Tensor = distribution.log_prob(actions)  # type: ignore[no-untyped-call]
    return densities.sum(dim=-1)


def values_of(
    q_values: Callable[[th.Tensor, th.Tensor], th.Tensor], features: th.Tensor, actions: th.Tensor
) -> th.Tensor:
    """Return the critics' values ``(K, k, B)`` of k actions ``(k, B, d)`` of every state."""
    k, n_batch, dim = actions.shape
    flat = features.expand(k, *features.shape).reshape(k * n_batch, features.shape[1])
    q = q_values(flat, actions.reshape(k * n_batch, dim))
    return q.view(q.shape[0], k, n_batch)
