"""CRR's networks for discrete actions: those of DiscreteSAC, with shared layers and a target of the actor.

``encoder → shared layers → actor and critic heads``. A list such as ``net_arch=[256, 256]`` is the shape of
the shared layers, behind which the heads are linear: one network's arithmetic serves actor and critics.
``dict(shared=[...], pi=[...], qf=[...])`` says it in full. Encoder and shared layers are moved by the
critics' loss, as in RARE, and by the actor's too where the algorithm says so.
"""

from __future__ import annotations

from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor, NatureCNN
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

from sb3_greendc.crr.networks import NetArch, SharedLayers, read_net_arch
from sb3_greendc.discrete_sac.policies import DiscreteSACPolicy
from sb3_greendc.extractors.combined import MaskedCombinedExtractor


class CRRPolicy(DiscreteSACPolicy):
    """Encoder, actor head, critic heads and their targets, for a ``Discrete`` action space.

    It is a :class:`DiscreteSACPolicy`, so that :class:`DiscreteSAC` can go on training it.

    :param observation_space: any space that SB3 supports; in a ``Dict`` the key ``action_mask`` says
        which actions are valid
    :param action_space: ``Discrete``, starting at 0
    :param lr_schedule: learning rate as a function of the remaining progress
    :param net_arch: widths of the layers that actor and critics share (the heads are then linear), or
        ``dict(shared=[...], pi=[...], qf=[...])``. Extractors that bring heads of their own take no shared
        layers; a list is then the shape of each head
    :param activation_fn: activation between layers
    :param features_extractor_class: the encoder
    :param features_extractor_kwargs: its keyword arguments
    :param target_actor: keep a slow copy of the actor too, for the critics' target
    :param kwargs: ``normalize_images``, ``optimizer_class``, ``optimizer_kwargs``, ``n_critics``: see
        :class:`~sb3_greendc.core.target_networks.TargetNetworkPolicy`
    :raises ValueError: for other spaces, or shared layers in front of heads that take none
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Discrete,
        lr_schedule: Schedule,
        net_arch: NetArch | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        target_actor: bool = False,
        **kwargs: Any,
    ) -> None:
        own_heads = hasattr(features_extractor_class, "make_heads")
        as_given: dict[str, Any] = {
            "net_arch": [256, 256] if net_arch is None else net_arch,
            "features_extractor_class": features_extractor_class,
            "features_extractor_kwargs": features_extractor_kwargs,
            "target_actor": target_actor,
        }
        layers = read_net_arch(as_given["net_arch"], "heads" if own_heads else "shared")
        if layers["shared"]:
            if own_heads:
                name = features_extractor_class.__name__
                raise ValueError(
                    f"net_arch, shared: {name} has heads of its own, which take no shared layers"
                )
            features_extractor_kwargs = {
                "extractor_class": features_extractor_class,
                "extractor_kwargs": features_extractor_kwargs or {},
                "net_arch": layers["shared"],
                "activation_fn": activation_fn,
            }
            features_extractor_class = SharedLayers
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            {"pi": layers["pi"], "qf": layers["qf"]},
            activation_fn,
            features_extractor_class,
            features_extractor_kwargs,
            **kwargs,
        )
        self._as_given = as_given
        self.actor_target: nn.Module | None = None
        if target_actor:
            self.actor_target = self._make_heads(self.features_extractor_target, 1, layers["pi"])
            self._add_target(self.actor_target, self.actor)
            self.actor_target.train(False)
        # CRR moves everything at once, DiscreteSAC with the parent's two optimizers.
        networks: list[nn.Module] = [self.features_extractor, self.critic, self.actor]
        self.optimizer = self._make_optimizer(networks, lr_schedule)

    def logits(self, features: th.Tensor) -> th.Tensor:
        """Return the actor's logits ``(B, A)``, unmasked."""
        # Unlike a selection, taking the axis away costs nothing in the backward pass.
        logits: th.Tensor = self.actor(features).squeeze(0)
        return logits

    def next_outputs(self, observations: PyTorchObs) -> tuple[th.Tensor, th.Tensor]:
        """Return what the critics' target is made of: logits ``(B, A)``, and target values ``(K, B, A)``."""
        features = self.target_encode(observations)
        values: th.Tensor = self.critic_target(features)
        if self.actor_target is None:
            return self.logits(self.encode(observations)), values
        return self.actor_target(features).squeeze(0), values

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), **self._as_given}


class CnnPolicy(CRRPolicy):
    """:class:`CRRPolicy` with SB3's ``NatureCNN`` as encoder by default, for images."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": NatureCNN, **kwargs})


class MultiInputPolicy(CRRPolicy):
    """:class:`CRRPolicy` with SB3's combined extractor, less the mask, by default: for ``Dict``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"features_extractor_class": MaskedCombinedExtractor, **kwargs})


MlpPolicy = CRRPolicy
