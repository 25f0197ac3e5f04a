"""``greendc decide``: which waiting jobs of a live cluster or pool to start now, from a snapshot in JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from greendc.cluster.config import ADMISSIONS, BACKFILLS
from greendc.json_records import SnapshotError
from greendc.live import Decision, PoolDecision, PoolSnapshot, Scheduler, Snapshot, read_snapshot
from greendc.live.cluster_policies import POLICIES
from greendc.live.pool_policies import RULES
from sb3_greendc.cli.common import Parser, one_line_errors
from sb3_greendc.core import yaml
from sb3_greendc.core.commands import how_to_start

_RECORDS: dict[str, Any] = {
    "snapshot": Snapshot,
    "decision": Decision,
    "pool_snapshot": PoolSnapshot,
    "pool_decision": PoolDecision,
}


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
        prog=how_to_start("decide"),
        description="Read a snapshot of a cluster or of a resource pool (JSON), and print which waiting "
        "jobs should start now, in which order, and why the others wait (JSON). Nothing is started: this is "
        "advice.",
    )
    parser.add_argument(
        "snapshot", nargs="?", default="-", metavar="FILE", help="the snapshot; default: standard input"
    )
    add_scheduler_options(
        parser,
        f"of a pool: {', '.join(RULES)}, or a shipped network (ResourcePool-10); ",
    )
    pool = parser.add_argument_group("of pools")
    pool.add_argument("--env", metavar="ID", help="the pool, where the snapshot's configuration says nothing")
    parser.add_argument(
        "--schema", action="store_true", help="print the JSON Schemas of snapshots and decisions, and stop"
    )
    return parser


def add_scheduler_options(parser: argparse.ArgumentParser, others: str = "") -> None:
    """Add the settings of :class:`greendc.live.ClusterScheduler`.

    :param parser: of the command
    :param others: policies that it takes, too
    """
    default = "wspt, of a pool deadline_never" if others else "wspt"
    trained = "or as in the training of a run"
    parser.add_argument(
        "--policy",
        metavar="NAME|PATH",
        help=f"{', '.join(POLICIES)}; {others}the folder of a trained run; or a JSON file with the "
        f"scheduler's settings (default: {default})",
    )
    parser.add_argument(
        "--backfill",
        choices=BACKFILLS,
        help=f"which jobs overtake one that cannot start (default: easy, {trained})",
    )
    parser.add_argument(
        "--admission",
        choices=ADMISSIONS,
        help=f"whether jobs must fit under the forecast (default: now, {trained})",
    )
    parser.add_argument(
        "--horizon-hours",
        type=int,
        metavar="H",
        help=f"how far plans look (default: 24, {trained})",
    )
    parser.add_argument(
        "--oldest-first-hours", type=float, metavar="H", help="jobs that have waited longer come first"
    )
    parser.add_argument(
        "--stale-seconds", type=float, metavar="S", help="refuse snapshots that are older (default: 300)"
    )
    parser.add_argument(
        "--work-conserving",
        action=argparse.BooleanOptionalAction,
        help=f"leave no empty {'pool or ' if others else ''}cluster idle where a job could start (default)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="an option of the policy"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 2 for bad input, of which nothing comes."""
    parser = build_parser()
    options = parser.parse_args(argv)
    with one_line_errors(parser.prog):
        if options.schema:
            print(json.dumps({name: record.schema() for name, record in _RECORDS.items()}, indent=1))
            return 0
        settings = scheduler_settings(options)
        if options.env is not None:
            settings["env"] = options.env
        scheduler, text = load_scheduler(options, settings), _text(options.snapshot)
        try:
            found = scheduler.decide(read_snapshot(text)).to_json()
        except SnapshotError as error:
            where = "standard input" if options.snapshot == "-" else options.snapshot
            raise SnapshotError(f"{where}: {error}") from None
    print(found)
    return 0


def load_scheduler(options: argparse.Namespace, settings: dict[str, Any]) -> Scheduler:
    """Return the scheduler that the command line asks for."""
    if options.policy is None:
        return Scheduler(**settings)
    return Scheduler.load(options.policy, **settings)


def scheduler_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the scheduler's settings that the command line gives."""
    names = (
        "backfill",
        "admission",
        "horizon_hours",
        "oldest_first_hours",
        "stale_seconds",
        "work_conserving",
    )
    settings = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    settings.update(yaml.parse_assignments(options.set, "--set"))
    return settings


def _text(source: str) -> str | bytes:
    if source == "-":
        text: str | bytes = getattr(sys.stdin, "buffer", sys.stdin).read()
        return text
    try:
        return Path(source).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{source}: there is no such file") from None
    except OSError as error:
        raise ValueError(f"{source}: cannot be read: {error.strerror or error}") from None


if __name__ == "__main__":
    sys.exit(main())
