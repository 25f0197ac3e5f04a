"""The results pages: what finished experiments wrote, copied and set claim by claim.

``python -m sb3_greendc.experiments.pages runs/reproduce docs/results`` copies tables, figures and records of
every experiment, and writes ``docs/results/README.md``.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sb3_greendc.core.files import atomic_write, write_json
from sb3_greendc.experiments.claims import BEST_OF_PAPER
from sb3_greendc.experiments.comparison import BEST_OF_ALL, VALUE
from sb3_greendc.experiments.experiment import Budget, unique_tasks
from sb3_greendc.experiments.registry import experiment_names, load_experiment
from sb3_greendc.experiments.runner import duration, estimate

INTRODUCTION = "introduction.txt"
"""Written by hand, beside the results: what stands before the first experiment."""

REMARKS = "remarks.json"
"""Written by hand: a sentence or more for an experiment, by its name."""

PRINTED = "printed, %"
CORES = 2
"""What the full budget' times are given for."""

ROOM = "bound over the papers' best, %"
"""Nobody's margin can be more than that."""


def publish(source: Path, target: Path) -> Path:
    """Copy results and write the page; return its path.

    Experiments that ``source`` lacks keep what ``target`` has of them.

    :param source: ``--out`` of ``scripts/reproduce.py``
    :param target: folder of the page
    """
    for name in experiment_names():
        record = source / name / "run.json"
        if record.is_file():
            _copy(source / name, target / name, json.loads(record.read_text(encoding="utf-8")))
    remarks = target / REMARKS
    said = json.loads(remarks.read_text(encoding="utf-8")) if remarks.is_file() else {}
    parts = [(target / INTRODUCTION).read_text(encoding="utf-8")] if (target / INTRODUCTION).is_file() else []
    done = [name for name in experiment_names() if (target / name / "run.json").is_file()]
    parts += [_headlines(target, done)]
    shown: dict[str, str] = {}
    parts += [_section(name, target / name, said.get(name, ""), shown) for name in done]
    parts += [_not_in_full(target, done)]
    missing = [name for name in experiment_names() if name not in done]
    if missing:
        parts.append(f"## Not run yet\n\n{', '.join(f'`{name}`' for name in missing)}\n")
    page = target / "README.md"
    with atomic_write(page) as file:
        file.write("\n".join(parts).encode())
    return page


