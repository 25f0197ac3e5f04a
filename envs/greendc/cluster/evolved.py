"""The weights of the rule ``"evolved"``: those that ship, and what is a set of them.

A network scores each waiting job by six hidden units. It sees logarithms of the requested (or expected)
seconds, of the share of the processors, of the wait and of the time until so many processors are free, and
of the queue the share of free processors and logarithms of its length and its work. No teacher says what is
right: an evolution strategy has changed the weights until whole sequences of jobs had less slowdown
(:mod:`greendc.baselines.cluster.evolution`).
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from greendc.cluster.kernel_evolved import WEIGHTS
from greendc.config import require
from greendc.records import Floats

_FILE = Path(__file__).with_name("evolved.json")
NO_WEIGHTS = np.zeros(0)
"""Those of all other rules."""
NO_WEIGHTS.flags.writeable = False  # compiled code tells such arrays apart


@functools.cache
def shipped_weights(backfill: str) -> Floats:
    """Return the weights that ship for a kind of backfilling; conservative has those of EASY.

    :param backfill: ``"none"``, ``"easy"`` or ``"conservative"``
    :return: ``(WEIGHTS,)``, read-only
    """
    kinds = json.loads(_FILE.read_text())["weights"]
    return evolved_weights(kinds["none" if backfill == "none" else "easy"])


def require_weights(rule: str, values: ArrayLike | None) -> None:
    """Raise a ``ValueError`` for weights that do not fit, and for those of a rule that has none."""
    if values is not None:
        require(rule == "evolved", "weights", "an array", f"None: rule={rule!r} has none")
        evolved_weights(values)


def evolved_weights(values: ArrayLike) -> Floats:
    """Return weights as the compiled code takes them.

    :param values: :data:`~greendc.cluster.kernel_evolved.WEIGHTS` finite numbers
    :raises ValueError: for anything else
    """
    allowed = f"{WEIGHTS} finite numbers"
    try:
        weights = np.array(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"weights: must be {allowed} ({error})") from None
    right = weights.shape == (WEIGHTS,) and bool(np.isfinite(weights).all())
    require(right, "weights", f"an array of shape {weights.shape}", allowed)
    weights.flags.writeable = False
    return weights
