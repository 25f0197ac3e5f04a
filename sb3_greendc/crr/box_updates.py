"""CRR for ``Box`` actions: expectations over the policy are means over draws from a Gaussian."""

from __future__ import annotations

import torch as th

from sb3_greendc.crr.batches import Batch
from sb3_greendc.crr.box_actions import draw, log_prob_of, values_of
from sb3_greendc.crr.box_policies import BoxCRRPolicy
from sb3_greendc.crr.config import CRRConfig
from sb3_greendc.crr.losses import conservative_box_loss
from sb3_greendc.crr.updates import Losses, clone, imitate
from sb3_greendc.crr.weights import value_of_samples
from sb3_greendc.discrete_sac.losses import combine_critics, critic_loss


def box_losses(
    policy: BoxCRRPolicy,
    config: CRRConfig,
    batch: Batch,
    advantage_std: th.Tensor,
    generator: th.Generator | None = None,
) -> Losses:
    """Return the losses of a batch.

    :param policy: networks; nothing of them is changed
    :param config: options
    :param batch: transitions
    :param advantage_std: running standard deviation of the advantage, scalar; NaN before the first batch
    :param generator: source of the draws; torch's own if ``None``
    """
    k, actions = config.n_value_samples, policy.scaled(batch.actions)
    if not config.has_critic:
        distribution = policy.distribution(policy.encode(batch.observations))
        return clone(config, log_prob_of(distribution, actions), advantage_std)

    target = critic_target(policy, config, batch, generator)
    features = policy.encode(batch.observations)
    q_taken = policy.q_values(features, actions)
    critic = critic_loss(q_taken, target, config.critic_loss)
    if config.cql_alpha > 0.0:
        uniform = th.rand((k, *actions.shape), generator=generator).to(actions.device) * 2.0 - 1.0
        q_uniform = values_of(policy.q_values, features, uniform)
        critic = critic + config.cql_alpha * conservative_box_loss(q_uniform, q_taken, actions.shape[1])

    distribution = policy.distribution(features if config.actor_trains_encoder else features.detach())
    with th.no_grad():
        q_samples = values_of(policy.q_values, features, draw(distribution, k, generator))
        values = combine_critics(q_samples, config.combine)
        state_values = value_of_samples(values.movedim(0, -1), config.value_mode)
        advantage = combine_critics(q_taken, config.combine) - state_values
    log_prob = log_prob_of(distribution, actions)
    actor, weights, advantage_std = imitate(config, log_prob, advantage, advantage_std)
    return Losses(critic, actor, advantage, weights, q_taken.detach(), target, advantage_std)


@th.no_grad()
def critic_target(
    policy: BoxCRRPolicy, config: CRRConfig, batch: Batch, generator: th.Generator | None = None
) -> th.Tensor:
    """Return ``r + γ mean Q'(s', a')`` over actions drawn from the target's policy, ``(B,)``."""
    features = policy.target_encode(batch.next_observations)
    actions = draw(
        policy.next_distribution(batch.next_observations, features), config.n_value_samples, generator
    )
    q = values_of(policy.target_q_values, features, actions)
    return th.addcmul(batch.rewards, batch.discounts, combine_critics(q, config.combine).mean(dim=0))
