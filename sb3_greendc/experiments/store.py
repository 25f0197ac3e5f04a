"""Finished tasks on disk: a folder each, whole or absent, shared by all experiments."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from sb3_greendc.core.files import sweep, temporary_folder, write_json
from sb3_greendc.core.provenance import provenance
from sb3_greendc.experiments.tasks import Files, Outcome, Task

RECORD = "task.json"


class Store:
    """A folder of finished tasks.

    :param root: the folder; created when the first task is stored
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, task: Task) -> Path:
        """Return the folder of a task, whether it is there or not."""
        slug = re.sub(r"[^a-z0-9]+", "-", task.title.lower()).strip("-")
        return self.root / f"{slug}-{task.key}"

    def has(self, task: Task) -> bool:
        """Tell whether a task is finished."""
        return (self.folder(task) / RECORD).is_file()

    def put(self, task: Task, outcome: Outcome) -> None:
        """Store an outcome; a reader, or an interruption, never sees a part of it."""
        sweep(self.root)
        with temporary_folder(self.root) as work:
            for name, table in outcome.tables.items():
                table.to_csv(work / f"{name}.csv", index=False)
            for name, content in outcome.files.items():
                (work / name).write_bytes(content)
            write_json(work / RECORD, {**task.describe(), "seconds": outcome.seconds, **provenance()})
            work.chmod(0o755)
            if not self.has(task):
                work.replace(self.folder(task))

    def table(self, task: Task, name: str) -> pd.DataFrame:
        """Return a table of a finished task; empty if it has none of this name."""
        path = self.folder(task) / f"{name}.csv"
        try:
            return pd.read_csv(path)
        except (FileNotFoundError, pd.errors.EmptyDataError):
            return pd.DataFrame()

    def files(self, task: Task) -> Files:
        """Return the files of a finished task, its tables and its record aside."""
        paths = [
            path for path in self.folder(task).iterdir() if path.suffix != ".csv" and path.name != RECORD
        ]
        return {path.name: path.read_bytes() for path in paths}

    def record(self, task: Task) -> dict[str, Any]:
        """Return the record of a finished task: its settings, versions, commit."""
        record: dict[str, Any] = json.loads((self.folder(task) / RECORD).read_text(encoding="utf-8"))
        return record
