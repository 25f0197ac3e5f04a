"""What a step reports and what the agent observes: each column by name.

The compiled code writes these records field by field; an observation is their numbers in this order.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from greendc.records import Floats, Real, columns_of, dtype_of

N_DELAY_BINS = 6
LATE = N_DELAY_BINS - 1
"""Bins of delay: 0, 1-5, 6-11, 12-17 and 18-23 hours, and 24 or more, which is late."""
LEADS = 24
"""Hours that a forecast covers, this hour included; every forecast needs as many hours of the past."""


class Hour:
    """What has happened in an hour: the columns of ``info``, and of ``history``."""

    cost: Real
    """The constraint cost: at day ends the SLO term as a share of the day's demand, without tolerance."""
    carbon: Real
    """kg CO2."""
    slo: Real
    """The SLO charge that the reward sees, machine-unit-hours."""
    overdue: Real
    """The plain ``overdue`` SLO, charged at day ends, machine-unit-hours."""
    vcc: Real
    """Fraction of C."""
    load: Real
    """Machine units, as the two that follow."""
    inflexible_load: Real
    waiting: Real
    """Jobs."""
    moer: Real
    """kg CO2/kWh."""


class Observation:
    """What the agent sees before an hour, raw; SustainGym's page ends with ``forecast``."""

    vcc: Real
    """Of the hour that has passed, fraction of C."""
    load: Real
    """As the last hour left it, machine units."""
    waiting: Real
    """Jobs."""
    forecast: Annotated[Floats, np.float64, LEADS]
    """Of this hour and the next 23, kg CO2/kWh."""
    sine: Real
    cosine: Real
    """Of the hour of the day."""
    vcc_spent: Real
    """Sum of today's VCC / 24."""
    demand: Real
    """Today's no-delay demand so far / 24, machine units."""
    overdue: Real
    """Flexible work that is now more than 24 h late, machine-unit-hours."""
    moer_rank: Real
    """Share of the other 23 hours of the forecast that are cleaner than this one."""
    moer_mean: Real
    """The forecast's mean, and this hour less the mean, kg CO2/kWh."""
    moer_gap: Real
    delayed: Annotated[Floats, np.float64, N_DELAY_BINS]
    """Flexible CPU by delay used, machine units."""
    pending: Real
    """Psi: overdue work yet to be charged if nothing more is delayed, machine-unit-hours."""
    pause_charge: Real
    """What delaying all flexible work this hour adds to the SLO, machine-unit-hours."""


HOUR = dtype_of(Hour)
INFO = HOUR.names or ()
"""Names of the columns of ``info`` and ``history``."""
OBSERVATION = dtype_of(Observation)
EXTENDED_SIZE = OBSERVATION.itemsize // 8
PAGE_SIZE = EXTENDED_SIZE - len(columns_of(Observation, *(OBSERVATION.names or ())[4:]))
FORECAST = slice(3, 3 + LEADS)
"""Where an observation, raw or scaled, has the forecast."""
