"""Job logs of either kind, SWF or an export of ``sacct``, with every defect listed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from greendc.traces.defects import Defect, Inspection, without_cut_line
from greendc.traces.limits import LIMITS
from greendc.traces.sacct import is_sacct, nearly_sacct, parse_sacct, read_sacct
from greendc.traces.swf import SWF_FIELDS, JobLog, parse_swf, read_swf
from greendc.traces.table_reader import NUMBER, clean_text
from greendc.traces.trace_files import TraceError, read_file

_NEEDED = ("job", "submit_time", "run_time", "allocated_processors", "requested_processors", "status")
_PARTS = (2.0, 3.0, 4.0)
_SHOWN = 60


@dataclass(frozen=True, eq=False)
class InspectedLog:
    """A job log, and what was wrong with its file.

    :param log: the jobs of all lines without a defect
    :param inspection: the defects
    :param kind: ``"SWF"`` or ``"sacct"``
    :param columns: of an export: cells of each column by its name in lower case, a cell for each job
    """

    log: JobLog
    inspection: Inspection
    kind: str
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)


def inspect_log(path: str | Path) -> InspectedLog:
    """Read a job log; what it is, its first line tells.

    :param path: the file, plain or ``.gz``
    :raises TraceError: if the file cannot be read, or no line of it can be
    """
    data, name = read_file(path), str(path)
    if is_sacct(data):
        export, inspection = parse_sacct(data, name)
        return InspectedLog(export.log, inspection, "sacct", export.columns)
    try:
        inspection = inspect_swf(data, name)
    except TraceError as error:
        raise _with_hint(error, data) from None
    return InspectedLog(parse_swf(inspection.mended, name), inspection, "SWF")


def read_log(path: str | Path) -> JobLog:
    """Read a job log of either kind, every line of which must be right; what it is, its first line tells.

    :param path: the file, plain or ``.gz``
    :raises TraceError: as :func:`~greendc.traces.swf.read_swf` and :func:`~greendc.traces.sacct.read_sacct`
    """
    data = read_file(path)
    if is_sacct(data):
        return read_sacct(path)
    try:
        return read_swf(path)
    except TraceError as error:
        raise _with_hint(error, data) from None


def inspect_swf(data: bytes, name: str) -> Inspection:
    """List the defects of a log in the Standard Workload Format; the mended text is without those lines.

    What :func:`~greendc.traces.swf.read_swf` keeps and counts is none: a log that is not sorted, say.

    :param data: the content of the file
    :param name: what messages call it
    :raises TraceError: if none of its lines can be read, for the first of them
    """
    try:
        parse_swf(data, name)
    except TraceError as error:
        first_error = error
    else:
        return Inspection(name, (), data)
    data, defects = without_cut_line(data)
    if not data.strip():
        raise first_error
    lines = clean_text(data, name, any_encoding=True).decode().split("\n")[:-1]
    kept: list[str] = []
    jobs = 0
    seen: dict[float, int] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split(";", 1)[0].split()
        if not words:
            kept.append(line)
            continue
        if what := _wrong_fields(words):
            defects.append(Defect(number, what, "left out", kind="lines_left_out"))
            continue
        bad = [field for field, word in zip(SWF_FIELDS, words, strict=True) if not _sound(field, word)]
        for one in bad:
            word = words[SWF_FIELDS.index(one)]
            mend = "left out" if one in _NEEDED else "-1 (missing)"
            kind = "lines_left_out" if one in _NEEDED else "fields_emptied"
            defects.append(
                Defect(number, f"{one}={word[:40]!r}: must be a number within limits", mend, kind=kind)
            )
        if set(bad) & set(_NEEDED):
            continue
        words = ["-1" if one in bad else word for one, word in zip(SWF_FIELDS, words, strict=True)]
        job = float(words[0])
        if job >= 0 and float(words[SWF_FIELDS.index("status")]) not in _PARTS:
            if job in seen:
                what = f"job={words[0]} is that of line {seen[job]}, too"
                defects.append(Defect(number, what, "left out", kind="lines_left_out"))
                continue
            seen[job] = number
        kept.append(" ".join(words))
        jobs += 1
    if not jobs:
        raise first_error
    return Inspection(
        name, tuple(sorted(defects, key=lambda one: one.line)), ("\n".join(kept) + "\n").encode()
    )


def _with_hint(error: TraceError, data: bytes) -> TraceError:
    """Return the error of a text read as SWF, with what else it looks like."""
    hint = nearly_sacct(data)
    return TraceError(f"{error}: {hint}") if hint else error


def _wrong_fields(words: Sequence[str]) -> str:
    if len(words) == len(SWF_FIELDS):
        return ""
    return f"{len(words)} field(s) instead of {len(SWF_FIELDS)}: {' '.join(words)[:_SHOWN]!r}"


def _sound(name: str, word: str) -> bool:
    return NUMBER.fullmatch(word) is not None and abs(float(word)) <= LIMITS[name].high
