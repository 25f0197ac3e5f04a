"""``greendc decide``: which waiting jobs of a live cluster should start now, from a snapshot in JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from greendc.cluster.config import ADMISSIONS, BACKFILLS
from greendc.live import Decision, Scheduler, Snapshot
from greendc.live.scheduler import POLICIES
from sb3_greendc.cli.common import one_line_errors
from sb3_greendc.core import yaml
from sb3_greendc.core.commands import how_to_start


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(
        prog=how_to_start("decide"),
        description="Read a snapshot of a cluster (JSON), and print which waiting jobs should start now, "
        "in which order, and why the others wait (JSON). Nothing is started: this is advice.",
    )
    parser.add_argument(
        "snapshot", nargs="?", default="-", metavar="FILE", help="the snapshot; default: standard input"
    )
    add_scheduler_options(parser)
    parser.add_argument(
        "--schema", action="store_true", help="print the JSON Schemas of snapshot and decision, and stop"
    )
    return parser


def add_scheduler_options(parser: argparse.ArgumentParser) -> None:
    """Add the settings of :class:`greendc.live.Scheduler`."""
    parser.add_argument(
        "--policy",
        default="wspt",
        metavar="NAME|FILE",
        help=f"{', '.join(POLICIES)}; or a JSON file with the scheduler's settings (default: wspt)",
    )
    parser.add_argument("--backfill", choices=BACKFILLS, help="which jobs overtake one that cannot start")
    parser.add_argument("--admission", choices=ADMISSIONS, help="whether jobs must fit under the forecast")
    parser.add_argument("--horizon-hours", type=int, metavar="H", help="how far plans look (default: 24)")
    parser.add_argument(
        "--oldest-first-hours", type=float, metavar="H", help="jobs that have waited longer come first"
    )
    parser.add_argument(
        "--stale-seconds", type=float, metavar="S", help="refuse snapshots that are older (default: 300)"
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
            print(json.dumps({"snapshot": Snapshot.schema(), "decision": Decision.schema()}, indent=1))
            return 0
        scheduler = Scheduler.load(options.policy, **scheduler_settings(options))
        print(scheduler.decide(Snapshot.from_json(_text(options.snapshot))).to_json())
    return 0


def scheduler_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the scheduler's settings that the command line gives."""
    names = ("backfill", "admission", "horizon_hours", "oldest_first_hours", "stale_seconds")
    settings = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    settings.update(yaml.parse_assignments(options.set, "--set"))
    return settings


def _text(source: str) -> str:
    if source == "-":
        return sys.stdin.read()
    try:
        return Path(source).read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise ValueError(f"{source}: there is no such file") from None


if __name__ == "__main__":
    sys.exit(main())
