"""Inspects time series in CSV before the strict readers do: every defect at once, and a mended text.

The readers refuse a file at its first defect. This module lists them all, and makes the text that a careful
person would make of the file: semicolons become commas, decimal commas points, what stands between thousands
goes, rows are put in order of time, an empty stamp between two known ones is filled in, words between numbers
are interpolated, and lines that are no rows are left out. It never touches a file that has no defect.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from greendc.traces.clocks import parse_times
from greendc.traces.defects import LONGEST_HOURS, Defect, Inspection, most_made_up
from greendc.traces.separators import decimal_sign, read_signs, write_plainly
from greendc.traces.table_reader import MISSING, NUMBER

_DOTTED_DATE = re.compile(r"\s*(\d\d?)\.(\d\d?)\.(\d{4})(?:[ T]+(\d\d?:\d\d(?::\d\d)?))?\s*")
_SHOWN = 40
_HOUR = 3_600_000_000  # microseconds


def inspect_series(
    data: bytes,
    name: str,
    wanted: Callable[[str], bool],
    time: str | None = None,
    *,
    empty_allowed: bool = False,
) -> Inspection:
    """List the defects of a table of numbers by time.

    :param data: the content of the file
    :param name: what messages call it
    :param wanted: tells by its name whether a column will be read
    :param time: the column of time stamps (default: the first that begins with time or date)
    :param empty_allowed: whether the reader interpolates empty cells itself, and counts them
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Inspection(name, (Defect(line, f"must be UTF-8 ({error.reason})"),), data)
    text = text.replace("\r\n", "\n")
    if "\n" not in text:  # without that line nothing is left; the reader says what is wrong
        return Inspection(name, (), data)
    series = _Series(text, wanted, time, empty_allowed)
    if not series.defects:
        return Inspection(name, (), data)
    defects = tuple(sorted(series.defects, key=lambda defect: defect.line))
    return Inspection(name, defects, series.text().encode())


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell) is not None and bool(np.isfinite(float(cell)))


