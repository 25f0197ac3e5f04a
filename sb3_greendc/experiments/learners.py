"""The learners that experiments share, each with one set of hyperparameters for the whole family."""

from __future__ import annotations

from dataclasses import asdict, replace

from greendc.resource_pool.rewards import REWARDS
from sb3_greendc.experiments.experiment import CHOICE, LONG_QUEUES, ON_TIME, Budget
from sb3_greendc.experiments.training import Learner

MASKABLE_PPO = Learner(
    "MaskablePPO",
    "maskable_ppo",
    choice=ON_TIME,
    decisions=2_000_000,
    quick_decisions=100_000,
    quick_seeds=1,
    speed=9_000.0,
)
"""The hyperparameters are those of ``zoo_hparams/maskable_ppo.yml`` for the family."""

_JOB_SET = {
    "features_extractor": "job_set",
    "features_extractor_kwargs": {"job_dim": 64, "context_dim": 64},
    "net_arch": [64, 64],
}

DISCRETE_SAC = Learner(
    "DiscreteSAC",
    "discrete_sac",
    hyperparameters={
        "policy": "MultiInputPolicy",
        "n_envs": 32,
        "learning_rate": "lin_6e-4",
        "buffer_size": 100_000,
        "learning_starts": 4000,
        "batch_size": 256,
        "tau": 0.005,
        "gamma": 0.995,
        "train_freq": 1,
        "gradient_steps": 2,
        "reward_scale": 1.0,
        "soft_critic": False,
        "target_entropy_ratio": 0.3,
        "target_entropy_ratio_final": 0.02,
        "policy_kwargs": _JOB_SET,
    },
    choice=CHOICE,
    decisions=200_000,
    quick_decisions=12_000,
    quick_seeds=1,
    speed=1_250.0,
)
"""RARE's online learner; the settings are those of its documentation page, two updates a round of 32
decisions."""

DQN = Learner(
    "DQN",
    "dqn",
    hyperparameters={
        "policy": "JobSetDQNPolicy",
        "n_envs": 32,
        "learning_rate": "lin_6e-4",
        "buffer_size": 100_000,
        "learning_starts": 4000,
        "batch_size": 256,
        "gamma": 0.995,
        "train_freq": 1,
        "gradient_steps": 2,
        "target_update_interval": 1000,
        "exploration_fraction": 0.3,
        "exploration_final_eps": 0.02,
        "policy_kwargs": {key: _JOB_SET[key] for key in ("features_extractor_kwargs", "net_arch")},
    },
    choice=CHOICE,
    decisions=200_000,
    quick_decisions=12_000,
    quick_seeds=1,
    speed=3_000.0,
)
"""Without a mask, since DQN knows none: an invalid action acts as ``no_op``."""

SC20_A2C = Learner(
    "A2C, one CNN",
    "a2c",
    hyperparameters={
        "policy": "MaskedActorCriticPolicy",
        "n_envs": 16,
        "n_steps": 16,
        "learning_rate": "lin_1e-3",
        "gamma": 0.99,
        "gae_lambda": 0.9,
        "ent_coef": 0.002,
        "vf_coef": 0.5,
        "callback": "DiscountByTime",
        "policy_kwargs": {"features_extractor": "job_matrix", "net_arch": []},
    },
    choice={**ON_TIME, **LONG_QUEUES},
    deterministic=False,
    decisions=2_500_000,
    quick_decisions=100_000,
    quick_seeds=1,
    speed=5_500.0,
)
"""SC20's learner: one convolutional network over resources and jobs as one matrix, a learning rate that
begins at 1e-3, 2.5 million steps. It discounts by time: discounting by decisions it learns to suspend jobs
for nothing (at 100 % arrivals more than twice a step after 200,000 decisions). It chooses among as many jobs
as a distilled policy. Tests draw its actions: the most likely ones can swap two jobs for ever, or wait
for ever, long before the policy itself does."""

SC20_A2C_JOBS = replace(
    SC20_A2C,
    name="A2C, job by job",
    hyperparameters={
        **SC20_A2C.hyperparameters,
        "policy": "JobSetPolicy",
        "policy_kwargs": {key: _JOB_SET[key] for key in ("features_extractor_kwargs", "net_arch")},
    },
    choice={**SC20_A2C.choice, "reward": {**asdict(REWARDS["dense"]), "potential": 1.0}},
)
"""The same with a network that scores jobs one by one, and with the dense reward shaped by what is placed
(:class:`~greendc.resource_pool.rewards.RewardWeights`), which credits a decision when it is taken."""


def pool_learners(budget: Budget) -> list[Learner]:
    """Return the learners by trial and error of most figures, beside the network distilled from rollouts.

    The quick budget leaves them to the figures that are about them: none of them learns as much in a minute.
    """
    return budget.pick([], [DISCRETE_SAC, MASKABLE_PPO])
