"""RARE's learner as printed on its large pools, with its whole budget: meant for a GPU."""

from __future__ import annotations

from dataclasses import replace

from sb3_greendc.experiments import as_printed
from sb3_greendc.experiments.tasks import Scenario

SIZES = (100, 300)
QUICK_SIZES = (100,)
"""Sizes that the quick budget has: with 300 units a CPU trains for ten decisions a second."""


def _case(size: int) -> as_printed.Case:
    at = Scenario(f"ResourcePool-{size}")
    return replace(
        as_printed.CASES[0], name=f"RARE, {size} units", x=size, scenario=at, quick=size in QUICK_SIZES
    )


CASES = tuple(map(_case, SIZES))
"""RARE's problem of ``as-printed``, with more units of each type."""

_NOTES = ("RARE prints no number of decisions: 200,000 are ours.",)

EXPERIMENT = as_printed.AsPrinted(CASES, _NOTES).experiment(
    "rare-large", "RARE's learner as printed on pools of 100 and 300 units, with its whole budget"
)
