"""Parquet tables behind the interface of text tables."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from greendc.lazy import LazyModule
from greendc.traces.table_reader import MISSING, Table
from greendc.traces.trace_files import MOST_BYTES, TraceError

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")


@dataclass(frozen=True, eq=False)
class ParquetTable(Table):
    """A Parquet table; its cells have types, and text is read as in a CSV file."""

    frame: pd.DataFrame = field(repr=False, kw_only=True)

    def read(
        self,
        numbers: Iterable[str],
        texts: Iterable[str] = (),
        *,
        empty: Iterable[str] = (),
        missing: Sequence[str] = MISSING,
    ) -> pd.DataFrame:
        """Read columns, as :meth:`~greendc.traces.table_reader.Table.read`; dates and times stay such."""
        texts, numbers, allowed = list(texts), list(numbers), set(empty)
        found = {}
        for column in [*texts, *numbers]:
            cells = self.frame[self.require_column(column)]
            if cells.dtype == object or isinstance(cells.dtype, pd.StringDtype):
                cells = cells.where(~cells.isin(list(missing)))
            if column not in allowed:
                self.refuse(cells.isna().to_numpy(), f"{column} is missing")
            if column in numbers:
                values = _as_numbers(cells)
                bad = (cells.notna().to_numpy() & np.isnan(values)) | np.isinf(values)
                if bad.any():
                    row = int(np.argmax(bad))
                    raise self.error(row, f"{column}={str(cells.iloc[row])[:40]!r}: must be a finite number")
                cells = pd.Series(values)
            elif pd.api.types.is_numeric_dtype(cells):
                raise TraceError(f"{self.name}: {column} holds numbers: must be dates and times")
            found[column] = cells
        return pd.DataFrame(found)


def _as_numbers(cells: pd.Series) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return numbers, NaN where a cell is none; a truth value or a date is no number."""
    if pd.api.types.is_bool_dtype(cells) or pd.api.types.is_datetime64_any_dtype(cells):
        return np.full(len(cells), np.nan)
    return pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)


def read_parquet(path: str | Path, most: int = MOST_BYTES) -> ParquetTable:
    """Read a Parquet table; an index that it was written with becomes a column.

    :param path: the file
    :param most: bytes that it may need, unpacked
    :raises TraceError: if it cannot be read, is too large, or two columns have one name
    :raises ImportError: if pyarrow is missing; says how to install it
    """
    name = str(path)
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError(f"{name}: reading Parquet needs pyarrow: pip install pyarrow")
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            size = sum(group.total_byte_size for group in groups)
            if size > most:
                raise TraceError(f"{name}: {size / 2**30:.1f} GiB unpacked; must be at most {most / 2**30:g}")
            frame = file.read().to_pandas(ignore_metadata=True)  # which has the names once more
    except TraceError:
        raise
    except FileNotFoundError:
        raise TraceError(f"{name}: cannot be read (there is no such file)") from None
    except Exception as error:  # whatever PyArrow and pandas find wrong with damaged pages
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise TraceError(f"{name}: not a Parquet table ({reason})") from None
    columns = tuple(str(column) for column in frame.columns)
    for number, column in enumerate(columns):
        if column in columns[:number]:
            raise TraceError(f"{name}: two columns are named {column!r}")
    return ParquetTable(
        name, columns, "row 1", len(frame), b"", None, frame=frame.set_axis(list(columns), axis=1)
    )
