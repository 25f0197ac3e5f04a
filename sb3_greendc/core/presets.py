"""Presets: named values of several options of an algorithm."""

from __future__ import annotations

import inspect
import io
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from greendc.config import require_one_of
from sb3_greendc.core.saved_algorithm import SafelySaved

SelfWithPresets = TypeVar("SelfWithPresets", bound="WithPresets")


def apply_preset(
    presets: Mapping[str, Mapping[str, Any]],
    name: str | None,
    given: Mapping[str, Any],
    constructor: Callable[..., Any],
) -> dict[str, Any]:
    """Return the options with those of the preset set.

    :param presets: by name, values of options; each of these is among the given ones
    :param name: one of the presets, or ``None``
    :param given: options as the user gave them
    :param constructor: its signature has their defaults: a value that differs from both default and preset
        was given on purpose
    :raises ValueError: for an unknown preset, or an option that was given and contradicts it
    """
    if name is None:
        return dict(given)
    require_one_of("preset", name, presets)
    defaults = inspect.signature(constructor).parameters
    for key, value in presets[name].items():
        if given[key] not in (defaults[key].default, value):
            raise ValueError(_contradiction(key, given[key], name, value))
    return {**given, **presets[name]}


class WithPresets(SafelySaved):
    """An algorithm whose presets ``load`` takes, too."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """By name, values of options; ``n_critics`` is one of the policy."""

    @classmethod
    def load(
        cls: type[SelfWithPresets],
        path: str | pathlib.Path | io.BufferedIOBase,
        *args: Any,
        preset: str | None = None,
        **kwargs: Any,
    ) -> SelfWithPresets:
        """Load a model, see :meth:`~sb3_greendc.core.saved_algorithm.SafelySaved.load`.

        :param path: the file
        :param args: as for Stable-Baselines3's ``load``
        :param preset: sets its options, as in the constructor; ``None``: they stay as they are
        :param kwargs: as for Stable-Baselines3's ``load``
        :raises ValueError: for an unknown preset, an option that contradicts it, or one of other networks
        """
        if preset is None:
            return super().load(path, *args, **kwargs)
        require_one_of("preset", preset, cls.presets)
        options = dict(cls.presets[preset])
        for key, value in options.items():
            if kwargs.get(key, value) != value:
                raise ValueError(_contradiction(key, kwargs[key], preset, value))
        n_critics = options.pop("n_critics", None)
        kwargs.pop("n_critics", None)
        model = super().load(path, *args, **{**kwargs, **options, "preset": preset})
        found = model.policy.n_critics
        if n_critics not in (None, found):
            raise ValueError(
                f"{path}: preset={preset!r} sets n_critics={n_critics}: the saved model has {found}"
            )
        return model


def _contradiction(key: str, value: object, preset: str, sets: object) -> str:
    return f"{key}={value!r} contradicts preset={preset!r}, which sets {sets!r}"
