"""Every printed number beside ours: as printed, at best, and the verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sb3_greendc.experiments.claims import CLAIMS, LEVEL, STATEMENT, VALUE, Claim
from sb3_greendc.experiments.episodes import PAPER
from sb3_greendc.experiments.statements import Found
from sb3_greendc.experiments.tasks import (
    ALL_WAITING,
    FIRST_SLOT,
    NO_OVERTAKING,
    PRINTED,
    name_of_log,
    without_form,
)
from sb3_greendc.experiments.text import number

_COLUMNS = {"margin_percent": "comparison", "level_percent": "levels"}
Point = tuple[str, Any]
"""A series, and a place on its axis."""
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
        "core hours of the experiment": _hours(folder),
    }


def _numbers(claim: Claim, folder: Path) -> tuple[str, str, str, str]:
    """Return our numbers beside a printed one, and the verdicts: as printed, at best."""
    as_printed, best = _ours(claim, folder, "level_percent" if claim.kind == LEVEL else "margin_percent")
    points = [*as_printed, *best]
    return (
        _beside_points({point: number(value) for point, value in as_printed.items()}, points),
        _verdicts(claim, as_printed, points),
        _beside_points({point: number(value) for point, value in best.items()}, points),
        _verdicts(claim, best, points),
    )


def _stated(claim: Claim, folder: Path) -> tuple[str, str, str, str]:
    """Return whether a statement holds, with our figures: as printed, at best."""
    if not folder.is_dir() or claim.check is None:
        return "", "", "", ""
    tables = {path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}
    as_printed, best = claim.check(tables, True), claim.check(tables, False)
    return (
        as_printed.text if as_printed else "",
        _said(claim, as_printed),
        best.text if best else "",
        _said(claim, best),
    )


def _said(claim: Claim, found: Found | None) -> str:
    """Return the verdict on a statement; on other data than the paper's it says so."""
    if found is None or not found.verdict:
        return ""
    return f"on {claim.why_not}: {found.verdict}" if claim.why_not else found.verdict


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


def _ours(claim: Claim, folder: Path, column: str) -> tuple[dict[Point, float], dict[Point, float]]:
    """Return by point what is as printed, and the best of the others.

    As printed are the paper's learner, against rivals that choose among all waiting jobs, and the levels of
    these rivals. The others' rivals are in their better form, or let no job overtake another, whichever earns
    more. Where the claim is about all policies, the lowest counts.
    """
    table = _read(folder, _COLUMNS[column])
    if column not in table:
        return {}, {}
    who, heuristic = ("learner", "against") if "learner" in table else ("policy", "policy")
    both_forms = {
        without_form(name)
        for name in table.get(heuristic, pd.Series(dtype=str)).dropna()
        if name.endswith(ALL_WAITING)
    }
    of_policy: dict[tuple[bool, Point, str], float] = {}
    of_several = min if claim.of_all else max
    for _, row in table.iterrows():
        about = (row["series"], row.get("x", ""), row.get("against", ""))
        what = (row.get("metric", VALUE), row.get("policy"))
        if row.get("kind") == "control" or not claim.covers(*about, *what):
            continue
        policy, rival = str(row.get(who, "")), str(row.get(heuristic, ""))
        is_printed = PRINTED in policy or (claim.of_heuristics and without_form(policy) in PAPER)
        other_form = without_form(rival) in both_forms and rival.endswith(ALL_WAITING) != is_printed
        if other_form or rival.endswith(FIRST_SLOT) or (is_printed and rival.endswith(NO_OVERTAKING)):
            continue
        of_one = claim.of_heuristics and not claim.of_all and is_printed
        series = f"{row['series']}, {without_form(policy)}" if of_one else str(row["series"])
        place = (is_printed, (series, row.get("x", "")), policy)
        value = float(row[column])
        of_policy[place] = min(of_policy.get(place, value), value)  # over the harder form of the rival
    found: tuple[dict[Point, float], dict[Point, float]] = ({}, {})
    for (is_printed, point, _), value in of_policy.items():
        into = found[0 if is_printed else 1]
        into[point] = of_several(into.get(point, value), value)
    return dict(sorted(found[0].items())), dict(sorted(found[1].items()))


def _read(folder: Path, name: str) -> pd.DataFrame:
    """Return a table of an experiment, empty if it has none of that name."""
    path = folder / f"{name}.csv"
    return pd.read_csv(path) if path.is_file() else pd.DataFrame()


def _verdicts(claim: Claim, ours: Mapping[Point, float], points: Sequence[Point]) -> str:
    """Return one verdict for all points, or one a point where they differ."""
    said = {point: claim.verdict(value) for point, value in ours.items()}
    return next(iter(said.values())) if len(set(said.values())) == 1 else _beside_points(said, points)


def _beside_points(said: Mapping[Point, str], points: Sequence[Point]) -> str:
    """Return what is said of points, each after its point.

    :param said: by series and point
    :param points: all of the line: a series or a point is named where there are several
    """
    n_series, n_places = (len({point[k] for point in points}) for k in (0, 1))
    parts = []
    for (series, x), what in said.items():
        place = f"{x:g}" if isinstance(x, int | float) else str(x)
        names = [name for name, n in ((name_of_log(series), n_series), (place, n_places)) if n > 1]
        parts.append(f"{', '.join(names)}: {what}" if names else what)
    return "; ".join(parts)


def _hours(folder: Path) -> str:
    record = folder / "run.json"
    if not record.is_file():
        return ""
    return f"{json.loads(record.read_text(encoding='utf-8'))['core_seconds'] / 3600:.2g}"
