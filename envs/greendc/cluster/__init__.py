"""Real clusters in event time: jobs of a log or a model, backfilling, and power that comes and goes."""

from typing import TYPE_CHECKING

from greendc.lazy import lazy_names

if TYPE_CHECKING:
    from greendc.cluster.config import ClusterConfig
    from greendc.cluster.env import ClusterEnv, ClusterVectorEnv
    from greendc.cluster.jobs import ClusterJobs, lublin_jobs, read_jobs
    from greendc.cluster.power import CapacitySeries
    from greendc.cluster.simulator import ClusterSimulator

__all__ = [
    "CapacitySeries",
    "ClusterConfig",
    "ClusterEnv",
    "ClusterJobs",
    "ClusterSimulator",
    "ClusterVectorEnv",
    "lublin_jobs",
    "read_jobs",
]

__getattr__ = lazy_names(
    __name__,
    {
        "CapacitySeries": "power",
        "ClusterConfig": "config",
        "ClusterEnv": "env",
        "ClusterJobs": "jobs",
        "ClusterSimulator": "simulator",
        "ClusterVectorEnv": "env",
        "lublin_jobs": "jobs",
        "read_jobs": "jobs",
    },
)
