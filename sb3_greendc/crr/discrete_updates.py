"""CRR for finitely many actions: expectations over the policy are exact sums, or means over draws."""

from __future__ import annotations

import torch as th

from sb3_greendc.core.masking import action_mask_of, masked_log_softmax
from sb3_greendc.crr.batches import Batch
from sb3_greendc.crr.config import CRRConfig
from sb3_greendc.crr.losses import conservative_loss
from sb3_greendc.crr.policies import CRRPolicy
from sb3_greendc.crr.updates import Losses, clone, imitate
from sb3_greendc.crr.weights import state_value
from sb3_greendc.discrete_sac.losses import combine_critics, critic_loss


def discrete_losses(
    policy: CRRPolicy,
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
    :param generator: source of the draws, where options ask for draws; torch's own if ``None``
    """
    mask = action_mask_of(batch.observations)
    taken = batch.actions.unsqueeze(1)
    if not config.has_critic:
        log_pi = masked_log_softmax(policy.logits(policy.encode(batch.observations)), mask)
        return clone(config, log_pi.gather(1, taken).squeeze(1), advantage_std)

    target = critic_target(policy, config, batch)
    features = policy.encode(batch.observations)
    q = policy.q_values(features)
    q_taken = q.gather(2, taken.expand(q.shape[0], -1, -1)).squeeze(2)
    critic = critic_loss(q_taken, target, config.critic_loss)
    if config.cql_alpha > 0.0:
        critic = critic + config.cql_alpha * conservative_loss(q, q_taken, mask)

    logits = policy.logits(features if config.actor_trains_encoder else features.detach())
    log_pi = masked_log_softmax(logits, mask)
    with th.no_grad():
        values = combine_critics(q, config.combine)
        state_values = state_value(values, log_pi, mask, config.value_mode, config.n_value_samples, generator)
        advantage = combine_critics(q_taken, config.combine) - state_values
    log_prob = log_pi.gather(1, taken).squeeze(1)
    actor, weights, advantage_std = imitate(config, log_prob, advantage, advantage_std)
    return Losses(critic, actor, advantage, weights, q_taken.detach(), target, advantage_std)


@th.no_grad()
def critic_target(policy: CRRPolicy, config: CRRConfig, batch: Batch) -> th.Tensor:
    """Return ``r + γ Σ_valid π'(a|s') Q'(s', a)``, ``(B,)``, with what is valid in the next state."""
    logits, q = policy.next_outputs(batch.next_observations)
    log_pi = masked_log_softmax(logits, action_mask_of(batch.next_observations))
    values = (log_pi.exp() * combine_critics(q, config.combine)).sum(dim=-1)
    return th.addcmul(batch.rewards, batch.discounts, values)
