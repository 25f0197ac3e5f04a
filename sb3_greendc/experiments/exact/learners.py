"""The learners of the experiment: two by trial and error, with settings for short episodes of tiny pools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sb3_greendc.experiments.exact.pools import VIEW
from sb3_greendc.experiments.exact.tasks import network
from sb3_greendc.experiments.learners import DISCRETE_SAC, MASKABLE_PPO
from sb3_greendc.experiments.training import Learner

GAMMA = 0.97
"""Discount of a step. What an action changes shows within about ten steps, since jobs last five at most."""


def learners(pool: str) -> tuple[Learner, ...]:
    """Return MaskablePPO and DiscreteSAC for a tiny pool.

    :param pool: its name
    """
    ppo: dict[str, Any] = {
        "policy_kwargs": network(pool),
        "callback": "DiscountByTime",
        "gamma": GAMMA,
        "gae_lambda": 0.95,
        "n_envs": 32,
        "n_steps": 64,
        "batch_size": 256,
        "learning_rate": "lin_1e-3",
        "target_kl": 0.05,
        "ent_coef": 0.01,
    }
    sac = {
        **DISCRETE_SAC.hyperparameters,
        "callback": "DiscountByTime",
        "gamma": GAMMA,
        "gradient_steps": 8,
        "learning_starts": 1000,
        "tau": 0.01,
        "target_entropy_ratio": 0.6,
    }
    sac["policy_kwargs"] = {"features_extractor": "job_set", **network(pool)}
    view = {**VIEW, "shaping_gamma": GAMMA}
    return (
        replace(
            MASKABLE_PPO,
            hyperparameters=ppo,
            choice=view,
            decisions=1_000_000,
            quick_decisions=50_000,
            quick_seeds=1,
        ),
        replace(
            DISCRETE_SAC,
            hyperparameters=sac,
            choice=view,
            decisions=40_000,
            quick_decisions=12_000,
            quick_seeds=1,
        ),
    )
