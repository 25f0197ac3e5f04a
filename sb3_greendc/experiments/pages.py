"""The results pages: what finished experiments wrote, copied and set claim by claim.

``python -m sb3_greendc.experiments.pages runs/reproduce docs/results`` copies tables, figures and records of
every experiment, and writes the front page ``README.md`` and one page for each paper.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sb3_greendc.core.files import atomic_write, write_json
from sb3_greendc.core.progress import duration
from sb3_greendc.experiments.claims import BEST_OF_PAPER, beside
from sb3_greendc.experiments.comparison import BEST_MASKED, BEST_OF_ALL, VALUE
from sb3_greendc.experiments.controls import CONTROLS
from sb3_greendc.experiments.experiment import Budget, unique_tasks
from sb3_greendc.experiments.known.installed import LEFT_OUT, as_if_installed
from sb3_greendc.experiments.printed_table import claims_table
from sb3_greendc.experiments.registry import experiment_names, load_experiment
from sb3_greendc.experiments.runner import estimate
from sb3_greendc.experiments.tasks import ALL_WAITING, FIRST_SLOT, NO_OVERTAKING
from sb3_greendc.experiments.tasks import PRINTED as PRINTED_LEARNER
from sb3_greendc.experiments.text import interval, markdown, number

INTRODUCTION = "introduction.txt"
"""Written by hand, beside the results: what stands before the first table."""

REMARKS = "remarks.json"
"""Written by hand: a sentence or more for an experiment, by its name."""

PAPERS = {
    "rare": "RARE",
    "sc20": "SC20",
    "cocorl": "CoCoRL",
    "vcc": "SustainGym's DatacenterEnv",
    "": "Beyond the papers",
}
"""Pages by the beginning of their experiments' names; the last one has the rest."""

FRONT = ("what-earns-the-margin", "as-printed")
"""Experiments of the front page: they are about all papers."""

_WHOLE = (
    "The paper's learner as printed, with its whole budget at one of the paper's points, stands on the "
    "[front page](README.md). The tables below have it first where it was run, mostly with a small budget.\n"
)
WHOLE_BUDGETS = {PAPERS[start]: _WHOLE for start in ("rare", "sc20", "cocorl")}
"""By title, what stands first on the pages of the papers that have a learner."""

PRINTED = "printed, %"
CORES = 2
"""What the full budgets' times are given for."""

ON_ALL = "over the papers' best, all waiting jobs, %"
IN_ORDER = "over the papers' best, no overtaking, %"
ROOM = "bound over the papers' best, %"
"""No policy's margin can be more than that."""


def publish(source: Path, target: Path) -> Path:
    """Copy results and write the pages; return the front page's path.

    Experiments that ``source`` lacks keep what ``target`` has of them.

    :param source: ``--out`` of ``scripts/reproduce.py``
    :param target: folder of the pages
    """
    for name in experiment_names():
        record = source / name / "run.json"
        if record.is_file():
            _copy(source / name, target / name, json.loads(record.read_text(encoding="utf-8")))
    done = [name for name in experiment_names() if (target / name / "run.json").is_file()]
    remarks = target / REMARKS
    said = json.loads(remarks.read_text(encoding="utf-8")) if remarks.is_file() else {}
    for start, title in PAPERS.items():
        names = [name for name in done if page_of(name) == start and name not in FRONT]
        _write(target / page_name(start), _paper_page(title, names, target, said))
    page = target / "README.md"
    _write(page, _front_page(target, done, said))
    return page


def page_of(experiment: str) -> str:
    """Return which of :data:`PAPERS` an experiment belongs to."""
    return next(start for start in PAPERS if experiment.startswith(start))


def page_name(start: str) -> str:
    """Return the file name of a paper's page."""
    return f"{start or 'beyond'}.md"


def _write(path: Path, parts: Sequence[str]) -> None:
    with atomic_write(path) as file:
        file.write("\n".join(part for part in parts if part).encode())


