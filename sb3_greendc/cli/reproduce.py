"""``scripts/reproduce.py``: repeat the papers' experiments, and set our margins beside theirs."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from greendc.config import nearest
from greendc.traces.defects import DefectsError
from greendc.traces.job_logs import read_log
from sb3_greendc.cli.common import (
    INTERRUPTED,
    BadInput,
    Parser,
    add_wide_option,
    one_line_errors,
    print_table,
    tables_console,
)
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.engine import ENGINES, TaskError
from sb3_greendc.core.files import require_room
from sb3_greendc.core.progress import duration
from sb3_greendc.core.secrets import arguments_without_secrets
from sb3_greendc.experiments import my_site
from sb3_greendc.experiments.distilled import Evaluation
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment
from sb3_greendc.experiments.pages import PRINTED, margins
from sb3_greendc.experiments.registry import experiment_names, load_experiment
from sb3_greendc.experiments.runner import LostTasksError, run_tasks, write_analysis
from sb3_greendc.experiments.store import Store
from sb3_greendc.experiments.tasks import LOG_SERIES, Item, Task
from sb3_greendc.experiments.training import Training
from sb3_greendc.runs.training import require_device

TASKS = "tasks"
"""Folder of finished tasks below ``--out``, shared by all experiments."""

_LAST = ("ours, %", "of the bound, %", PRINTED, "verdict", "bound, %")
"""Columns that narrow terminals show last, if at all."""

_DAMAGED = (KeyError, OSError, TypeError, ValueError)
"""What reading a record raises that is not one of ours."""

PUBLISHED = Path("docs/results")
"""Where a clone of the repository has the results that were published."""


class _Parser(Parser):
    """Leaves ``my-site``, whose options are others, to a parser of its own."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """See :class:`argparse.ArgumentParser`, whose other methods come by here."""
        arguments = list(sys.argv[1:] if args is None else args)
        if arguments[:1] != [my_site.NAME]:
            return super().parse_known_args(arguments, namespace)
        parser = build_site_parser()
        parser.set_defaults(arguments=arguments)
        options, unknown = parser.parse_known_args(arguments[1:], namespace)
        if unknown:  # said by this parser: the other one would show options that are not of this command
            names = [name for name in vars(options) if name not in ("arguments", "experiment")]
            known = list(map(my_site.option_of, names))
            hints = (nearest(word.partition("=")[0], known) for word in unknown if word.startswith("--"))
            parser.error(f"unrecognized arguments: {shlex.join(unknown)}{next(filter(None, hints), '')}")
        return options, unknown


def build_site_parser() -> argparse.ArgumentParser:
    """Return the options of ``my-site``."""
    parser = Parser(
        prog=how_to_start(my_site.NAME),
        description="From a job log, a power CSV and a carbon CSV to a table of heuristics, trained "
        "policies and a report.",
    )
    parser.set_defaults(experiment=[my_site.NAME])
    my_site.add_options(parser)
    _add_common_options(parser, "--workers")
    return parser


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = _Parser(
        prog=how_to_start("reproduce"),
        description="Repeat an experiment of the papers. Finished tasks are kept: the same command goes on "
        "after an interruption, and experiments share what they have in common.",
    )
    parser.add_argument(
        "experiment",
        nargs="+",
        help=f"list, all, or some of: {', '.join(experiment_names())}; {my_site.NAME} has options of its own",
    )
    parser.add_argument("--quick", action="store_true", help="small budgets: the right shape within minutes")
    parser.add_argument(
        "--seeds",
        nargs="+",
        default=[],
        metavar="N",
        help="training seeds, in place of the budget's own number; of single learners: 'distilled policy=10'",
    )
    parser.add_argument(
        "--test-episodes",
        type=whole_number,
        metavar="N",
        help="episodes that policies of the resource pool are judged on (default: 32 with --quick, else 256)",
    )
    parser.add_argument(
        "--problems",
        nargs="+",
        default=[],
        metavar="NAME",
        help="these problems alone, of as-printed, rare-large, what-earns-the-margin, learners and "
        "learners-*",
    )
    parser.add_argument(
        "--job-log",
        help="SWF log, or an export of sacct, for experiments on the HPC log, beside a model of one; for "
        "rlscheduler and rlscheduler-power the folder of its traces (default: generated jobs alone)",
    )
    parser.add_argument(
        "--weather",
        nargs="+",
        default=[],
        metavar="FILE",
        help="measured weather beside the generated year of rare-fig3",
    )
    parser.add_argument(
        "--google", metavar="FOLDER", help="real days of Google jobs for the page's scenario of vcc-shift"
    )
    parser.add_argument(
        "--device", default="cpu", help="that learners of the resource pool are trained on (default: cpu)"
    )
    _add_common_options(parser, "--jobs", "--workers")
    return parser


def _add_common_options(parser: argparse.ArgumentParser, *workers: str) -> None:
    parser.add_argument(
        "--rollouts",
        action="store_true",
        help="let rollouts compete wherever heuristics of pools do, also on job logs (minutes a point)",
    )
    add_wide_option(parser)
    parser.add_argument("--engine", choices=ENGINES, default="process", help="where the tasks run")
    parser.add_argument(
        *workers, dest="workers", type=whole_number, help="tasks at once (default: all processors)"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/reproduce"), help="default: %(default)s")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    if options.experiment == [my_site.NAME]:
        return _my_site(options)
    console = tables_console(options.wide)
    if options.experiment == ["list"]:
        _list(options.out, console)
        return 0
    with one_line_errors("reproduce"):
        seeds, by_learner = parse_seeds(options.seeds)
        budget = Budget(
            quick=options.quick,
            seeds=seeds,
            job_log=options.job_log,
            weather=tuple(options.weather),
            google=options.google,
            seeds_by_learner=by_learner,
            test_episodes=options.test_episodes,
            rollouts=options.rollouts,
            problems=tuple(dict.fromkeys(options.problems)),
            device=options.device,
        )
        names = experiment_names() if options.experiment == ["all"] else options.experiment
        experiments = [load_experiment(name) for name in dict.fromkeys(names)]
        if budget.job_log is not None and not Path(budget.job_log).exists():
            raise ValueError(f"--job-log {budget.job_log}: no such file")
        for path in budget.weather:
            if not Path(path).is_file():
                raise ValueError(f"--weather {path}: no such file")
        if budget.google is not None and not Path(budget.google).is_dir():
            raise ValueError(f"--google {budget.google}: no such folder")
        if budget.problems:
            experiments = with_problems(budget, experiments)
        check_effects(budget, experiments)
        items = [item for experiment in experiments for item in experiment.items(budget)]
        if budget.job_log is not None and any(
            str(item.labels.get("series", "")).startswith(LOG_SERIES) for item in items
        ):
            read_log(budget.job_log)
        check_learners(by_learner, items)
        require_room(options.out)
        store = Store(options.out / TASKS)
        check_device(budget.device, items, store)
    said = ", ".join(experiment.name for experiment in experiments)
    console.print(f"[bold]{said}[/bold], {budget.name} budget")
    failed = _run(items, store, options, console)
    if failed is not None:
        return failed
    for experiment in experiments:
        _show(experiment, budget, store, options.out / experiment.name, console)
    return 0


def parse_seeds(given: Sequence[str]) -> tuple[int | None, dict[str, int]]:
    """Return the number of training seeds, and those of single learners: ``3 "distilled policy=10"``.

    :raises ValueError: for anything but whole numbers above 0, each learner's once
    """
    overall: int | None = None
    by_learner: dict[str, int] = {}
    for one in given:
        learner, separator, number = one.rpartition("=")
        try:
            seeds = whole_number(number)
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"--seeds {one}: {error}") from error
        if learner in by_learner or (not separator and overall is not None):
            raise ValueError(f"--seeds {one}: given twice")
        if separator:
            by_learner[learner] = seeds
        else:
            overall = seeds
    return overall, by_learner


def check_device(device: str, items: Sequence[Item], store: Store) -> None:
    """Check that learners are trained on the device, and that it is there for those that are not finished.

    :raises ValueError: naming it
    """
    if device == Training.device:
        return
    on_it = [item.task for item in items if getattr(item.task, "device", None) == device]
    if not on_it:
        raise ValueError(f"--device {device}: has no effect on these experiments")
    if not all(map(store.has, on_it)):
        require_device(device)


def check_learners(names: Collection[str], items: Sequence[Item]) -> None:
    """Raise ``ValueError`` for a name that no learner of these tasks has."""
    for name in names:
        if not any(item.task.title.startswith(f"{name} ") for item in items):
            raise ValueError(f"--seeds {name}=...: no learner of this name in these experiments")


def with_problems(budget: Budget, experiments: Sequence[Experiment]) -> list[Experiment]:
    """Return the experiments that have one of the problems that are asked for.

    :raises ValueError: for a problem that none of them has
    """
    having = [one for one in experiments if one.by_problem]
    for name in budget.problems:
        if not any(one.items(replace(budget, problems=(name,))) for one in having):
            whole = replace(budget, problems=(), quick=False)
            known = {_problem(item): None for one in having for item in one.items(whole)}
            raise ValueError(f"--problems {name}: these experiments have {', '.join(known) or 'no problems'}")
    return [one for one in having if one.items(budget)]


def check_effects(budget: Budget, experiments: Sequence[Experiment]) -> None:
    """Refuse an option that no experiment makes use of.

    :raises ValueError: if the experiments would be the same without it; names the option
    """
    without: dict[str, Budget] = {}
    if budget.seeds is not None:
        without["--seeds"] = replace(budget, seeds=budget.seeds - 1 or 2)
    if budget.test_episodes is not None:
        without["--test-episodes"] = replace(budget, test_episodes=budget.test_episodes + 1)
    if budget.job_log is not None:
        without["--job-log"] = replace(budget, job_log=None)
    if budget.google is not None:
        without["--google"] = replace(budget, google=None)
    if budget.weather:
        without["--weather"] = replace(budget, weather=())
    if budget.rollouts:
        without["--rollouts"] = replace(budget, rollouts=False)
    asked = _identities(budget, experiments) if without else set()
    for option, other in without.items():
        if _identities(other, experiments) == asked:
            names = ", ".join(experiment.name for experiment in experiments)
            raise ValueError(f"{option}: has no effect on {names}")


def _identities(budget: Budget, experiments: Sequence[Experiment]) -> set[tuple[str, str]]:
    """Return what tells the tasks of experiments apart."""
    return {item.task.identity for experiment in experiments for item in experiment.items(budget)}


def _problem(item: Item) -> str:
    """Return the problem of a task: what stands before the name of its data."""
    return str(item.labels["series"]).partition(",")[0]


def _my_site(options: argparse.Namespace) -> int:
    """Run ``reproduce my-site``, whose inputs are the user's."""
    budget, console = (
        Budget(options.quick, options.seeds, rollouts=options.rollouts),
        tables_console(options.wide),
    )
    folder = options.out / my_site.NAME
    given = shlex.join(arguments_without_secrets(options.arguments[1:]))
    command = f"{how_to_start(my_site.NAME)} {given}"
    if options.validate:
        return _validate(options, folder, command, console)
    try:
        with one_line_errors(my_site.NAME, apart=(DefectsError,)):
            require_room(options.out)
            site = my_site.prepare_site(options, folder / "inputs")
            experiment = my_site.site_experiment(site)
            items = experiment.items(budget)
            my_site.check_environment(site.scenario)
    except DefectsError as error:
        print(f"{my_site.NAME}: error: defects in the input\n{error}", file=sys.stderr)
        raise BadInput from error
    for name, fact in site.facts.items():
        console.print(f"{name}: {fact}", markup=False)
    console.print(my_site.assumptions_summary(site.assumptions), markup=False)
    store = Store(options.out / TASKS)
    failed = _run(items, store, options, console)
    if failed is not None:
        return failed
    analysis = write_analysis(experiment, budget, store, folder)
    print_frame(my_site.short_table(analysis.tables["policies"]), my_site.NAME, console)
    for note in analysis.notes:
        console.print(f"- {note}", markup=False)
    judged = [item.task for item in items if isinstance(item.task, Training | Evaluation)]
    best = max(judged, key=lambda task: float(store.table(task, "episodes")["total_job_value"].mean()))
    model: Task = best.distillation if isinstance(best, Evaluation) else best
    choice = {} if isinstance(best, Evaluation) else best.learner.choice
    acting = {**best.scenario.env_kwargs, **choice}
    environment = my_site.portable_environment(site.scenario, acting, budget.test_steps)
    report = my_site.write_report(
        site, analysis, folder, store.folder(model), environment, command, budget.episodes
    )
    console.print(
        f"wrote {report} and {report.with_suffix('.html').name}, {my_site.MODEL}/ beside them", markup=False
    )
    return 0


