"""Runs the tasks of experiments that are not finished yet, and writes what experiments show."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sb3_greendc.core.engine import TaskError, map_tasks, processors
from sb3_greendc.core.files import atomic_write, write_json
from sb3_greendc.core.progress import Pauses, duration
from sb3_greendc.core.provenance import provenance
from sb3_greendc.evaluation.plots import save_figure
from sb3_greendc.experiments.claims import beside
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, unique_tasks
from sb3_greendc.experiments.pace import Pace
from sb3_greendc.experiments.store import Store
from sb3_greendc.experiments.tasks import Item, Outcome, Task, compute


class LostTasksError(RuntimeError):
    """The processes of some tasks died again and again; all that could be finished is in the store.

    :param said: of each of them, and of each task that needs one, its title and what became of it
    """

    def __init__(self, said: Sequence[str]) -> None:
        super().__init__("; ".join([*said, "all else is finished, and the same command tries these again"]))


def estimate(tasks: Sequence[Task], workers: int) -> float:
    """Return about how many seconds tasks take: their sum shared out, but no less than the longest."""
    seconds = [task.seconds() for task in tasks]
    return max(sum(seconds) / workers, max(seconds)) if seconds else 0.0


def run_tasks(
    items: Sequence[Item], store: Store, engine: str, workers: int | None, console: Console
) -> None:
    """Run the tasks that the store does not have.

    Every result is stored as it comes: after an interruption the same call goes on with what is missing.
    A task whose process is killed, for lack of memory perhaps, ends no other, and is run once more, alone.

    :param items: of one or several experiments
    :param store: where results go
    :param engine: of :func:`~sb3_greendc.core.engine.map_tasks`
    :param workers: tasks at once at most; default: all processors
    :param console: for progress: a bar on a terminal, else lines
    :raises TaskError: if a task fails
    :raises LostTasksError: at the end, if the process of a task died again
    """
    tasks = unique_tasks(items)
    pending = [task for task in tasks if not store.has(task)]
    at_once = 1 if engine == "serial" else workers or processors()
    said = f"{len(tasks)} tasks, {len(tasks) - len(pending)} of them finished before"
    if not pending:
        console.print(f"{said}: nothing to run")
        return
    console.print(f"{said}; {at_once} at once")
    pace = Pace(at_once)
    for task in tasks:
        if store.has(task):
            pace.know(task, float(store.record(task)["seconds"]))
    ordered = needed_first(pending)
    left = dict(enumerate(ordered))
    lost: list[str] = []

    def ready(task: Task) -> Task | None:
        return task.given(*map(store.files, task.needs)) if all(map(store.has, task.needs)) else None

    with _show(len(tasks), len(tasks) - len(pending), console) as show:

        def finish(index: int, outcome: Outcome) -> None:
            task = left.pop(index)
            store.put(task, outcome)
            pace.finish(task, outcome.seconds)
            seconds = pace.left(list(left.values()))
            rest = f", about {duration(seconds)} left" if seconds else ""
            show(f"{task.title} done{rest}")

        def lose(index: int, error: TaskError, given_up: bool) -> None:
            if given_up:
                lost.append(f"{left.pop(index).title}: {error.reason}")
            else:
                said = f"{left[index].title}: {error.reason}"
                console.print(said, markup=False, highlight=False, soft_wrap=True)

        map_tasks(compute, ordered, engine, workers, on_result=finish, on_lost=lose, ready=ready)
    lost += [f"{task.title}: needs what was lost, and was not run" for task in left.values()]
    if lost:
        raise LostTasksError(lost)


@contextmanager
def _show(total: int, done: int, console: Console) -> Iterator[Callable[[str], None]]:
    """Give what is called for each finished task: it moves a bar, or writes a line if one is due."""
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("running", total=total, completed=done)
            yield lambda said: progress.update(bar, advance=1, description=said)
        return
    begun = time.monotonic()
    pauses = Pauses(begun)

    def write(said: str) -> None:
        nonlocal done
        done += 1
        now = time.monotonic()
        if pauses.over(now) or done == total:
            line = f"{done} of {total} tasks, {duration(now - begun)}: {said}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    yield write


def needed_first(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks with what others need before all else, otherwise in their order.

    :param tasks: with all that they need, but for what is finished
    """
    last = list(tasks)
    first: list[Task] = []
    while last:
        needed = {need.identity for task in last for need in task.needs}
        first = [task for task in last if task.identity not in needed] + first
        last = [task for task in last if task.identity in needed]
    return first


def write_analysis(experiment: Experiment, budget: Budget, store: Store, folder: Path) -> Analysis:
    """Analyse finished tasks; write a CSV per table, a PNG per figure, and the record ``run.json``.

    :param experiment: all of whose tasks are in the store
    :param budget: the budget that they were made in
    :param store: where they are
    :param folder: created if missing
    """
    items = experiment.items(budget)
    analysis = with_printed(experiment.name, experiment.analyze(Results(items, store), budget))
    for name, table in analysis.tables.items():
        _write_table(table, folder / f"{name}.csv")
    for name, figure in analysis.figures.items():
        save_figure(figure, folder / f"{name}.png")
    tasks = unique_tasks(items)
    seconds = sum(float(store.record(task)["seconds"]) for task in tasks)
    record = {
        "experiment": experiment.name,
        "title": experiment.title,
        "budget": budget.name,
        "seeds": budget.seeds,
        "seeds_by_learner": dict(budget.seeds_by_learner),
        "test_episodes": budget.test_episodes,
        "rollouts": budget.rollouts,
        "problems": list(budget.problems),
        "device": budget.device,
        "job_log": budget.job_log is not None,
        "weather": bool(budget.weather),
        "google": bool(budget.google),
        "tasks": len(tasks),
        "core_seconds": round(seconds),
        "notes": list(analysis.notes),
        "tables": list(analysis.tables),
        "figures": list(analysis.figures),
    }
    write_json(folder / "run.json", {**record, **provenance()})
    return analysis


def with_printed(experiment: str, analysis: Analysis) -> Analysis:
    """Return an analysis whose comparison, and whose levels, stand beside what the paper prints."""
    values = {"comparison": "margin_percent", "levels": "level_percent"}
    tables = {
        name: beside(experiment, table, values[name]) if values.get(name) in table else table
        for name, table in analysis.tables.items()
    }
    return replace(analysis, tables=tables)


def _write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table with four significant digits more than anybody needs."""
    with atomic_write(path) as file:
        table.to_csv(file, index=False, float_format="%.6g")
