"""Search spaces: for each algorithm, which parameters are sampled, of which type, from which range.

A space is a mapping of names to Optuna's typed distributions, so that it can be stored with the study,
compared, and sampled by anybody. What a sampled parameter means to an algorithm's constructor is said
elsewhere, once (:mod:`sb3_greendc.tuning.conversion`). Parameters whose natural scale is another than the
constructor's are sampled in theirs: ``1 - gamma`` and ``1 - gae_lambda`` in place of the discounts,
minibatches of a rollout in place of the batch size, which must divide it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gymnasium import spaces
from optuna.distributions import (
    BaseDistribution,
    CategoricalChoiceType,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from greendc.config import nearest

Space = dict[str, BaseDistribution]


@dataclass(frozen=True)
class Setting:
    """What a space may depend on beside its algorithm.

    :param family: ``"vcc"``, ``"resource_pool"``, or ``None`` for environments of other packages
    :param continuous: whether actions are a ``Box``
    """

    family: str | None
    continuous: bool

    @classmethod
    def of(cls, family: str | None, action_space: spaces.Space[object]) -> Setting:
        """Return the setting of an environment."""
        return cls(family, isinstance(action_space, spaces.Box))


ONE_MINUS_GAMMA = {"vcc": (0.005, 0.03), "resource_pool": (0.001, 0.03), None: (1e-4, 0.1)}
"""Range of ``1 - gamma``. Overdue work of a VCC surfaces up to a day later, which discounts below .97
forget; above .995 the noise of exploration drowns it. The resource pool's value is paid hundreds of steps
after the decision."""

POOL_NETWORKS = {
    "ppo": ("job_set", "resource_rows"),
    "a2c": ("job_set", "resource_rows"),
    "maskable_ppo": ("job_set", "resource_rows"),
    "dqn": ("job_set", "resource_rows"),
    "discrete_sac": ("job_set", "resource_rows"),
    "crr": ("job_set", "resource_rows"),
}
"""Networks for the resource pool, where an algorithm has a policy that reads a set of jobs."""

_POOL_NETWORKS_OF_OTHERS = ("resource_rows", "combined")


def search_space(algorithm: str, setting: Setting) -> Space:
    """Return the search space of an algorithm in a setting.

    :raises ValueError: for an algorithm without one; the message names the nearest
    """
    if algorithm not in SPACES:
        hint = nearest(algorithm, SPACES)
        raise ValueError(f"no search space for {algorithm!r}{hint} (there is one for {', '.join(SPACES)})")
    return SPACES[algorithm](setting)


def ppo(setting: Setting, algorithm: str = "ppo") -> Space:
    """PPO."""
    return {
        **_learning_rate(5e-5, 3e-3),
        **_rollouts(setting),
        "n_minibatches": _choice(4, 8, 16, 32),
        "n_epochs": IntDistribution(2, 12),
        "clip_range": FloatDistribution(0.1, 0.3),
        "ent_coef": FloatDistribution(1e-6, 0.02, log=True),
        "vf_coef": FloatDistribution(0.25, 1.0),
        "max_grad_norm": FloatDistribution(0.3, 2.0, log=True),
        **_first_deviation(setting),
        **_network(algorithm, setting),
    }


def maskable_ppo(setting: Setting) -> Space:
    """MaskablePPO: PPO's."""
    return ppo(setting, "maskable_ppo")


def recurrent_ppo(setting: Setting, algorithm: str = "recurrent_ppo") -> Space:
    """PPO with an LSTM: PPO's, and the size of the memory."""
    return {**ppo(setting, algorithm), "lstm_hidden_size": _choice(32, 64, 128, 256)}


def pid_ppo(setting: Setting) -> Space:
    """PID-Lagrangian PPO: PPO's, with the controller's gains and the limit that it is given."""
    return {**ppo(setting, "pid_ppo"), **_controller()}


