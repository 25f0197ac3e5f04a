"""Training logs (``progress.csv``) of several runs, brought to common steps."""

from __future__ import annotations

import glob
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from greendc.config import nearest
from greendc.traces.table_reader import MISSING, read_table
from greendc.traces.trace_files import read_file
from sb3_greendc.evaluation.statistics import draw_counts
from sb3_greendc.runs.models import RUN_FILE, read_run

PROGRESS_FILE = "progress.csv"
STEPS = "time/total_timesteps"
COST = "rollout/ep_cost_mean"
MULTIPLIER = "train/lagrange_multiplier"
REWARD = "rollout/ep_rew_mean"

_POINTS = 200
_RESAMPLES = 2_000


@dataclass(frozen=True)
class TrainingRun:
    """The log of one run.

    :param path: of the log
    :param table: its rows
    :param record: what ``run.json`` beside it says, empty where there is none
    """

    path: Path
    table: pd.DataFrame
    record: dict[str, Any]

    @property
    def cost_limit(self) -> float | None:
        """The limit that the run was trained under; ``None`` if it had none.

        :raises ValueError: if the record has something else than a number in its place
        """
        limit = self.record.get("hyperparameters", {}).get("cost_limit")
        try:
            return None if limit is None or math.isinf(float(limit)) else float(limit)
        except (TypeError, ValueError) as error:
            record = self.path.parent / RUN_FILE
            raise ValueError(f"{record}: cost_limit={limit!r}: must be a number") from error


@dataclass(frozen=True)
class Curve:
    """A logged quantity over training, of several runs.

    :param steps: ``(k,)`` environment steps, from the latest first entry of a run to the earliest last one
    :param each: ``(runs, k)`` the quantity, interpolated
    :param mean: ``(k,)`` over the runs
    :param low: ``(k,)`` lower end of the 95 % interval over runs; the mean for a single run
    :param high: ``(k,)`` upper end
    """

    steps: NDArray[np.float64]
    each: NDArray[np.float64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def read_runs(pattern: str) -> list[TrainingRun]:
    """Read the logs that a pattern fits: ``progress.csv`` files, or folders that hold one.

    :param pattern: a path, with ``*``, ``?`` or ``[...]`` for several
    :raises ValueError: if there is none, or one cannot be read; the message names it
    """
    path = Path(pattern)  # which may have brackets in its name
    found = [path] if path.exists() else [Path(match) for match in sorted(glob.glob(pattern))]
    files = [path / PROGRESS_FILE if path.is_dir() else path for path in found]
    files = [path for path in files if path.is_file()]
    if not files:
        raise ValueError(
            f"progress {pattern}: none there; must fit {PROGRESS_FILE} files, or folders with one"
        )
    return [_read(path) for path in files]


def curve(runs: Sequence[TrainingRun], column: str) -> Curve:
    """Return a column over training: its mean over runs, with a percentile bootstrap interval over runs.

    :param runs: of one algorithm
    :param column: of their logs
    :raises ValueError: if a log lacks the column or has no value in it, or the runs have no common steps
    """
    points = [_points(run, column) for run in runs]
    first, last = max(steps[0] for steps, _ in points), min(steps[-1] for steps, _ in points)
    if first > last:
        raise ValueError(f"{column}: the runs have no steps in common ({runs[0].path}, ...)")
    grid = np.linspace(first, last, _POINTS)
    each = np.array([np.interp(grid, steps, values) for steps, values in points])
    drawn = draw_counts(np.random.default_rng(0), len(runs), _RESAMPLES) @ each / len(runs)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return Curve(grid, each, each.mean(axis=0), low, high)


def _points(run: TrainingRun, column: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if column not in run.table.columns:
        known = list(map(str, run.table.columns))
        raise ValueError(
            f"{run.path}: no column {column!r}{nearest(column, known)} (it has {', '.join(known)})"
        )
    rows = run.table[[STEPS, column]].apply(pd.to_numeric, errors="coerce").dropna().sort_values(STEPS)
    if len(rows) == 0:
        raise ValueError(f"{run.path}: column {column!r} has no numbers")
    return rows[STEPS].to_numpy(dtype=np.float64), rows[column].to_numpy(dtype=np.float64)


def _read(path: Path) -> TrainingRun:
    data = read_file(path)
    data = data[: data.rfind(b"\n") + 1] or data  # a last line without an end is still being written
    cells = read_table(data, str(path))
    if STEPS not in cells.columns:
        raise ValueError(f"{path}: no column {STEPS!r}; it must be a log of SB3's, {PROGRESS_FILE}")
    table = cells.guess(missing=MISSING)
    return TrainingRun(path, table, read_run(path.parent))
