"""Numbers as people write them, in files and on the command line."""

from __future__ import annotations

import argparse

from sb3_greendc.core import yaml


def positive_integer(value: object) -> int:
    """Return ``value`` as an integer; ``1e6`` is one too.

    :raises ValueError: if it is not a positive whole number
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 1 and value % 1 == 0:
        return int(value)
    raise ValueError(f"{value!r}: must be a positive whole number")


def whole_number(text: str) -> int:
    """Read a positive whole number for argparse; ``1e6`` is one."""
    try:
        return positive_integer(yaml.parse(text, "number"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a positive whole number") from error
