"""Real clusters in event time: jobs of a log or a model, backfilling, and power that comes and goes."""

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
