"""Digests of values, and the cases that make them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from golden_parts.names import KEYS

IGNORED_KEYS = frozenset({"t"})
"""Keys that no digest has: the seconds in Stable-Baselines3's ``info["episode"]``."""


@dataclass(frozen=True)
class Value:
    """A recorded value.

    :param hash: SHA-256 in hexadecimal
    :param detail: the value itself, as text, where it is short enough to be read
    """

    hash: str
    detail: str = ""


@dataclass(frozen=True)
class Case:
    """One thing to record.

    :param name: unique in its part
    :param record: computes its values, by component
    """

    name: str
    record: Callable[[], Mapping[str, Value]]


class Digest:
    """A running SHA-256 over values of any nesting.

    Arrays enter with dtype and shape. Keys of mappings enter by their old names and in the order of these, so
    that a key that is only renamed changes nothing.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, value: Any) -> None:
        """Add a value: numbers, text, ``None``, arrays, and mappings and sequences of these."""
        if isinstance(value, Mapping):
            named = {KEYS.get(key, str(key)): value[key] for key in value if key not in IGNORED_KEYS}
            self._hash.update(f"map {len(named)}".encode())
            for key in sorted(named):
                self.add(key)
                self.add(named[key])
        elif value is None or isinstance(value, str):
            self._hash.update(f"{type(value).__name__} {value}|".encode())
        elif isinstance(value, list | tuple):
            self._hash.update(f"sequence {len(value)}".encode())
            for one in value:
                self.add(one)
        else:
            array = np.asarray(value)
            if array.dtype == object:
                self.add(array.tolist())
                return
            self._hash.update(f"{array.dtype.str} {array.shape}".encode())
            self._hash.update(np.ascontiguousarray(array).tobytes())

    def value(self, detail: str = "") -> Value:
        """Return the digest of all that was added."""
        return Value(self._hash.hexdigest(), detail)


def digest_of(*values: Any, detail: str = "") -> Value:
    """Return the digest of some values."""
    digest = Digest()
    for value in values:
        digest.add(value)
    return digest.value(detail)


def digest_of_numbers(numbers: Mapping[str, Any]) -> Value:
    """Return the digest of named numbers, which are its detail.

    :param numbers: floats, or lists of them, by name
    """
    named = {KEYS.get(key, key): numbers[key] for key in numbers}
    text = json.dumps({key: named[key] for key in sorted(named)}, default=float)
    return digest_of(text, detail=text)
