"""Every printed number beside ours: as printed, at best, and the verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from sb3_greendc.experiments.claims import CLAIMS, LEVEL, STATEMENT, VALUE, Claim
from sb3_greendc.experiments.tasks import PRINTED
from sb3_greendc.experiments.text import number

_COLUMNS = {"margin_percent": "comparison", "level_percent": "levels"}
_OURS = ("ours as printed, %", "verdict", "ours at best, %", "verdict at best")


def claims_table(folder: Path, commands: Mapping[str, str]) -> pd.DataFrame:
    """Return a row for each claim and experiment that repeats it.

    :param folder: of the results, a folder in it for each experiment
    :param commands: what made the results of each experiment that was run
    """
    return pd.DataFrame(
        _row(claim, name, folder / name, commands.get(name, ""))
        for claim in CLAIMS
        for name in claim.experiments
    )


def _row(claim: Claim, name: str, folder: Path, command: str) -> dict[str, str]:
    ours = _stated(claim, folder) if claim.kind == STATEMENT else _numbers(claim, folder)
    return {
        "printed in": claim.source,
        "about": _about(claim),
        "printed, %": claim.printed,
        **dict(zip(_OURS, ours, strict=True)),
        "command": f"`{command}`" if command else f"`{name}`: not run",
        "core hours": _hours(folder),
    }


def _numbers(claim: Claim, folder: Path) -> tuple[str, str, str, str]:
    """Return our numbers beside a printed one, and the verdicts: as printed, at best."""
    as_printed, best = _ours(claim, folder, "level_percent" if claim.kind == LEVEL else "margin_percent")
    points = list(dict.fromkeys([*as_printed, *best]))
    return (
        "; ".join(number(as_printed[x]) for x in points if x in as_printed),
        _verdicts(claim, as_printed),
        "; ".join(number(best[x]) for x in points if x in best),
        _verdicts(claim, best),
    )


def _stated(claim: Claim, folder: Path) -> tuple[str, str, str, str]:
    """Return whether a statement holds, with our figures: as printed, at best."""
    if not folder.is_dir() or claim.check is None:
        return "", "", "", ""
    tables = {path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}
    as_printed, best = claim.check(tables, True), claim.check(tables, False)
    return (
        as_printed.text if as_printed else "",
        as_printed.verdict if as_printed else "",
        best.text if best else "",
        best.verdict if best else "",
    )


def _about(claim: Claim) -> str:
    points = ", ".join(f"{point:g}" if isinstance(point, int | float) else point for point in claim.points)
    parts = [
        claim.series,
        points,
        f"over {claim.rival}" if claim.rival else "",
        "" if claim.kind == STATEMENT else claim.says,
    ]
    metric = claim.metric.replace("_", " ") if claim.metric != VALUE else ""
    return "; ".join(part for part in (*parts, metric) if part)


def _ours(claim: Claim, folder: Path, column: str) -> tuple[dict[Any, float], dict[Any, float]]:
    """Return by point what the paper's learner earns as printed, and the best of the others."""
    table = _read(folder, _COLUMNS[column])
    if column not in table:
        return {}, {}
    who = "learner" if "learner" in table else "policy"
    as_printed: dict[Any, float] = {}
    best: dict[Any, float] = {}
    for _, row in table.iterrows():
        about = (row["series"], row.get("x", ""), row.get("against", ""))
        what = (row.get("metric", VALUE), row.get("policy"))
        if row.get("kind") == "control" or not claim.covers(*about, *what):
            continue
        point = (row["series"], row.get("x", ""))
        into = as_printed if PRINTED in str(row.get(who, "")) else best
        into[point] = max(into.get(point, float("-inf")), float(row[column]))
    return as_printed, best


def _read(folder: Path, name: str) -> pd.DataFrame:
    """Return a table of an experiment, empty if it has none of that name."""
    path = folder / f"{name}.csv"
    return pd.read_csv(path) if path.is_file() else pd.DataFrame()


def _verdicts(claim: Claim, ours: Mapping[object, float]) -> str:
    """Return one verdict for all points, or one a point where they differ."""
    said = [claim.verdict(value) for value in ours.values()]
    return said[0] if len(set(said)) == 1 else "; ".join(said)


def _hours(folder: Path) -> str:
    record = folder / "run.json"
    if not record.is_file():
        return ""
    return f"{json.loads(record.read_text(encoding='utf-8'))['core_seconds'] / 3600:.2g}"