def _front_page(target: Path, done: Sequence[str], said: dict[str, str]) -> list[str]:
    """Return introduction, all papers together, every printed number, all margins, and what was not run."""
    introduction = target / INTRODUCTION
    parts = [introduction.read_text(encoding="utf-8")] if introduction.is_file() else []
    parts += [_section(name, target / name, said.get(name, ""), {}) for name in FRONT if name in done]
    commands = {name: _command(_record(target, name)) for name in done}
    table = claims_table(target, commands)
    parts.append("\n".join(["## Every printed number", "", CLAIMS_SAID, "", markdown(table), ""]))
    linked = [f"- [{title}]({page_name(start)})" for start, title in PAPERS.items()]
    parts.append("\n".join(["## Figure by figure", "", *linked, ""]))
    parts += [_headlines(target, done), _not_in_full(target, done)]
    missing = [name for name in experiment_names() if name not in done]
    if missing:
        parts.append(f"## Not run yet\n\n{', '.join(f'`{name}`' for name in missing)}\n")
    return parts


CLAIMS_SAID = (
    "Numbers are per cent over the named baseline unless the line says otherwise. Semicolons separate "
    'points. "As printed" is the paper\'s own learner as the paper describes it. An empty cell was not '
    "run. The paper's learner is compared with heuristics that choose among all waiting jobs, our best "
    "with the hardest of their forms: among all waiting jobs, among the ready pool, or without "
    "overtaking. The verdict compares our mean with both printed ends; a single number is met by what "
    "rounds to it. For a statement without a number the cell has our figures, each after its point, and "
    "the verdict says whether it holds: with the 95 % intervals where margins, or two learners, are "
    "compared, by means elsewhere, and within 10 % where something is close, alike or converged. A "
    "statement about the end of training has no verdict where ours stopped before the paper's; a verdict "
    "on a number is of the decisions that the section gives."
)


def _paper_page(title: str, names: Sequence[str], target: Path, said: dict[str, str]) -> list[str]:
    shown: dict[str, str] = {}
    sections = [_section(name, target / name, said.get(name, ""), shown) for name in names]
    head = "[All results](README.md); [how it is done](../reproduce.md).\n"
    return [f"# {title}\n", head, WHOLE_BUDGETS.get(title, ""), *sections]


