"""``scripts/tune.py``: search for hyperparameters with Optuna, on any number of processes and machines."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from optuna.exceptions import StorageInternalError
from optuna.trial import TrialState

from sb3_greendc.cli.common import (
    FAILED,
    INTERRUPTED,
    Parser,
    add_environment_options,
    add_wide_option,
    one_line_errors,
    tables_console,
)
from sb3_greendc.cli.from_study import command_for, hyperparameter_file
from sb3_greendc.core import yaml
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.engine import DIED_AGAIN, ENGINES, TaskError, require_engine
from sb3_greendc.core.files import require_room
from sb3_greendc.core.progress import duration
from sb3_greendc.core.secrets import without_secrets
from sb3_greendc.evaluation.tables import summary_tables
from sb3_greendc.runs.hyperparameters import zoo_file
from sb3_greendc.tuning import leases
from sb3_greendc.tuning.asking import make_objective
from sb3_greendc.tuning.objective import PRUNERS, Objective
from sb3_greendc.tuning.plots import draw
from sb3_greendc.tuning.report import Report, block_of_the_file, present_rival, provenance_comments, report
from sb3_greendc.tuning.search import run_search
from sb3_greendc.tuning.spaces import SPACES
from sb3_greendc.tuning.storage import FOLDER, absolute, journal_of
from sb3_greendc.tuning.study import Search, create_or_load
from sb3_greendc.tuning.worker import Order, Outcome
from sb3_greendc.tuning.zoo_block import write_block, write_file

_NOT_OURS = ("ConnectionError", "OSError", "StorageInternalError")
"""Errors of a trial that are the storage's: a full disk, a server that is gone."""
DEFAULT_TRIALS = 30
_LONGEST_LEASE = 86_400
_MEASURED = 2
"""Trials of each process, beyond the first, that must have ended before a time is told."""


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
        prog=how_to_start("tune"),
        description="Search for hyperparameters. Killed at any time, the same command goes on where it was.",
    )
    parser.add_argument("--env", required=True, help="environment id, with or without a version: VCC-2021")
    parser.add_argument("--algo", help=f"one of {', '.join(SPACES)}; default: by the action space")
    parser.add_argument("--data", type=Path, metavar="FILE", help="data set that crr learns from, x.npz")
    parser.add_argument(
        "--trials", type=whole_number, default=DEFAULT_TRIALS, help="the study's total (default: %(default)s)"
    )
    parser.add_argument(
        "--timesteps", type=whole_number, help="of a trial; default: a quarter of the file's n_timesteps"
    )
    parser.add_argument("--study", metavar="NAME", help="default: ENV_ALGO")
    parser.add_argument(
        "--storage",
        metavar="URL",
        help="journal:///PATH, sqlite:///PATH, postgresql://USER@HOST/DATABASE, grpc://HOST:PORT; "
        f"default: a journal file under {FOLDER}",
    )
    parser.add_argument("--jobs", type=whole_number, default=1, help="trials at once (default: 1)")
    parser.add_argument("--engine", choices=ENGINES, help="default: process with several jobs, else serial")
    parser.add_argument("--ray-address", metavar="ADDR", help="a running Ray cluster: auto or HOST:PORT")
    parser.add_argument("--seed", type=int, default=0, help="of every training, and of the sampler")
    parser.add_argument("--pruner", choices=PRUNERS, help="default: median, none with a cost_limit")
    parser.add_argument("--evaluations", type=whole_number, default=10, help="of a trial (default: 10)")
    parser.add_argument("--episodes", type=whole_number, default=16, help="of an evaluation (default: 16)")
    add_environment_options(parser)
    parser.add_argument(
        "--hparams",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="hyperparameters that are not searched, in place of the file's (gamma=0.985 n_envs=16)",
    )
    parser.add_argument(
        "--lease",
        type=float,
        default=leases.SECONDS,
        metavar="SECONDS",
        help="trials of a worker that is silent for so long are queued again (default: %(default)g)",
    )
    parser.add_argument("--out", type=Path, help=f"folder of report and figures; default: {FOLDER}/STUDY")
    add_wide_option(parser)
    parser.add_argument(
        "--write-zoo",
        action="store_true",
        help="write the best block into the hyperparameter file, if it beats the settings there",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    with one_line_errors("tune"):
        if options.ray_address is not None and options.engine != "ray":
            raise ValueError("--ray-address: needs --engine ray")
        if not 1 <= options.lease <= _LONGEST_LEASE:
            raise ValueError(f"--lease {options.lease:g}: must be from 1 to {_LONGEST_LEASE:,} seconds")
        engine = options.engine or ("process" if options.jobs > 1 else "serial")
        require_engine(engine, options.jobs, options.ray_address)
        objective = _objective(options)
        name = options.study or f"{objective.env_id}_{objective.algorithm}"
        out = options.out or FOLDER / name
        shown = options.storage or journal_of(name)
        url = absolute(shown)
        if options.write_zoo:
            zoo_file(objective.algorithm)
        search = create_or_load(objective, name, url, options.lease)
        require_room(out)
    _describe(search, shown, options.trials, engine, options.jobs)
    order = Order(url, name, options.trials, options.lease)
    try:
        run_search(
            search,
            order,
            engine,
            options.jobs,
            options.ray_address,
            _Progress(search, options.trials, options.jobs),
            lambda n: print(f"waiting for {n} trials that run elsewhere", flush=True),
        )
        return _finish(search, out, options)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on")
        return INTERRUPTED
    except (OSError, StorageInternalError, TaskError) as error:
        reason = error.reason if isinstance(error, TaskError) else str(error)
        if reason == DIED_AGAIN:
            reason = f"a worker: {reason}"
        elif isinstance(error, TaskError) and not reason.startswith(_NOT_OURS):
            raise
        said = " ".join(without_secrets(reason, options.storage or "").split())
        print(
            f"tune: error: {said}; the same command goes on",
            file=sys.stderr,
        )
        return FAILED


def _objective(options: argparse.Namespace) -> Objective:
    return make_objective(
        options.env,
        options.algo,
        options.timesteps,
        yaml.parse_assignments(options.set, "--set"),
        yaml.parse_assignments(options.hparams, "--hparams"),
        seed=options.seed,
        pruner=options.pruner,
        data=options.data,
        evaluations=options.evaluations,
        episodes=options.episodes,
    )


def _describe(search: Search, url: str, trials: int, engine: str, jobs: int) -> None:
    objective = search.objective
    done = len(search.finished())
    steps = objective.timesteps * max(0, trials - done)
    judged_on = objective.validation_of.removeprefix("months ")
    where = f" of {judged_on}" if judged_on else ""
    kind = "steps" if objective.data is None else f"gradient steps on {Path(objective.data).name}"
    print(
        f"{objective.algorithm} on {objective.env_id}: {trials} trials of {objective.timesteps:,} {kind} "
        f"({done} done; at most {steps:,} steps to go, less what is pruned), {jobs} at once ({engine})\n"
        f"judged by the mean return of {objective.episodes} validation episodes{where}, "
        f"{objective.evaluations} times a trial; pruner: {objective.pruner}\n"
        f"{len(search.space)} parameters: {', '.join(search.space)}\n"
        f"study {search.study.study_name!r} in {without_secrets(url)}",
        flush=True,
    )


class _Progress:
    """Print a line for every trial that ends."""

    def __init__(self, search: Search, total: int, jobs: int) -> None:
        self.search, self.total, self.jobs = search, total, jobs
        self.seen = 0
        self.first: tuple[float, int] | None = None

    def __call__(self, outcome: Outcome) -> None:
        done = len(self.search.finished())
        self.seen += 1
        value = "no value" if outcome.score is None else str(outcome.score)
        state = outcome.state
        if state in ("pruned", "diverged"):
            state += f" at {100 * outcome.share:.0f} %"
        best = self.search.best()
        so_far = f"best {best.value:.6g} (trial {best.number})" if best else "none completed yet"
        left = self._left(max(0, self.total - done))
        this = f"trial {outcome.number}: {value}, {state}, {outcome.seconds:.1f} s"
        to_go = f"; about {duration(left)} left" if left else ""
        print(f"[{done}/{self.total}] {this}; {so_far}{to_go}", flush=True)

    def _left(self, trials: int) -> float | None:
        """Return the seconds that trials will take, by the pace since the first one ended: it compiles."""
        now = time.perf_counter()
        if self.first is None:
            self.first = (now, self.seen)
        since, seen = self.first
        return (
            (now - since) / (self.seen - seen) * trials if self.seen >= seen + _MEASURED * self.jobs else None
        )


def _finish(search: Search, out: Path, options: argparse.Namespace) -> int:
    """Draw, report and hand over; return the exit code."""
    files, missing = draw(search.study, search.space, out)
    for reason in missing:
        print(reason)
    if files:
        print(f"wrote {', '.join(path.name for path in files)} in {out}")
    best = search.best()
    if best is None:
        failed = len(search.trials(TrialState.PRUNED))
        print(f"no trial was completed ({failed} pruned or diverged)")
        return 0
    made = report(search, out, lambda line: print(line, flush=True))
    print(
        f"validation return of trial {made.best}: {made.score}, trained again: {made.retrained}, "
        f"of the settings of the file: {made.file}"
    )
    if search.objective.fixed:
        print(f"fixed by --hparams, in the trials alone: {', '.join(search.objective.fixed)}")
    for name, value in made.settings.items():
        print(f"  {name}: {value}")
    console = tables_console(options.wide)
    title = f"Test: {search.objective.env_id}, {search.objective.episodes} episodes, 95 % interval"
    for table in summary_tables(made.table(), title, console.width):
        console.print(table)
    print(f"model and record: {out / 'best'}")
    _hand_over(search, made, out, options.storage)
    return _write_zoo(search, made) if options.write_zoo else 0


def _write_zoo(search: Search, made: Report) -> int:
    """Write the best block into the hyperparameter file if it beats what is there now."""
    objective = search.objective
    try:
        path = zoo_file(objective.algorithm)
        if block_of_the_file(objective) == made.settings:
            print(f"wrote no block: {path} has these settings already")
            return 0
        rival = present_rival(search, made)
        if rival != made.file:
            print(f"{path} has changed since the report; validation return of its settings now: {rival}")
        if rival.score is not None and rival.score.rank >= made.score.rank:
            print("wrote no block: the settings of the file are better")
            return 0
        write_block(path, objective.env_id, made.settings, provenance_comments(search, made))
    except ValueError as error:
        print(f"tune: error: wrote no block: {' '.join(str(error).split())}", file=sys.stderr)
        return FAILED
    print(f"wrote block {objective.env_id} into {path}")
    return 0


def _hand_over(search: Search, made: Report, out: Path, storage: str | None) -> None:
    """Write the best trial's hyperparameters beside the study, and say how it is trained again."""
    objective = search.objective
    command = command_for(search.study.study_name, storage)
    path = hyperparameter_file(out)
    comments = [*provenance_comments(search, made), f"Train it: {command}"]
    write_file(path, objective.env_id, made.settings, comments)
    print(f"hyperparameters: {path}")
    print(f"train it: {command}")
    steps = made.settings.get("n_timesteps")
    if steps not in (None, objective.timesteps):
        print(f"with the {objective.timesteps:,} steps of a trial; --timesteps {steps} for a full training")


if __name__ == "__main__":
    sys.exit(main())
