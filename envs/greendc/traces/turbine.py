"""A generic 300 kW wind turbine: its power curve, and wind speed from one height to another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RATED_KW = 300.0
LOSSES = 0.08
"""Share of the power that wakes, outages and cables take."""

_CUT_IN, _RATED, _CUT_OUT = 3.0, 12.7, 25.0
_SHEAR = 1.0 / 7.0


def turbine_kw(
    speed: NDArray[np.float64], density: NDArray[np.float64] | float = 1.225
) -> NDArray[np.float64]:
    """Return the power of one turbine.

    Between cut-in (3 m/s) and rated speed (12.7 m/s), power follows the cube of the wind speed; it stays
    at 300 kW up to 25 m/s, where the turbine stops. On a rotor of 27 m, as of the Vestas V27 class, this is
    a power coefficient of 0.37 to 0.42 from 6 m/s on. Thin air acts like a slower wind (IEC 61400-12).

    :param speed: wind speed at hub height in m/s
    :param density: density of the air in kg/m³
    :return: power in kW, before losses
    """
    felt = speed * np.cbrt(density / 1.225)
    share = (felt**3 - _CUT_IN**3) / (_RATED**3 - _CUT_IN**3)
    power: NDArray[np.float64] = RATED_KW * np.clip(share, 0.0, 1.0)
    power[speed >= _CUT_OUT] = 0.0
    return power


def at_height(speed: NDArray[np.float64], measured: float, height: float) -> NDArray[np.float64]:
    """Return the wind speed at another height by the power law of flat, open land (exponent 1/7).

    :param speed: wind speed in m/s
    :param measured: height of ``speed`` in m
    :param height: height wanted in m
    """
    at: NDArray[np.float64] = speed * (height / measured) ** _SHEAR
    return at
