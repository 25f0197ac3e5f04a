"""The extractor of the VCC family: the state of the cluster and the forecast of the grid."""

from __future__ import annotations

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


class ForecastExtractor(BaseFeaturesExtractor):
    """Features of a VCC observation: ``Box`` with a forecast among its entries.

    What an hour's emissions mean depends on the hours around it, so the forecast is read twice: as it is,
    and standardized over its own hours. The other entries may be raw counts (``VCC-*-v0``); they pass through
    ``sign(x) · log(1 + |x|)``, which leaves numbers in [0, 1] nearly as they are.

    :param observation_space: ``Box`` of one axis
    :param features_dim: number of features
    :param forecast_start: index of the forecast's first hour
    :param forecast_hours: its length
    :param width: width of the two branches
    :raises ValueError: if the observation is too short to hold the forecast
    """

    def __init__(
        self,
        observation_space: spaces.Space[object],
        features_dim: int = 64,
        forecast_start: int = 3,
        forecast_hours: int = 24,
        width: int = 64,
    ) -> None:
        super().__init__(observation_space, features_dim)
        shape = observation_space.shape
        stop = forecast_start + forecast_hours
        if shape is None or len(shape) != 1 or shape[0] < stop:
            raise ValueError(
                f"observation space {observation_space}: must be a vector with the forecast at entries "
                f"{forecast_start} to {stop - 1}"
            )
        self.forecast = slice(forecast_start, stop)
        self.state_before = slice(0, forecast_start)
        self.state_after = slice(stop, shape[0])
        self.state_mlp = nn.Sequential(
            nn.Linear(shape[0] - forecast_hours, width), nn.ReLU(), nn.LayerNorm(width)
        )
        self.forecast_mlp = nn.Sequential(
            nn.Linear(2 * forecast_hours, width), nn.ReLU(), nn.LayerNorm(width)
        )
        self.joint = nn.Sequential(nn.Linear(2 * width, features_dim), nn.ReLU())

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """Return features ``(B, features_dim)``."""
        forecast = observations[:, self.forecast]
        deviation = forecast - forecast.mean(dim=1, keepdim=True)
        # A flat forecast has no shape to standardize: the floor keeps rounding from being blown up.
        shape = deviation / deviation.square().mean(dim=1, keepdim=True).sqrt().clamp(min=1e-3)
        state = th.cat([observations[:, self.state_before], observations[:, self.state_after]], dim=1)
        state = state.sign() * state.abs().log1p()
        branches = [self.state_mlp(state), self.forecast_mlp(th.cat([forecast, shape], dim=1))]
        features: th.Tensor = self.joint(th.cat(branches, dim=1))
        return features
