"""``greendc slurm``: advise a partition of Slurm, and with ``--apply`` run what follows from the advice."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from greendc.live.slurm import Queue, commands, read_queue
from greendc.live.slurm_answers import Run, SlurmError, run_command
from sb3_greendc.cli.common import one_line_errors
from sb3_greendc.cli.decide import add_scheduler_options, load_scheduler, scheduler_settings
from sb3_greendc.core.commands import how_to_start

_FAILED = 1


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(
        prog=how_to_start("slurm"),
        description="Read a partition by squeue and sinfo, decide which held jobs should start now, and show "
        "the commands that release them; on request also those that order them, hold others, and reserve "
        "what will have no power. Nothing is run without --apply.",
    )
    parser.add_argument("--partition", metavar="NAME", help="which one, if there are several")
    parser.add_argument(
        "--forecast",
        type=Path,
        metavar="FILE",
        help="table of time (ISO 8601 with an offset from UTC) and processors that have power from then on",
    )
    parser.add_argument(
        "--history-days", type=int, default=0, metavar="N", help="read so many days of finished jobs by sacct"
    )
    parser.add_argument(
        "--priorities", action="store_true", help="give the jobs that start priorities in their order"
    )
    parser.add_argument(
        "--reservations",
        action="store_true",
        help="reserve, until power returns, the CPUs that will have none by the --forecast",
    )
    parser.add_argument(
        "--hold",
        action="store_true",
        help="decide on jobs that Slurm may start at any moment, too, and hold those that should not start",
    )
    parser.add_argument("--apply", action="store_true", help="run the commands that are shown")
    parser.add_argument("--dry-run", action="store_true", help="run nothing (the default)")
    add_scheduler_options(parser)
    return parser


def main(argv: Sequence[str] | None = None, run: Run = run_command) -> int:
    """Run the command and return its exit code: 2 for bad input or no Slurm, 1 if a command of its failed.

    :param run: runs commands of Slurm
    """
    parser = build_parser()
    options = parser.parse_args(argv)
    if options.apply and options.dry_run:
        parser.error("--apply and --dry-run: must not be given together")
    if options.reservations and options.forecast is None:
        parser.error("--reservations: needs the power that is to come, --forecast FILE")
    with one_line_errors(parser.prog):
        scheduler = load_scheduler(options, scheduler_settings(options))
        try:
            queue = read_queue(
                options.partition,
                options.forecast,
                options.history_days,
                run,
                hold=options.hold,
                reserve=options.reservations,
            )
        except SlurmError as error:
            raise ValueError(error) from None
        decision = scheduler.decide(queue.snapshot)
        notes = scheduler.notes(queue.snapshot, decision)
    lines = commands(queue, decision, options.priorities)
    _show(queue)
    for note in notes:
        print(f"note: {note}")
    for passed in decision.passed_over:
        print(f"job {passed.id} waits: {passed.reason}")
    if queue.excess:
        print(f"{queue.excess} processors run jobs and have no power: running jobs must give way")
    if not lines:
        print("nothing to do")
        return 0
    return _apply(lines, run) if options.apply else _dry_run(lines)


def _show(queue: Queue) -> None:
    snapshot = queue.snapshot
    print(
        f"{snapshot.processors} processors, {snapshot.capacity} with power, {queue.used} in use by "
        f"{len(snapshot.running) - len(queue.starting)} jobs, "
        f"{len(snapshot.waiting)} jobs that wait for advice"
    )
    if queue.starting:
        print(
            f"{len(queue.starting)} jobs on {snapshot.used - queue.used} processors are about to start: "
            "Slurm decides on them"
        )
    beyond = snapshot.used - max(queue.used, snapshot.capacity)
    if beyond > 0:
        print(f"{beyond} of these processors have no power: --hold decides on these jobs, too")
    for note in queue.notes:
        print(f"note: {note}")
    for job, why in queue.left.items():
        print(f"job {job} is left to Slurm: {why}")


def _dry_run(lines: Sequence[Sequence[str]]) -> int:
    print("would run (--apply runs it):")
    for line in lines:
        print(f"  {shlex.join(line)}")
    return 0


def _apply(lines: Sequence[Sequence[str]], run: Run) -> int:
    """Run the commands one by one, and say which took effect if one fails."""
    for k, line in enumerate(lines):
        print(f"  {shlex.join(line)}", flush=True)
        try:
            run(line)
        except SlurmError as error:
            done = "; ".join(map(shlex.join, lines[:k])) or "none"
            left = "; ".join(map(shlex.join, lines[k + 1 :])) or "none"
            print(f"slurm: error: {error}\ntook effect: {done}\nnot tried: {left}", file=sys.stderr)
            return _FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
