"""Resource pools: jobs with deadlines on units of several types, under power that comes and goes."""

from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.env import ResourcePoolEnv, ResourcePoolVectorEnv
from greendc.resource_pool.rewards import REWARDS, RewardWeights
from greendc.resource_pool.simulator import ResourcePoolSimulator

__all__ = [
    "REWARDS",
    "ResourcePoolConfig",
    "ResourcePoolEnv",
    "ResourcePoolSimulator",
    "ResourcePoolVectorEnv",
    "RewardWeights",
]