def recurrent_pid_ppo(setting: Setting) -> Space:
    """PID-Lagrangian PPO with an LSTM."""
    return {**recurrent_ppo(setting, "recurrent_pid_ppo"), **_controller()}


def a2c(setting: Setting) -> Space:
    """A2C."""
    return {
        **_learning_rate(1e-4, 5e-3),
        **_discounts(setting),
        "n_steps": _choice(5, 8, 16, 24, 32),
        "ent_coef": FloatDistribution(1e-6, 0.02, log=True),
        "vf_coef": FloatDistribution(0.25, 1.0),
        "max_grad_norm": FloatDistribution(0.3, 2.0, log=True),
        "normalize_advantage": _choice(False, True),
        "use_rms_prop": _choice(False, True),
        **_first_deviation(setting),
        **_network("a2c", setting),
    }


def trpo(setting: Setting) -> Space:
    """TRPO."""
    return {
        **_learning_rate(1e-4, 5e-3),
        **_rollouts(setting),
        "n_minibatches": _choice(4, 8, 16, 32),
        "target_kl": FloatDistribution(0.002, 0.05, log=True),
        "n_critic_updates": _choice(5, 10, 15, 20),
        "cg_max_steps": _choice(10, 15, 20),
        **_first_deviation(setting),
        **_network("trpo", setting),
    }


def sac(setting: Setting) -> Space:
    """SAC."""
    return {
        **_replay(setting, "sac"),
        "tau": FloatDistribution(0.001, 0.05, log=True),
        "ent_coef_init": FloatDistribution(0.01, 1.0, log=True),
    }


def tqc(setting: Setting) -> Space:
    """TQC: SAC's, and how many quantiles are dropped."""
    return {**sac(setting), "top_quantiles_to_drop_per_net": IntDistribution(0, 5)}


def crossq(setting: Setting) -> Space:
    """CrossQ, which has no target networks."""
    return {
        **_replay(setting, "crossq"),
        "ent_coef_init": FloatDistribution(0.01, 1.0, log=True),
        "policy_delay": IntDistribution(1, 4),
    }


def ddpg(setting: Setting) -> Space:
    """DDPG."""
    return {
        **_replay(setting, "ddpg"),
        "tau": FloatDistribution(0.001, 0.05, log=True),
        "noise_std": FloatDistribution(0.02, 0.5, log=True),
    }


def td3(setting: Setting) -> Space:
    """TD3: DDPG's, and the smoothing of its targets."""
    return {
        **ddpg(setting),
        "policy_delay": IntDistribution(1, 4),
        "target_policy_noise": FloatDistribution(0.02, 0.5, log=True),
    }


def dqn(setting: Setting, algorithm: str = "dqn") -> Space:
    """DQN."""
    return {
        **_replay(setting, algorithm),
        "target_update_interval": IntDistribution(100, 10_000, log=True),
        "exploration_fraction": FloatDistribution(0.05, 0.5),
        "exploration_final_eps": FloatDistribution(0.005, 0.1, log=True),
    }


def qrdqn(setting: Setting) -> Space:
    """QR-DQN: DQN's, and the number of quantiles."""
    return {**dqn(setting, "qrdqn"), "n_quantiles": _choice(25, 50, 100, 200)}


def discrete_sac(setting: Setting) -> Space:
    """DiscreteSAC."""
    return {
        **_replay(setting, "discrete_sac"),
        "tau": FloatDistribution(0.001, 0.05, log=True),
        "target_entropy_ratio": FloatDistribution(0.02, 0.6, log=True),
        "reward_scale": FloatDistribution(0.05, 5.0, log=True),
        "combine": _choice("min", "mean"),
    }


