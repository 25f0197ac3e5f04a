"""What both kinds of actions share in an update: the numbers it gives, and the weighted imitation.

Losses for finitely many actions are in :mod:`~sb3_greendc.crr.discrete_updates`, those for ``Box`` actions in
:mod:`~sb3_greendc.crr.box_updates`. Both follow one plan: the critics' target, the critics' loss, the state's
value, the advantage of the data's action, its weight, and the weighted regression on it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch as th

from sb3_greendc.crr.config import CRRConfig
from sb3_greendc.crr.losses import weighted_regression_loss
from sb3_greendc.crr.weights import advantage_weights

ADVANTAGE_SCALE_RATE = 0.01
"""Share of a batch's standard deviation that enters the running one."""
LEAST_ADVANTAGE_SCALE = 1e-3


class Losses(NamedTuple):
    """What one batch gives.

    :param critic: loss of the critics, scalar; ``None`` for behavioral cloning, which has none
    :param actor: loss of the actor, scalar
    :param advantage: of the data's actions, ``(B,)``, in units of the scaled reward
    :param weights: of the data's actions, ``(B,)``
    :param q_taken: values of the data's actions, ``(K, B)``, detached
    :param target: of the critics, ``(B,)``
    :param advantage_std: running standard deviation of the advantage, scalar, moved by this batch
    """

    critic: th.Tensor | None
    actor: th.Tensor
    advantage: th.Tensor
    weights: th.Tensor
    q_taken: th.Tensor
    target: th.Tensor
    advantage_std: th.Tensor


class Imitation(NamedTuple):
    """The actor's side of :class:`Losses`."""

    actor: th.Tensor
    weights: th.Tensor
    advantage_std: th.Tensor


def imitate(
    config: CRRConfig, log_prob: th.Tensor, advantage: th.Tensor, advantage_std: th.Tensor
) -> Imitation:
    """Return the weighted regression on the data's actions.

    :param config: options
    :param log_prob: log-probabilities of the data's actions, ``(B,)``
    :param advantage: of the data's actions, ``(B,)``
    :param advantage_std: running standard deviation before this batch; NaN before the first
    """
    if config.normalize_adv:
        advantage_std = moved_std(advantage_std, advantage)
    weights = weights_of(config, advantage, advantage_std)
    actor = weighted_regression_loss(log_prob, weights, config.self_normalize)
    return Imitation(actor, weights, advantage_std)


def clone(config: CRRConfig, log_prob: th.Tensor, advantage_std: th.Tensor) -> Losses:
    """Return the actor's loss alone: behavioral cloning needs no critic."""
    nothing = th.zeros_like(log_prob.detach())
    weights = th.ones_like(nothing)
    actor = weighted_regression_loss(log_prob, weights, config.self_normalize)
    return Losses(None, actor, nothing, weights, nothing.unsqueeze(0), nothing, advantage_std)


def weights_of(config: CRRConfig, advantage: th.Tensor, advantage_std: th.Tensor) -> th.Tensor:
    """Return the weights of actions, ``(B,)``; see :func:`~sb3_greendc.crr.weights.advantage_weights`."""
    if config.normalize_adv:
        advantage = advantage / advantage_std.clamp(min=LEAST_ADVANTAGE_SCALE)
    return advantage_weights(advantage, config.weight_mode, config.beta, config.max_weight)


def moved_std(advantage_std: th.Tensor, advantage: th.Tensor) -> th.Tensor:
    """Return the running standard deviation after a batch: the batch's own at first."""
    std = advantage.std(unbiased=False)
    return th.where(advantage_std.isnan(), std, advantage_std.lerp(std, ADVANTAGE_SCALE_RATE))
