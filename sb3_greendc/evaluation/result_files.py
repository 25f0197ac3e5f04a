"""Tables of episodes on disk, as CSV or Parquet, with the record of the command that made them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from greendc.config import nearest
from sb3_greendc.core.files import atomic_write, write_json

FORMATS = (".csv", ".parquet")
COLUMNS = ("policy", "env_id", "seed")
"""What a table of episodes has at least, besides metrics."""

_RECORD = b"sb3_greendc"


def check_path(path: Path) -> None:
    """Raise an error, before the work is done, if a table could not be written there.

    :raises ValueError: for another ending than those of :data:`FORMATS`
    :raises ImportError: if Parquet is asked for and PyArrow is missing
    :raises OSError: if its folder cannot be made
    """
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: must end in {' or '.join(FORMATS)}")
    if path.suffix == ".parquet":
        _pyarrow()
    path.parent.mkdir(parents=True, exist_ok=True)


def write_results(path: Path, table: pd.DataFrame, record: Mapping[str, Any]) -> tuple[Path, ...]:
    """Write a table and its record, each whole or not at all; return the files written.

    Parquet carries the record in its metadata (key ``sb3_greendc``, JSON); beside a CSV it is a JSON file.
    :param path: ends in one of :data:`FORMATS`
    :param table: a row per episode
    :param record: command, versions, commit, see :func:`~sb3_greendc.core.provenance.provenance`
    """
    check_path(path)
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

    :raises ValueError: if the file is no table of episodes; the message names it and what is missing
    :raises OSError: if it cannot be read
    """
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: must end in {' or '.join(FORMATS)}")
    table, record = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
    for column in COLUMNS:
        if column not in table.columns:
            hint = nearest(column, map(str, table.columns))
            raise ValueError(
                f"{path}: no column {column!r}{hint} (every table of episodes has {', '.join(COLUMNS)})"
            )
    if len(table) == 0:
        raise ValueError(f"{path}: no episodes")
    if "run" not in table.columns:
        table.insert(1, "run", 0)
    return table, record


def _read_csv(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    try:
        # Only empty cells are undefined: a policy may be called "None".
        table = pd.read_csv(path, dtype={"policy": str, "env_id": str}, na_values=[""], keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a CSV table: {error}") from error
    record = path.with_suffix(".json")
    if not record.is_file():
        return table, {}
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{record}: not valid JSON: {error}") from error
    return table, found if isinstance(found, dict) else {}


def _read_parquet(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    pyarrow = _pyarrow()
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        columns = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path}: not a Parquet table: {error}") from error
    found: dict[str, Any] = json.loads((columns.schema.metadata or {}).get(_RECORD, b"{}"))
    return columns.to_pandas(), found


def _pyarrow() -> ModuleType:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need PyArrow: pip install pyarrow") from error
    module: ModuleType = pyarrow
    return module