def _copy(source: Path, target: Path, record: dict[str, Any]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    names = [f"{table}.csv" for table in record["tables"]] + [f"{fig}.png" for fig in record["figures"]]
    for name in names:
        shutil.copyfile(source / name, target / name)
    # Where the results lay is nobody's business: the command that repeats them.
    write_json(target / "run.json", {**record, "command": _command(record)})


def _command(record: dict[str, Any]) -> str:
    quick = " --quick" if record["budget"] == "quick" else ""
    given = [str(record["seeds"])] if record["seeds"] else []
    given += [shlex.quote(f"{name}={n}") for name, n in record.get("seeds_by_learner", {}).items()]
    seeds = f" --seeds {' '.join(given)}" if given else ""
    rollouts = " --rollouts" if record.get("rollouts") else ""
    return f"python scripts/reproduce.py {record['experiment']}{quick}{seeds}{rollouts}"


def _not_in_full(target: Path, done: Sequence[str]) -> str:
    """Return the table of the experiments that were not run in full, with the time that this would take."""
    rows = []
    for name in done:
        record = json.loads((target / name / "run.json").read_text(encoding="utf-8"))
        if record["budget"] == "full" and not record["seeds"]:
            continue
        tasks = unique_tasks(load_experiment(name).items(Budget()))
        takes = duration(estimate(tasks, CORES))
        rows.append({"experiment": f"`{name}`", "was run as": f"`{_command(record)}`", "in full": takes})
    if not rows:
        return ""
    said = f"The times on {CORES} cores are estimates; those of hours are why most were left."
    return "\n".join(["## Not run in full", "", said, "", markdown(pd.DataFrame(rows)), ""])


def _headlines(target: Path, done: Sequence[str]) -> str:
    """Return the table of all margins in value: a line for each point of each experiment.

    Experiments that have the papers' rivals alone, not all that do not learn, are left out.
    """
    tables: list[pd.DataFrame] = []
    for name in done:
        path = target / name / "comparison.csv"
        comparison = pd.read_csv(path) if path.is_file() else pd.DataFrame()
        if "metric" not in comparison or set(comparison["metric"]) != {VALUE}:
            continue
        if BEST_OF_ALL not in set(comparison["against"]):
            continue
        table = headlines(comparison)
        measured = table.drop(columns=PRINTED)
        if not any(measured.equals(other[measured.columns]) for other in tables):
            tables.append(table.assign(experiment=f"`{name}`"))
    if not tables:
        return ""
    table = pd.concat(tables)
    columns = ["experiment", *table.columns.drop("experiment")]
    return "\n".join(["## All margins", "", markdown(table[columns]), ""])


def headlines(comparison: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each point: the best learner's margins, over the papers' policies and over all."""
    found = []
    for (series, x), at in comparison.groupby(["series", "x"], sort=False):
        best = at["learner"].iloc[int(at["ours"].argmax())]
        ours = {str(row["against"]): row for _, row in at[at["learner"] == best].iterrows()}
        papers, others = ours[BEST_OF_PAPER], ours[BEST_OF_ALL]
        found.append(
            {
                "series": series,
                "point": x,
                "best learner": f"{papers['learner']} ({papers['seeds']})",
                PRINTED: _number(papers["printed_percent"]),
                "over the papers' best, %": _interval(papers),
                "over the best non-learning baseline, %": f"{_interval(others)} (`{others['form']}`)",
                "of the bound, %": _number(papers["percent_of_bound"]),
                ROOM: _number(papers["bound_percent"]),
            }
        )
    return pd.DataFrame(found)


def _section(name: str, folder: Path, remark: str, shown: dict[str, str]) -> str:
    """Return an experiment's part of the page: command, figure, margins beside the printed ones, remarks.

    :param name: of the experiment
    :param folder: of its results
    :param remark: what is said of it
    :param shown: tables that the page has already, with the experiment that they stand at; more are added
    """
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    commit, _, changed = (record["commit"] or "unknown").partition("-")
    minutes = record["core_seconds"] / 60
    lines = [
        f"## `{name}`: {record['title']}",
        "",
        f"{record['budget'].capitalize()} budget, {record['tasks']} tasks, {minutes:.0f} core minutes: "
        f"`{_command(record)}` (commit `{commit[:12]}`{' with changes' if changed else ''}, "
        f"{record['date'][:10]}).",
        "",
    ]
    lines += [f"![{name}]({name}/{figure}.png)\n" for figure in record["figures"]]
    if "comparison" in record["tables"]:
        table = margins(pd.read_csv(folder / "comparison.csv"))
        first = shown.setdefault(markdown(table.drop(columns=PRINTED, errors="ignore")), name)
        lines += [markdown(table) if first == name else f"The margins are those of `{first}`.", ""]
    else:
        lines += [markdown(_short(pd.read_csv(folder / "results.csv"))), ""]
    if "levels" in record["tables"]:
        lines += [markdown(_short(pd.read_csv(folder / "levels.csv"))), ""]
    lines += [remark, ""] if remark else []
    files = ", ".join(f"[`{table}.csv`]({name}/{table}.csv)" for table in record["tables"])
    return "\n".join([*lines, f"All figures: {files}.", ""])


def margins(comparison: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a comparison that pages show: the best of each kind of rival, printed margins."""
    if "margin_percent" not in comparison:
        return _short(comparison)
    kinds = comparison["against"].str.startswith("best")
    shown = comparison[kinds | comparison["printed_percent"].notna()]
    # Where no planner is better, the best non-learning baseline is the best heuristic, one row above.
    same = ["series", "x", "learner", "form"]
    again = (shown[same] == shown[same].shift()).all(axis=1) & shown["printed_percent"].isna()
    shown = shown[~again]
    return pd.DataFrame(
        {
            "series": shown["series"],
            "point": shown["x"],
            "learner": shown["learner"] + " (" + shown["seeds"].astype(str) + ")",
            "against": shown["against"] + " (`" + shown["form"] + "`)",
            PRINTED: shown["printed_percent"].map(_number),
            "ours, %": [_interval(row) for _, row in shown.iterrows()],
            "of the bound, %": shown["percent_of_bound"].map(_number),
            "bound, %": [_number(row.get("bound_percent")) for _, row in shown.iterrows()],
        }
    )


def _short(results: pd.DataFrame) -> pd.DataFrame:
    """Return a table of results in numbers that fit a page."""
    if "metric" in results:
        results = results.pivot_table(
            index=["series", "x", "policy"], columns="metric", values="estimate", sort=False
        ).reset_index()
    results = _with_intervals(results)
    written: pd.DataFrame = results.apply(
        lambda column: column.map(_number) if column.dtype.kind == "f" else column
    )
    return written


def _with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """Write each estimate ``NAME_percent`` with its ``NAME_low`` and ``NAME_high`` into one column."""
    for column in table.columns[table.columns.str.endswith("_percent")]:
        name = column.removesuffix("_percent")
        ends = [f"{name}_low", f"{name}_high"]
        if set(ends) <= set(table.columns):
            said = [_interval(row, column, *ends) for _, row in table.iterrows()]
            table = table.assign(**{column: said}).drop(columns=ends)
            table = table.rename(columns={column: f"{name}, %"})
    return table


def _interval(row: pd.Series, mean: str = "margin_percent", low: str = "low", high: str = "high") -> str:
    return f"{row[mean]:+.1f} [{row[low]:+.1f}, {row[high]:+.1f}]"


def _number(value: object) -> str:
    return "" if value is None or value != value else f"{value:.3g}"


def markdown(table: pd.DataFrame) -> str:
    """Return a table as Markdown."""
    heads = [str(column) for column in table.columns]
    rows = [[str(value) for value in row] for row in table.itertuples(index=False)]
    lines = [heads, ["-"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Publish results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args(argv)
    print(publish(options.source, options.target))


if __name__ == "__main__":
    main()
