"""Presets of DiscreteSAC, and checks of its options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

from greendc.config import require, require_kinds, require_one_of

PRESETS: dict[str, dict[str, Any]] = {
    # RARE, Algorithm 1: no entropy, no target network (the target follows at once), one critic. It has no
    # `done` either; terminal states are honored here all the same, since anything else is an error.
    "rare": {"soft_critic": False, "ent_coef": 0.0, "tau": 1.0, "n_critics": 1},
}
"""Named values of options; those under ``n_critics`` belong to the policy."""


def initial_temperature(ent_coef: str | float) -> float:
    """Return the first value of α: the number itself, or what ``"auto"`` and ``"auto_0.1"`` start from.

    :raises ValueError: if it is none of these, or not in its range
    """
    allowed = "a number of at least 0, 'auto', or 'auto_' and a number above 0"
    try:
        if isinstance(ent_coef, str) and ent_coef.startswith("auto"):
            value = 1.0 if ent_coef == "auto" else float(ent_coef.removeprefix("auto_"))
            require(0.0 < value < math.inf, "ent_coef", ent_coef, allowed)
        else:
            value = float(ent_coef)
            require(0.0 <= value < math.inf, "ent_coef", ent_coef, allowed)
    except (TypeError, ValueError):
        raise ValueError(f"ent_coef={ent_coef!r}: must be {allowed}") from None
    return value


def learns_temperature(ent_coef: str | float) -> bool:
    """Tell whether α is learned (``"auto..."``) rather than fixed."""
    return isinstance(ent_coef, str) and ent_coef.startswith("auto")


def check_options(
    *,
    ent_coef: str | float,
    target_entropy_ratio: float,
    target_entropy_ratio_final: float | None,
    combine: str,
    warmup: str,
    critic_loss: str,
    q_clip: float | None,
    tau: float,
    gamma: float,
    n_steps: int,
    buffer_size: int,
    learning_starts: float,
    gradient_steps: int,
    batch_size: int,
    target_update_interval: int,
    reward_scale: float | str,
    actor_starts: int,
    entropy_penalty: float,
    optimize_memory_usage: bool,
) -> None:
    """Raise a ``ValueError`` that names the option, its value and what is allowed, if one makes no sense."""
    given = dict(locals())
    require_kinds(check_options.__annotations__, given)
    initial_temperature(ent_coef)
    require_one_of("combine", combine, ("min", "mean"))
    require_one_of("warmup", warmup, ("uniform", "policy"))
    require_one_of("critic_loss", critic_loss, ("mse", "huber"))
    share = "at least 0 and below 1 (1 is the uniform policy, and asks for it in every state)"
    require(0.0 <= target_entropy_ratio < 1.0, "target_entropy_ratio", target_entropy_ratio, share)
    if target_entropy_ratio_final is not None:
        final, name = target_entropy_ratio_final, "target_entropy_ratio_final"
        require(0.0 <= final < 1.0, name, final, share)
        fixed = f"None with a fixed ent_coef={ent_coef!r}, which has no target"
        require(learns_temperature(ent_coef), name, final, fixed)
    require(0.0 < tau <= 1.0, "tau", tau, "above 0 and at most 1")
    require(0.0 <= gamma <= 1.0, "gamma", gamma, "at least 0 and at most 1")
    require(n_steps >= 1, "n_steps", n_steps, "at least 1")
    require(buffer_size >= 1, "buffer_size", buffer_size, "at least 1")
    require(learning_starts >= 0, "learning_starts", learning_starts, "at least 0")
    require(gradient_steps >= -1, "gradient_steps", gradient_steps, "at least 0, or -1: one a transition")
    require(batch_size >= 1, "batch_size", batch_size, "at least 1")
    require(target_update_interval >= 1, "target_update_interval", target_update_interval, "at least 1")
    if reward_scale != "auto":
        number = isinstance(reward_scale, int | float) and 0.0 < reward_scale < math.inf
        require(number, "reward_scale", reward_scale, "'auto', or a finite number above 0")
    require(actor_starts >= 0, "actor_starts", actor_starts, "at least 0")
    require(0.0 <= entropy_penalty < math.inf, "entropy_penalty", entropy_penalty, "finite and at least 0")
    if q_clip is not None:
        require(q_clip > 0.0, "q_clip", q_clip, "above 0, or None")
        squared = f"'mse' with q_clip={q_clip!r}, whose loss is a squared error"
        require(critic_loss == "mse", "critic_loss", critic_loss, squared)
    if optimize_memory_usage:
        raise ValueError(
            "optimize_memory_usage=True: not supported, since it cannot tell truncation from termination"
        )


def check_networks(path: object, model: BaseAlgorithm, given: Mapping[str, Any]) -> None:
    """Raise a ``ValueError`` unless the networks of a model that was loaded are what was asked for.

    :param path: of its file
    :param model: loses the attributes that ``load`` made of the arguments
    :param given: the arguments of ``load``
    """
    policy: Any = model.policy
    found = policy._get_constructor_parameters()
    for name in ("n_critics", "target_actor"):
        vars(model).pop(name, None)
        if given.get(name) is not None and given[name] != found[name]:
            raise ValueError(f"{path}: {name}={given[name]}: the saved model has {found[name]}")
