"""Baselines: heuristics, planners and searches, all with Stable-Baselines3's ``predict``.

``make_policy(name, env)`` makes one, ``names(family)`` lists them.
"""

from greendc.baselines import cluster, resource_pool, vcc
from greendc.baselines.policy import BaselinePolicy
from greendc.baselines.registry import BaselineFamily, make_policy, names, register
from greendc.baselines.vcc import best_known

register(vcc.BASELINES)
register(resource_pool.BASELINES)
register(cluster.BASELINES)

__all__ = ["BaselineFamily", "BaselinePolicy", "best_known", "make_policy", "names", "register"]
