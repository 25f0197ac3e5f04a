"""The one reader of tables of text: it counts every row, and an error names the file and the line.

It is stricter than pandas, which fills up short rows, cuts long ones, renames doubled columns, and ends a
cell at a NUL. It refuses, before it looks at any value:

- text that is not UTF-8, and control characters (but a byte-order mark and line ends of Windows are fine);
- a last line without an end: its last number may be cut, and 79 cannot be told from 791.806;
- two columns of one name, and any row that has another number of fields than the header.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from greendc.config import nearest
from greendc.lazy import LazyModule
from greendc.traces.limits import LIMITS
from greendc.traces.trace_files import TraceError

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")


MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None")
"""What a cell without a value may hold."""

NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
"""How a number is written."""

_BOM = b"\xef\xbb\xbf"
_SHOWN = 40  # characters of a cell in an error


def clean_text(data: bytes, name: str, *, any_encoding: bool = False) -> bytes:
    """Return a text with line ends of Unix, without byte-order mark and without blank lines at its end.

    :param data: the content of the file
    :param name: what errors call the file
    :param any_encoding: whether bytes that are not UTF-8 may be replaced: where only comments can hold them
    :raises TraceError: for control characters, byte-order marks but the first, a last line without an end,
        and text that is not UTF-8
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TraceError(f"{name}: encoded as UTF-16: must be UTF-8")
    data = data.removeprefix(_BOM)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    _refuse_control_characters(data, name)
    if not data.isascii():
        if _BOM in data:  # pandas drops one from the first row
            line = data.count(b"\n", 0, data.index(_BOM)) + 1
            raise TraceError(f"{name}, line {line}: a byte-order mark within the text")
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            if not any_encoding:
                line = data.count(b"\n", 0, error.start) + 1
                raise TraceError(f"{name}, line {line}: must be UTF-8 ({error.reason})") from None
            data = data.decode("utf-8", "replace").encode()
    if not data.strip():
        raise TraceError(f"{name}: the file is empty")
    if not data.endswith(b"\n"):
        data = data.rstrip(b" \t")  # blanks alone are no row
    if not data.endswith(b"\n"):
        raise TraceError(
            f"{name}, line {data.count(10) + 1}: the file is truncated "
            "(its last line has no end; if the line is whole, put a line end behind it)"
        )
    return data.rstrip(b"\n") + b"\n" if data.endswith(b"\n\n") else data


