"""The default extractor of the resource-pool family: the image row by row."""

from __future__ import annotations

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import TensorDict
from torch import nn

from sb3_greendc.extractors.resource_pool import JOBS, ResourcePoolInputs, TimeBlocks, job_table_mlp


class ResourceRowsExtractor(BaseFeaturesExtractor):
    """Features of a resource-pool observation from a one-dimensional convolution over time.

    Units are interchangeable but for their order, time is what a schedule is about: so the columns are
    channels, and blocks of ``block`` rows share their weights. It trains several times faster than the
    two-dimensional convolutions of :class:`ResourceImageExtractor`. Choose :class:`JobSetExtractor` where one
    network must serve ready pools and resource pools of any size.

    Image → blocks of rows → 128, normalized; job table → 128 → 128, normalized; both with the context
    → ``features_dim``. Layer normalization only.

    :param observation_space: ``Dict`` with ``resources`` ``(horizon, R · M)`` and ``jobs`` ``(n, features)``
    :param features_dim: number of features
    :param block: rows a block
    :param block_dim: outputs a block
    :param width: width of the two branches
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        features_dim: int = 128,
        block: int = 4,
        block_dim: int = 32,
        width: int = 128,
    ) -> None:
        super().__init__(observation_space, features_dim)
        self.inputs = ResourcePoolInputs(observation_space)
        blocks = TimeBlocks(self.inputs.horizon, self.inputs.columns, block, block_dim)
        self.rows = nn.Sequential(blocks, nn.Linear(blocks.output_dim, width), nn.ReLU(), nn.LayerNorm(width))
        self.jobs = job_table_mlp(self.inputs, width)
        self.joint = nn.Sequential(nn.Linear(2 * width + self.inputs.vector_dim, features_dim), nn.ReLU())

    def forward(self, observations: TensorDict) -> th.Tensor:
        """Return features ``(B, features_dim)``."""
        rows = self.rows(self.inputs.image(observations))
        jobs = self.jobs(observations[JOBS])
        features: th.Tensor = self.joint(th.cat([rows, jobs, *self.inputs.vectors(observations)], dim=1))
        return features
