"""What users set of the constrained form of PPO: checked when a model is built, changed or loaded."""

from __future__ import annotations

import inspect
import io
import math
import pathlib
from collections.abc import Mapping
from typing import Any, TypeVar, overload

import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import GymEnv

from greendc.config import is_number, require, require_kinds, require_one_of
from sb3_greendc.core.costs import EpisodeCosts
from sb3_greendc.core.saved_algorithm import SafelySaved
from sb3_greendc.pid_ppo.advantages import ADV_NORMS
from sb3_greendc.pid_ppo.controller import PIDController, settings_of
from sb3_greendc.pid_ppo.reachable import require_reachable

CONTROLLER_SETTINGS = tuple(inspect.signature(PIDController).parameters)[1:]
"""Keywords that go to the controller: all of its own but ``cost_limit``."""

KINDS = {
    "gamma": "float",
    "gae_lambda": "float",
    "cost_gamma": "float | None",
    "cost_gae_lambda": "float | None",
    "cost_vf_coef": "float | None",
}
"""What factors and weights may be, see :func:`~greendc.config.require_kinds`."""

SelfControlled = TypeVar("SelfControlled", bound="Controlled")


class CostLimit:
    """The attribute ``cost_limit`` of a :class:`Controlled` algorithm: its controller gets a new limit."""

    @overload
    def __get__(self, model: None, owner: Any) -> CostLimit: ...
    @overload
    def __get__(self, model: Controlled, owner: Any) -> float | None: ...
    def __get__(self, model: Controlled | None, owner: Any) -> CostLimit | float | None:
        # It lies among the model's other attributes, where `save` and `load` find it.
        return self if model is None else vars(model)["cost_limit"]

    def __set__(self, model: Controlled, limit: float | None) -> None:
        if "controller" in vars(model):
            model.change_controller(limit, model.controller_settings)
        else:
            vars(model)["cost_limit"] = limit


class Controlled(SafelySaved, OnPolicyAlgorithm):
    """An algorithm whose cost a :class:`~sb3_greendc.pid_ppo.PIDController` keeps under a limit."""

    cost_limit = CostLimit()
    controller: PIDController
    episode_costs: EpisodeCosts
    controller_settings: dict[str, Any]
    min_episodes: int
    adv_norm: str
    cost_gamma: float | None
    cost_gae_lambda: float | None
    cost_vf_coef: float | None
    normalize_advantage: bool

    def change_controller(self, cost_limit: float | None, settings: dict[str, Any]) -> None:
        """Go on under another limit, or with other settings of the controller.

        :param cost_limit: undiscounted cost per episode
        :param settings: keywords of the controller
        :raises ValueError: if one is out of range; the controller then stays as it is
        """
        controller = self.new_controller(cost_limit, settings)
        controller.continue_from(self.controller)
        if math.isinf(self.controller.cost_limit):  # costs of that time are not what the limit judges
            self.episode_costs.forget_finished()
        self.controller, self.controller_settings = controller, settings
        vars(self)["cost_limit"] = cost_limit

    def new_controller(self, cost_limit: float | None, settings: Mapping[str, Any]) -> PIDController:
        """Return a controller that has seen no cost yet.

        :raises ValueError: if a setting is out of range, there is no limit, or no policy can keep it
        """
        if cost_limit is None:
            raise ValueError(
                f"{type(self).__name__} needs cost_limit: the undiscounted cost allowed per episode, in the "
                "units of info['cost'] (inf: no limit)"
            )
        controller = PIDController(cost_limit, **settings)
        if self.env is not None and not math.isinf(controller.cost_limit):
            require_reachable(self.env, controller.cost_limit)
        return controller

    def check_settings(self) -> None:
        """Raise a ``ValueError`` if a setting that is not the controller's is out of range."""
        require_one_of("adv_norm", self.adv_norm, ADV_NORMS)
        self.normalize_advantage = self.adv_norm == "combined"
        for name in ("min_episodes", "n_epochs"):
            count = getattr(self, name)
            whole = is_number(count) and count % 1 == 0
            require(whole and count >= 1, name, count, "a whole number >= 1")
            setattr(self, name, int(count))
        values = {name: getattr(self, name) for name in KINDS}
        require_kinds(KINDS, values)
        for name in ("gamma", "gae_lambda", "cost_gamma", "cost_gae_lambda"):
            factor = values[name]
            allowed = "in [0, 1]" + ", or None" * ("None" in KINDS[name])
            require(factor is None or 0.0 <= factor <= 1.0, name, factor, allowed)
        weight = self.cost_vf_coef
        require(
            weight is None or 0.0 <= weight < math.inf, "cost_vf_coef", weight, "finite and >= 0, or None"
        )

    def _setup_learn(self, *args: Any, **kwargs: Any) -> tuple[int, BaseCallback]:
        self.check_settings()  # which may have been set since the model was built
        return super()._setup_learn(*args, **kwargs)

    @classmethod
    def load(
        cls: type[SelfControlled],
        path: str | pathlib.Path | io.BufferedIOBase,
        env: GymEnv | None = None,
        device: th.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> SelfControlled:
        """Load a model, see :meth:`~sb3_greendc.core.saved_algorithm.SafelySaved.load`.

        :param path: the file
        :param env: environment with the model's spaces
        :param device: of the model
        :param custom_objects: attributes to take in place of those of the file; settings as in ``kwargs``
        :param args: further arguments of Stable-Baselines3's ``load``
        :param kwargs: the same by name, and settings that are to change. Those of the controller take the
            place of the saved ones one by one; a ``preset`` takes the place of all of them. The multiplier
            goes on from where it was
        :raises ValueError: if the file is no such model, or a setting is out of range
        """
        own = ("cost_limit", "preset", *CONTROLLER_SETTINGS)
        custom = dict(custom_objects or {})
        given: dict[str, Any] = {}
        for changes in (custom, kwargs):
            refuse_normalize_advantage(changes)
            given |= {name: changes.pop(name) for name in own if name in changes}
        if "init" in given:
            raise ValueError(f"init={given['init']}: a loaded model goes on from the multiplier that it had")
        model = super().load(path, env, device, custom, *args, **kwargs)
        if given:
            limit, preset = given.pop("cost_limit", model.cost_limit), given.pop("preset", None)
            before = model.controller_settings if preset is None else settings_of(preset)
            model.change_controller(limit, {**before, **given})
        return model


def refuse_normalize_advantage(keywords: Mapping[str, Any]) -> None:
    """Raise a ``TypeError`` if PPO's option is given whose place ``adv_norm`` takes."""
    if "normalize_advantage" in keywords:
        raise TypeError(f"normalize_advantage: use adv_norm, one of {', '.join(map(repr, ADV_NORMS))}")