def _validate(options: argparse.Namespace, folder: Path, command: str, console: Console) -> int:
    """Run ``reproduce my-site --validate``: the log's waits beside simulated ones."""
    try:
        with one_line_errors(my_site.NAME, apart=(DefectsError,)):
            defaults = build_site_parser().parse_args([f"--jobs={options.jobs}"])
            my_site.require_effect_of_validate(options, defaults)
            require_room(options.out)
            found = my_site.read_jobs(options)
            rule = (options.order or my_site.SITE_RULE[0], options.backfill or my_site.SITE_RULE[1])
            told = options.processors is not None
            validation = my_site.validate(found, told_size=told, site_rule=rule)
    except DefectsError as error:
        print(f"{my_site.NAME}: error: defects in the input\n{error}", file=sys.stderr)
        raise BadInput from error
    short = {"processors": "width", "jobs": "jobs"}
    for kind, called in (("recorded", "rec."), ("simulated", "sim.")):
        short |= {f"{kind}_{name}": f"{called} {name}" for name in ("mean", "median", "p95")}
    print_frame(validation.by_width.rename(columns=short), f"waits in hours, {validation.rule}", console)
    for note in validation.notes:
        console.print(f"- {note}", markup=False)
    path = my_site.write_validation(found, validation, folder, command)
    console.print(f"wrote {path}, the same as .html, tables and figure", markup=False)
    return 0