def crr(setting: Setting) -> Space:
    """CRR: what it learns from data by, and how much of them it imitates; ``beta`` matters with ``"exp"``."""
    draws: Space = {"n_value_samples": _choice(2, 4, 8)} if setting.continuous else {}
    low, high = ONE_MINUS_GAMMA.get(setting.family, ONE_MINUS_GAMMA[None])
    return {
        **_learning_rate(1e-4, 3e-3),
        "one_minus_gamma": FloatDistribution(low, high, log=True),
        "batch_size": _choice(128, 256, 512),
        "tau": FloatDistribution(0.001, 0.05, log=True),
        "weight_mode": _choice("binary", "exp"),
        "beta": FloatDistribution(0.1, 3.0, log=True),
        "combine": _choice("min", "mean"),
        **draws,
        **_network("crr", setting),
    }


SPACES: dict[str, Callable[[Setting], Space]] = {
    "a2c": a2c,
    "crossq": crossq,
    "crr": crr,
    "ddpg": ddpg,
    "discrete_sac": discrete_sac,
    "dqn": dqn,
    "maskable_ppo": maskable_ppo,
    "pid_ppo": pid_ppo,
    "ppo": ppo,
    "qrdqn": qrdqn,
    "recurrent_pid_ppo": recurrent_pid_ppo,
    "recurrent_ppo": recurrent_ppo,
    "sac": sac,
    "td3": td3,
    "tqc": tqc,
    "trpo": trpo,
}
"""Algorithms that can be tuned, and the function that returns the space of each."""


def _choice(*values: CategoricalChoiceType) -> CategoricalDistribution:
    return CategoricalDistribution(values)


def _learning_rate(low: float, high: float) -> Space:
    return {
        "learning_rate": FloatDistribution(low, high, log=True),
        "learning_rate_schedule": _choice("linear", "constant"),
    }


def _discounts(setting: Setting) -> Space:
    low, high = ONE_MINUS_GAMMA.get(setting.family, ONE_MINUS_GAMMA[None])
    return {
        "one_minus_gamma": FloatDistribution(low, high, log=True),
        "one_minus_gae_lambda": FloatDistribution(0.005, 0.3, log=True),
    }


def _rollouts(setting: Setting) -> Space:
    """Discounts and length of rollouts; those of a VCC are whole days."""
    lengths = (24, 48, 96, 192) if setting.family == "vcc" else (32, 64, 128, 256, 512)
    return {**_discounts(setting), "n_steps": _choice(*lengths)}


def _replay(setting: Setting, algorithm: str) -> Space:
    """Parameters of every algorithm with a replay buffer."""
    low, high = ONE_MINUS_GAMMA.get(setting.family, ONE_MINUS_GAMMA[None])
    return {
        **_learning_rate(1e-4, 3e-3),
        "one_minus_gamma": FloatDistribution(low, high, log=True),
        "batch_size": _choice(64, 128, 256, 512),
        "gradient_steps": _choice(1, 2, 4),
        **_network(algorithm, setting),
    }


def _first_deviation(setting: Setting) -> Space:
    """First standard deviation of Gaussian policies, whose actions are clipped where it is large."""
    return {"log_std_init": FloatDistribution(-2.0, 0.0)} if setting.continuous else {}


def _network(algorithm: str, setting: Setting) -> Space:
    if setting.family == "resource_pool":
        networks: Sequence[str] = POOL_NETWORKS.get(algorithm, _POOL_NETWORKS_OF_OTHERS)
        return {"network": _choice(*networks), "width": _choice(32, 64, 128)}
    return {"width": _choice(64, 128, 256), "depth": _choice(2, 3), "activation": _choice("Tanh", "ReLU")}


def _controller() -> Space:
    """Gains, and the limit that the controller aims at, as a share of the one asked for.

    Policies are judged without their noise and on other episodes, where they should be within the limit too.
    """
    return {
        "kp": FloatDistribution(0.05, 10.0, log=True),
        "ki": FloatDistribution(0.005, 1.0, log=True),
        "kd": FloatDistribution(0.01, 5.0, log=True),
        "limit_share": FloatDistribution(0.5, 1.0),
    }
