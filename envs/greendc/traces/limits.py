"""What a quantity can be in nature or on a computer: the one table that all readers of traces compare with.

A value outside is damage or another unit. The error names the file, the line, the value and the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Limit:
    """The range of a quantity.

    :param low: the smallest value
    :param high: the largest value
    :param unit: of both
    """

    low: float
    high: float
    unit: str

    def __str__(self) -> str:
        """Say it as errors do: ``from 0 to 5 kg/kWh``."""
        return f"from {self.low:g} to {self.high:g} {self.unit}".rstrip()

    def outside(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which values are outside; NaN is outside too."""
        inside: NDArray[np.bool_] = (values >= self.low) & (values <= self.high)
        return ~inside


_YEAR = 366 * 86_400.0
_CODE = Limit(-1e15, 1e15, "")  # numbers of users, queues and the like; whole ones are exact up to 9e15
_JOB_SECONDS = Limit(-3.2e8, 3.2e8, "s")  # ten years

LIMITS = {
    # Power and carbon: the world's generators are about 1e10 kW; the dirtiest plants emit about 2 kg/kWh.
    "power": Limit(0.0, 1e9, "kW"),
    "carbon_intensity": Limit(0.0, 5.0, "kg/kWh"),
    "energy_price": Limit(0.0, 1e6, "a kWh"),
    "step": Limit(1.0 / 3600.0, _YEAR / 3600.0, "h"),
    "year": Limit(1900, 2100, ""),
    # Weather: the records on Earth, with a little room. Clouds can lift GHI above clear sky for minutes.
    "ghi": Limit(0.0, 2000.0, "W/m²"),
    "dni": Limit(0.0, 1500.0, "W/m²"),
    "dhi": Limit(0.0, 1500.0, "W/m²"),
    "temperature": Limit(-90.0, 60.0, "°C"),
    "wind_speed": Limit(0.0, 115.0, "m/s"),
    "pressure": Limit(30_000.0, 110_000.0, "Pa"),
    "wind_height": Limit(1.0, 500.0, "m"),
    # Places.
    "latitude": Limit(-90.0, 90.0, "degrees"),
    "longitude": Limit(-180.0, 180.0, "degrees"),
    "altitude": Limit(-500.0, 9000.0, "m"),
    "utc_offset": Limit(-12.0, 14.0, "h"),
    # Google's cluster trace: its clock runs for a month, and a machine's CPU is at most 1.
    "trace_time": Limit(0.0, _YEAR * 1e6, "µs"),
    "cpu": Limit(0.0, 100.0, "machines"),
    "priority": Limit(0.0, float(np.iinfo(np.int16).max), ""),
    # Job logs (SWF); negative values mean that the value is missing.
    "job": _CODE,
    "submit_time": Limit(-1e11, 1e11, "s"),
    "wait_time": _JOB_SECONDS,
    "run_time": _JOB_SECONDS,
    "allocated_processors": Limit(-1e9, 1e9, ""),
    "average_cpu_time": _CODE,
    "used_memory": _CODE,
    "requested_processors": Limit(-1e9, 1e9, ""),
    "requested_time": Limit(-1e11, 1e11, "s"),
    "requested_memory": _CODE,
    "status": _CODE,
    "user": _CODE,
    "group": _CODE,
    "executable": _CODE,
    "queue": _CODE,
    "partition": _CODE,
    "preceding_job": _CODE,
    "think_time": _CODE,
}
"""By quantity; fields of job logs by their name in :data:`greendc.traces.swf.SWF_FIELDS`."""
