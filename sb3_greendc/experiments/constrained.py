"""What experiments with a limit on delay share: the cost's unit, the learners, the limits."""

from __future__ import annotations

import math
from typing import Any

from sb3_greendc.experiments.training import Learner

JOB_STEPS = 100
DELAY: dict[str, Any] = {"cost": "weighted", "cost_weights": [1 / JOB_STEPS, 0.0]}
"""Delayed jobs are counted in hundreds of job-steps, so that rewards (about one a job) and costs are of one
size and the multiplier is of the order of 1."""

CHOICE = {"mask": "now"}
"""Late jobs may be run: a policy that is charged for delay must be able to end it. Forced decisions are not
skipped: a step of the environment would carry the delay of hours, discounted as one decision."""


def pid_ppo(limit: float, name: str = "PID-PPO", **settings: Any) -> Learner:
    """Return PIDLagrangianPPO with a limit on the mean cost of an episode of 500 steps.

    The other hyperparameters are those of ``zoo_hparams/pid_ppo.yml`` for the family.

    :param limit: in units of :data:`DELAY`; infinite for plain PPO on the same networks
    :param name: name in tables and figures
    :param settings: further hyperparameters, such as gains
    """
    return Learner(
        name,
        "pid_ppo",
        hyperparameters={"cost_limit": limit, **settings},
        choice=CHOICE,
        deterministic=False,
        decisions=600_000,
        quick_decisions=120_000,
        quick_seeds=1,
        speed=9_000.0,
    )


UNLIMITED = pid_ppo(math.inf, "PPO without limit")