class _Series:
    """Rows of a series, mended step by step; each step notes its defects."""

    def __init__(self, text: str, wanted: Callable[[str], bool], time: str | None, empty: bool) -> None:
        self.defects: list[Defect] = []
        self.left_out = self.made_up = 0
        lines = self._whole_lines(text)
        self.separator = self._find_separator(lines[0] if lines else "")
        self.header = [cell.strip() for cell in self._cells(lines[0])] if lines else []
        self._take_rows(lines)
        columns = [k for k, column in enumerate(self.header) if wanted(column)]
        starts = ("time", "date")
        clock = [
            k
            for k, column in enumerate(self.header)
            if (column == time if time is not None else column.lower().startswith(starts))
        ]
        if not self.rows or not clock or not columns:
            return  # the reader says what is missing
        columns = [k for k in columns if k != clock[0]]
        unclear = self._mend_decimals(clock[0], columns)
        stamps = self._mend_stamps(clock[0])
        order = self._mend_order(stamps)
        for k in columns:
            if k not in unclear:
                self._mend_values(k, stamps[order], empty)
        damaged = self.left_out + self.made_up
        if damaged > most_made_up(len(self.rows) + self.left_out):
            what = f"{damaged:,} rows would be left out or made up, more than a tenth of the file"
            self.defects.append(Defect(1, what))

    def text(self) -> str:
        """Return the mended table."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return out.getvalue()

    def _whole_lines(self, text: str) -> list[str]:
        lines = text.split("\n")
        if lines[-1].strip():
            what = f"the last line has no end, and may be cut: {lines[-1][:_SHOWN]!r}"
            self.defects.append(Defect(len(lines), what, "left out", kind="cut_lines"))
            self.left_out += 1
        lines.pop()
        while lines and not lines[-1].strip():
            lines.pop()
        return lines

    def _find_separator(self, header: str) -> str:
        for separator, called in ((";", "semicolons"), ("\t", "tabs")):
            if header.count(separator) > header.count(","):
                self.defects.append(
                    Defect(1, f"fields are separated by {called}", "commas", kind=f"{called}_for_commas")
                )
                return separator
        return ","

    def _cells(self, line: str) -> list[str]:
        try:
            return next(csv.reader([line], delimiter=self.separator), [])
        except csv.Error:  # a field of more than 128 KiB
            return []

    def _take_rows(self, lines: Sequence[str]) -> None:
        self.rows: list[list[str]] = []
        self.numbers: list[int] = []
        for number, line in enumerate(lines[1:], start=2):
            cells = self._cells(line)
            if len(cells) == len(self.header):
                self.rows.append(cells)
                self.numbers.append(number)
                continue
            what = f"{len(cells)} field(s) instead of {len(self.header)}: {line[:_SHOWN]!r}"
            self.defects.append(Defect(number, what, "left out", kind="lines_left_out"))
            self.left_out += 1

    def _mend_decimals(self, clock: int, wanted: Sequence[int]) -> set[int]:
        """Turn decimal commas into points, and leave out what stands between thousands.

        :param clock: the column of times, which is left as it is
        :param wanted: the columns that will be read
        :return: those of them in which a comma or a point may be one or the other; each is a defect
        """
        if self.separator == "," and not any(
            "," in cell or cell.count(".") > 1 for row in self.rows for cell in row
        ):
            return set()
        places = [k for k in range(len(self.header)) if k != clock]
        signs = {k: read_signs(row[k] for row in self.rows) for k in places}
        found: dict[str, list[int]] = {"decimal_commas": [], "thousands_separators": []}
        unclear: set[int] = set()
        for k in places:
            own = signs[k]
            sign = decimal_sign(own, [signs[one] for one in places if one != k])
            if not sign and self.separator == "," and set(own.decimal) | set(own.either) <= {"."}:
                continue  # between commas a point is before decimals
            if own.either and not sign:
                if k in wanted:
                    unclear.add(k)
                    self._refuse_sign(k, *next(iter(own.either.items())))
                continue
            for number, row in zip(self.numbers, self.rows, strict=True):
                cell, plain = row[k].strip(), write_plainly(row[k].strip(), sign)
                if plain != cell:
                    decimals = "." in plain and cell.rfind(",") > cell.rfind(".")
                    found["decimal_commas" if decimals else "thousands_separators"].append(number)
                    row[k] = plain
        for (kind, numbers), what, mend in zip(
            found.items(),
            ("a decimal comma", "a separator of thousands"),
            ("a point", "left out"),
            strict=True,
        ):
            if numbers:
                self.defects.append(Defect(min(numbers), what, mend, len(numbers), kind))
        return unclear

    def _refuse_sign(self, column: int, sign: str, example: str) -> None:
        number = next(
            number
            for number, row in zip(self.numbers, self.rows, strict=True)
            if row[column].strip() == example
        )
        may_be = f"{example.replace(sign, '.')} or {example.replace(sign, '')}"
        what = (
            f"{self.header[column]}={example!r}: {may_be}? no other cell tells; "
            "write numbers with a decimal point and nothing between thousands"
        )
        self.defects.append(Defect(number, what))

    def _mend_stamps(self, clock: int) -> NDArray[np.int64]:
        """Return microseconds since 1970 of the rows that are left, in their order."""
        dotted = [k for k, row in enumerate(self.rows) if _DOTTED_DATE.fullmatch(row[clock])]
        for k in dotted:
            match = _DOTTED_DATE.fullmatch(self.rows[k][clock])
            assert match is not None
            day, month, year, clock_time = match.groups()
            self.rows[k][clock] = f"{year}-{int(month):02d}-{int(day):02d} {(clock_time or '00:00').zfill(5)}"
        if dotted:
            what = f"{self.header[clock]}: a date written day.month.year"
            self.defects.append(
                Defect(self.numbers[dotted[0]], what, "year-month-day", len(dotted), "dotted_dates")
            )
        cells = pd.Series([row[clock] for row in self.rows], dtype=object)
        parsed = parse_times(cells)
        bad = parsed.isna().to_numpy()
        stamps = parsed.to_numpy("datetime64[us]").astype(np.int64)
        known = np.sort(stamps[~bad])
        steps, often = np.unique(np.diff(known), return_counts=True)
        step = int(steps[np.argmax(often)]) if len(steps) else 0
        keep = np.ones(len(bad), np.bool_)
        for k in np.flatnonzero(bad).tolist():
            cell = self.rows[k][clock]
            said = f"{self.header[clock]}={cell[:_SHOWN]!r}"
            what = (
                f"{said}: no date and time (ISO 8601)" if cell.strip() else f"{self.header[clock]} is missing"
            )
            between = 0 < k < len(bad) - 1 and not bad[k - 1] and not bad[k + 1]
            if between and step and stamps[k + 1] - stamps[k - 1] == 2 * step:
                stamps[k] = stamps[k - 1] + step
                before = pd.Timestamp(self.rows[k - 1][clock])
                self.rows[k][clock] = str(before + pd.Timedelta(step, "us"))
                mend, kind = f"filled in: {self.rows[k][clock]}", "stamps_filled_in"
                self.made_up += 1
            else:
                keep[k] = False
                mend, kind = "row left out", "lines_left_out"
                self.left_out += 1
            self.defects.append(Defect(self.numbers[k], what, mend, kind=kind))
        self._keep(np.flatnonzero(keep))
        found: NDArray[np.int64] = stamps[keep]
        return found

    def _mend_order(self, stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sort rows by time and leave out the later of two of one time; return their former places."""
        falls = np.flatnonzero(np.diff(stamps) < 0) + 1
        if len(falls):
            what = "the time goes back: rows are not sorted"
            self.defects.append(
                Defect(self.numbers[falls[0]], what, "sorted by time", len(falls), "unsorted_rows")
            )
        order = np.argsort(stamps, kind="stable").astype(np.int64)
        doubled = np.flatnonzero(np.diff(stamps[order]) == 0) + 1
        for k in order[doubled]:
            defect = Defect(self.numbers[k], "a second row of this time", "left out", kind="doubled_rows")
            self.defects.append(defect)
        self.left_out += len(doubled)
        kept: NDArray[np.int64] = np.delete(order, doubled)
        self._keep(kept)
        return kept

    def _mend_values(self, column: int, stamps: NDArray[np.int64], empty_allowed: bool) -> None:
        """Interpolate what is no number, and lift what is negative to 0."""
        name, last = self.header[column], len(self.rows) - 1
        numeric = [k for k, row in enumerate(self.rows) if _is_number(row[column])]
        turned = self._refuse_turned(column, numeric)
        bad: list[int] = []
        for k, row in enumerate(self.rows):
            cell = row[column]
            if _is_number(cell):
                if float(cell) < 0.0 and not turned:
                    what = f"{name}={cell.strip()}: negative"
                    self.defects.append(Defect(self.numbers[k], what, "set to 0", kind="negative_values"))
                    row[column] = "0"
                continue
            empty = cell.strip() in MISSING
            if empty and empty_allowed and 0 < k < last:
                continue
            bad.append(k)
            what = f"{name} is missing" if empty else f"{name}={cell[:_SHOWN]!r}: no number"
            self.defects.append(Defect(self.numbers[k], what, "interpolated", kind="values_interpolated"))
        if not bad or not numeric:
            return
        if self._refuse_long(name, stamps, np.array(bad), np.array(numeric)):
            return
        values = np.array([float(self.rows[k][column]) for k in numeric])
        for k, value in zip(bad, np.interp(stamps[bad], stamps[numeric], values), strict=True):
            self.rows[k][column] = f"{value:.6g}"
        self.made_up += len(bad)

    def _refuse_turned(self, column: int, numeric: Sequence[int]) -> bool:
        """Tell whether negative values outweigh the others, after noting the first of them.

        :param column: its place
        :param numeric: rows with a number
        """
        values = np.array([float(self.rows[k][column]) for k in numeric])
        if not values.sum() < 0.0:
            return False
        first = numeric[int(np.argmax(values < 0.0))]
        what = (
            f"{self.header[column]}={self.rows[first][column].strip()}: negative; such values outweigh the "
            "others of the column: is its sign turned, or do they mark what is missing?"
        )
        self.defects.append(Defect(self.numbers[first], what))
        return True

    def _refuse_long(
        self, name: str, stamps: NDArray[np.int64], bad: NDArray[np.int64], numeric: NDArray[np.int64]
    ) -> bool:
        """Tell whether more than a day in a row would be interpolated, after noting where.

        :param name: of the column
        :param stamps: of the rows
        :param bad: rows that would be
        :param numeric: rows with a number
        """
        step = np.median(np.diff(stamps))
        after = np.searchsorted(numeric, bad)
        begins = np.where(after > 0, stamps[numeric[after - 1]], stamps[0] - step)
        ends = np.append(stamps[numeric], stamps[-1] + step)[after]
        hours = (ends - begins - step) / _HOUR
        if not (hours > LONGEST_HOURS).any():
            return False
        first = int(np.argmax(hours > LONGEST_HOURS))
        what = f"{name}: no numbers for {hours[first]:g} h; more than a day in a row is not made up"
        self.defects.append(Defect(self.numbers[bad[first]], what))
        return True

    def _keep(self, places: NDArray[np.int64]) -> None:
        self.rows = [self.rows[k] for k in places]
        self.numbers = [self.numbers[k] for k in places]
