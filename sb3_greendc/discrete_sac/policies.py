"""Networks of DiscreteSAC: an encoder, an actor head, critic heads, and a target copy of encoder and critics.

``encoder → actor head → logits (B, A)`` and ``encoder → critic heads → Q (K, B, A)``. The encoder
belongs to the critic's optimizer, as in RARE: the critic's gradient alone moves it. (SB3's
``share_features_extractor=True`` in SAC does the reverse.) The target network is a copy of encoder and
critic heads. CRR is built on the same networks.
"""

from __future__ import annotations

from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    FlattenExtractor,
    NatureCNN,
    get_actor_critic_arch,
)
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

from sb3_greendc.core.masking import ACTION_MASK, action_mask_of, masked_log_softmax
from sb3_greendc.core.target_networks import TargetNetworkPolicy
from sb3_greendc.extractors.combined import MaskedCombinedExtractor
from sb3_greendc.extractors.heads import Heads, make_heads, require_widths
from sb3_greendc.extractors.policies import JobSetInputs


class DiscreteSACPolicy(JobSetInputs, TargetNetworkPolicy):
    """Encoder, actor head, critic heads and their targets, for a ``Discrete`` action space.

    :param observation_space: any space that SB3 supports; in a ``Dict`` the key ``action_mask`` says
        which actions are valid
    :param action_space: ``Discrete``, starting at 0
    :param lr_schedule: learning rate as a function of the remaining progress
    :param net_arch: widths of the hidden layers of every head, or ``dict(pi=[...], qf=[...])``
    :param activation_fn: activation in the heads
    :param features_extractor_class: the encoder; one that offers ``make_heads`` brings its own heads
    :param features_extractor_kwargs: its keyword arguments
    :param kwargs: ``normalize_images``, ``optimizer_class``, ``optimizer_kwargs``, ``n_critics``: see
        :class:`~sb3_greendc.core.target_networks.TargetNetworkPolicy`
    :raises ValueError: for other spaces, or a width that is no positive integer
    """

    action_space: spaces.Discrete

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Discrete,
        lr_schedule: Schedule,
        net_arch: list[int] | dict[str, list[int]] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        check_spaces(observation_space, action_space)
        super().__init__(
            observation_space,
            action_space,
            [64, 64] if net_arch is None else net_arch,
            activation_fn,
            features_extractor_class,
            features_extractor_kwargs,
            **kwargs,
        )
        self._build(lr_schedule)

    def _build(self, lr_schedule: Schedule) -> None:
        """Create networks, targets and optimizers."""
        actor_arch, critic_arch = get_actor_critic_arch(self.net_arch)
        require_widths("pi", actor_arch)
        require_widths("qf", critic_arch)
        self.features_extractor = self.make_features_extractor()
        self.actor = self._make_heads(self.features_extractor, 1, actor_arch)
        self.critic = self._make_heads(self.features_extractor, self.n_critics, critic_arch)
        self.features_extractor_target = self.make_features_extractor()
        self.critic_target = self._make_heads(self.features_extractor_target, self.n_critics, critic_arch)
        self._add_target(self.features_extractor_target, self.features_extractor)
        self._add_target(self.critic_target, self.critic)
        self.set_training_mode(False)
        self.actor_optimizer = self._make_optimizer([self.actor], lr_schedule)
        self.critic_optimizer = self._make_optimizer([self.features_extractor, self.critic], lr_schedule)

    def _make_heads(self, extractor: BaseFeaturesExtractor, n_heads: int, net_arch: list[int]) -> Heads:
        return make_heads(extractor, int(self.action_space.n), n_heads, net_arch, self.activation_fn)

    def logits(self, features: th.Tensor) -> th.Tensor:
        """Return the actor's logits ``(B, A)``, unmasked."""
        logits: th.Tensor = self.actor(features)[0]
        return logits

    def q_values(self, features: th.Tensor) -> th.Tensor:
        """Return the critics' values ``(K, B, A)``."""
        values: th.Tensor = self.critic(features)
        return values

    def target_q_values(self, observations: PyTorchObs) -> th.Tensor:
        """Return the target critics' values ``(K, B, A)``."""
        values: th.Tensor = self.critic_target(self.target_encode(observations))
        return values

    def action_log_probs(self, observations: PyTorchObs) -> th.Tensor:
        """Return the log-probabilities ``(B, A)`` of the policy, masked if the observations carry a mask."""
        return masked_log_softmax(self.logits(self.encode(observations)), action_mask_of(observations))

    def sample_actions(self, log_pi: th.Tensor) -> th.Tensor:
        """Draw one action a row, ``(B,)``."""
        return th.multinomial(log_pi.exp().contiguous(), num_samples=1).squeeze(1)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        """Return the most probable valid action (the lowest index on ties), or a sample.

        :raises ValueError: if a mask allows no action, or an observation is not finite
        """
        mask = action_mask_of(observation)
        if mask is not None and not bool((mask != 0).any(dim=-1).all()):
            raise ValueError("action_mask: no action is valid in an observation that asks for one")
        log_pi = self.action_log_probs(observation)
        if not bool(th.isfinite(log_pi).all()):
            raise ValueError(
                "the policy's logits are not finite: NaN or infinity in an observation, or training diverged"
            )
        return log_pi.argmax(dim=-1) if deterministic else self.sample_actions(log_pi)


class CnnPolicy(DiscreteSACPolicy):
    """:class:`DiscreteSACPolicy` with SB3's ``NatureCNN`` as encoder by default, for images."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": NatureCNN, **kwargs})


class MultiInputPolicy(DiscreteSACPolicy):
    """:class:`DiscreteSACPolicy` with SB3's combined extractor, less the mask, by default: for ``Dict``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": MaskedCombinedExtractor, **kwargs})


MlpPolicy = DiscreteSACPolicy


def check_spaces(observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
    """Raise a ``ValueError`` unless actions are 0 … n - 1 and a mask, if there is one, has n entries."""
    if not isinstance(action_space, spaces.Discrete):
        raise ValueError(f"action space {action_space}: must be Discrete")
    if action_space.start != 0:
        raise ValueError(f"action space {action_space}: actions must start at 0")
    if isinstance(observation_space, spaces.Dict) and ACTION_MASK in observation_space.spaces:
        shape = observation_space[ACTION_MASK].shape
        if shape != (int(action_space.n),):
            raise ValueError(
                f"observation key {ACTION_MASK!r} has shape {shape}: must be ({action_space.n},), "
                "one entry per action"
            )
