"""The losses of critic-regularized regression, as plain functions of tensors.

Shapes: ``(B,)`` for advantages, weights, log-probabilities and targets, ``(K, B)`` or ``(K, B, A)`` for
the values of K critics; losses are scalars. How critics
are combined, and their own loss, are discrete SAC's (:mod:`sb3_greendc.discrete_sac.losses`).
"""

from __future__ import annotations

import math

import torch as th

from sb3_greendc.core.masking import mask_logits


def weighted_regression_loss(
    log_prob: th.Tensor, weights: th.Tensor, self_normalize: bool = False
) -> th.Tensor:
    """Return ``-mean(w log π(a|s))``: regression on the actions that the critic approves of.

    The mean is over the batch, so that batches with little to imitate move the policy little;
    ``self_normalize`` divides by the sum of the weights instead.

    :param log_prob: log-probabilities of the data's actions, ``(B,)``
    :param weights: constants, ``(B,)``
    :param self_normalize: divide by the sum of the weights
    """
    loss = -th.dot(weights.detach(), log_prob)
    return loss / (weights.detach().sum().clamp(min=1e-8) if self_normalize else len(weights))


def conservative_loss(q: th.Tensor, q_taken: th.Tensor, mask: th.Tensor | None) -> th.Tensor:
    """Return ``Σ_critics mean [log Σ_valid exp Q(s, ·) - Q(s, a)]``: it lowers actions that the data lack.

    Conservative Q-learning (Kumar et al., arXiv 2006.04779, equation 4).

    :param q: ``(K, B, A)``
    :param q_taken: values of the data's actions, ``(K, B)``
    :param mask: valid actions ``(B, A)``, or ``None``
    """
    soft_maximum = th.stack([mask_logits(values, mask).logsumexp(dim=-1) for values in q])
    return (soft_maximum - q_taken).mean(dim=1).sum()


def conservative_box_loss(q_uniform: th.Tensor, q_taken: th.Tensor, action_dim: int) -> th.Tensor:
    """Return :func:`conservative_loss` for actions in [-1, 1]^d, the integral estimated from uniform draws.

    :param q_uniform: values of k uniformly drawn actions, ``(K, k, B)``
    :param q_taken: values of the data's actions, ``(K, B)``
    :param action_dim: d
    """
    volume = action_dim * math.log(2.0)
    soft_maximum = q_uniform.logsumexp(dim=1) - math.log(q_uniform.shape[1]) + volume
    return (soft_maximum - q_taken).mean(dim=1).sum()
