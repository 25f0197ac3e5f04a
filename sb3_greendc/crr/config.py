"""What CRR is told: presets, and a frozen configuration that checks itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gymnasium import spaces

from greendc.config import is_number, require, require_kinds, require_one_of
from sb3_greendc.crr.weights import STATE_VALUES, WEIGHTS

PRESETS: dict[str, dict[str, Any]] = {
    # RARE's learner with CRR's filter: four sampled actions for the state's value, one critic whose target
    # follows at once, and rewards as they are. Terminal states are honored, as everywhere.
    "rare": {"value_mode": "mean", "n_value_samples": 4, "tau": 1.0, "n_critics": 1, "reward_scale": 1.0},
}
"""Named values of options; ``n_critics`` belongs to the policy."""


@dataclass(frozen=True)
class CRRConfig:
    """The options that losses and updates read; :class:`~sb3_greendc.crr.CRR` says what each means.

    :raises ValueError: names the option, its value and what is allowed, if one makes no sense
    """

    batch_size: int
    tau: float
    gamma: float
    weight_mode: str
    value_mode: str
    beta: float
    max_weight: float
    n_value_samples: int
    normalize_adv: bool
    self_normalize: bool
    combine: str
    critic_loss: str
    cql_alpha: float
    reward_scale: str | float
    target_update_interval: int
    actor_trains_encoder: bool
    n_action_samples: int

    def __post_init__(self) -> None:
        require_kinds(self.__annotations__, vars(self))
        require_one_of("weight_mode", self.weight_mode, WEIGHTS)
        require_one_of("value_mode", self.value_mode, STATE_VALUES)
        require_one_of("combine", self.combine, ("min", "mean"))
        require_one_of("critic_loss", self.critic_loss, ("mse", "huber"))
        if self.weight_mode == "binary" and self.value_mode == "max":
            raise ValueError(
                "weight_mode='binary' with value_mode='max': no action is better than the best, so that "
                "every weight would be 0; take value_mode='exact', 'mean' or 'max_sample'"
            )
        for name in ("beta", "max_weight"):
            value = getattr(self, name)
            require(_is_positive(value), name, value, "a finite number above 0")
        for name in ("n_value_samples", "n_action_samples", "batch_size", "target_update_interval"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        require(0.0 < self.tau <= 1.0, "tau", self.tau, "above 0 and at most 1")
        require(0.0 <= self.gamma <= 1.0, "gamma", self.gamma, "at least 0 and at most 1")
        alpha = self.cql_alpha
        require(0.0 <= alpha < math.inf, "cql_alpha", alpha, "a finite number of at least 0")
        if self.reward_scale != "auto":
            allowed = "'auto', or a finite number above 0"
            require(_is_positive(self.reward_scale), "reward_scale", self.reward_scale, allowed)
        if not self.has_critic:
            moves, name = self.actor_trains_encoder, "actor_trains_encoder"
            require(moves, name, moves, "True with weight_mode='bc': nothing else trains the encoder")
            require(alpha == 0.0, "cql_alpha", alpha, "0 with weight_mode='bc'")
            k = self.n_action_samples
            require(
                k == 1, "n_action_samples", k, "1 with weight_mode='bc': there are no critics to choose by"
            )

    @classmethod
    def derived(cls, options: Mapping[str, Any], action_space: spaces.Space[Any]) -> CRRConfig:
        """Return the options, with what is ``None`` as the others ask for it.

        :param options: by name, all of them; ``value_mode``, ``normalize_adv`` and ``actor_trains_encoder``
            may be ``None``
        :param action_space: what values are of
        :raises ValueError: see the class; for values that need finitely many actions, of a ``Box``; for
            several draws to choose from, of ``Discrete`` actions
        """
        by_default = {
            "value_mode": "mean" if isinstance(action_space, spaces.Box) else "exact",
            **_by_weights(options["weight_mode"]),
        }
        none = {name: value for name, value in by_default.items() if options[name] is None}
        config = cls(**{**options, **none})
        check_value_mode(config.value_mode, action_space)
        k, has_draws = config.n_action_samples, isinstance(action_space, spaces.Box)
        require(has_draws or k == 1, "n_action_samples", k, "1 with Discrete actions; more are for a Box")
        return config

    @property
    def has_critic(self) -> bool:
        """Whether critics are learned: not by behavioral cloning."""
        return self.weight_mode != "bc"


def renewed_attributes(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file of an earlier version, which kept options as they had been derived, says today.

    Those that are as the others ask for them are to be derived again. Of an option that was given so, nothing
    in the file says that it was. ``value_mode`` follows from the action space, and stays as it is. The
    targets of a clone have not been updated.

    :param saved: the attributes of a file
    """
    if not saved:
        return {}
    rest = {} if "_targets_rest" in saved else {"_targets_rest": saved.get("weight_mode") == "bc"}
    if "_scale_was_given" in saved:
        return rest
    by_weights = _by_weights(saved.get("weight_mode"))
    derived = {name: None for name, value in by_weights.items() if saved.get(name) == value}
    return {**rest, **derived, "_scale_was_given": not isinstance(saved.get("reward_scale"), str)}


def _by_weights(weight_mode: object) -> dict[str, bool]:
    """Return the options that follow from the weights, where they are not given."""
    return {"normalize_adv": weight_mode == "exp", "actor_trains_encoder": weight_mode == "bc"}


def check_value_mode(value_mode: str, action_space: spaces.Space[Any]) -> None:
    """Raise a ``ValueError`` for values that need finitely many actions, where there are more."""
    if isinstance(action_space, spaces.Box) and value_mode in ("exact", "max"):
        raise ValueError(
            f"value_mode={value_mode!r}: for Discrete actions only; a Box takes 'mean' or 'max_sample'"
        )


def _is_positive(value: object) -> bool:
    return is_number(value) and 0.0 < value < math.inf
