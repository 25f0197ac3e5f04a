"""``greendc slurm``: advise a partition of Slurm, and with ``--apply`` run what follows from the advice."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from greendc.live.slurm import Queue, commands, read_queue
from greendc.live.slurm_answers import Run, SlurmError, run_command
from sb3_greendc.cli.common import FAILED, Parser, one_line_errors
from sb3_greendc.cli.decide import add_scheduler_options, load_scheduler, scheduler_settings
from sb3_greendc.cli.termination import TERMINATED, interrupted_by_term
from sb3_greendc.core.commands import how_to_start


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
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

    Ctrl-C raises ``KeyboardInterrupt``; where SIGTERM or SIGHUP end ``--apply``, the code is that of SIGTERM.

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
    if options.priorities and decision.start and queue.top <= len(decision.start):
        notes = (
            *notes,
            f"there is no room for {len(decision.start)} priorities below {queue.top}, that of a job "
            "which Slurm starts anyway: some get the same",
        )
    lines = commands(queue, decision, options.priorities)
    try:
        _show(queue)
        for note in notes:
            print(f"note: {note}")
        for passed in decision.passed_over:
            print(f"job {passed.id} waits: {passed.reason}")
        if queue.excess:
            print(f"{queue.excess} processors run jobs and have no power: running jobs must give way")
        if not lines:
            print("nothing to do")
        elif not options.apply:
            _show_commands(lines)
        sys.stdout.flush()
    except OSError as error:
        _give_up_output()
        print(f"slurm: error: output: {error}: no command was run", file=sys.stderr)
        return FAILED
    return _apply(lines, run) if options.apply else 0


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


def _show_commands(lines: Sequence[Sequence[str]]) -> None:
    print("would run (--apply runs it):")
    for line in lines:
        print(f"  {shlex.join(line)}")


def _apply(lines: Sequence[Sequence[str]], run: Run) -> int:
    """Run the commands one by one; if that ends half-way, whatever the reason, say which took effect."""
    begun = done = 0
    with interrupted_by_term() as signals:
        try:
            for line in lines:
                print(f"  {shlex.join(line)}", flush=True)
                begun += 1
                run(line)
                done += 1
        except BaseException as error:
            effect = error.effect if isinstance(error, SlurmError) else "unknown"
            _report(_why(error, lines[done:begun], bool(signals)), lines, done, begun, effect)
            if isinstance(error, KeyboardInterrupt) and signals:
                return TERMINATED
            if not isinstance(error, SlurmError | OSError):
                raise
            if begun == done:  # a command's line could not be printed
                _give_up_output()
            return FAILED
    return 0


def _why(error: BaseException, failed: Sequence[Sequence[str]], by_signal: bool) -> str:
    """Return why the run ended half-way, in a line; nothing for Ctrl-C, which says so itself.

    :param failed: the command that was begun and did not end, if there is one
    """
    if isinstance(error, KeyboardInterrupt):
        return "slurm: terminated\n" if by_signal else ""
    said = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, SlurmError):
        said = f"{shlex.join(failed[0]) if failed else 'output'}: {said}"
    return f"slurm: error: {said}\n"


def _report(why: str, lines: Sequence[Sequence[str]], done: int, begun: int, effect: str) -> None:
    """Say of each command what came of it.

    :param done: how many took effect
    :param begun: how many were begun, at most one more
    :param effect: what came of that one, as in :class:`SlurmError`
    """
    one = lines[done:begun]
    parts = {
        "took effect": lines[:done],
        "refused": one if effect == "refused" else [],
        "not known": one if effect == "unknown" else [],
        "not run": lines[done if effect == "none" else begun :],
    }
    shown = {name: "; ".join(map(shlex.join, part)) or "none" for name, part in parts.items()}
    sys.stderr.write(why + "".join(f"{name}: {text}\n" for name, text in shown.items()))
    sys.stderr.flush()


def _give_up_output() -> None:
    """Let nothing more go to an output that takes nothing: the end of the process would fail by it."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
