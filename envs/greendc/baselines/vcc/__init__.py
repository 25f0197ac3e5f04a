"""Baselines for virtual capacity curves."""

from greendc.baselines.registry import BaselineFamily
from greendc.baselines.vcc.best_known import BestKnown, best_known
from greendc.baselines.vcc.day_ahead import DayAhead
from greendc.baselines.vcc.rolling import Rolling
from greendc.baselines.vcc.rules import AlwaysOn, Constant, MoerThreshold, RandomCapacity
from greendc.vcc import VCCSimulator

BASELINES = BaselineFamily(
    name="vcc",
    simulator=VCCSimulator,
    policies={
        "always_on": AlwaysOn,
        "constant": Constant,
        "random": RandomCapacity,
        "moer_threshold": MoerThreshold,
        "day_ahead": DayAhead,
        "rolling": Rolling,
        "best_known": BestKnown,
    },
    hindsight=frozenset({"best_known"}),
)

__all__ = [
    "BASELINES",
    "AlwaysOn",
    "BestKnown",
    "Constant",
    "DayAhead",
    "MoerThreshold",
    "RandomCapacity",
    "Rolling",
    "best_known",
]
