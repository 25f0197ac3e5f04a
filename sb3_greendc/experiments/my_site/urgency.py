"""How urgent the jobs of a log are: QoS values from a column of deadlines, priorities or values.

In the resource pool one number says both when a job must be done and what it is worth: its QoS value q in
(0, 1]. The job is on time if it is done within ``duration / q`` of its submission, and is then worth
``duration * units * q``. A column of one's own sets q, and what follows from q follows.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from greendc.config import nearest
from greendc.traces.clocks import TIME_OF_READING
from greendc.traces.job_logs import InspectedLog
from greendc.traces.limits import LIMITS
from greendc.traces.log_clock import log_start
from greendc.traces.swf import SWF_FIELDS, JobLog
from greendc.traces.table_reader import MISSING, NUMBER, read_table
from greendc.traces.trace_files import TraceError, read_file

LEAST, MOST = 0.1, 0.9
"""QoS values of the least and the most urgent job, where a column only orders jobs; also of drawn ones."""
SMALLEST = 0.001
_HIGH_SHARE = 0.95
_SEED = 0
_YEARS = 10 * 366 * 86_400.0
_EMPTY = frozenset((*MISSING, "Unknown"))
_COMPACT = re.compile(r"(\d{8})(\.0*)?", re.ASCII)


@dataclass(frozen=True)
class Urgency:
    """QoS values of a log's jobs.

    :param qos: ``(J,)`` float64 in (0, 1]; ``None``: they are drawn at random in each episode
    :param said: what the report says of them
    :param option: the option that was given, or that could be
    :param counts: of jobs whose value was changed or drawn
    """

    qos: NDArray[np.float64] | None
    said: str
    option: str = "--deadlines, --priorities or --values"
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        """Whether the user said it."""
        return self.qos is not None


def read_urgency(options: argparse.Namespace, found: InspectedLog) -> Urgency:
    """Return the QoS values that the options ask for.

    :param options: of :func:`~sb3_greendc.experiments.my_site.options.add_options`
    :param found: the log
    :raises ValueError: for a column that is not there, or a cell that cannot be read
    """
    kinds = ("deadlines", "priorities", "values")
    kind = next((one for one in kinds if getattr(options, one) is not None), None)
    if kind is None:
        if options.job_columns is not None:
            needs = "needs --deadlines, --priorities or --values"
            raise ValueError(f"--job-columns {options.job_columns}: {needs}")
        return Urgency(
            None,
            "drawn at random for each job and episode: QoS values between 0.1 and 0.9, from which both "
            "follow (a job of value q is on time within run time / q, and worth run time x units x q)",
        )
    column = getattr(options, kind)
    cells, place = _cells(options, found, column)
    if all(cell.strip() in _EMPTY for cell in cells):
        raise TraceError(f"{place}: is empty for every job of the log")
    if kind == "deadlines":
        qos, counts = _from_deadlines(cells, found, place)
        said = f"deadlines from {place}; a job's value is its processor-hours x run time / allowed time"
    elif kind == "priorities":
        qos, counts = _from_priorities(_numbers(cells, found, place))
        said = (
            f"priorities from {place}: jobs in their order have QoS values from {LEAST} to {MOST}, from "
            "which deadline (run time / q after submission) and value (processor-hours x q) follow"
        )
    else:
        qos, counts = _from_values(_numbers(cells, found, place), found, place)
        said = (
            f"values from {place}, per processor-hour in proportion to q; jobs of the upper 5 % count "
            "alike, and deadlines (run time / q after submission) follow"
        )
    drawn = np.isnan(qos)
    counts["drawn at random, for want of a value"] = int(drawn.sum())
    qos = np.where(drawn, np.random.default_rng(_SEED).uniform(LEAST, MOST, len(qos)), qos)
    return Urgency(np.clip(qos, SMALLEST, 1.0), said, f"--{kind}", counts)


def _cells(options: argparse.Namespace, found: InspectedLog, column: str) -> tuple[Sequence[str], str]:
    """Return the cells of a column, one for each job of the log, and what to call it."""
    log = found.log
    if options.job_columns is not None:
        table = read_table(read_file(options.job_columns), str(options.job_columns))
        exported = found.kind == "sacct"  # jobs of arrays have texts such as 12_3 for numbers
        read = ([], ["job", column]) if exported else (["job"], [column])
        frame = table.read(*read, empty=[column])
        named = frame["job"].map(_job_text) if exported else frame["job"]
        doubled = named.duplicated().to_numpy()
        table.refuse(doubled, "the job of an earlier line")
        by_job = dict(zip(named, frame[column], strict=True))
        jobs = [_job_text(job) for job in found.columns["jobid"]] if exported else log.column("job").tolist()
        if not set(jobs) & set(by_job):
            raise TraceError(f"{options.job_columns}: no job number of it is in {log.source}")
        cells = [str(by_job.get(job) or "") for job in jobs]
        return cells, f"column {column!r} of {options.job_columns.name}"
    if found.kind == "sacct":
        if column.lower() not in found.columns:
            known_names = ", ".join(found.columns)
            raise TraceError(
                f"{log.source}: no column {column!r}{nearest(column.lower(), found.columns)} "
                f"(known: {known_names})"
            )
        return found.columns[column.lower()], f"column {column!r} of the export"
    if column not in SWF_FIELDS:
        raise TraceError(
            f"{log.source}: no field {column!r}{nearest(column, SWF_FIELDS)} of the Standard Workload "
            f"Format (known: {', '.join(SWF_FIELDS)}; or --job-columns CSV)"
        )
    values = log.column(column).tolist()
    return ["" if value != value else f"{value:.10g}" for value in values], f"the field {column!r}"


def _job_text(job: str) -> str:
    """Return what stands in column JobID; a whole number without what tables of numbers write after it."""
    word = job.strip()
    return f"{float(word):.0f}" if NUMBER.fullmatch(word) and float(word).is_integer() else word


def _job(found: InspectedLog, row: int, place: str, cell: object) -> str:
    """Return how an error names a cell of a job: by what the log calls the job."""
    number = found.log.column("job")[row]
    known = f"{number:.0f}" if np.isfinite(number) else str(row + 1)
    job = found.columns["jobid"][row] if found.kind == "sacct" else known
    return f"{place}: job {job} of the log: {str(cell)[:40]!r}"


def _numbers(cells: Sequence[str], found: InspectedLog, place: str) -> NDArray[np.float64]:
    """Return numbers, NaN where a cell is empty."""
    empty = set(MISSING)
    numbers = pd.to_numeric(
        pd.Series([None if cell.strip() in empty else cell.strip() for cell in cells], dtype=object),
        errors="coerce",
    ).to_numpy(np.float64)
    for k, cell in enumerate(cells):
        if cell.strip() not in empty and not np.isfinite(numbers[k]):
            raise TraceError(f"{_job(found, k, place, cell)}: must be a number")
    return numbers


def _from_deadlines(
    cells: Sequence[str], found: InspectedLog, place: str
) -> tuple[NDArray[np.float64], dict[str, int]]:
    """Return run time over the time that a job has.

    Deadlines are times of the log's clock, times with an offset from UTC, or the log's seconds. Numbers of
    eight digits may be dates without dashes: they are seconds where the column has other numbers, too.

    :raises TraceError: for other cells, times where the log has no clock or offsets where its clock has none,
        seconds that are years after the log, and dates without dashes
    """
    log = found.log
    numbers = [cell for cell in cells if cell.strip() not in _EMPTY and NUMBER.fullmatch(cell.strip())]
    dates = all(map(_is_date, numbers))
    ends = log.column("submit_time") + np.nan_to_num(log.column("run_time"))
    latest = float(np.nanmax(ends)) + _YEARS
    seconds = np.full(len(cells), np.nan)
    for k, cell in enumerate(cells):
        word = cell.strip()
        if word in _EMPTY:
            continue
        where = _job(found, k, place, cell)
        if NUMBER.fullmatch(word) is None:
            stamp = pd.to_datetime(word, errors="coerce", format="ISO8601")
            if word in TIME_OF_READING or not isinstance(stamp, pd.Timestamp):  # nor is NaT one
                raise TraceError(f"{where}: must be a time or the log's seconds")
            seconds[k] = stamp.timestamp() - _second_0(log, found.kind, stamp.tzinfo is not None, where)
            continue
        if dates:
            raise TraceError(
                f"{where}: is it a date? {word[:4]}-{word[4:6]}-{word[6:8]} is one; numbers are the log's "
                "seconds, and the column has none that cannot be a date"
            )
        seconds[k] = float(word)
        if seconds[k] > latest:
            raise TraceError(
                f"{where}: years after the log's last job; numbers are the log's seconds (its first job "
                "is submitted at about 0), not those since 1970"
            )
    allowed = seconds - log.column("submit_time")
    run = log.column("run_time")
    with np.errstate(divide="ignore", invalid="ignore"):
        qos = np.where(allowed > 0, run / allowed, np.where(np.isnan(allowed), np.nan, np.inf))
    late = qos > 1.0
    return np.minimum(qos, 1.0), {"deadlines too early to be met, taken for the earliest": int(late.sum())}


def _is_date(cell: str) -> bool:
    """Tell whether a number may be a date without dashes, as in 20240402."""
    match = _COMPACT.fullmatch(cell.strip())
    try:
        return match is not None and not LIMITS["year"].outside(
            np.array(float(datetime.strptime(match[1], "%Y%m%d").year))
        )
    except ValueError:
        return False


def _second_0(log: JobLog, kind: str, with_offset: bool, where: str) -> float:
    """Return the seconds since 1970 at which the log's seconds begin, on the clock that a deadline is on.

    :param log: the log
    :param kind: ``"SWF"`` or ``"sacct"``
    :param with_offset: whether the deadline has an offset from UTC; else it is on the log's clock
    :param where: for errors
    """
    start = log_start(log)
    if start is None:
        raise TraceError(
            f"{where}: the log's header has no UnixStartTime, which tells when its seconds begin; deadlines "
            "must be in the log's seconds"
        )
    if with_offset and kind == "sacct":
        raise TraceError(
            f"{where}: sacct exports times of the cluster's clock, without offset from UTC; deadlines must "
            "be times of that clock, without offset, too"
        )
    on_clock = start if with_offset and start.tzinfo else start.replace(tzinfo=timezone.utc)
    return on_clock.timestamp()


def _from_priorities(numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], dict[str, int]]:
    known = ~np.isnan(numbers)
    qos = np.full(len(numbers), np.nan)
    if known.any():
        ranks = rankdata(numbers[known])
        spread = max(float(ranks.max() - ranks.min()), 1.0)
        share = (ranks - ranks.min()) / spread if len(np.unique(ranks)) > 1 else np.full(len(ranks), 0.5)
        qos[known] = LEAST + (MOST - LEAST) * share
    return qos, {}


def _from_values(
    numbers: NDArray[np.float64], found: InspectedLog, place: str
) -> tuple[NDArray[np.float64], dict[str, int]]:
    if (numbers < 0).any():
        row = int(np.argmax(numbers < 0))
        raise TraceError(f"{_job(found, row, place, f'{numbers[row]:g}')}: must be 0 or more")
    with np.errstate(divide="ignore", invalid="ignore"):
        density = numbers / (found.log.column("run_time") * found.log.processors)
    known = np.isfinite(density)
    high = float(np.quantile(density[known], _HIGH_SHARE)) if known.any() else 0.0
    if not high > 0:
        raise TraceError(f"{place}: must be above 0 for a twentieth of the jobs that ran, or more")
    qos = np.where(known, MOST * density / high, np.nan)
    clipped = {
        "values above what the most valuable twentieth begins with": int((qos > 1.0).sum()),
        "values too small to matter": int((qos < SMALLEST).sum()),
    }
    return np.minimum(qos, 1.0), clipped
