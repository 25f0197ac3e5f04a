"""Presets of CRR, and the checks of its options."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from greendc.config import require, require_one_of
from sb3_greendc.crr.weights import STATE_VALUES, WEIGHTS

if TYPE_CHECKING:
    from sb3_greendc.crr.crr import CRR

PRESETS: dict[str, dict[str, Any]] = {
    # RARE's learner with CRR's filter: four sampled actions for the state's value, one critic whose target
    # follows at once, and rewards as they are. Terminal states are honored, as everywhere.
    "rare": {"value_mode": "mean", "n_value_samples": 4, "tau": 1.0, "n_critics": 1, "reward_scale": 1.0},
}
"""Named values of options; ``n_critics`` belongs to the policy."""


def check_options(model: CRR) -> None:
    """Raise a ``ValueError`` that names the option, its value and what is allowed, if one makes no sense."""
    require_one_of("weight_mode", model.weight_mode, WEIGHTS)
    require_one_of("value_mode", model.value_mode, STATE_VALUES)
    require_one_of("combine", model.combine, ("min", "mean"))
    require_one_of("critic_loss", model.critic_loss, ("mse", "huber"))
    if model.weight_mode == "binary" and model.value_mode == "max":
        raise ValueError(
            "weight_mode='binary' with value_mode='max': no action is better than the best, so that every "
            "weight would be 0; take value_mode='exact', 'mean' or 'max_sample'"
        )
    require(_is_positive(model.beta), "beta", model.beta, "a finite number above 0")
    require(_is_positive(model.max_weight), "max_weight", model.max_weight, "a finite number above 0")
    _whole("n_value_samples", model.n_value_samples)
    _whole("batch_size", model.batch_size)
    _whole("target_update_interval", model.target_update_interval)
    require(0.0 < model.tau <= 1.0, "tau", model.tau, "above 0 and at most 1")
    require(0.0 <= model.gamma <= 1.0, "gamma", model.gamma, "at least 0 and at most 1")
    require(0.0 <= model.cql_alpha < math.inf, "cql_alpha", model.cql_alpha, "a finite number of at least 0")
    if model.reward_scale != "auto":
        allowed = "'auto', or a finite number above 0"
        require(_is_positive(model.reward_scale), "reward_scale", model.reward_scale, allowed)
    if model.weight_mode == "bc":
        require(
            model.actor_trains_encoder,
            "actor_trains_encoder",
            model.actor_trains_encoder,
            "True with weight_mode='bc': nothing else trains the encoder",
        )
        require(model.cql_alpha == 0.0, "cql_alpha", model.cql_alpha, "0 with weight_mode='bc'")
    if isinstance(model.action_space, spaces.Box) and model.value_mode in ("exact", "max"):
        raise ValueError(
            f"value_mode={model.value_mode!r}: for Discrete actions only; a Box takes 'mean' or 'max_sample'"
        )


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < math.inf


def _whole(name: str, value: object) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    require(whole, name, value, "a whole number of at least 1")
