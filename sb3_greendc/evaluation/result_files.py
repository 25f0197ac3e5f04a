"""Tables of episodes on disk, as CSV or Parquet, with the record of the command that made them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from greendc.config import nearest
from greendc.traces.table_reader import read_table
from greendc.traces.trace_files import read_file
from sb3_greendc.core.files import atomic_write, require_room, write_json
from sb3_greendc.core.provenance import parse_record
from sb3_greendc.evaluation.run_folders import FILES_OF_A_RUN, is_run

FORMATS = (".csv", ".parquet")
COLUMNS = ("policy", "env_id", "seed")
"""What a table of episodes has at least, besides metrics."""

_WHOLE = ("seed", "run", "episode")
_RECORD = b"sb3_greendc"


def check_path(path: Path) -> None:
    """Raise an error, before the work is done, if a table could not be written there, or must not be.

    :raises ValueError: for another ending than those of :data:`FORMATS`, a folder, and where the table or its
        record would replace a file of a run, or another JSON file
    :raises ImportError: if Parquet is asked for and PyArrow is missing
    :raises OSError: if its folder cannot be made or written
    """
    _check_ending(path)
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; must be a file")
    for file in files_of(path):
        if file.name in FILES_OF_A_RUN and is_run(path.parent):
            raise ValueError(
                f"{path}: would replace {file.name} of the run in {path.parent}; choose another name"
            )
    record = files_of(path)[-1]
    if record != path and record.exists() and not _is_record(record):
        raise ValueError(
            f"{path}: its record would replace {record}, which is no record of an evaluation; choose another "
            "name"
        )
    require_room(path.parent)


def partial_path(path: Path) -> Path:
    """Return where the table of an interrupted evaluation goes: ``results.partial.csv``.

    :param path: where the whole one belongs
    """
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def _is_record(path: Path) -> bool:
    """Tell whether a JSON file is the record of an evaluation, which says what policies took part."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "policies" in found


def _check_ending(path: Path) -> None:
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: must end in {' or '.join(FORMATS)}")
    if path.suffix == ".parquet":
        _pyarrow()


def files_of(path: Path) -> tuple[Path, ...]:
    """Return the files that :func:`write_results` writes."""
    return (path, path.with_suffix(".json")) if path.suffix == ".csv" else (path,)


def write_results(path: Path, table: pd.DataFrame, record: Mapping[str, Any]) -> tuple[Path, ...]:
    """Write a table and its record, each whole or not at all; return the files written.

    Parquet carries the record in its metadata (key ``sb3_greendc``, JSON); beside a CSV it is a JSON file.

    :param path: ends in one of :data:`FORMATS`
    :param table: a row per episode
    :param record: command, versions, commit (:func:`~sb3_greendc.core.provenance.provenance`), ``policies``
    """
    _check_ending(path)
    if path.suffix == ".csv":
        with atomic_write(path) as file:
            table.to_csv(file, index=False)
        write_json(path.with_suffix(".json"), record)
        return path, path.with_suffix(".json")
    pyarrow = _pyarrow()
    columns = pyarrow.Table.from_pandas(table, preserve_index=False)
    metadata = {**(columns.schema.metadata or {}), _RECORD: json.dumps(record, default=str).encode()}
    with atomic_write(path) as file:
        pyarrow.parquet.write_table(columns.replace_schema_metadata(metadata), file)
    return (path,)


def read_results(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a table of episodes and its record; the record is empty where there is none.

    Tables without the column ``run`` are taken to have one run of each policy.

    :raises ValueError: if the file is no table of episodes, a row of it is short or cut, or a cell is no
        number among numbers; the message names file and line
    :raises OSError: if a Parquet file cannot be read
    """
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: must end in {' or '.join(FORMATS)}")
    table, record = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
    for column in COLUMNS:
        _require_column(path, column, table.columns)
    if len(table) == 0:
        raise ValueError(f"{path}: no episodes")
    if "run" not in table.columns:
        table.insert(1, "run", 0)
    return table, record


def _read_csv(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    table = read_table(read_file(path), str(path))
    for column in COLUMNS:
        _require_column(path, column, table.columns)
    # Only empty cells are undefined: a policy may be called "None".
    frame = table.guess(texts=("policy", "env_id"))
    for column in _WHOLE:
        if column in frame and len(frame) and not pd.api.types.is_integer_dtype(frame[column]):
            bad = pd.to_numeric(frame[column], errors="coerce") % 1 != 0
            table.refuse(bad.to_numpy(), f"{column} must be a whole number")
    return frame, _read_record(path)


def _read_record(path: Path) -> dict[str, Any]:
    record = path.with_suffix(".json")
    return parse_record(record.read_bytes(), str(record)) if record.is_file() else {}


def _require_column(path: Path, column: str, known: Iterable[object]) -> None:
    names = [str(name) for name in known]
    if column not in names:
        hint = nearest(column, names)
        raise ValueError(
            f"{path}: no column {column!r}{hint} (every table of episodes has {', '.join(COLUMNS)})"
        )


def _read_parquet(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    pyarrow = _pyarrow()
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        columns = pyarrow.parquet.read_table(path, page_checksum_verification=True)
        table = columns.to_pandas(ignore_metadata=True)
    except Exception as error:  # whatever PyArrow and pandas find wrong with damaged pages
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path}: not a Parquet table: {reason}") from error
    return table, parse_record((columns.schema.metadata or {}).get(_RECORD, b"{}"), f"{path}: its record")


def _pyarrow() -> ModuleType:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need PyArrow: pip install pyarrow") from error
    module: ModuleType = pyarrow
    return module
