"""SC20's extractor: resources and jobs as one matrix under one convolutional network."""

from __future__ import annotations

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import TensorDict
from torch import nn
from torch.nn.functional import pad

from sb3_greendc.extractors.resource_pool import JOBS, ResourcePoolInputs


class JobMatrixExtractor(BaseFeaturesExtractor):
    """Features from one matrix: the rows of the resource image, and below them a row for each ready job.

    Venkataswamy and Grimshaw (SC20 workshop MLCS) show the network resources and jobs as one matrix. The
    narrower of the two parts is padded with zeros. Convolutions of 16 and 32 channels with stride 2, then
    one layer; the paper gives no sizes, these are ours. The context, which the paper does not have, is
    not read. Use it to repeat the paper; :class:`ResourceRowsExtractor` learns faster.

    :param observation_space: ``Dict`` with ``resources`` ``(horizon, R · M)`` and ``jobs`` ``(n, features)``
    :param features_dim: number of features
    """

    def __init__(self, observation_space: spaces.Dict, features_dim: int = 128) -> None:
        super().__init__(observation_space, features_dim)
        self.inputs = ResourcePoolInputs(observation_space)
        self.width = max(self.inputs.columns, self.inputs.n_job_features)
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        with th.no_grad():
            rows = self.inputs.horizon + self.inputs.n_jobs
            flat = self.convolutions(th.zeros(1, 1, rows, self.width)).shape[1]
        self.joint = nn.Sequential(nn.Linear(flat, features_dim), nn.ReLU())

    def forward(self, observations: TensorDict) -> th.Tensor:
        """Return features ``(B, features_dim)``."""
        parts = (self.inputs.image(observations), observations[JOBS])
        matrix = th.cat([pad(part, (0, self.width - part.shape[2])) for part in parts], dim=1)
        image = matrix[:, None].to(memory_format=th.channels_last)  # quicker on processors
        features: th.Tensor = self.joint(self.convolutions(image))
        return features
