"""A policy that scores ready jobs one by one, with critics of reward and of cost."""

from __future__ import annotations

from typing import cast

import torch as th
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import nn

from sb3_greendc.extractors import JobSetExtractor, JobSetPolicy
from sb3_greendc.extractors.job_set import JobSetFeatures
from sb3_greendc.pid_ppo.policies import CostActorCriticPolicy


class CostJobSetPolicy(CostActorCriticPolicy, JobSetPolicy):
    """:class:`~sb3_greendc.extractors.JobSetPolicy` with a cost critic, for the resource pool.

    Its actor is that of the networks distilled from rollouts, so that
    :class:`~sb3_greendc.pid_ppo.PIDLagrangianPPO` can start from one of those
    (:func:`~sb3_greendc.bc.warm_start.start_from`). The cost critic reads the context, which pools the jobs,
    as the value function does.

    :param args: as for :class:`~sb3_greendc.extractors.JobSetPolicy`
    :param kwargs: as for :class:`~sb3_greendc.extractors.JobSetPolicy`, and ``share_cost_features_extractor``
    """

    def _cost_latent_dim(self) -> int:
        return cast("JobSetExtractor", self.features_extractor).context_dim

    def _certain_mask(self, obs: PyTorchObs) -> th.Tensor | None:
        return None  # masks that are passed in may allow what the observation's mask does not

    def _build_cost_critic(self) -> None:
        super()._build_cost_critic()
        self.cost_net.insert(0, _Context(self._cost_latent_dim()))


class _Context(nn.Module):
    """The last numbers of a :class:`JobSetExtractor`'s features.

    :param size: how many they are
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, features: th.Tensor | JobSetFeatures) -> th.Tensor:
        return features.context if isinstance(features, JobSetFeatures) else features[:, -self.size :]
