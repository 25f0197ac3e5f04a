"""Resource pools: jobs with deadlines on units of several types, under power that comes and goes."""

from typing import TYPE_CHECKING

from greendc.lazy import lazy_names

if TYPE_CHECKING:
    from greendc.resource_pool.config import ResourcePoolConfig
    from greendc.resource_pool.env import ResourcePoolEnv, ResourcePoolVectorEnv
    from greendc.resource_pool.rewards import REWARDS, RewardWeights
    from greendc.resource_pool.simulator import ResourcePoolSimulator
    from greendc.resource_pool.snapshot import PoolJob, PoolPower, PoolSnapshot

__all__ = [
    "REWARDS",
    "PoolJob",
    "PoolPower",
    "PoolSnapshot",
    "ResourcePoolConfig",
    "ResourcePoolEnv",
    "ResourcePoolSimulator",
    "ResourcePoolVectorEnv",
    "RewardWeights",
]

__getattr__ = lazy_names(
    __name__,
    {
        "REWARDS": "rewards",
        "PoolJob": "snapshot",
        "PoolPower": "snapshot",
        "PoolSnapshot": "snapshot",
        "ResourcePoolConfig": "config",
        "ResourcePoolEnv": "env",
        "ResourcePoolSimulator": "simulator",
        "ResourcePoolVectorEnv": "env",
        "RewardWeights": "rewards",
    },
)
