"""``scripts/planners.py``: how far policies are from the best possible, and what the gap is made of."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from greendc.baselines.linear import NoBoundError
from greendc.resource_pool.config import LARGEST_LOAD
from sb3_greendc.cli.common import BAD_INPUT, Parser, add_trust_option, one_line_errors
from sb3_greendc.core import yaml
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.files import atomic_write, require_room, write_or_rescue
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.plots import FORMATS as PICTURES
from sb3_greendc.evaluation.plots import save_figure
from sb3_greendc.evaluation.policy_sources import ModelSource, PolicySource, policy_sources
from sb3_greendc.experiments.episodes import HEURISTICS
from sb3_greendc.experiments.planners import (
    distilled,
    divisible,
    effort,
    figure,
    forecasts,
    foresight,
    loads,
    optimum,
)
from sb3_greendc.experiments.planners.common import ENV_ID, LEARNED
from sb3_greendc.runs.models import load_model

_COLUMNS = {
    "loads": ("load", "policy", "mean"),
    "optimum": ("load", "bound", "lp"),
    "divisible": ("load", "divisible", "bound"),
}
"""What the figure needs of each study's table."""


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
        prog=how_to_start("planners"),
        description="How far policies are from the best possible, and what the gap is made of.",
    )
    studies = parser.add_subparsers(dest="study", required=True, metavar="STUDY")

    def add(name: str, help_text: str, run: Callable[[argparse.Namespace], str]) -> argparse.ArgumentParser:
        study = studies.add_parser(name, help=help_text, description=help_text)
        study.set_defaults(run=run)
        return study

    by_load = add("loads", "policies against load, with the share of the bound and the time taken", _loads)
    exact = add("optimum", "the clairvoyant optimum of short episodes, and the parts of the gap", _optimum)
    for study in (by_load, exact):
        study.add_argument("--loads", type=float, nargs="+", default=list(loads.LOADS), help="offered loads")
        episodes = 64 if study is by_load else 20
        study.add_argument("--episodes", type=whole_number, default=episodes, help="of each load")
        study.add_argument("--model", help="distilled networks: a folder, or a pattern in quotes")
        add_trust_option(study)
    by_load.add_argument(
        "--policies", nargs="+", default=list(loads.POLICIES), metavar="POLICY", help="to judge"
    )
    exact.add_argument("--steps", type=whole_number, default=100, help="of an episode")
    exact.add_argument("--time-limit", type=float, default=120.0, help="seconds for each optimum")
    exact.add_argument("--workers", type=whole_number, default=2, help="threads of the solver")

    large = add("large", "the linear programme of a pool of 300 units", _large)
    large.add_argument("--episodes", type=whole_number, default=3, help="of the load")
    large.add_argument("--steps", type=whole_number, default=500, help="of an episode")

    divided = add("divisible", "what divisible jobs earn if the arrivals are unknown", _divisible)
    divided.add_argument(
        "--loads", type=float, nargs="+", default=list(divisible.LOADS), help="offered loads"
    )
    divided.add_argument("--episodes", type=whole_number, default=8, help="of each load")
    divided.add_argument("--steps", type=whole_number, default=500, help="of an episode")
    divided.add_argument("--futures", type=whole_number, default=12, help="of each programme")
    divided.add_argument("--depth", type=whole_number, default=30, help="steps that it looks ahead")

    distilled = add(
        "distill", "distill networks from rollouts, and judge them on held-out episodes", _distill
    )
    distilled.add_argument("--seeds", type=int, nargs="+", default=list(range(5)), help="of the trainings")
    distilled.add_argument("--labels", type=whole_number, default=336_000, help="decisions recorded for each")
    distilled.add_argument("--futures", type=whole_number, default=16, help="of the teacher's rollouts")
    distilled.add_argument("--epochs", type=whole_number, default=10, help="passes over the data")
    distilled.add_argument(
        "--episodes", type=whole_number, default=256, help="held-out, of each load; a quarter on 50 units"
    )
    distilled.add_argument("--models", type=Path, required=True, help="folder of the networks")

    timed = add("effort", "value against the time of a decision, by number of futures", _effort)
    timed.add_argument("--load", type=float, default=1.0, help="offered load (default: %(default)s)")
    timed.add_argument(
        "--futures", type=whole_number, nargs="+", default=list(effort.FUTURES), help="of a decision"
    )
    timed.add_argument("--episodes", type=whole_number, default=256, help="held-out")
    timed.add_argument("--figure", type=Path, metavar="PNG", help="draw it, too")

    informed = add("foresight", "what knowing the arrivals of the next steps is worth", _foresight)
    informed.add_argument(
        "--loads", type=float, nargs="+", default=list(foresight.LOADS), help="offered loads"
    )
    informed.add_argument(
        "--known-arrivals",
        type=int,
        nargs="+",
        default=list(foresight.KNOWN_ARRIVALS),
        metavar="STEPS",
        help="how far arrivals are known",
    )
    informed.add_argument("--episodes", type=whole_number, default=256, help="of each load")
    informed.add_argument("--env", default=ENV_ID, metavar="ID", help="default: %(default)s")
    informed.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="environment settings")
    informed.add_argument(
        "--rivals",
        nargs="+",
        choices=HEURISTICS,
        default=list(foresight.RIVALS),
        metavar="NAME",
        help="heuristics, the best of which gains are over (default: the papers')",
    )

    curves = add("forecasts", "virtual capacity curves: what each forecast is worth", _forecasts)
    curves.add_argument("--episodes", type=whole_number, default=8, help="of each month and forecast")
    for study in (by_load, exact, large, divided, distilled, timed, informed, curves):
        study.add_argument("--out", type=Path, required=True, metavar="CSV", help="the table")

    drawn = add("figure", "draw what `loads`, `optimum` and `divisible` wrote", _figure)
    drawn.add_argument("--values", type=Path, required=True, metavar="CSV", help="of `loads`")
    drawn.add_argument("--parts", type=Path, required=True, metavar="CSV", help="of `optimum`")
    drawn.add_argument(
        "--divisible",
        type=Path,
        required=True,
        metavar="CSV",
        help="of `divisible`, in episodes as of `optimum`",
    )
    drawn.add_argument("--out", type=Path, required=True, help="PNG, PDF or SVG")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    with one_line_errors("planners"):
        _check(options)
    try:
        print(options.run(options))
    except NoBoundError as error:
        print(f"planners: error: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse what cannot be read before anything runs."""
    _check_place("--out", options.out, PICTURES if options.study == "figure" else ())
    if getattr(options, "figure", None) is not None:
        _check_place("--figure", options.figure, PICTURES)
    named: list[PolicySource] = []
    if getattr(options, "policies", None):
        named += policy_sources(options.policies, ENV_ID, options.trust)
    if getattr(options, "model", None):
        named += policy_sources({LEARNED: options.model}, ENV_ID, options.trust)
    for one in named:
        if isinstance(one, ModelSource):
            load_model(one.path, trust=one.trust)
        else:
            with contextlib.closing(make_vec_env(ENV_ID, 1, **one.choice)) as env:
                one.policy_for(one.prepare_env(env))
    for load in getattr(options, "loads", ()):
        _check_load("--loads", load)
    if options.study == "distill":
        numbers = (options.labels, options.futures, options.epochs)
        distilled.check(options.seeds, *numbers, options.models)
    if options.study == "effort":
        _check_load("--load", options.load)
    if options.study == "optimum" and not 0 < options.time_limit < math.inf:
        raise ValueError(f"--time-limit {options.time_limit:g}: must be a number of seconds above 0")
    for known_arrivals in getattr(options, "known_arrivals", ()):
        if known_arrivals < 0:
            raise ValueError(f"--known-arrivals {known_arrivals}: must be 0 or more steps")
    if options.study == "foresight":
        settings = yaml.parse_assignments(options.set, "--set")
        make_vec_env(options.env, 1, **{**settings, "offered_load": options.loads[0]}).close()
    if options.study == "figure":
        _read_tables(options)


def _check_place(name: str, path: Path, endings: Sequence[str]) -> None:
    """Refuse a place where the results could not be written, before the work.

    :raises ValueError: for a folder, or another ending than those that are allowed, if any are named
    :raises OSError: if its folder cannot be made or written
    """
    if path.is_dir():
        raise ValueError(f"{name} {path}: is a folder; must be a file")
    if endings and path.suffix[1:] not in endings:
        raise ValueError(f"{name} {path}: must end in {', '.join('.' + known for known in endings)}")
    require_room(path.parent, name)


def _check_load(name: str, load: float) -> None:
    if not 0 <= load <= LARGEST_LOAD:
        raise ValueError(f"{name} {load}: must be from 0 to {LARGEST_LOAD:g}")


def _read_tables(options: argparse.Namespace) -> list[pd.DataFrame]:
    """Return what the figure is drawn of.

    :raises OSError: if there is no such file
    :raises ValueError: for a file that no study wrote
    """
    tables = []
    for study, path in (
        ("loads", options.values),
        ("optimum", options.parts),
        ("divisible", options.divisible),
    ):
        try:
            table = pd.read_csv(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        for column in _COLUMNS[study]:
            if column not in table:
                raise ValueError(f"{path}: no column {column!r}; must be written by `planners {study}`")
        tables.append(table)
    return tables


def _loads(options: argparse.Namespace) -> str:
    table = loads.study(options.loads, options.policies, options.episodes, options.model, options.trust)
    return _keep(table, options.out, loads.describe)


def _optimum(options: argparse.Namespace) -> str:
    numbers = (options.episodes, options.steps, options.time_limit, options.workers)
    table = optimum.study(options.loads, *numbers, options.model, options.trust)
    return _keep(table, options.out, optimum.describe)


def _large(options: argparse.Namespace) -> str:
    return _keep(optimum.large(options.episodes, options.steps), options.out, optimum.describe_large)


def _divisible(options: argparse.Namespace) -> str:
    table = divisible.study(options.loads, options.episodes, options.steps, options.futures, options.depth)
    return _keep(table, options.out, divisible.describe)


def _distill(options: argparse.Namespace) -> str:
    trained = distilled.train(options.seeds, options.labels, options.futures, options.epochs, options.models)
    print(trained.to_string(index=False, float_format="%.3g"), flush=True)
    table = distilled.study(options.seeds, options.models, options.episodes)
    return _keep(table, options.out, distilled.describe)


def _effort(options: argparse.Namespace) -> str:
    table = effort.study(options.load, sorted(set(options.futures)), options.episodes)
    said = _keep(table, options.out, effort.describe)
    if options.figure is not None:
        save_figure(effort.draw(table), options.figure)
    return said


def _foresight(options: argparse.Namespace) -> str:
    settings = yaml.parse_assignments(options.set, "--set")
    table = foresight.study(
        options.loads,
        sorted(set(options.known_arrivals)),
        options.episodes,
        options.env,
        settings,
        options.rivals,
    )
    return _keep(table, options.out, foresight.describe)


def _forecasts(options: argparse.Namespace) -> str:
    return _keep(forecasts.study(options.episodes), options.out, forecasts.describe)


def _figure(options: argparse.Namespace) -> str:
    save_figure(figure.draw(*_read_tables(options)), options.out)
    return f"wrote {options.out}"


def _keep(table: pd.DataFrame, path: Path, describe: Callable[[Any], str]) -> str:
    """Write a table as CSV, and return its Markdown."""

    def write(place: Path) -> None:
        with atomic_write(place) as file:
            file.write(table.to_csv(index=False, float_format="%.6g").encode())

    write_or_rescue(write, path, "the table")
    return describe(table)


if __name__ == "__main__":
    sys.exit(main())
