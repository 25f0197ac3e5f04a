"""The losses of discrete soft actor-critic, as plain functions of tensors.

Shapes: logits, Q-values and masks ``(B, A)``; rewards, dones, discounts and targets ``(B,)``; losses are
scalars. With a finite set of actions every expectation over the policy is an exact sum, so nothing here
samples (Christodoulou, arXiv 1910.07207). Sums run over actions, means over the batch alone: a mean over
both would divide the loss by the number of actions.

Invalid actions have probability exactly 0. A mask row without a valid action (a terminal observation)
counts as all valid, which keeps its value finite; ``done`` then multiplies it by zero.
"""

from __future__ import annotations

import torch as th
from torch import nn

from sb3_greendc.core.masking import effective_mask, masked_log_softmax


def combine_critics(q: th.Tensor, combine: str = "min") -> th.Tensor:
    """Return the minimum or mean over critics, the first axis.

    The minimum counters over-estimation where a maximum is taken over noisy values, and is pessimistic
    where critics disagree, which is where data say nothing. With exact expectations it under-estimates,
    and the mean can be better (arXiv 2209.10081).

    :raises ValueError: if ``combine`` is neither ``"min"`` nor ``"mean"``
    """
    if combine == "min":
        return th.minimum(q[0], q[1]) if q.shape[0] == 2 else q.amin(dim=0)
    if combine == "mean":
        return q.mean(dim=0)
    raise ValueError(f"combine={combine!r}: must be one of 'min', 'mean'")


def policy_entropy(log_pi: th.Tensor) -> th.Tensor:
    """Return the entropy ``(B,)`` in nats of masked log-probabilities ``(B, A)``."""
    return -(log_pi.exp() * log_pi).sum(dim=-1)


def count_valid(mask: th.Tensor | None, logits: th.Tensor) -> th.Tensor:
    """Return the number of valid actions ``(B,)`` as floats; all of them where there is no mask."""
    if mask is None:
        return logits.new_full(logits.shape[:1], float(logits.shape[1]))
    return effective_mask(mask).sum(dim=-1).to(logits.dtype)


def soft_target(
    rewards: th.Tensor,
    dones: th.Tensor,
    discounts: th.Tensor | float,
    next_logits: th.Tensor,
    next_q: th.Tensor,
    next_mask: th.Tensor | None,
    alpha: th.Tensor | float,
    combine: str = "min",
    soft: bool = True,
) -> th.Tensor:
    """Return the target of the critics, ``(B,)``.

    ``y = r + (1 - done) · discount · [Σ_valid π(a|s') Q'(s', a) + α H(π(·|s'))]`` with the policy of
    ``next_logits`` and the target critics combined; ``soft=False`` leaves the entropy term out
    (arXiv 2509.09838 blames the coupling of the two entropies for weak results of discrete SAC).

    :param rewards: sum of the discounted rewards of the step, or of n steps
    :param dones: 1 where the episode *terminated*; a truncated one goes on being worth something
    :param discounts: γ, or γ to the number of steps
    :param next_logits: the online actor at the next observation
    :param next_q: the target critics at the next observation, ``(K, B, A)``
    :param next_mask: valid actions at the next observation, or ``None``
    :param alpha: temperature
    :param combine: ``"min"`` or ``"mean"`` of the critics
    :param soft: whether the entropy of the next policy is part of the value
    """
    log_pi = masked_log_softmax(next_logits, next_mask)
    values = combine_critics(next_q, combine)
    if soft:
        values = values - alpha * log_pi
    next_values = (log_pi.exp() * values).sum(dim=-1)
    return rewards + (1.0 - dones.to(rewards.dtype)) * discounts * next_values


