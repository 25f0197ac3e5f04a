"""The shape of CRR's networks: which layers actor and critics share, and the extractor that holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import TensorDict
from torch import nn

from greendc.config import nearest
from sb3_greendc.extractors.heads import Heads, MlpHeads, make_activation, multiply_layers, require_widths

NetArch = list[int] | dict[str, list[int]]


def read_net_arch(net_arch: NetArch, list_means: str) -> dict[str, list[int]]:
    """Return the widths of the layers of each part: ``shared``, ``pi`` and ``qf``.

    :param net_arch: a mapping with any of these keys, or a list
    :param list_means: what a list means: ``"shared"`` layers, with linear heads, or ``"heads"`` of this shape
    :raises ValueError: for an unknown key, or a width that is no positive integer
    """
    parts: dict[str, list[int]] = {"shared": [], "pi": [], "qf": []}
    if isinstance(net_arch, Mapping):
        for key, widths in net_arch.items():
            if key not in parts:
                raise ValueError(
                    f"net_arch: unknown part {key!r}{nearest(key, parts)} (known: shared, pi, qf)"
                )
            parts[key] = list(widths)
    else:
        for key in ("shared",) if list_means == "shared" else ("pi", "qf"):
            parts[key] = list(net_arch)
    for key, widths in parts.items():
        require_widths(key, widths)
    return parts


class SharedLayers(BaseFeaturesExtractor):
    """A features extractor, and a perceptron behind it that actor and critics share.

    :param observation_space: of the environment
    :param extractor_class: the extractor in front
    :param extractor_kwargs: its keyword arguments
    :param net_arch: widths of the shared layers
    :param activation_fn: after each of them
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        extractor_class: type[BaseFeaturesExtractor],
        extractor_kwargs: dict[str, Any],
        net_arch: list[int],
        activation_fn: type[nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__(observation_space, net_arch[-1])
        self.extractor = extractor_class(observation_space, **extractor_kwargs)
        layers: list[nn.Module] = []
        for width_in, width_out in pairwise([self.extractor.features_dim, *net_arch]):
            layers += [nn.Linear(width_in, width_out), make_activation(activation_fn)]
        self.layers = nn.Sequential(*layers)

    def forward(self, observations: th.Tensor | TensorDict) -> th.Tensor:
        """Return the features ``(B, net_arch[-1])``."""
        features: th.Tensor = self.layers(self.extractor(observations))
        return features

    def make_heads(
        self, n_actions: int, n_heads: int, net_arch: Sequence[int], activation_fn: type[nn.Module] = nn.ReLU
    ) -> Heads:
        """Return linear heads, or perceptrons where ``net_arch`` has widths."""
        if net_arch:
            return MlpHeads(self.features_dim, n_actions, n_heads, net_arch, activation_fn)
        return LinearHeads(self.features_dim, n_actions, n_heads)


class LinearHeads(Heads):
    """Linear heads over flat features, as one matrix product: a batch of narrow ones takes longer.

    :param features_dim: D
    :param n_actions: outputs of each head
    :param n_heads: number of heads
    """

    def __init__(self, features_dim: int, n_actions: int, n_heads: int) -> None:
        super().__init__(n_actions, n_heads)
        self.net = nn.Linear(features_dim, n_heads * n_actions)

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Return ``(n_heads, B, n_actions)``."""
        outputs: th.Tensor = self.net(features)
        return outputs.view(-1, self.n_heads, self.n_actions).transpose(0, 1)

    def scale_output(self, factor: float) -> None:
        """Multiply the weights; the bias becomes zero."""
        with th.no_grad():
            self.net.weight.mul_(factor)
            self.net.bias.zero_()

    def multiply(self, factor: float) -> None:
        """Multiply weights and bias."""
        multiply_layers([self.net], factor)
