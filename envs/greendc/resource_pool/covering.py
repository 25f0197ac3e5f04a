"""A series on the steps of a power trace: the values of the time that each step is of."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.config import require
from greendc.traces.power import CarbonTrace, PowerTrace, resample

if TYPE_CHECKING:
    from greendc.traces.prices import PriceTrace

_ROUNDING = 1e-6
"""Of a step: what is nearer than that to a step's edge is on it."""


def elapsed_hours(trace: PowerTrace) -> NDArray[np.float64]:
    """Return when each step of a trace begins: hours after its start, those that were left out included.

    :return: ``(T,)``
    """
    hours = np.arange(len(trace), dtype=np.float64) * trace.step_hours
    elapsed = hours.copy()
    for place, left_out in trace.closed_up:
        elapsed[hours > place - trace.step_hours * _ROUNDING] += left_out
    return elapsed


def covering(
    name: str, series: CarbonTrace | PriceTrace, values: NDArray[np.float64], trace: PowerTrace
) -> NDArray[np.float64]:
    """Return the part of a series, in the trace's steps, that is the trace's time.

    Steps after days that the trace or the series leaves out have the values of their own days.

    :param name: the field that the series is of
    :param series: in steps of any length
    :param values: the series' own
    :return: ``(T,)``, one value for each step of the trace
    :raises ValueError: if it is not on the trace's clock, or does not cover it; names the field
    """
    aware = series.start.tzinfo is not None
    require(
        aware == (trace.start.tzinfo is not None),
        name,
        f"times {'with' if aware else 'without'} a time zone",
        f"on the trace's clock, whose times are {'without' if aware else 'with'} one",
    )
    lead = (_instant(trace.start) - _instant(series.start)).total_seconds() / 3600.0
    closed_up = series.closed_up if isinstance(series, CarbonTrace) else ()
    begin, inside = _moved_up(lead + elapsed_hours(trace), trace.step_hours, closed_up)
    jumps = np.flatnonzero(np.diff(begin) > trace.step_hours * (1.0 + _ROUNDING)) + 1
    edges = [0, *jumps.tolist(), len(trace)]
    laid = np.empty(len(trace))
    series_left_out = ", without the days that it leaves out" if closed_up else ""
    left_out = ", but for the days that it leaves out" if trace.closed_up else ""
    for first, last in pairwise(edges):
        found = _part(values, series.step_hours, trace.step_hours, float(begin[first]), last - first)
        require(
            inside and found is not None,
            name,
            f"{len(series)} steps of {series.step_hours:g} h from {series.start}{series_left_out}",
            f"a series that covers the trace, {len(trace)} steps of {trace.step_hours:g} h from "
            f"{trace.start}, step by step{left_out}",
        )
        laid[first:last] = found
    return laid


def _moved_up(
    begin: NDArray[np.float64], step_hours: float, closed_up: tuple[tuple[float, float], ...]
) -> tuple[NDArray[np.float64], bool]:
    """Return where steps begin in a series that moved up after days that it leaves out.

    :param begin: ``(T,)`` hours after the series' start
    :param step_hours: length of the steps
    :param closed_up: of the series
    :return: hours after its start, as its steps now are, and whether no step is of a day that it leaves out
    """
    places, inside, slack, moved = begin.copy(), True, step_hours * _ROUNDING, 0.0
    for place, left_out in closed_up:
        gone = place + moved
        after = begin > gone + left_out - slack
        inside = inside and not bool((~after & (begin > gone - step_hours + slack)).any())
        places[after] -= left_out
        moved += left_out
    return places, inside


def _part(
    values: NDArray[np.float64], old: float, new: float, lead: float, count: int
) -> NDArray[np.float64] | None:
    """Return means of a series over steps of another length; ``None`` where it does not have them all.

    :param old: length of its steps in hours
    :param new: length of the steps that are wanted
    :param lead: hours from its start to the first of them
    :param count: how many
    """
    if old != new:
        skipped = lead / old
        # Where the steps begin between those that the series would get, but with one that it has.
        enough = 0 < skipped <= len(values) - new / old + _ROUNDING
        if not _is_whole(lead / new) and _is_whole(skipped) and enough:
            values, lead = values[round(skipped) :], 0.0
        values = resample(values, old, new)
    first = round(lead / new)
    if not _is_whole(lead / new) or not 0 <= first <= len(values) - count:
        return None
    return values[first : first + count]


def _instant(time: datetime) -> datetime:
    """Return a time whose differences to others are what passes between them, where clocks are put on, too.

    Python takes times that share a time zone apart by what their clocks show.
    """
    return time if time.tzinfo is None else time.astimezone(timezone.utc)


def _is_whole(number: float) -> bool:
    return abs(number - round(number)) < _ROUNDING
