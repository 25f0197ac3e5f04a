"""Frozen-dataclass configurations: checked when built, with errors that name the culprit."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known word nearest to ``word``, or an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def require(condition: bool, field: str, value: object, allowed: str) -> None:
    """Raise a ``ValueError`` naming the field, its value and what is allowed, unless ``condition`` holds."""
    if not condition:
        raise ValueError(f"{field}={value!r}: must be {allowed}")


def require_one_of(field: str, value: object, allowed: Iterable[str]) -> None:
    """Raise a ``ValueError`` unless ``value`` is one of the names in ``allowed``."""
    allowed = tuple(allowed)
    if value not in allowed:
        hint = nearest(str(value), allowed)
        raise ValueError(f"{field}={value!r}: must be one of {', '.join(map(repr, allowed))}{hint}")


def from_mapping(cls: type[T], values: Mapping[str, Any], owner: str | None = None) -> T:
    """Build the dataclass ``cls`` from ``values``.

    :param cls: a dataclass
    :param values: field names and values
    :param owner: what the error calls the thing being configured (default: the name of ``cls``)
    :raises TypeError: for an unknown key; the message names the key and the nearest known one
    """
    known = [field.name for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise TypeError(
                f"{owner or cls.__name__}: unknown option {key!r}{nearest(key, known)} "
                f"(known: {', '.join(known)})"
            )
    return cls(**values)
