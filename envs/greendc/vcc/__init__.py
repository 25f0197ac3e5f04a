"""Virtual capacity curves: an hourly cap on a datacenter's load, against marginal emissions."""

from typing import TYPE_CHECKING

from greendc.lazy import lazy_names

if TYPE_CHECKING:
    from greendc.vcc.config import VCCConfig
    from greendc.vcc.env import VCCEnv, VCCVectorEnv
    from greendc.vcc.simulator import VCCSimulator
    from greendc.vcc.splits import SPLITS

__all__ = ["SPLITS", "VCCConfig", "VCCEnv", "VCCSimulator", "VCCVectorEnv"]

__getattr__ = lazy_names(
    __name__,
    {
        "SPLITS": "splits",
        "VCCConfig": "config",
        "VCCEnv": "env",
        "VCCSimulator": "simulator",
        "VCCVectorEnv": "env",
    },
)
