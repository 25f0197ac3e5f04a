"""Cost advantages, and how they join those of the reward: plain functions of arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from greendc.config import require_one_of

Array = npt.NDArray[np.floating]

ADV_NORMS = ("combined", "separate", "center", "none")
"""Ways to normalize advantages, see :func:`combine_advantages`."""
COST_STD_FLOOR = 1e-2
"""Smallest divisor of cost advantages, in units of cost per step.

A policy that has become safe has cost advantages of nearly no spread; without a floor, ``"separate"``
would blow the critic's noise up to unit variance.
"""


def cost_gae(
    costs: Array,
    cost_values: Array,
    last_cost_values: Array,
    dones: npt.NDArray[np.bool_],
    gamma: float,
    gae_lambda: float,
    steps: Array | float = 1.0,
) -> tuple[Array, Array]:
    """Return generalized advantage estimates of the cost, and the returns that its critic learns.

    ``delta_t = cost_t + gamma * V_{t+1} * (1 - done_t) - V_t`` and
    ``A_t = delta_t + gamma * gae_lambda * (1 - done_t) * A_{t+1}`` (arXiv 1506.02438); returns are ``A + V``.
    Where decisions take ``steps`` of time, ``gamma`` and ``gae_lambda`` are raised to them.

    :param costs: ``(T, N)``, with ``gamma * V(terminal observation)`` already added where a time limit cut
        an episode
    :param cost_values: ``(T, N)``
    :param last_cost_values: ``(N,)``, values of the observations after the last step
    :param dones: ``(T, N)``, whether the step ended its episode
    :param gamma: discount factor
    :param gae_lambda: trade-off of bias and variance
    :param steps: ``(T, N)``, or one number for all
    :return: advantages and returns, both ``(T, N)``
    """
    going_on = 1.0 - dones.astype(costs.dtype)
    steps = np.broadcast_to(np.asarray(steps, dtype=costs.dtype), costs.shape)
    discounts, decays = gamma**steps, (gamma * gae_lambda) ** steps
    next_values = np.concatenate([cost_values[1:], last_cost_values[None]])
    deltas = costs + discounts * next_values * going_on - cost_values
    advantages = np.zeros_like(deltas)
    advantage = np.zeros_like(last_cost_values)
    for step in reversed(range(len(costs))):
        advantage = deltas[step] + decays[step] * going_on[step] * advantage
        advantages[step] = advantage
    return advantages, advantages + cost_values


def combine_advantages(
    advantages: Array, cost_advantages: Array, lagrange_multiplier: float, adv_norm: str = "combined"
) -> Array:
    """Return ``(A_R - lambda * A_C) / (1 + lambda)``; the division keeps the step size as lambda grows.

    :param advantages: advantages of the reward
    :param cost_advantages: advantages of the cost, same shape
    :param lagrange_multiplier: lambda, reward per unit of cost
    :param adv_norm: ``"combined"``: as they are (PPO normalizes the result by minibatch, and lambda keeps its
        meaning); ``"separate"``: standardize both first, with :data:`COST_STD_FLOOR` under the cost's
        (lambda loses its unit); ``"center"``: standardize the reward's, only center the cost's (omnisafe);
        ``"none"``: as they are, and PPO does not normalize either (rlpyt)
    :raises ValueError: for another ``adv_norm``
    """
    require_one_of("adv_norm", adv_norm, ADV_NORMS)
    if adv_norm in ("separate", "center"):
        advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
        cost_advantages = cost_advantages - cost_advantages.mean()
    if adv_norm == "separate":
        cost_advantages = cost_advantages / max(float(cost_advantages.std(ddof=1)), COST_STD_FLOOR)
    return (advantages - lagrange_multiplier * cost_advantages) / (1.0 + lagrange_multiplier)