def critic_loss(q_taken: th.Tensor, target: th.Tensor, kind: str = "mse") -> th.Tensor:
    """Return the regression loss of the critics.

    :param q_taken: Q-values of the actions taken, ``(K, B)`` for K critics
    :param target: ``(B,)``, without gradient
    :param kind: ``"mse"``, half the sum over critics of mean squared errors (SB3's convention), or
        ``"huber"``, the sum of mean Huber losses with δ = 1
    :raises ValueError: for another kind
    """
    targets = target.expand_as(q_taken)
    if kind == "mse":
        return 0.5 * nn.functional.mse_loss(q_taken, targets) * q_taken.shape[0]
    if kind == "huber":
        return nn.functional.smooth_l1_loss(q_taken, targets) * q_taken.shape[0]
    raise ValueError(f"kind={kind!r}: must be one of 'mse', 'huber'")


def clipped_critic_loss(
    q_taken: th.Tensor, target_q_taken: th.Tensor, target: th.Tensor, q_clip: float
) -> th.Tensor:
    """Return the squared error with each critic held near its own target network (arXiv 2209.10081).

    For each critic and each sample: ``max((q - y)², (t + clip(q - t, -c, c) - y)²)``, as the paper's
    equation says. Its published code takes the maximum of the two batch means instead.

    :param q_taken: ``(K, B)``
    :param target_q_taken: the same critics' target networks at the same state and action, ``(K, B)``
    :param target: ``(B,)``
    :param q_clip: c, in units of the scaled reward; far smaller than the values, it freezes learning
    """
    clipped = target_q_taken + (q_taken - target_q_taken).clamp(-q_clip, q_clip)
    squared = th.maximum((q_taken - target).square(), (clipped - target).square())
    return 0.5 * squared.mean() * q_taken.shape[0]


def actor_loss(log_pi: th.Tensor, q: th.Tensor, alpha: th.Tensor | float) -> th.Tensor:
    """Return the loss of the actor in closed form, ``mean_B Σ_a π(a|s) (α log π(a|s) - Q(s, a))``.

    :param log_pi: masked log-probabilities of the actor
    :param q: critics combined, constants in it
    :param alpha: temperature; 0 leaves the entropy out
    """
    return (log_pi.exp() * (alpha * log_pi - q.detach())).sum(dim=-1).mean()


def entropy_penalty_loss(
    entropy: th.Tensor, old_entropy: th.Tensor, coefficient: th.Tensor | float
) -> th.Tensor:
    """Return ``β · mean ½ (H_old - H)²``: it slows the collapse of the policy (arXiv 2209.10081).

    :param entropy: of the present policy, ``(B,)``
    :param old_entropy: of the policy that collected the sample, ``(B,)``
    :param coefficient: β, in units of the scaled reward
    """
    return 0.5 * coefficient * (old_entropy - entropy).square().mean()


def temperature_gradient(entropy: th.Tensor, n_valid: th.Tensor, target_ratio: float) -> th.Tensor:
    """Return the gradient of :func:`temperature_loss` by log α: the mean surplus of entropy, a scalar.

    :param entropy: of the policy, ``(B,)``
    :param n_valid: number of valid actions, ``(B,)``
    :param target_ratio: in [0, 1)
    """
    entropy = entropy.detach()
    free = (n_valid >= 2).to(entropy.dtype)
    greatest = n_valid.to(entropy.dtype).clamp(min=1.0).log()
    surplus = (entropy - target_ratio * greatest) * free
    return surplus.sum() * free.sum().clamp(min=1.0).reciprocal()


def temperature_loss(
    log_alpha: th.Tensor, entropy: th.Tensor, n_valid: th.Tensor, target_ratio: float
) -> th.Tensor:
    """Return the loss whose gradient moves log α until the entropy meets its target.

    The target of a state is a share of the greatest entropy that its valid actions allow,
    ``target_ratio · log n_valid``; one constant for all states, such as the usual ``0.98 log A``, cannot
    be met where few actions are valid, and α then grows without bound. States with one valid action say
    nothing about α and are left out of the mean.

    :param log_alpha: scalar, the only variable
    :param entropy: of the policy, ``(B,)``, constant here
    :param n_valid: number of valid actions, ``(B,)``
    :param target_ratio: in [0, 1)
    """
    return (log_alpha * temperature_gradient(entropy, n_valid, target_ratio)).sum()
