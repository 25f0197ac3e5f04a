"""A table of the processors that will have power: what holds now, and what is to come."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from greendc.lazy import LazyModule
from greendc.live.snapshot import MOST_SECONDS, CapacityChange
from greendc.traces.clocks import read_stamps
from greendc.traces.time_series import open_table

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")

ALONE_SECONDS = 3600
"""How long the line of a table holds that has no other."""


def read_power_table(path: str | Path, now: datetime, processors: int) -> tuple[list[CapacityChange], int]:
    """Return the capacity by a table, those of the past at 0 seconds or below, and how far it reaches.

    Each line says what has power from its time on. The last one holds for as long as the one before it.
    What is 68 years ahead or more, the longest time that snapshots hold, is left out.

    :param path: with the columns ``time`` (ISO 8601, with an offset from UTC) and ``processors``
    :param now: the time
    :param processors: of the cluster: what a table has above them counts as them
    :return: the changes in order of time, and seconds from now, above 0
    :raises TraceError: names the file and the line that is wrong; also if its first line is not past, or what
        its last one says is over
    """
    table = open_table(path)
    frame = table.read(["processors"], ["time"])
    stamps = read_stamps(table, "time", frame["time"]) // 1_000_000
    first = frame["time"].iloc[0]
    if pd.Timestamp(first).tzinfo is None:  # either all rows have an offset or none has
        must = "must have an offset from UTC, as in 2026-03-01T12:00:00+00:00"
        raise table.error(0, f"time={str(first)!r}: {must}")
    values = frame["processors"].to_numpy(np.float64)
    table.refuse(np.diff(stamps, prepend=stamps[0] - 1) <= 0, "time must be after that of the line before")
    table.refuse((values < 0) | (values != np.floor(values)), "processors must be whole, 0 or more")
    offsets = stamps - int(now.timestamp())
    if offsets[0] > 0:
        raise table.error(0, "time must be past: what has power now is not said")
    step = int(stamps[-1] - stamps[-2]) if len(stamps) > 1 else ALONE_SECONDS
    seconds = int(offsets[-1]) + step
    if seconds <= 0:
        ended = datetime.fromtimestamp(int(stamps[-1]) + step, timezone.utc).isoformat()
        raise table.error(len(stamps) - 1, f"the forecast ended at {ended}: what has power now is not said")
    rows = [
        CapacityChange(int(offset), int(min(value, processors)))
        for offset, value in zip(offsets, values, strict=True)
        if offset < MOST_SECONDS
    ]
    return rows, min(seconds, MOST_SECONDS)
