"""Presets of DiscreteSAC, and the checks of its options."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from greendc.config import require, require_one_of

if TYPE_CHECKING:
    from sb3_greendc.discrete_sac.discrete_sac import DiscreteSAC

PRESETS: dict[str, dict[str, Any]] = {
    # RARE, Algorithm 1: no entropy, no target network (the target follows at once), one critic. It has no
    # `done` either; terminal states are honored here all the same, since anything else is an error.
    "rare": {"soft_critic": False, "ent_coef": 0.0, "tau": 1.0, "n_critics": 1},
}
"""Named values of options; those under ``n_critics`` belong to the policy."""


def apply_preset(name: str | None, options: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the options with those of the preset set.

    :param name: one of :data:`PRESETS`, or ``None``
    :param options: values as the user gave them
    :param defaults: what they are when the user gives none
    :raises ValueError: for an unknown preset, or an option that was given and contradicts it
    """
    if name is None:
        return options
    require_one_of("preset", name, PRESETS)
    merged = dict(options)
    for key, value in PRESETS[name].items():
        if options[key] not in (defaults[key], value):
            raise ValueError(f"{key}={options[key]!r} contradicts preset={name!r}, which sets {value!r}")
        merged[key] = value
    return merged


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


def check_options(model: DiscreteSAC) -> None:
    """Raise a ``ValueError`` that names the option, its value and what is allowed, if one makes no sense."""
    initial_temperature(model.ent_coef)
    require_one_of("combine", model.combine, ("min", "mean"))
    require_one_of("warmup", model.warmup, ("uniform", "policy"))
    require_one_of("critic_loss", model.critic_loss, ("mse", "huber"))
    ratio, final = model.target_entropy_ratio, model.target_entropy_ratio_final
    allowed = "at least 0 and below 1 (1 is the uniform policy, and asks for it in every state)"
    require(0.0 <= ratio < 1.0, "target_entropy_ratio", ratio, allowed)
    if final is not None:
        require(0.0 <= final < 1.0, "target_entropy_ratio_final", final, allowed)
        require(
            model.learns_temperature,
            "target_entropy_ratio_final",
            final,
            f"None with a fixed ent_coef={model.ent_coef!r}, which has no target",
        )
    require(0.0 < model.tau <= 1.0, "tau", model.tau, "above 0 and at most 1")
    require(0.0 <= model.gamma <= 1.0, "gamma", model.gamma, "at least 0 and at most 1")
    require(model.n_steps >= 1, "n_steps", model.n_steps, "at least 1")
    require(model.batch_size >= 1, "batch_size", model.batch_size, "at least 1")
    require(
        model.target_update_interval >= 1,
        "target_update_interval",
        model.target_update_interval,
        "at least 1",
    )
    require(
        0.0 < model.reward_scale < math.inf, "reward_scale", model.reward_scale, "a finite number above 0"
    )
    require(model.actor_starts >= 0, "actor_starts", model.actor_starts, "at least 0")
    require(model.entropy_penalty >= 0.0, "entropy_penalty", model.entropy_penalty, "at least 0")
    if model.q_clip is not None:
        require(model.q_clip > 0.0, "q_clip", model.q_clip, "above 0, or None")
        require(
            model.critic_loss == "mse",
            "critic_loss",
            model.critic_loss,
            f"'mse' with q_clip={model.q_clip!r}, whose loss is a squared error",
        )
    if model.optimize_memory_usage:
        raise ValueError(
            "optimize_memory_usage=True: not supported, since it cannot tell truncation from termination"
        )
