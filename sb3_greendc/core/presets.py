"""Presets: named values of several options of an algorithm."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from greendc.config import require_one_of


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
            raise ValueError(f"{key}={given[key]!r} contradicts preset={name!r}, which sets {value!r}")
    return {**given, **presets[name]}
