"""What the clock shows at second 0 of a job log."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np

from greendc.config import require
from greendc.traces.limits import LIMITS
from greendc.traces.swf import JobLog

DAY = 86_400
_LEAST_OFFSET = 900  # seconds; no clock is nearer to UTC without showing it


def log_start(log: JobLog) -> datetime | None:
    """Return what the clock shows at second 0 of a log, ``None`` where its header does not tell.

    That is ``UnixStartTime`` on the clock of ``TimeZoneString`` (such as ``Europe/Paris``), else on the one
    that is ``TimeZone`` seconds ahead of UTC, else UTC. A ``TimeZone`` of 0, as exports of ``sacct`` have it,
    is taken for a clock whose offset from UTC is not known. An offset is that of the log's start all year.

    :raises ValueError: for a header that cannot be read, or submissions that are counted from 1970 on beside
        it; names it
    """
    seconds = _header_seconds(log, "UnixStartTime")
    if seconds is None or seconds <= 0:
        return None
    latest = datetime(int(LIMITS["year"].high), 1, 1, tzinfo=timezone.utc).timestamp()
    place = f"{log.source}: header UnixStartTime"
    require(seconds < latest, place, seconds, f"before the year {LIMITS['year'].high:g}")
    first = float(np.fmin.reduce(log.column("submit_time"), initial=math.inf))
    place = f"{log.source}: submit_time={first:.10g} of the first job"
    if seconds <= first < math.inf:
        raise ValueError(f"{place}: must be seconds since the header's UnixStartTime, not since 1970")
    instant = datetime.fromtimestamp(seconds, timezone.utc)
    name = log.header.get("TimeZoneString", "").strip()
    if name:
        try:
            return fixed(instant.astimezone(ZoneInfo(name)))
        except (KeyError, ValueError, OSError):  # zoneinfo's own errors are among them
            words = "the name of a time zone that is known here, such as 'Europe/Paris'"
            raise ValueError(f"{log.source}: header TimeZoneString={name!r}: must be {words}") from None
    offset = _header_seconds(log, "TimeZone")
    if offset is None:
        return instant
    if offset == 0:
        return instant.replace(tzinfo=None)
    place, allowed = f"{log.source}: header TimeZone", "a number of seconds ahead of UTC, such as -21600"
    require(_LEAST_OFFSET <= abs(offset) < DAY, place, offset, allowed)
    return instant.astimezone(timezone(timedelta(seconds=offset)))


def _header_seconds(log: JobLog, key: str) -> float | None:
    words = log.header.get(key, "").split()
    if not words:
        return None
    try:
        seconds = float(words[0])
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise ValueError(f"{log.source}: header {key}={words[0]!r}: must be a number of seconds")
    return seconds


def fixed(time: datetime) -> datetime:
    """Return a time whose offset from UTC, if it has one, stays what it is then."""
    offset = time.utcoffset()
    return time.replace(tzinfo=None) if offset is None else time.astimezone(timezone(offset))
