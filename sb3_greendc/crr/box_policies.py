"""CRR's networks for continuous actions: a Gaussian whose mean is squashed, and critics of state and action.

``encoder → actor → mean in (-1, 1) and standard deviation in (e⁻⁵, 1)``, and ``(encoder, action) → Q``. The
distribution itself is not squashed: a likelihood at the edge of a squashed one is unbounded, and
data of rules lie there. Actions are scaled to [-1, 1]; draws are clipped to it. The policy acts by its
Gaussian alone, or by the best of several actions of it, as the critics see them.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    NatureCNN,
    create_mlp,
)
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

from sb3_greendc.core.spaces import require_bounds
from sb3_greendc.core.target_networks import TargetNetworkPolicy
from sb3_greendc.crr.box_actions import around_mean, draw, gaussian, values_of
from sb3_greendc.crr.networks import NetArch, SharedLayers, read_net_arch
from sb3_greendc.discrete_sac.losses import combine_critics
from sb3_greendc.extractors.combined import MaskedCombinedExtractor
from sb3_greendc.extractors.heads import stacked_mlp

EDGE = 1.0 - 1e-6
"""Greatest size of a scaled action of the data."""


class BoxCRRPolicy(TargetNetworkPolicy):
    """Encoder, Gaussian actor, critics and their targets, for a bounded ``Box`` action space.

    :param observation_space: any space that SB3 supports
    :param action_space: ``Box`` of one dimension, bounded
    :param lr_schedule: learning rate as a function of the remaining progress
    :param net_arch: widths of the hidden layers of actor and critics alike, or
        ``dict(shared=[...], pi=[...], qf=[...])`` with layers that they share
    :param target_actor: keep a slow copy of the actor too, for the critics' target
    :param n_action_samples: how many actions of the Gaussian the policy chooses from when it acts, see
        :meth:`act`
    :param kwargs: ``activation_fn``, ``features_extractor_class``, ``features_extractor_kwargs``,
        ``normalize_images``, ``optimizer_class``, ``optimizer_kwargs``, ``n_critics``: see
        :class:`~sb3_greendc.core.target_networks.TargetNetworkPolicy`
    :raises ValueError: for another action space
    """

    action_space: spaces.Box
    low: th.Tensor
    high: th.Tensor

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Box,
        lr_schedule: Schedule,
        net_arch: NetArch | None = None,
        target_actor: bool = False,
        n_action_samples: int = 1,
        **kwargs: Any,
    ) -> None:
        check_box(action_space)
        arch = [256, 256] if net_arch is None else net_arch
        super().__init__(observation_space, action_space, arch, squash_output=True, **kwargs)
        self.target_actor = target_actor
        self.n_action_samples = n_action_samples
        self._build(lr_schedule)

    def _build(self, lr_schedule: Schedule) -> None:
        """Create networks, targets and the optimizer."""
        layers = read_net_arch(self.net_arch, "heads")
        dim = int(self.action_space.shape[0])
        self.register_buffer("low", th.as_tensor(self.action_space.low, dtype=th.float32), persistent=False)
        self.register_buffer("high", th.as_tensor(self.action_space.high, dtype=th.float32), persistent=False)
        self.features_extractor = self._make_encoder(layers["shared"])
        self.features_extractor_target = self._make_encoder(layers["shared"])
        features = self.features_extractor.features_dim

        def make_actor() -> nn.Module:
            return nn.Sequential(*create_mlp(features, 2 * dim, layers["pi"], self.activation_fn))

        def make_critic() -> nn.Module:
            return stacked_mlp(self.n_critics, features + dim, 1, layers["qf"], self.activation_fn)

        self.actor, self.critic = make_actor(), make_critic()
        self.critic_target = make_critic()
        self._add_target(self.features_extractor_target, self.features_extractor)
        self._add_target(self.critic_target, self.critic)
        self.actor_target: nn.Module | None = None
        if self.target_actor:
            self.actor_target = make_actor()
            self._add_target(self.actor_target, self.actor)
        self.set_training_mode(False)
        networks = [self.features_extractor, self.critic, self.actor]
        self.optimizer = self._make_optimizer(networks, lr_schedule)

    def _make_encoder(self, shared: list[int]) -> BaseFeaturesExtractor:
        if not shared:
            return self.make_features_extractor()
        return SharedLayers(
            self.observation_space,
            self.features_extractor_class,
            self.features_extractor_kwargs,
            shared,
            self.activation_fn,
        )

    # ------------------------------------------------------------------ networks

    def distribution(self, features: th.Tensor) -> th.distributions.Normal:
        """Return the Gaussian over scaled actions, ``(B, d)``."""
        return gaussian(self.actor(features))

    def next_distribution(
        self, observations: PyTorchObs, target_features: th.Tensor
    ) -> th.distributions.Normal:
        """Return the policy of the critics' target: the target actor's where there is one."""
        if self.actor_target is None:
            return self.distribution(self.encode(observations))
        return gaussian(self.actor_target(target_features))

    def q_values(self, features: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Return the critics' values ``(K, B)`` of scaled actions ``(B, d)``."""
        return cast("th.Tensor", self.critic(th.cat([features, actions], dim=1))).squeeze(2)

    def target_q_values(self, features: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Return the target critics' values ``(K, B)`` of scaled actions; features of the target encoder."""
        return cast("th.Tensor", self.critic_target(th.cat([features, actions], dim=1))).squeeze(2)

    def scaled(self, actions: th.Tensor) -> th.Tensor:
        """Return actions of the data, of any dtype, on the scale [-1, 1], held just inside."""
        scaled = 2.0 * (actions.to(self.low.dtype) - self.low) / (self.high - self.low) - 1.0
        return scaled.clamp(-EDGE, EDGE)

    # ------------------------------------------------------------------ acting

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        """Return scaled actions ``(B, d)``, see :meth:`act`.

        :raises ValueError: if an observation is not finite, or training diverged
        """
        actions = self.act(self.encode(observation), deterministic)
        if not bool(th.isfinite(actions).all()):
            raise ValueError(
                "the policy's actions are not finite: NaN or infinity in an observation, or training diverged"
            )
        return actions

    def act(self, features: th.Tensor, deterministic: bool = False) -> th.Tensor:
        """Return scaled actions ``(B, d)`` for features ``(B, D)``: of several, the best by the critics.

        With one action (``n_action_samples=1``) that is the Gaussian's mean, or a draw clipped to [-1, 1].
        With more, ``deterministic`` chooses from the mean and others around it, which lie at the same
        multiples of the standard deviation in every state; else it chooses from as many draws. Of two critics
        the lower counts, whatever ``combine`` says. The critic-weighted policy of Wang et al. (arXiv
        2006.15134) draws one by a softmax of the values instead of the best.
        """
        policy, k = self.distribution(features), self.n_action_samples
        actions = around_mean(policy, k) if deterministic else draw(policy, k)
        if k == 1:
            return actions[0]
        best = combine_critics(values_of(self.q_values, features, actions), "min").argmax(dim=0)
        return actions.gather(0, best.view(1, -1, 1).expand(1, -1, actions.shape[2]))[0]

    def _get_constructor_parameters(self) -> dict[str, Any]:
        own = {"target_actor": self.target_actor, "n_action_samples": self.n_action_samples}
        return {**super()._get_constructor_parameters(), **own}


class BoxCnnPolicy(BoxCRRPolicy):
    """:class:`BoxCRRPolicy` with SB3's ``NatureCNN`` as encoder by default, for images."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": NatureCNN, **kwargs})


class BoxMultiInputPolicy(BoxCRRPolicy):
    """:class:`BoxCRRPolicy` with SB3's combined extractor by default: for ``Dict``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": MaskedCombinedExtractor, **kwargs})


def check_box(action_space: spaces.Space[Any]) -> None:
    """Raise a ``ValueError`` unless actions are vectors of floats between finite bounds."""
    if not isinstance(action_space, spaces.Box) or len(action_space.shape) != 1:
        raise ValueError(f"action space {action_space}: must be Discrete, or a Box of one dimension")
    require_bounds(action_space)
    if not np.issubdtype(action_space.dtype, np.floating):
        raise ValueError(f"action space {action_space}: must be of floats, as actions are predicted")
