"""One HTML file with tables, figures and the commands behind them, that needs nothing else to be read."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    :param figures: each with its caption
    """

    title: str
    text: str = ""
    tables: Sequence[pd.DataFrame] = ()
    figures: Sequence[tuple[Figure, str]] = ()


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
    body = [f"<h1>{html.escape(title)}</h1>", _lead(made_by)]
    body += [_section(section, lower_is_better) for section in sections]
    body.append(_provenance(sources, made_by))
    page = _PAGE.format(title=html.escape(title), style=_STYLE, body="\n".join(body))
    with atomic_write(path) as file:
        file.write(page.encode())


def summary_html(summary: pd.DataFrame, lower_is_better: frozenset[str] = LOWER_IS_BETTER) -> str:
    """Return a summary of one environment as an HTML table; the best estimate of each metric is bold."""
    metrics = [str(metric) for metric in summary["metric"].unique()]
    rows = {(row["policy"], row["metric"]): row for row in summary.to_dict("records")}
    best = {}
    for metric in metrics:
        estimates = summary[summary["metric"] == metric].set_index("policy")["estimate"].dropna()
        if len(estimates) > 1:
            best[metric] = estimates.min() if metric in lower_is_better else estimates.max()
    head = "".join(f"<th>{_column(metric, lower_is_better)}</th>" for metric in metrics)
    lines = [f'<div class="wide"><table><thead><tr><th class="name">policy</th>{head}</tr></thead><tbody>']
    for policy in summary["policy"].unique():
        cells = "".join(_cell(rows[policy, metric], best.get(metric)) for metric in metrics)
        runs = max(int(rows[policy, metric].get("runs", 1)) for metric in metrics)
        note = f' <span class="note">{runs} runs</span>' if runs > 1 else ""
        lines.append(f'<tr><th class="name">{html.escape(str(policy))}{note}</th>{cells}</tr>')
    return "\n".join([*lines, "</tbody></table></div>"])


def _section(section: Section, lower_is_better: frozenset[str]) -> str:
    parts = [f"<section><h2>{html.escape(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{html.escape(section.text)}</p>")
    for summary in section.tables:
        for env_id, of_env in summary.groupby("env_id", sort=False):
            parts.append(f"<h3>{html.escape(str(env_id))}</h3>")
            parts.append(summary_html(of_env, lower_is_better))
    for figure, caption in section.figures:
        parts.append(_figure(figure, caption))
    return "\n".join([*parts, "</section>"])


def _cell(row: Mapping[Any, Any], best: float | None) -> str:
    estimate = number(row["estimate"])
    if best is not None and row["estimate"] == best:
        estimate = f"<b>{estimate}</b>"
    lines = [estimate, f'<span class="note">{interval(row["low"], row["high"])}</span>']
    if "difference" in row and row["policy"] != row["reference"]:
        lines.append(f'<span class="delta">Δ {number(row["difference"])}</span>')
        ends = interval(row["difference_low"], row["difference_high"])
        lines.append(f'<span class="note">{ends}</span>')
    return f"<td>{'<br>'.join(lines)}</td>"


def _column(metric: str, lower_is_better: frozenset[str]) -> str:
    unit = UNITS.get(metric)
    words = html.escape(metric).replace("_", "_<wbr>") + arrow(metric, lower_is_better)
    return words if unit is None else f'{words}<br><span class="note">{html.escape(unit)}</span>'


def _figure(figure: Figure, caption: str) -> str:
    """Return a figure with its caption; as SVG it is sharp at every size."""
    file = io.BytesIO()
    with in_style():
        figure.savefig(file, format="svg", metadata={"Date": None})
    data = base64.b64encode(file.getvalue()).decode()
    text = html.escape(caption)
    picture = f'<img src="data:image/svg+xml;base64,{data}" alt="{text}">'
    return f"<figure>{picture}<figcaption>{text}</figcaption></figure>"


def _lead(made_by: Mapping[str, Any]) -> str:
    commit = made_by.get("commit") or "an installed package"
    said = f"{made_by['date'][:10]} · sb3-greendc {made_by['versions']['sb3-greendc']} · {commit}"
    return f'<p class="note">{html.escape(said)}</p>'


def _provenance(sources: Sequence[Source], made_by: Mapping[str, Any]) -> str:
    parts = ["<section><h2>How this was made</h2>"]
    for source in sources:
        parts.append(f"<h3>{html.escape(str(source.path))}</h3>")
        parts.append(_record(source.record))
    parts.append("<h3>This report</h3>")
    parts.append(_record(made_by))
    return "\n".join([*parts, "</section>"])


def _record(record: Mapping[str, Any]) -> str:
    if not record:
        return '<p class="note">No record lies beside this file: what made it is not known.</p>'
    parts = []
    if "command" in record:
        parts.append(f"<pre>{html.escape(str(record['command']))}</pre>")
    facts = [f"{key} {record[key]}" for key in ("date", "commit", "python") if record.get(key)]
    facts += [f"{package} {version}" for package, version in record.get("versions", {}).items()]
    if facts:
        parts.append(f'<p class="note">{html.escape(" · ".join(facts))}</p>')
    policies = record.get("policies", {})
    if policies:
        rows = "".join(
            f'<tr><th class="name">{html.escape(str(name))}</th>'
            f'<td class="left">{html.escape(", ".join(map(str, sources)))}</td></tr>'
            for name, sources in policies.items()
        )
        parts.append(f'<div class="wide"><table class="small"><tbody>{rows}</tbody></table></div>')
    return "\n".join(parts)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

_STYLE = """
:root { color-scheme: light; --ink: #1d2429; --grey: #6b757d; --line: #d9dee2; --green: #2e6b47; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif; }
main { max-width: 1020px; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem; padding-top: .8rem; border-top: 2px solid var(--green); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; overflow-wrap: anywhere; }
p { max-width: 46rem; margin: .4rem 0; }
.note { color: var(--grey); font-size: .82em; font-weight: 400; }
.delta { color: var(--green); font-size: .88em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums;
  margin: .3rem 0 1rem; }
thead th { border-bottom: 1.5px solid var(--ink); vertical-align: bottom; text-align: right;
  line-height: 1.25; }
th, td { padding: .3rem .7rem; }
td { text-align: right; white-space: nowrap; line-height: 1.3; }
td.left { text-align: left; white-space: normal; overflow-wrap: anywhere; }
th.name { text-align: left; font-weight: 600; }
tbody tr { border-bottom: 1px solid var(--line); vertical-align: top; }
table.small { font-size: .78rem; }
figure { margin: 1.2rem 0 1.8rem; }
img { width: 100%; height: auto; }
figcaption { color: var(--grey); font-size: .86rem; max-width: 46rem; }
pre { background: #f4f6f7; border-left: 3px solid var(--green); padding: .6rem .8rem; margin: .3rem 0;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; }
@media print { main { max-width: none; padding: 0; } figure, tr { break-inside: avoid; } }
"""
