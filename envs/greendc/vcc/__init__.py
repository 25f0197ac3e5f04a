"""Virtual capacity curves: an hourly cap on a datacenter's load, against marginal emissions."""

from greendc.vcc.config import VCCConfig
from greendc.vcc.env import VCCEnv, VCCVectorEnv
from greendc.vcc.simulator import VCCSimulator
from greendc.vcc.splits import SPLITS

__all__ = ["SPLITS", "VCCConfig", "VCCEnv", "VCCSimulator", "VCCVectorEnv"]
