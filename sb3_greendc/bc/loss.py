"""The loss of behavioral cloning: the negative log-likelihood of what was done, among what was allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import MlpExtractor
from torch import nn

from sb3_greendc.core.masking import action_mask_of, masked_log_softmax
from sb3_greendc.extractors.heads import Tanh
from sb3_greendc.extractors.policies import JobSetInputs

_TANH = Tanh()


@dataclass(frozen=True)
class MaskedLoss:
    """Stands in for imitation's ``BehaviorCloningLossCalculator``.

    Masks come from the observations, whatever the policy: MaskablePPO's would otherwise know none. The value
    network, which cloning does not train, is not run, and weights are summed only if they are penalised; with
    a perceptron that is half of the time.

    :param ent_weight: weight of the entropy, which is subtracted
    :param l2_weight: weight of half the sum of the squared parameters
    """

    ent_weight: float = 0.0
    l2_weight: float = 0.0

    def __call__(self, policy: Any, obs: Any, acts: th.Tensor) -> Any:
        """Return imitation's ``BCTrainingMetrics``.

        :param policy: of PPO or MaskablePPO
        :param obs: a batch of observations, tensors
        :param acts: ``(B,)``, or ``(B, d)``
        """
        from imitation.algorithms.bc import BCTrainingMetrics

        log_prob, entropy = log_prob_and_entropy(policy, obs, acts, self.ent_weight != 0.0)
        zero = log_prob.new_zeros(())
        ent_loss = zero if entropy is None else -self.ent_weight * entropy.mean()
        l2_norm = zero
        if self.l2_weight != 0.0:
            l2_norm = 0.5 * th.stack([weights.square().sum() for weights in policy.parameters()]).sum()
        neglogp = -log_prob.mean()
        return BCTrainingMetrics(
            neglogp=neglogp,
            entropy=None if entropy is None else entropy.mean(),
            ent_loss=ent_loss,
            prob_true_act=log_prob.detach().exp().mean(),
            l2_norm=l2_norm,
            l2_loss=self.l2_weight * l2_norm,
            loss=neglogp + ent_loss + self.l2_weight * l2_norm,
        )


def log_prob_and_entropy(
    policy: Any, obs: Any, acts: th.Tensor, with_entropy: bool = False
) -> tuple[th.Tensor, th.Tensor | None]:
    """Return log-probabilities ``(B,)`` of actions, and entropies ``(B,)`` if they are asked for."""
    if not isinstance(policy.action_space, spaces.Discrete):
        distribution = policy.get_distribution(obs)
        return distribution.log_prob(acts), distribution.entropy() if with_entropy else None
    log_pi = masked_log_softmax(action_logits(policy, obs), action_mask_of(obs))
    log_prob = log_pi.gather(1, acts.long().unsqueeze(1)).squeeze(1)
    return log_prob, -(log_pi.exp() * log_pi).sum(dim=1) if with_entropy else None


def action_logits(policy: Any, obs: Any) -> th.Tensor:
    """Return the logits ``(B, n_actions)`` of an actor-critic policy, not yet masked."""
    lean = isinstance(policy, JobSetInputs)
    features = (JobSetInputs if lean else BasePolicy).extract_features(
        policy, obs, policy.pi_features_extractor
    )
    logits: th.Tensor = policy.action_net(_actor_latent(policy.mlp_extractor, features))
    return logits


def _actor_latent(layers: Any, features: Any) -> Any:
    """Return what the action layer reads; a perceptron's hyperbolic tangents are computed the faster way."""
    if not isinstance(layers, MlpExtractor):
        return layers.forward_actor(features)
    for layer in layers.policy_net:
        features = _TANH(features) if type(layer) is nn.Tanh else layer(features)
    return features


def most_likely_actions(policy: Any, obs: Any) -> th.Tensor:
    """Return the most likely actions: ``(B,)`` among the valid ones, or the means ``(B, d)``."""
    if not isinstance(policy.action_space, spaces.Discrete):
        actions: th.Tensor = policy.get_distribution(obs).mode()
        return actions
    return masked_log_softmax(action_logits(policy, obs), action_mask_of(obs)).argmax(dim=1)
