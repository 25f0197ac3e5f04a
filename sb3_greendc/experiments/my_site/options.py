"""The options of ``my-site``: files, and what the files do not say."""

from __future__ import annotations

import argparse
from pathlib import Path

from greendc.cluster.config import BACKFILLS
from greendc.cluster.rules import RULES
from greendc.energy.site import GRID_MODES
from greendc.traces.table_reader import NUMBER
from sb3_greendc.core.arguments import whole_number

NAME = "my-site"

ORDERS = tuple(rule for rule in RULES if not rule.endswith("_printed"))
"""Orders that a site may have: those that a benchmark printed by mistake are none."""

_OF_VALIDATE = frozenset(
    (
        "jobs",
        "repair",
        "processors",
        "validate",
        "order",
        "backfill",
        "out",
        "wide",
        "experiment",
        "arguments",
    )
)
"""What ``--validate`` reads of the command's options."""
_MOST_HOURS = 48.0
"""Between two clocks: those of two places are at most 26 apart."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of one's own site to a command."""
    files = parser.add_argument_group("files")
    files.add_argument(
        "--jobs", type=Path, required=True, metavar="LOG", help="job log: SWF or 'sacct -P', plain or .gz"
    )
    files.add_argument("--power", type=Path, metavar="CSV", help="sun and wind, in W to GW")
    files.add_argument("--carbon", type=Path, metavar="CSV", help="carbon intensity of the grid")
    files.add_argument(
        "--repair", action="store_true", help="mend defects of the files where that can be, and count them"
    )
    for name, what in (
        ("solar", "column of solar power, if its name does not tell; '' if there is none"),
        ("wind", "column of wind power, likewise"),
        ("power-time", "column of the power file's time stamps, likewise"),
        ("carbon-column", "column of the carbon intensity, likewise"),
        ("carbon-time", "column of the carbon file's time stamps, likewise"),
    ):
        files.add_argument(f"--{name}", metavar="COLUMN", help=what)
    files.add_argument("--power-unit", metavar="UNIT", help="W, kW, MW or GW, if the columns do not tell")
    files.add_argument("--carbon-unit", metavar="UNIT", help="such as g/kWh, if the column does not tell")
    files.add_argument(
        "--power-clock",
        type=_clock_hours,
        metavar="HOURS",
        help="hours to add to the power file's clock to get the job log's (1: from UTC to Berlin in winter); "
        "default: 0",
    )
    files.add_argument(
        "--carbon-clock",
        type=_clock_hours,
        metavar="HOURS",
        help="hours to add to the carbon file's clock to get the power file's (-6: from UTC to Texas); "
        "default: by the offsets from UTC in both, or columns of times named UTC, else 0",
    )
    urgency = parser.add_argument_group(
        "how urgent jobs are (default: drawn at random)",
        "one column, of the log (an SWF field, a column of the sacct export) or of --job-columns",
    )
    one = urgency.add_mutually_exclusive_group()
    one.add_argument(
        "--deadlines",
        metavar="COLUMN",
        help="when jobs must be done: a time of the log's clock or with its offset from UTC, or log seconds",
    )
    one.add_argument("--priorities", metavar="COLUMN", help="a number, the higher the more urgent")
    one.add_argument("--values", metavar="COLUMN", help="what jobs are worth if they are on time")
    urgency.add_argument(
        "--job-columns",
        type=Path,
        metavar="CSV",
        help="table with a column 'job' (its number; of an export, its JobID) and the other",
    )
    site = parser.add_argument_group("the site; the report says what is assumed of what you leave out")
    site.add_argument("--processors", type=whole_number, metavar="N", help="of the logged machine")
    site.add_argument("--units", type=whole_number, metavar="N", help="units that stand for them")
    site.add_argument(
        "--resource-types", type=whole_number, metavar="N", help="1: processors only; 2: and GPUs, say"
    )
    site.add_argument("--too-large", choices=("clip", "drop"), help="what becomes of jobs that never fit")
    site.add_argument("--total-kw", type=float, metavar="KW", help="draw of the site with every unit in use")
    site.add_argument("--critical-kw", type=float, metavar="KW", help="the part of it that always runs")
    site.add_argument("--battery-kwh", type=float, metavar="KWH", help="0: no battery")
    site.add_argument("--grid", choices=GRID_MODES, help="what energy of the grid may be used for")
    site.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="any keyword argument of the environment (horizon=72 step_hours=1 'site={idle_fraction: 0.3}')",
    )
    run = parser.add_argument_group("what is run")
    run.add_argument(
        "--validate",
        action="store_true",
        help="no training: does the cluster simulator give the waits that the log records?",
    )
    run.add_argument(
        "--order", choices=ORDERS, help="with --validate: who is first in the site's queue (default: fcfs)"
    )
    run.add_argument("--backfill", choices=BACKFILLS, help="with --validate: who may pass (default: easy)")
    run.add_argument("--quick", action="store_true", help="train for seconds rather than minutes")
    run.add_argument("--seeds", type=whole_number, help="training seeds")


def option_of(name: str) -> str:
    """Return how the option is written that sets an attribute of the parsed options."""
    return f"--{name.replace('_', '-')}"


def require_effect_of_validate(options: argparse.Namespace, defaults: argparse.Namespace) -> None:
    """Refuse options that ``--validate`` does not read.

    :param options: of the command
    :param defaults: those of a command that says nothing else
    :raises ValueError: naming all that differ from their defaults
    """
    idle = [
        option_of(name)
        for name, value in vars(options).items()
        if name not in _OF_VALIDATE and value != getattr(defaults, name)
    ]
    if idle:
        have = "has" if len(idle) == 1 else "have"
        raise ValueError(
            f"{', '.join(idle)}: {have} no effect with --validate, which plays the job log alone"
        )


def _clock_hours(text: str) -> float:
    """Read the hours between two clocks for argparse."""
    if NUMBER.fullmatch(text) is None or not abs(float(text)) <= _MOST_HOURS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be a number of hours from -{_MOST_HOURS:g} to {_MOST_HOURS:g}"
        )
    return float(text)
