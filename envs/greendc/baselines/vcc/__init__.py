"""Baselines for virtual capacity curves."""

from greendc.baselines.registry import BaselineFamily
from greendc.baselines.vcc.rolling import Rolling
from greendc.baselines.vcc.rules import AlwaysOn, Constant, MoerThreshold
from greendc.vcc import VCCSimulator

BASELINES = BaselineFamily(
    name="vcc",
    simulator=VCCSimulator,
    policies={
        "always_on": AlwaysOn,
        "constant": Constant,
        "moer_threshold": MoerThreshold,
        "rolling": Rolling,
    },
)

__all__ = ["BASELINES", "AlwaysOn", "Constant", "MoerThreshold", "Rolling"]
