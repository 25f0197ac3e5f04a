"""A policy with an encoder, an actor, critics, and slow copies of them: what off-policy learners share."""

from __future__ import annotations

from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

from sb3_greendc.core.lean_adam import LeanAdam
from sb3_greendc.core.lean_policy import LeanPolicy


class TargetNetworkPolicy(LeanPolicy):
    """An encoder, an actor, critics, and targets that follow some of them.

    A subclass makes ``features_extractor``, ``features_extractor_target`` and its heads, and calls
    :meth:`_add_target` for each target.

    :param observation_space: any space that SB3 supports
    :param action_space: of the environment
    :param net_arch: widths of layers, as the subclass reads them
    :param activation_fn: activation between layers
    :param features_extractor_class: the encoder
    :param features_extractor_kwargs: its keyword arguments
    :param normalize_images: divide ``uint8`` images by 255
    :param optimizer_class: of every optimizer
    :param optimizer_kwargs: its keyword arguments besides the learning rate
    :param n_critics: 1 or 2
    :param squash_output: whether actions are scaled to [-1, 1]
    :raises ValueError: for another number of critics
    """

    features_extractor: BaseFeaturesExtractor
    features_extractor_target: BaseFeaturesExtractor

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        net_arch: Any,
        activation_fn: type[nn.Module] = nn.ReLU,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        n_critics: int = 2,
        squash_output: bool = False,
    ) -> None:
        if optimizer_kwargs is None:
            # One fused kernel for the whole step: the loop over parameters costs more than the arithmetic.
            optimizer_kwargs = {"fused": True} if optimizer_class in (th.optim.Adam, th.optim.AdamW) else {}
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class,
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            squash_output=squash_output,
        )
        if n_critics not in (1, 2):
            raise ValueError(f"n_critics={n_critics!r}: must be 1 or 2")
        self.net_arch = net_arch
        self.activation_fn = activation_fn
        self.n_critics = n_critics
        self._targets: list[nn.Module] = []
        self._online: list[th.Tensor] = []
        self._target: list[th.Tensor] = []

    def _add_target(self, target: nn.Module, online: nn.Module) -> None:
        """Make one network a slow copy of another of the same shape."""
        target.load_state_dict(online.state_dict())
        target.requires_grad_(False)
        self._targets = [*self._targets, target]
        self._online = [*self._online, *online.parameters()]
        self._target = [*self._target, *target.parameters()]

    def _make_optimizer(self, networks: list[nn.Module], lr_schedule: Schedule) -> th.optim.Optimizer:
        parameters = [parameter for network in networks for parameter in network.parameters()]
        chosen = LeanAdam if self.optimizer_class is th.optim.Adam else self.optimizer_class
        return chosen(parameters, lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]

    @th.no_grad()
    def update_targets(self, tau: float) -> None:
        """Move the targets towards the networks that they follow: ``target ← (1 - τ) target + τ online``."""
        if tau == 1.0:
            th._foreach_copy_(self._target, self._online)
        else:
            th._foreach_lerp_(self._target, self._online, tau)
        # Running statistics (of batch normalization in an extractor of the user's) are copied, as SB3 does.
        for target, online in zip(
            self.features_extractor_target.buffers(), self.features_extractor.buffers(), strict=True
        ):
            target.copy_(online)

    def encode(self, observations: PyTorchObs) -> th.Tensor:
        """Return the features ``(B, D)`` of observations."""
        return self.extract_features(observations, self.features_extractor)

    def target_encode(self, observations: PyTorchObs) -> th.Tensor:
        """Return the target encoder's features ``(B, D)``."""
        return self.extract_features(observations, self.features_extractor_target)

    def forward(self, observations: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        """Return actions, one a row."""
        return self._predict(observations, deterministic)

    def set_training_mode(self, mode: bool) -> None:
        """Put the online networks into training or evaluation mode; targets are always in evaluation mode."""
        if self.training == mode:
            return
        self.train(mode)
        for target in self._targets:
            target.train(False)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        data.update(
            net_arch=self.net_arch,
            activation_fn=self.activation_fn,
            n_critics=self.n_critics,
            lr_schedule=self._dummy_schedule,
            optimizer_class=self.optimizer_class,
            optimizer_kwargs=self.optimizer_kwargs,
            features_extractor_class=self.features_extractor_class,
            features_extractor_kwargs=self.features_extractor_kwargs,
        )
        return data
