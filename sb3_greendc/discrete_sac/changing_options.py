"""How DiscreteSAC follows options that change: those that ``load`` is given, and attributes that are set."""

from __future__ import annotations

import inspect
import io
import pathlib
from typing import Any, TypeVar

import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import GymEnv

from greendc.config import require_kinds
from sb3_greendc.core.lean_adam import LeanAdam
from sb3_greendc.core.learning_rate import FollowsLearningRate
from sb3_greendc.core.saved_algorithm import SafelySaved
from sb3_greendc.discrete_sac.buffer_options import BuffersByOptions
from sb3_greendc.discrete_sac.options import check_options, initial_temperature, learns_temperature

SelfFollowing = TypeVar("SelfFollowing", bound="FollowsOptions")

CHECKED = tuple(inspect.signature(check_options).parameters)
SWITCHES = ("soft_critic", "actor_trains_encoder")
AFTER_LOADING = ("ent_coef", "target_entropy_ratio_final", "reward_scale")
"""Options that change what a model consists of: they are set once it is as it was saved."""


class FollowsOptions(SafelySaved, FollowsLearningRate, BuffersByOptions):
    """The part of DiscreteSAC that lets temperature, reward scale and replay buffer follow its options."""

    ent_coef: str | float
    reward_scale: float | str
    scale: float | None
    """Factor on rewards; ``None`` until it is found."""
    log_ent_coef: th.Tensor | None
    ent_coef_optimizer: th.optim.Optimizer | None
    _temperature_of: str | float | None = None
    """``ent_coef`` for which the temperature was made."""
    _scale_was_given: bool = False
    """Whether ``scale`` follows from options alone."""

    @property
    def learns_temperature(self) -> bool:
        """Whether α is learned (``ent_coef="auto..."``) rather than fixed."""
        return learns_temperature(self.ent_coef)

    def _check_options(self) -> None:
        """Raise a ``ValueError`` for options that make no sense, alone or together."""
        check_options(**{name: getattr(self, name) for name in CHECKED})
        require_kinds(dict.fromkeys(SWITCHES, "bool"), {name: getattr(self, name) for name in SWITCHES})

    def _follow_options(self) -> None:
        """Bring everything in line with the options as they are now.

        :raises ValueError: for options that make no sense, or that the replay buffer cannot follow
        """
        self._check_options()
        self._follow_learning_rate()
        self._convert_train_freq()
        self._follow_temperature()
        self._follow_scale()
        self._adapt_buffer()

    def _follow_temperature(self) -> None:
        """Make a temperature that is learned, from its first value on, or leave it out where it is fixed.

        One that is learned already goes on while ``ent_coef`` is the same.
        """
        first = initial_temperature(self.ent_coef)
        if not self.learns_temperature:
            self.log_ent_coef = self.ent_coef_optimizer = None
        elif self.log_ent_coef is None or self.ent_coef != self._temperature_of:
            self.log_ent_coef = th.tensor(first, device=self.device).log().requires_grad_(True)
            self.ent_coef_optimizer = LeanAdam([self.log_ent_coef], lr=self.lr_schedule(1), fused=True)
        self._temperature_of = self.ent_coef

    def _follow_scale(self) -> None:
        """Take the factor on rewards from the options, or leave it to be found where they had given it."""
        given = not isinstance(self.reward_scale, str)
        if isinstance(self.reward_scale, float | int):
            self.scale = self.reward_scale
        elif not self.learns_temperature:
            self.scale, given = 1.0, True
        elif self._scale_was_given:
            self.scale = None
        self._scale_was_given = given

    def _setup_learn(self, *args: Any, **kwargs: Any) -> tuple[int, BaseCallback]:
        self._begin_with_buffer()
        self._follow_options()
        return super()._setup_learn(*args, **kwargs)

    def _store_transition(self, *args: Any, **kwargs: Any) -> None:
        self._convert_train_freq()  # a callback may have set it, and SB3 looks at it before the next update
        super()._store_transition(*args, **kwargs)

    @classmethod
    def load(
        cls: type[SelfFollowing],
        path: str | pathlib.Path | io.BufferedIOBase,
        env: GymEnv | None = None,
        device: th.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> SelfFollowing:
        """Load a model, see :meth:`~sb3_greendc.core.saved_algorithm.SafelySaved.load`.

        :param path: the file
        :param env: environment with the model's spaces
        :param device: of the model
        :param custom_objects: attributes to take in place of those of the file
        :param args: further arguments of Stable-Baselines3's ``load``
        :param kwargs: the same by name, and options that are to change
        :raises ValueError: if the file is no such model, or an option makes no sense
        """
        custom = dict(custom_objects or {})
        given: dict[str, Any] = {}
        for options in (custom, kwargs):
            given |= {name: options.pop(name) for name in AFTER_LOADING if name in options}
        model = super().load(path, env, device, custom, *args, **kwargs)
        if given:
            vars(model).update(given)
            model._follow_options()
        return model

    def _excluded_save_params(self) -> list[str]:
        # Where a temperature is learned, it is among the parameters.
        return [*super()._excluded_save_params(), "_temperature_of", "log_ent_coef", "ent_coef_optimizer"]
