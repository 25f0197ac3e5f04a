"""What a batch of data gives: the losses of CRR for discrete and for continuous actions.

Both follow one plan: the critics' target, the critics' loss, the state's value, the advantage of the data's
action, its weight, and the weighted regression on it. They differ in how expectations over the policy are
taken: exact sums over finitely many actions, means over draws from a Gaussian.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch as th

from sb3_greendc.core.masking import action_mask_of
from sb3_greendc.crr.box_policies import BoxCRRPolicy
from sb3_greendc.crr.losses import (
    combine_critics,
    conservative_box_loss,
    conservative_loss,
    fast_log_softmax,
    weighted_regression_loss,
)
from sb3_greendc.crr.policies import CRRPolicy
from sb3_greendc.crr.weights import state_value, value_of_samples
from sb3_greendc.discrete_sac.losses import critic_loss

if TYPE_CHECKING:
    from sb3_greendc.crr.crr import CRR


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


class Losses(NamedTuple):
    """What one batch gives.

    :param critic: loss of the critics, scalar; ``None`` for behavioral cloning, which has none
    :param actor: loss of the actor, scalar
    :param advantage: of the data's actions, ``(B,)``, in units of the scaled reward
    :param weights: of the data's actions, ``(B,)``
    :param q_taken: values of the data's actions, ``(K, B)``, detached
    :param target: of the critics, ``(B,)``
    """

    critic: th.Tensor | None
    actor: th.Tensor
    advantage: th.Tensor
    weights: th.Tensor
    q_taken: th.Tensor
    target: th.Tensor


def losses_of(model: CRR, batch: Batch, generator: th.Generator | None) -> Losses:
    """Return the losses of a batch.

    :param model: networks and options
    :param batch: transitions
    :param generator: source of the draws, where options ask for draws; torch's own if ``None``
    """
    if model.weight_mode == "bc":
        return _cloning_losses(model, batch)
    if isinstance(model.policy, BoxCRRPolicy):
        return _box_losses(model, model.policy, batch, generator)
    return _discrete_losses(model, model.policy, batch, generator)


def _discrete_losses(model: CRR, policy: CRRPolicy, batch: Batch, generator: th.Generator | None) -> Losses:
    mask = action_mask_of(batch.observations)
    with th.no_grad():
        next_logits, next_q = policy.next_outputs(batch.next_observations)
        next_log_pi = fast_log_softmax(next_logits, action_mask_of(batch.next_observations))
        next_values = (next_log_pi.exp() * combine_critics(next_q, model.combine)).sum(dim=-1)
        target = th.addcmul(batch.rewards, batch.discounts, next_values)

    features = policy.encode(batch.observations)
    q = policy.q_values(features)
    taken = batch.actions.unsqueeze(1)
    q_taken = q.gather(2, taken.expand(q.shape[0], -1, -1)).squeeze(2)
    critic = critic_loss(q_taken, target, model.critic_loss)
    if model.cql_alpha > 0.0:
        critic = critic + model.cql_alpha * conservative_loss(q, q_taken, mask)

    logits = policy.logits(features if model.actor_trains_encoder else features.detach())
    log_pi = fast_log_softmax(logits, mask)
    with th.no_grad():
        values = combine_critics(q, model.combine)
        state_values = state_value(values, log_pi, mask, model.value_mode, model.n_value_samples, generator)
        advantage = combine_critics(q_taken, model.combine) - state_values
    weights = model.weights_of(advantage)
    log_prob = log_pi.gather(1, taken).squeeze(1)
    actor = weighted_regression_loss(log_prob, weights, model.self_normalize)
    return Losses(critic, actor, advantage, weights, q_taken.detach(), target)


def _box_losses(model: CRR, policy: BoxCRRPolicy, batch: Batch, generator: th.Generator | None) -> Losses:
    k, actions = model.n_value_samples, policy.scaled(batch.actions)
    with th.no_grad():
        next_features = policy.target_encode(batch.next_observations)
        next_policy = policy.next_distribution(batch.next_observations, next_features)
        next_q = _repeated(policy.target_q_values, next_features, draw(next_policy, k, generator))
        next_values = combine_critics(next_q, model.combine).mean(dim=0)
        target = th.addcmul(batch.rewards, batch.discounts, next_values)

    features = policy.encode(batch.observations)
    q_taken = policy.q_values(features, actions)
    critic = critic_loss(q_taken, target, model.critic_loss)
    if model.cql_alpha > 0.0:
        uniform = th.rand((k, *actions.shape), generator=generator).to(actions.device) * 2.0 - 1.0
        q_uniform = _repeated(policy.q_values, features, uniform)
        critic = critic + model.cql_alpha * conservative_box_loss(q_uniform, q_taken, actions.shape[1])

    distribution = policy.distribution(features if model.actor_trains_encoder else features.detach())
    with th.no_grad():
        q_samples = _repeated(policy.q_values, features, draw(distribution, k, generator))
        values = combine_critics(q_samples, model.combine)
        state_values = value_of_samples(values.movedim(0, -1), model.value_mode)
        advantage = combine_critics(q_taken, model.combine) - state_values
    weights = model.weights_of(advantage)
    log_prob = log_prob_of(distribution, actions)
    actor = weighted_regression_loss(log_prob, weights, model.self_normalize)
    return Losses(critic, actor, advantage, weights, q_taken.detach(), target)


def _cloning_losses(model: CRR, batch: Batch) -> Losses:
    """Return the actor's loss alone: behavioral cloning needs no critic."""
    policy, actions = model.policy, batch.actions
    features = policy.encode(batch.observations)
    if isinstance(policy, BoxCRRPolicy):
        log_prob = log_prob_of(policy.distribution(features), policy.scaled(actions))
    else:
        log_pi = fast_log_softmax(policy.logits(features), action_mask_of(batch.observations))
        log_prob = log_pi.gather(1, actions.unsqueeze(1)).squeeze(1)
    advantage = th.zeros_like(batch.rewards)
    weights = model.weights_of(advantage)
    actor = weighted_regression_loss(log_prob, weights)
    return Losses(None, actor, advantage, weights, advantage.unsqueeze(0), advantage)


def draw(distribution: th.distributions.Normal, k: int, generator: th.Generator | None) -> th.Tensor:
    """Draw ``k`` scaled actions of every state, clipped to [-1, 1], ``(k, B, d)``, without gradient."""
    mean, std = distribution.mean.detach(), distribution.stddev.detach()
    noise = th.randn((k, *mean.shape), generator=generator).to(mean.device)
    return (mean + std * noise).clamp(-1.0, 1.0)


def log_prob_of(distribution: th.distributions.Normal, actions: th.Tensor) -> th.Tensor:
    """Return the log-densities ``(B,)`` of scaled actions ``(B, d)``."""
    densities: th.Tensor = distribution.log_prob(actions)  # type: ignore[no-untyped-call]
    return densities.sum(dim=-1)


def _repeated(values: Any, features: th.Tensor, actions: th.Tensor) -> th.Tensor:
    """Return the critics' values ``(K, k, B)`` of k actions ``(k, B, d)`` of every state."""
    k, n_batch, dim = actions.shape
    flat = features.expand(k, *features.shape).reshape(k * n_batch, -1)
    q: th.Tensor = values(flat, actions.reshape(k * n_batch, dim))
    return q.view(q.shape[0], k, n_batch)
