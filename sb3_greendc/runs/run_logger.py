"""SB3's logger for runs that are interrupted and go on: the files continue as if nothing had happened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import (
    CSVOutputFormat,
    KVWriter,
    Logger,
    TensorBoardOutputFormat,
    filter_excluded_keys,
    make_output_format,
)

LOGS = ("progress.csv", "events.out.tfevents.*")
"""What it writes into the folder."""
_ITERATIONS = "time/iterations"


class _SortedCSV(CSVOutputFormat):
    """SB3's ``progress.csv`` with new columns in the order of their names; there it is that of a set."""

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        new = sorted(filter_excluded_keys(key_values, key_excluded, "csv").keys() - set(self.keys))
        if new:
            rows = _read_csv(self).splitlines()[1:]
            header = self.separator.join([*self.keys, *new])
            lines = [header, *(row + self.separator * len(new) for row in rows)]
            _write_csv(self, "".join(f"{line}\n" for line in lines))
        super().write(key_values, key_excluded, step)


class RunLogger(Logger):
    """Logs to files in a run's folder; its state goes into checkpoints.

    The state holds the text of ``progress.csv``. SB3 rewrites that file whenever a new column appears, so
    its length at the time of the checkpoint would not do, and a killed process may leave half of it. For
    TensorBoard, what was logged after the checkpoint is marked to be ignored.

    :param folder: where the files are written
    :param formats: SB3's: ``csv``, ``stdout``, ``tensorboard``
    :param resumed_at: environment steps at the checkpoint that the run goes on from, ``None`` for a new run.
        After a checkpoint, :meth:`load_state_dict` must be called before anything is logged.
    """

    def __init__(self, folder: Path, formats: Sequence[str], resumed_at: int | None = None) -> None:
        writers: list[KVWriter] = [
            make_output_format(name, str(folder))
            if name != "csv"
            else _SortedCSV(str(folder / "progress.csv"))
            for name in formats
        ]
        if resumed_at is not None:
            for writer in writers:
                if isinstance(writer, TensorBoardOutputFormat):
                    _purge_after(writer, str(folder), resumed_at)
        super().__init__(str(folder), writers)
        self._iterations = 0
        self._iterations_before = 0

    def record(self, key: str, value: Any, exclude: str | tuple[str, ...] | None = None) -> None:
        """Log a value; see SB3. The count of iterations, which ``learn`` resets, goes on."""
        if key == _ITERATIONS:
            value = self._iterations = value + self._iterations_before
        super().record(key, value, exclude)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must hold: values that wait for the next dump, and ``progress.csv``."""
        return {
            "values": dict(self.name_to_value),
            "counts": dict(self.name_to_count),
            "excluded": dict(self.name_to_excluded),
            "iterations": self._iterations,
            "csv": [_read_csv(writer) for writer in self._csv_writers()],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        for mine, theirs in (
            (self.name_to_value, state["values"]),
            (self.name_to_count, state["counts"]),
            (self.name_to_excluded, state["excluded"]),
        ):
            mine.clear()
            mine.update(theirs)
        self._iterations = self._iterations_before = state["iterations"]
        for writer, text in zip(self._csv_writers(), state["csv"], strict=True):
            _write_csv(writer, text)

    def _csv_writers(self) -> list[CSVOutputFormat]:
        return [writer for writer in self.output_formats if isinstance(writer, CSVOutputFormat)]


def _read_csv(writer: CSVOutputFormat) -> str:
    writer.file.seek(0)
    return writer.file.read()  # which leaves the position at the end, where the next row belongs


def _write_csv(writer: CSVOutputFormat, text: str) -> None:
    writer.file.seek(0)
    writer.file.truncate()
    writer.file.write(text)
    writer.file.flush()
    header = text.partition("\n")[0]
    writer.keys = header.split(writer.separator) if header else []


def _purge_after(writer: KVWriter, folder: str, step: int) -> None:
    from torch.utils.tensorboard import SummaryWriter

    assert isinstance(writer, TensorBoardOutputFormat)
    writer.writer.close()
    writer.writer = SummaryWriter(log_dir=folder, purge_step=step + 1)