def _run(items: Sequence[Item], store: Store, options: argparse.Namespace, console: Console) -> int | None:
    """Run the tasks; return an exit code if they did not all end well."""
    try:
        run_tasks(items, store, options.engine, options.workers, console)
    except (TaskError, LostTasksError) as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; the same command goes on from here")
        return INTERRUPTED
    return None


def _show(experiment: Experiment, budget: Budget, store: Store, folder: Path, console: Console) -> Analysis:
    analysis = write_analysis(experiment, budget, store, folder)
    if "comparison" in analysis.tables:
        title = f"{experiment.name}: {experiment.title}"
        print_margins(margins(analysis.tables["comparison"]), title, console)
    for note in analysis.notes:
        console.print(f"- {note}", markup=False)
    console.print(f"wrote {folder}", markup=False)
    return analysis


def print_margins(frame: pd.DataFrame, title: str, console: Console) -> None:
    """Print the table of margins; a series that all rows have goes into the title."""
    if "series" in frame and frame["series"].nunique() == 1:
        title = f"{title}; {frame['series'].iloc[0]}"
        frame = frame.drop(columns="series")
    heads = sorted(map(str, frame.columns), key=lambda head: _LAST.index(head) if head in _LAST else -1)
    print_frame(frame[heads], title, console)