def _refuse_control_characters(data: bytes, name: str) -> None:
    codes = np.frombuffer(data, np.uint8)
    fine = np.count_nonzero(codes == 10) + np.count_nonzero(codes == 9)
    if np.count_nonzero(codes < 32) == fine and b"\x7f" not in data:
        return
    odd = int(np.argmax((codes < 32) & (codes != 10) & (codes != 9) | (codes == 127)))
    line, code = data.count(b"\n", 0, odd) + 1, data[odd]
    packed = " (is it packed? then its name must end in .gz)" if data.startswith(b"\x1f\x8b") else ""
    raise TraceError(f"{name}, line {line}: control character 0x{code:02x}: damaged, or not text{packed}")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and columns of text, counted but not yet read; made by :func:`read_table`.

    :param name: of the file, for errors
    :param columns: their names
    :param first: where row 0 is, such as ``"line 2"``
    :param rows: their number
    """

    name: str
    columns: tuple[str, ...]
    first: str
    rows: int
    _body: bytes = field(repr=False)
    _quoted: list[tuple[int, list[str]]] | None = field(repr=False)  # line and cells of rows with quotes

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.rows

    def place(self, row: int) -> str:
        """Return what the file calls a row: ``line 7``."""
        if self._quoted is not None:
            return f"line {self._quoted[row][0]}"
        word, first = self.first.split()
        return f"{word} {int(first) + row}"

    def error(self, row: int, what: str) -> TraceError:
        """Return the error that row ``row`` is ``what``."""
        return TraceError(f"{self.name}, {self.place(row)}: {what}")

    def refuse(self, bad: NDArray[np.bool_], what: str) -> None:
        """Raise the error that ``what`` for the first row that is flagged, if there is one."""
        if bad.any():
            raise self.error(int(np.argmax(bad)), what)

    def require_column(self, column: str) -> str:
        """Return ``column``, or raise a :class:`TraceError` that names the nearest one there is."""
        if column not in self.columns:
            known = ", ".join(map(repr, self.columns))
            raise TraceError(
                f"{self.name}: no column {column!r}{nearest(column, self.columns)} (known: {known})"
            )
        return column

    def read(
        self,
        numbers: Iterable[str],
        texts: Iterable[str] = (),
        *,
        empty: Iterable[str] = (),
        missing: Sequence[str] = MISSING,
    ) -> pd.DataFrame:
        """Read columns.

        :param numbers: columns of finite numbers; float64 in the result
        :param texts: columns of text
        :param empty: those of the columns in which cells may be empty: NaN in the result, or ``None``
        :param missing: what an empty cell may hold
        :return: a row a row, the columns in the order that is asked for, texts first
        :raises TraceError: for columns that are not there, and a cell that is empty or no finite number
        """
        texts, numbers, allowed = list(texts), list(numbers), set(empty)
        columns = [self.require_column(column) for column in [*texts, *numbers]]
        frame, finite = self._parse(texts, numbers, missing)
        for column in texts if finite else columns:
            gone = frame[column].isna().to_numpy()
            if column not in allowed:
                self.refuse(gone, f"{column} is missing")
            if column in numbers:
                bad = np.isinf(frame[column].to_numpy(np.float64))
                if bad.any():
                    raise self._no_number(int(np.argmax(bad)), column, missing)
        return frame[columns]

    def guess(self, texts: Iterable[str] = (), missing: Sequence[str] = ("",)) -> pd.DataFrame:
        """Read all columns, of which most have a kind that only their cells tell.

        A column is whole numbers, numbers (NaN where a cell is empty), true and false, or text. Infinity,
        written ``inf``, is a number here.

        :param texts: columns that are text, whatever their cells look like; none of these may be empty
        :param missing: what an empty cell may hold
        :return: a row a row, all columns in their order
        :raises TraceError: for a column of which some cells are numbers and others are not
        """
        texts = [self.require_column(column) for column in texts]
        if not self.rows:
            return pd.DataFrame(columns=list(self.columns))
        index = {i: str for i, column in enumerate(self.columns) if column in texts}
        try:
            frame = self._read_csv(missing, dtype=index, **_exact())
        except (ValueError, OverflowError) as error:
            raise TraceError(f"{self.name}: not a CSV table ({error})") from None
        frame = frame.set_axis(list(self.columns), axis=1)
        for column in self.columns:
            cells = frame[column]
            if column in texts:
                self.refuse(cells.isna().to_numpy(), f"{column} is missing")
            elif not pd.api.types.is_numeric_dtype(cells) or cells.dtype == np.uint64:
                found = self._cells([column], missing)[column]
                numeric = [cell is None or _number(cell) is not None for cell in found]
                if any(flag for flag, cell in zip(numeric, found, strict=True) if cell is not None):
                    row = numeric.index(False) if False in numeric else 0
                    raise self._no_number(row, column, missing)
        return frame

    def check(
        self, column: str, values: NDArray[np.float64], quantity: str, factor: float = 1.0
    ) -> NDArray[np.float64]:
        """Return the values of a column in the unit of their limit, after comparing them with it.

        :param column: its name, for the error
        :param values: ``(rows,)`` as the file has them; NaN (an empty cell) is let through
        :param quantity: a key of :data:`~greendc.traces.limits.LIMITS`
        :param factor: what turns the values into the unit of the limit
        :raises TraceError: for the first value outside the limit
        """
        limit = LIMITS[quantity]
        with np.errstate(over="ignore"):
            scaled = values if factor == 1.0 else values * factor
        bad = limit.outside(scaled) & ~np.isnan(values)
        if bad.any():
            row = int(np.argmax(bad))
            means = "" if factor == 1.0 else f" is {scaled[row]:.6g} {limit.unit}"
            raise self.error(row, f"{column}={values[row]:.10g}{means}: must be {limit}")
        return scaled

    def _parse(
        self, texts: list[str], numbers: list[str], missing: Sequence[str]
    ) -> tuple[pd.DataFrame, bool]:
        """Return columns, and whether all numbers are there and finite."""
        if self._quoted is None and len(self):
            try:
                frame = self._parse_plain(texts, numbers, missing)
            except (ValueError, OverflowError):  # a cell that is no number
                pass
            else:
                values = frame[numbers].to_numpy(np.float64)
                suspicious = [numbers[column] for column in _find_bits(values)]
                if not suspicious or not self._words(suspicious, missing):
                    return frame, bool(np.isfinite(values).all())
        cells = self._cells([*texts, *numbers], missing)
        for column in numbers:
            found = [np.nan if cell is None else _number(cell) for cell in cells[column]]
            if None in found:
                raise self._no_number(found.index(None), column, missing)
            cells[column] = np.array(found, np.float64)
        return cells, False

    def _parse_plain(self, texts: list[str], numbers: list[str], missing: Sequence[str]) -> pd.DataFrame:
        """Read rows without quotes with pandas: numbers as float64, texts as they are."""
        index = {self.columns.index(column): column for column in [*texts, *numbers]}
        kinds = {i: np.float64 if column in numbers else object for i, column in index.items()}
        return self._read_csv(missing, usecols=sorted(index), dtype=kinds).rename(columns=index)

    def _read_csv(self, missing: Sequence[str], **options: Any) -> pd.DataFrame:
        """Read rows with pandas, columns by their number: their counts are known to be right."""
        settings: dict[str, Any] = {
            "header": None,
            "names": list(range(len(self.columns))),
            "na_values": list(missing),
            "keep_default_na": False,
            "index_col": False,
            "skip_blank_lines": False,
            "quoting": csv.QUOTE_NONE if self._quoted is None else csv.QUOTE_MINIMAL,
            "low_memory": False,
        }
        return cast("pd.DataFrame", pd.read_csv(io.BytesIO(self._body), **settings, **options))

    def _cells(self, columns: list[str], missing: Sequence[str]) -> pd.DataFrame:
        """Return cells as text, ``None`` where one is empty."""
        rows = (
            [cells for _, cells in self._quoted]
            if self._quoted is not None
            else [line.split(",") for line in self._body.decode("utf-8", "replace").split("\n")[:-1]]
        )
        index = [self.columns.index(column) for column in columns]
        empty = set(missing)
        found = {
            column: pd.Series(
                [None if cells[i].strip() in empty else cells[i] for cells in rows], dtype=object
            )
            for column, i in zip(columns, index, strict=True)
        }
        return pd.DataFrame(found, columns=columns)

    def _words(self, columns: list[str], missing: Sequence[str]) -> bool:
        """Tell whether columns that look like 0 and 1 hold true and false, which pandas takes for numbers."""
        cells = self._cells(columns, missing)
        return any(_number(cell) is None for column in columns for cell in cells[column] if cell is not None)

    def _no_number(self, row: int, column: str, missing: Sequence[str]) -> TraceError:
        cell = self._cells([column], missing)[column][row]
        return self.error(row, f"{column}={str(cell)[:_SHOWN]!r}: must be a finite number")


def read_table(
    data: bytes,
    name: str,
    columns: Sequence[str] | None = None,
    *,
    skip: int = 0,
    any_encoding: bool = False,
) -> Table:
    """Count the rows and columns of a table of fields between commas (CSV).

    Fields may be quoted as in RFC 4180. Only :meth:`Table.read` looks at values.

    :param data: the content of the file
    :param name: what errors call the file
    :param columns: names of the columns; ``None`` if the first line (after those skipped) names them
    :param skip: lines before that, which are not part of the table
    :param any_encoding: as for :func:`clean_text`
    :raises TraceError: as :func:`clean_text`, for doubled columns, and for a row with too few or many fields
    """
    text = clean_text(data, name, any_encoding=any_encoding)
    start = 0
    for line in range(1, skip + 1):
        start = text.find(b"\n", start) + 1
        if start == 0:
            raise TraceError(f"{name}: has {line - 1} lines, but a header of {skip}")
    body, first = text[start:] if start else text, skip + 1
    if b'"' in body:
        return _read_quoted(body, name, columns, first)
    if columns is None:
        end = body.find(b"\n")
        if end < 0:
            raise TraceError(f"{name}: has no line of column names")
        columns = _check_names(body[:end].decode().split(","), name, first)
        body, first = body[end + 1 :], first + 1
    rows = _check_counts(body, name, len(columns), first)
    return Table(name, tuple(columns), f"line {first}", rows, body, None)


def _read_quoted(body: bytes, name: str, columns: Sequence[str] | None, first: int) -> Table:
    """Read rows of which some are quoted; a quoted cell may go over several lines."""
    reader = csv.reader(io.StringIO(body.decode(), newline=""), strict=True)
    rows: list[tuple[int, list[str]]] = []
    line = first
    try:
        for cells in reader:
            rows.append((line, cells))
            line = first + reader.line_num
    except csv.Error as error:
        raise TraceError(f"{name}, line {first + reader.line_num - 1}: not a CSV table ({error})") from None
    if columns is None:
        columns = _check_names(rows[0][1] if rows else [], name, first)
        rows = rows[1:]
        header = rows[0][0] - first if rows else body.count(b"\n")
        body = body.split(b"\n", header)[-1]
    for number, cells in rows:
        if len(cells) != len(columns):
            raise _miscounted(name, number, len(cells), len(columns))
    return Table(name, tuple(columns), f"line {first}", len(rows), body, rows)


def _check_names(names: Sequence[str], name: str, line: int) -> tuple[str, ...]:
    names = [column.strip() for column in names]
    if len(names) < 2:
        raise TraceError(f"{name}, line {line}: names one column; are the fields separated by commas?")
    for number, column in enumerate(names):
        if column and column in names[:number]:
            raise TraceError(f"{name}, line {line}: two columns are named {column!r}")
    return tuple(names)


def _check_counts(body: bytes, name: str, fields: int, first: int) -> int:
    """Return the number of rows, having refused one with more or fewer fields.

    A total that fits is no proof, for two errors may cancel.
    """
    codes = np.frombuffer(body, np.uint8)
    ends, commas = np.flatnonzero(codes == 10), np.flatnonzero(codes == 44)
    between = fields - 1
    if len(commas) == between * len(ends) and len(ends):
        grid = commas.reshape(len(ends), between)
        if bool((grid[1:, 0] > ends[:-1]).all() and (grid[:, -1] < ends).all()):
            return len(ends)
    counts = np.diff(np.searchsorted(commas, ends), prepend=0) + 1
    wrong = counts != fields
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _miscounted(name, first + row, int(counts[row]), fields)
    return len(ends)


def _miscounted(name: str, line: int, found: int, fields: int) -> TraceError:
    return TraceError(f"{name}, line {line}: {found} field{'s' if found != 1 else ''} instead of {fields}")


def _number(cell: str) -> float | None:
    return float(cell) if NUMBER.fullmatch(cell) else None


def _find_bits(values: NDArray[np.float64]) -> list[int]:
    """Return the columns of nothing but 0 and 1, as pandas reads a column of nothing but false and true."""

    def are_bits(cells: NDArray[np.float64]) -> NDArray[np.bool_]:
        bits: NDArray[np.bool_] = (cells == 0.0) | (cells == 1.0) | np.isnan(cells)
        return bits

    columns = np.flatnonzero(are_bits(values[0])).tolist()
    return [column for column in columns if are_bits(values[:, column]).all()]


def _exact() -> dict[str, Any]:
    """Return the option by which pandas reads every number to its last bit; from 3.1 on it does so anyway."""
    version = tuple(map(int, pd.__version__.split(".")[:2]))
    return {} if version >= (3, 1) else {"float_precision": "round_trip"}
