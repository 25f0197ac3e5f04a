"""What the extractors of the resource-pool family share: reading its ``Dict`` observation, and trunks.

Keys: ``resources``, the image ``(horizon, R · M)`` with the columns of the R resource types side by side;
``jobs``, the ready pool ``(n, features)`` with rows of zeros for empty slots; ``action_mask``, which is
not an input; every other key (``context``) is flattened into one vector. Values other than the image's
are expected to be scaled to about [0, 1], as the environment scales them.
"""

from __future__ import annotations

import math

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.type_aliases import TensorDict
from torch import nn

from sb3_greendc.core.masking import ACTION_MASK

RESOURCES = "resources"
JOBS = "jobs"


class ResourcePoolInputs:
    """The shapes of a resource-pool observation, and its parts as float tensors.

    :param observation_space: a ``Dict`` with ``resources`` and ``jobs``
    :param image_optional: whether ``resources`` may be missing, as in clusters; ``columns`` is then 0
    :raises ValueError: if a key is missing, or an array has the wrong number of axes
    """

    def __init__(self, observation_space: spaces.Space[object], image_optional: bool = False) -> None:
        if not isinstance(observation_space, spaces.Dict):
            raise ValueError(
                f"observation space {observation_space}: must be a Dict with {RESOURCES!r} and {JOBS!r}"
            )
        has_image = RESOURCES in observation_space.spaces
        for key in (RESOURCES, JOBS) if has_image or not image_optional else (JOBS,):
            if key not in observation_space.spaces:
                known = ", ".join(map(repr, observation_space.spaces))
                raise ValueError(f"observation key {key!r} is missing (the space has {known})")
            shape = observation_space[key].shape
            if shape is None or len(shape) != 2:
                raise ValueError(f"observation key {key!r} has shape {shape}: must have two axes")
        self.n_jobs, self.n_job_features = observation_space[JOBS].shape  # type: ignore[misc]
        self.horizon, self.columns, self.image_scale = 0, 0, 1.0
        if has_image:
            image = observation_space[RESOURCES]
            assert isinstance(image, spaces.Box)
            self.horizon, self.columns = image.shape
            highest = float(np.max(image.high))
            self.image_scale = 1.0 / highest if math.isfinite(highest) and highest > 0 else 1.0
        self.vector_keys = [
            key for key in observation_space.spaces if key not in (RESOURCES, JOBS, ACTION_MASK)
        ]
        self.vector_dim = sum(get_flattened_obs_dim(observation_space[key]) for key in self.vector_keys)

    def image(self, observations: TensorDict) -> th.Tensor:
        """Return the image ``(B, horizon, R · M)``, scaled by its upper bound to [0, 1]."""
        return observations[RESOURCES] * self.image_scale

    def vectors(self, observations: TensorDict) -> list[th.Tensor]:
        """Return the vector inputs, each ``(B, k)``."""
        return [observations[key].flatten(start_dim=1) for key in self.vector_keys]


def units_per_type(inputs: ResourcePoolInputs, n_resource_types: int) -> int:
    """Return M, the columns of one resource type.

    :raises ValueError: if the image's columns cannot be divided among the types
    """
    if n_resource_types < 1 or inputs.columns % n_resource_types:
        raise ValueError(
            f"n_resource_types={n_resource_types!r}: must divide the {inputs.columns} columns of "
            f"{RESOURCES!r}"
        )
    return int(inputs.columns // n_resource_types)


class TimeBlocks(nn.Module):
    """Map ``(B, horizon, channels)`` to ``(B, output_dim)``: a convolution over time that does not overlap.

    With kernel = stride a one-dimensional convolution is a linear map of blocks of rows: one matrix
    product, several times faster to train on a CPU than a general convolution.

    :param horizon: rows; the last block is filled up with zeros
    :param channels: numbers a row
    :param block: rows a block
    :param block_dim: outputs a block
    """

    def __init__(self, horizon: int, channels: int, block: int, block_dim: int) -> None:
        super().__init__()
        self.n_blocks = -(-horizon // block)
        self.padding = self.n_blocks * block - horizon
        self.linear = nn.Linear(block * channels, block_dim)
        self.output_dim = self.n_blocks * block_dim

    def forward(self, rows: th.Tensor) -> th.Tensor:
        """Return the activated blocks, flattened."""
        if self.padding:
            rows = nn.functional.pad(rows, (0, 0, 0, self.padding))
        blocks = rows.reshape(rows.shape[0], self.n_blocks, -1)
        return th.relu_(self.linear(blocks)).flatten(start_dim=1)


def job_table_mlp(inputs: ResourcePoolInputs, width: int) -> nn.Sequential:
    """Return RARE's feed-forward branch for the job table: two layers of ``width``, normalized."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs.n_jobs * inputs.n_job_features, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.LayerNorm(width),
    )
