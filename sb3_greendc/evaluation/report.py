"""One HTML file with tables, figures and the commands behind them, that needs nothing else to be read.

The page is the template ``report.html`` beside this module. Here are the values that it shows.
"""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.core.files import atomic_write
from sb3_greendc.evaluation.metrics import LOWER_IS_BETTER, UNITS
from sb3_greendc.evaluation.plots import arrow, in_style
from sb3_greendc.evaluation.tables import interval, number


@dataclass(frozen=True)
class Section:
    """A part of a report.

    :param title: its heading
    :param text: what to know about it, in plain sentences
    :param tables: summaries, see :func:`~sb3_greendc.evaluation.statistics.summarize`
    :param unit: of all metrics of the summaries, in place of their own
    :param figures: each with its caption
    :param points: a list, below the text
    :param frames: tables that are shown cell by cell as they are
    :param code: lines of commands, at the end
    """

    title: str
    text: str = ""
    tables: Sequence[pd.DataFrame] = ()
    figures: Sequence[tuple[Figure, str]] = ()
    points: Sequence[str] = ()
    frames: Sequence[pd.DataFrame] = ()
    code: Sequence[str] = ()
    unit: str | None = None


@dataclass(frozen=True)
class Source:
    """A file that a report rests on.

    :param path: as it was given
    :param record: of the command that made it, empty where there is none
    """

    path: Path
    record: Mapping[str, Any] = field(default_factory=dict)


def write_report(
    path: Path,
    title: str,
    sections: Sequence[Section],
    sources: Sequence[Source],
    made_by: Mapping[str, Any],
    lower_is_better: frozenset[str] = LOWER_IS_BETTER,
) -> None:
    """Write a report, whole or not at all.

    :param path: of the HTML file
    :param title: its heading
    :param sections: its contents
    :param sources: the files it rests on, with their records
    :param made_by: record of the command that writes it
    :param lower_is_better: metrics of which less is better
    """
    shown = [
        {
            "title": section.title,
            "text": section.text,
            "tables": [
                table
                for summary in section.tables
                for table in _tables(summary, lower_is_better, section.unit)
            ],
            "points": list(section.points),
            "frames": [_frame(frame) for frame in section.frames],
            "code": "\n".join(section.code),
            "figures": [{"svg": _svg(figure), "caption": caption} for figure, caption in section.figures],
        }
        for section in sections
    ]
    version, commit = made_by["versions"]["sb3-greendc"], made_by.get("commit")
    lead = f"{made_by['date'][:10]} · sb3-greendc {version} · {commit or 'an installed package'}"
    records = [_record(str(source.path), source.record) for source in sources]
    records.append(_record("This report", made_by))
    page = _template().render(title=title, lead=lead, sections=shown, sources=records)
    with atomic_write(path) as file:
        file.write(page.encode())


@functools.cache
def _template() -> jinja2.Template:
    """Return the page. It escapes whatever it is given; a value that is missing is an error."""
    loader = jinja2.PackageLoader("sb3_greendc.evaluation", "")
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template("report.html")


def _tables(
    summary: pd.DataFrame, lower_is_better: frozenset[str], unit: str | None
) -> Iterator[dict[str, Any]]:
    """Yield a table for each environment of a summary: a row per policy, a column per metric."""
    for env_id, of_env in summary.groupby("env_id", sort=False):
        metrics = [str(metric) for metric in of_env["metric"].unique()]
        best = {}
        for metric in metrics:
            estimates = of_env[of_env["metric"] == metric]["estimate"].dropna()
            if len(estimates) > 1:
                best[metric] = estimates.min() if metric in lower_is_better else estimates.max()
        rows = []
        for policy, of_policy in of_env.groupby("policy", sort=False):
            found = {str(row["metric"]): row for row in of_policy.to_dict("records")}
            cells = [_cell(found[metric], best.get(metric)) for metric in metrics]
            runs = max(int(row.get("runs", 1)) for row in found.values())
            rows.append({"policy": policy, "runs": runs, "cells": cells})
        columns = [
            {"name": metric, "arrow": arrow(metric, lower_is_better), "unit": unit or UNITS.get(metric)}
            for metric in metrics
        ]
        yield {"env_id": env_id, "columns": columns, "rows": rows}


def _frame(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a table of cells; those of numbers, given as numbers or as text, stand to the right."""
    cells = [[str(value) for value in row] for row in frame.itertuples(index=False)]
    right = [all(_is_number(row[k]) for row in cells) for k in range(len(frame.columns))]
    return {"columns": [str(column) for column in frame.columns], "rows": cells, "right": right}


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", ""))
    except ValueError:
        return False
    return True


def _cell(row: Mapping[Any, Any], best: float | None) -> dict[str, Any]:
    """Return an estimate and its interval as text, and the paired difference to the reference, if any."""
    cell = {
        "estimate": number(row["estimate"]),
        "interval": interval(row["low"], row["high"]),
        "best": best is not None and row["estimate"] == best,
        "difference": None,
    }
    if "difference" in row and row["policy"] != row["reference"]:
        ends = interval(row["difference_low"], row["difference_high"])
        cell |= {"difference": number(row["difference"]), "difference_interval": ends}
    return cell


def _svg(figure: Figure) -> str:
    """Return a figure in base 64; as SVG it is sharp at every size."""
    file = io.BytesIO()
    with in_style():
        figure.savefig(file, format="svg", metadata={"Date": None})
    return base64.b64encode(file.getvalue()).decode()


def _record(title: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of a file's record: command, versions, and where its policies come from."""
    facts = [f"{key} {record[key]}" for key in ("date", "commit", "python") if record.get(key)]
    facts += [f"{package} {version}" for package, version in record.get("versions", {}).items()]
    if not record:
        facts = ["No record lies beside this file: what made it is not known."]
    policies = {name: list(map(str, sources)) for name, sources in record.get("policies", {}).items()}
    return {"title": title, "command": record.get("command"), "facts": facts, "policies": policies}
