"""Discrete soft actor-critic, with action masks and ``Dict`` observations."""

from sb3_greendc.discrete_sac.buffers import DictNStepReplayBuffer, FlatNStepReplayBuffer
from sb3_greendc.discrete_sac.discrete_sac import DiscreteSAC
from sb3_greendc.discrete_sac.policies import CnnPolicy, DiscreteSACPolicy, MlpPolicy, MultiInputPolicy

__all__ = [
    "CnnPolicy",
    "DictNStepReplayBuffer",
    "DiscreteSAC",
    "DiscreteSACPolicy",
    "FlatNStepReplayBuffer",
    "MlpPolicy",
    "MultiInputPolicy",
]