def _record(target: Path, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((target / name / "run.json").read_text(encoding="utf-8"))
    return record


def _copy(source: Path, target: Path, record: dict[str, Any]) -> None:
    """Copy an experiment's files; where one is missing, what was published stays as it is."""
    names = [f"{table}.csv" for table in record["tables"]] + [f"{fig}.png" for fig in record["figures"]]
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        for name in names:
            shutil.copyfile(source / name, Path(folder) / name)
        # The command that repeats them, without the folders that they lay in.
        write_json(Path(folder) / "run.json", {**record, "command": _command(record)})
        for old in target.iterdir():
            old.unlink()
        for new in Path(folder).iterdir():
            new.replace(target / new.name)


def _command(record: dict[str, Any]) -> str:
    quick = " --quick" if record["budget"] == "quick" else ""
    given = [str(record["seeds"])] if record["seeds"] else []
    given += [shlex.quote(f"{name}={n}") for name, n in record.get("seeds_by_learner", {}).items()]
    seeds = f" --seeds {' '.join(given)}" if given else ""
    judged = record.get("test_episodes")
    episodes = f" --test-episodes {judged}" if judged else ""
    rollouts = " --rollouts" if record.get("rollouts") else ""
    named = [shlex.quote(name) for name in record.get("problems", [])]
    problems = f" --problems {' '.join(named)}" if named else ""
    device = record.get("device", "cpu")
    trained_on = f" --device {device}" if device != "cpu" else ""
    job_log = " --job-log PATH" if record.get("job_log") else ""
    google = " --google FOLDER" if record.get("google") else ""
    weather = " --weather FILE FILE" if record.get("weather") else ""
    options = quick + seeds + episodes + problems + rollouts + trained_on + job_log + weather + google
    return f"python scripts/reproduce.py {record['experiment']}{options}"


def _not_in_full(target: Path, done: Sequence[str]) -> str:
    """Return the table of the experiments that were not run in full, with the time that this would take.

    All problems count, also those whose packages are not installed here.
    """
    rows = []
    for name in done:
        record = _record(target, name)
        run = Budget(seeds=record["seeds"], problems=tuple(record.get("problems", ())))
        experiment = load_experiment(name)
        with as_if_installed():
            tasks = unique_tasks(experiment.items(Budget()))
            whole = unique_tasks(experiment.items(run)) == tasks
            takes = duration(estimate(tasks, CORES))
        whole &= not any(note.startswith(LEFT_OUT) for note in record.get("notes", ()))
        if record["budget"] == "full" and whole:
            continue
        rows.append({"experiment": f"`{name}`", "was run as": f"`{_command(record)}`", "in full": takes})
    if not rows:
        return ""
    said = (
        f"The times on {CORES} cores are estimates for all problems of an experiment, of RLScheduler's "
        "sequences for generated jobs alone; those of hours are why "
        "most were left."
    )
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
        table = headlines(beside(name, comparison))
        measured = table.drop(columns=PRINTED)
        if not any(measured.equals(other.drop(columns=["experiment", PRINTED])) for other in tables):
            tables.append(table.assign(experiment=f"`{name}`"))
    if not tables:
        return ""
    table = pd.concat(tables).fillna("")
    columns = ["experiment", *table.columns.drop("experiment")]
    return "\n".join(["## All margins", "", markdown(table[columns]), ""])


def headlines(comparison: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each point: the best learner's margins, and those of chance under its mask."""
    found = []
    learners, controls = _kinds(comparison)
    for (series, x), at in learners.groupby(["series", "x"], sort=False):
        best = at["learner"].iloc[int(at["ours"].argmax())]
        ours = {str(row["against"]): row for _, row in at[at["learner"] == best].iterrows()}
        papers, others = ours[BEST_OF_PAPER], ours[BEST_OF_ALL]
        at_point = controls[(controls["series"] == series) & (controls["x"] == x)]
        here = {str(row["learner"]): row for _, row in at_point.iterrows() if row["against"] == BEST_OF_PAPER}
        chance = {name: interval(here[name]) for name in (*CONTROLS, BEST_MASKED) if name in here}
        forms = {ON_ALL: ALL_WAITING, IN_ORDER: NO_OVERTAKING}
        found.append(
            {
                "series": series,
                "point": x,
                "best learner": f"{papers['learner']} ({papers['seeds']})",
                PRINTED: _printed(papers),
                "over the papers' best, %": interval(papers),
                **{head: _over(ours.get(BEST_OF_PAPER + form)) for head, form in forms.items()},
                **{f"{name}, %": said for name, said in chance.items()},
                "over the best non-learning baseline, %": f"{interval(others)} (`{others['form']}`)",
                "of the bound, %": number(papers["percent_of_bound"]),
                ROOM: number(papers["bound_percent"]),
            }
        )
    return pd.DataFrame(found)


def _over(row: pd.Series | None) -> str:
    """Return a margin with its interval; empty where the rival was not run."""
    return "" if row is None else interval(row)


def _kinds(comparison: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of learners and those of controls."""
    control = comparison["kind"] == "control"
    return comparison[~control], comparison[control]


def _section(name: str, folder: Path, remark: str, shown: dict[str, str]) -> str:
    """Return an experiment's part of a page: command, figure, margins beside the printed ones, remarks.

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
    levels = _table(folder, "levels")
    if "level_percent" in levels:
        levels = _levels(beside(name, levels, "level_percent"))
    comparison = _table(folder, "comparison")
    if len(comparison):
        comparison = comparison.rename(columns={"gain_percent": "margin_percent"})
        with_printed = "margin_percent" in comparison
        table = margins(beside(name, comparison) if with_printed else comparison)
        known = table.drop(columns=[PRINTED, "verdict"], errors="ignore")
        first = shown.setdefault(markdown(known), name)
        lines += [markdown(table) if first == name else f"The margins are those of `{first}`.", ""]
    elif not len(levels):
        lines += [markdown(short(_table(folder, "results"))), ""]
    lines += [markdown(levels), ""] if len(levels) else []
    lines += [f"- {note}" for note in record["notes"]] + [""] if record["notes"] else []
    lines += [remark, ""] if remark else []
    files = ", ".join(f"[`{table}.csv`]({name}/{table}.csv)" for table in record["tables"])
    return "\n".join([*lines, f"All figures: {files}.", ""])


def _table(folder: Path, name: str) -> pd.DataFrame:
    path = folder / f"{name}.csv"
    return pd.read_csv(path) if path.is_file() else pd.DataFrame()


def _levels(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table of levels that the paper prints a number for."""
    printed = table[table["printed_low"].notna()]
    columns = [name for name in ("series", "x", "policy") if name in printed and printed[name].notna().any()]
    return pd.DataFrame(
        {
            **{name: printed[name] for name in columns},
            PRINTED: [_printed(row) for _, row in printed.iterrows()],
            "ours, %": printed["level_percent"].map(number),
            "verdict": printed["verdict"],
        }
    )


def margins(comparison: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that pages show: over the papers' best, over the best of all, and printed ones.

    Heuristics that take the first free slot stand beside the papers' learners, who do so, alone.
    """
    if "margin_percent" not in comparison or "form" not in comparison:
        return _by_rival(comparison) if {"ours", "theirs"} <= set(comparison) else short(comparison)
    printed = comparison["printed_low"].notna() if "printed_low" in comparison else comparison["form"].isna()
    kinds = comparison["against"].isin((BEST_OF_PAPER, BEST_OF_ALL))
    theirs = comparison["learner"].str.contains(PRINTED_LEARNER, regex=False)
    shown = comparison[(kinds | printed) & (theirs | ~comparison["against"].str.endswith(FIRST_SLOT))]
    # The best of the papers' may be the rival of a printed margin, one row above.
    same = ["series", "x", "learner", "form"]
    again = (shown[same] == shown[same].shift()).all(axis=1) & ~printed[shown.index]
    shown = shown[~again]
    return pd.DataFrame(
        {
            "series": shown["series"],
            "point": shown["x"],
            "learner": [_named(row) for _, row in shown.iterrows()],
            "against": shown["against"] + " (`" + shown["form"] + "`)",
            PRINTED: [_printed(row) for _, row in shown.iterrows()],
            "ours, %": [interval(row) for _, row in shown.iterrows()],
            "verdict": shown["verdict"].fillna("") if "verdict" in shown else "",
            "of the bound, %": shown["percent_of_bound"].map(number),
            "bound, %": [number(row.get("bound_percent")) for _, row in shown.iterrows()],
        }
    )


def _by_rival(comparison: pd.DataFrame) -> pd.DataFrame:
    """Return what each learner costs, and its margin over each rival in a column."""
    points = comparison.assign(
        learner=[_named(row) for _, row in comparison.iterrows()],
        cost=comparison["ours"].map(number),
        margin=[interval(row) for _, row in comparison.iterrows()],
        against="over " + comparison["against"] + ", %",
    )
    index = ["series", "x", "learner", "cost"]
    table = points.pivot_table(index=index, columns="against", values="margin", aggfunc="first", sort=False)
    return table.reset_index().fillna("")


def _named(row: pd.Series) -> str:
    """Return a learner with its training seeds, or a control, which has none."""
    return f"*{row['learner']}*" if row.get("kind") == "control" else f"{row['learner']} ({row['seeds']})"


def _printed(row: pd.Series) -> str:
    """Return the printed range."""
    low, high = row.get("printed_low"), row.get("printed_high")
    if low is None or low != low:
        return ""
    if high == float("inf"):
        return f"at least {low:g}"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def short(results: pd.DataFrame) -> pd.DataFrame:
    """Return a table of results in numbers that fit a page."""
    if "estimate" in results:
        results = results.pivot_table(
            index=["series", "x", "policy"], columns="metric", values="estimate", sort=False
        ).reset_index()
    results = _with_intervals(results)
    written: pd.DataFrame = results.apply(
        lambda column: column.map(number) if column.dtype.kind == "f" else column.fillna("")
    )
    return written


def _with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """Write each estimate ``NAME_percent`` with its interval into one column.

    Its ends are ``NAME_low`` and ``NAME_high``, those of a margin ``low`` and ``high``.
    """
    for column in table.columns[table.columns.str.endswith("_percent")]:
        name = column.removesuffix("_percent")
        ends = ["low", "high"] if name == "margin" else [f"{name}_low", f"{name}_high"]
        if set(ends) <= set(table.columns):
            said = [interval(row, column, *ends) for _, row in table.iterrows()]
            table = table.assign(**{column: said}).drop(columns=ends)
            table = table.rename(columns={column: f"{name}, %"})
    return table


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