def print_frame(frame: pd.DataFrame, title: str, console: Console) -> None:
    """Print a table."""
    heads = list(map(str, frame.columns))
    rows = [[_cell(value) for value in row] for row in frame[heads].itertuples(index=False)]
    right = [head for head in heads if frame[head].dtype.kind in "fi"]
    print_table(console, title, heads, rows, right)


def _cell(value: object) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def was_run(folder: Path) -> str:
    """Return which budget the results in a folder have, and how many training seeds, if that was chosen."""
    path = folder / "run.json"
    if not path.is_file():
        return "no"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return f"{record['budget']}, {record['seeds']} seed(s)" if record["seeds"] else str(record["budget"])
    except _DAMAGED:
        return "unreadable"


def core_time(folder: Path) -> str:
    """Return the processor time that the results in a folder took, in words; empty if none is known."""
    path = folder / "run.json"
    if not path.is_file():
        return ""
    try:
        return duration(json.loads(path.read_text(encoding="utf-8"))["core_seconds"])
    except _DAMAGED:
        return ""


def _list(out: Path, console: Console) -> None:
    """Print the experiments: which were run here, which results are published, and what those took."""
    rows = []
    for name in experiment_names():
        here, published = out / name, PUBLISHED / name
        times = [f"{was_run(folder)} {core_time(folder)}".strip() for folder in (here, published)]
        rows.append([name, load_experiment(name).title, *times])
    heads = ["name", "what it shows", "run here", "published"]
    print_table(console, "experiments, and the processor time of their runs", heads, rows)


if __name__ == "__main__":
    sys.exit(main())
