"""The papers' learners as printed: their network, observation, action rule, reward, discount and budget.

What the papers leave open is Stable-Baselines3's default, or is said here. None of these learners has a mask
beyond ``mask="valid"``, which hides actions that would do nothing, and none looks further than the image.
All of them place a job at its first available slot, as RARE's agent does.
"""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.tasks import PRINTED
from sb3_greendc.experiments.training import Learner

VALID = {"mask": "valid"}
"""What the papers' agents choose from: every action that does something."""

RARE = Learner(
    f"DiscreteSAC {PRINTED}",
    "discrete_sac",
    hyperparameters={
        "policy": "MultiInputPolicy",
        "preset": "rare",
        "n_envs": 8,
        "learning_rate": 3e-4,
        "buffer_size": 100_000,
        "learning_starts": 1000,
        "batch_size": 64,
        "gamma": 0.99,
        "train_freq": 1,
        "gradient_steps": 1,
        "soft_critic": False,
        "target_entropy_ratio": 0.3,
        "target_entropy_ratio_final": None,
        "policy_kwargs": {"features_extractor": "resource_image"},
    },
    choice={**VALID, "reward": "completion"},
    decisions=200_000,
    quick_decisions=8_000,
    quick_seeds=1,
    speed=250.0,
)
"""RARE, Algorithm 1: one critic, no target network, no entropy; the encoder of 128 features is trained by
the critic alone; the reward is the value of the jobs that finish on time in the step. RARE prints no number
of decisions for its online learner (offline it has 100 to 200 thousand samples), no learning rate and no
batch: 200,000 decisions, a learning rate of 3e-4, batches of 64 and one update for eight decisions are
ours."""


def rare_at(budget: Budget, x: object, quick: Container[object]) -> tuple[Learner, ...]:
    """Return RARE's learner at a point: in full always, in the quick budget where it has it."""
    return (RARE,) if not budget.quick or x in quick else ()


SMALL_DELAY: dict[str, float] = {
    "executed": 0.5,
    "on_time": 0.5,
    "suspension": 0.2,
    "resumption": 0.1,
    "lateness": 0.005,
    "lateness_cap": 0.02,
}
"""SC20's dense reward with a cost of delay so small that the best policies' reward rises with the arrivals,
as in the paper's Fig. 2: a late job costs half a per cent of its value a step, and 2 % at most, as in the
preset ``dense``. The paper prints no coefficient."""

LARGE_DELAY: dict[str, float] = {**SMALL_DELAY, "lateness": 0.05, "lateness_cap": 1.0}
"""The other reading, and ``dense`` up to version 0.2: 5 % a step, up to the whole value. Jobs that no policy
can serve then decide the sum: reward falls with the arrivals."""

SC20_JUDGED_AT = (0, 10_000, 20_000, 30_000, 50_000, 70_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000)
"""Decisions at which SC20's curves are judged: the paper says what is to be seen at 30, 50 and 70
thousand."""

SC20 = Learner(
    f"A2C {PRINTED}",
    "a2c",
    hyperparameters={
        "policy": "MaskedActorCriticPolicy",
        "normalize": False,
        "n_envs": 16,
        "n_steps": 5,
        "learning_rate": 1e-3,
        "gamma": 0.99,
        "gae_lambda": 1.0,
        "ent_coef": 0.0,
        "vf_coef": 0.5,
        "policy_kwargs": {"features_extractor": "job_matrix", "net_arch": []},
    },
    choice={**VALID, "reward": SMALL_DELAY},
    deterministic=False,
    decisions=2_500_000,
    quick_decisions=100_000,
    quick_seeds=1,
    speed=3_000.0,
    judged_at=SC20_JUDGED_AT,
)
"""SC20: A2C, policy and value in one convolutional network over resources and jobs as one matrix, a learning
rate of 1e-3, 2.5 million steps; suspension is an action. It discounts by decisions. Everything else is the
default of Stable-Baselines3's A2C. Tests draw its actions."""

COCORL_LIMITS = (7000.0, 2000.0)
"""The limits that CoCoRL prints, in delayed job-steps of an episode, one for all arrival rates: 2000 for its
Fig. 10, both for its Fig. 12. For Figs. 5 to 9 it prints none: on synthetic jobs ours is the first, on logs
the second. The paper finds them by running the agent without a limit (:data:`COCORL_UNLIMITED`) and reducing
what that costs."""

COCORL_NOTE = (
    "CoCoRL as printed: each gain is applied once, and the advantage is divided by 1 + λ "
    "([what the paper leaves open](../pid_ppo.md#where-cocorls-printed-algorithm-is-ambiguous)). Its limit "
    "is 7000 delayed job-steps on synthetic jobs and 2000 on logs, at all loads alike, in training "
    "episodes of 500 steps."
)

COCORL_GAINS = (2.0, 1.0, 1.0)
COCORL_KI = (1.0, 1e-2)
"""Of Fig. 11, with the other two gains as they are."""


def cocorl(limit: float, ki: float = 1.0, name: str = f"CoCoRL {PRINTED}") -> Learner:
    """Return CoCoRL's learner: PID-Lagrangian PPO, two layers and an LSTM, gains 2, 1, 1.

    The cost is the number of delayed jobs in each step, the controller has no scale, no smoothing and no
    upper bound (``preset="cocorl"``), and starts at 0. The reward is the value of the jobs that finish on
    time. Budget and learning rate are not printed: 400,000 decisions and the settings of
    ``zoo_hparams/recurrent_pid_ppo.yml``.

    :param limit: on the cost of an episode, in delayed job-steps; infinite for none
    :param ki: the integral gain
    :param name: name in tables and figures
    """
    gains: dict[str, Any] = {"kp": COCORL_GAINS[0], "ki": ki, "kd": COCORL_GAINS[2], "init": 0.0}
    return Learner(
        name,
        "recurrent_pid_ppo",
        # Costs are thousands an episode, rewards a hundred: the critic's loss must not drown the policy's.
        hyperparameters={"preset": "cocorl", "cost_limit": limit, "cost_vf_coef": 1e-6, **gains},
        choice={**VALID, "reward": "completion", "cost": "delayed"},
        deterministic=False,
        decisions=400_000,
        quick_decisions=60_000,
        quick_seeds=1,
        speed=900.0,
    )


COCORL_UNLIMITED = cocorl(math.inf, name=f"CoCoRL {PRINTED}, no limit")
"""What the paper finds its limits by (V-H)."""
