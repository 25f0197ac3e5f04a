"""``scripts/planners.py``: how far policies are from the best possible, and what the gap is made of."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from greendc.baselines.linear import NoBoundError
from sb3_greendc.cli.common import BAD_INPUT, add_trust_option, one_line_errors
from sb3_greendc.core import yaml
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.vec_env import make_vec_env
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
from sb3_greendc.experiments.planners.common import ENV_ID
from sb3_greendc.runs.models import load_model


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(
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
        study.add_argument("--loads", type=float, nargs="+", default=list(loads.LOADS))
        study.add_argument("--episodes", type=whole_number, default=20, help="of each load")
        study.add_argument("--model", help="distilled networks: a folder, or a pattern in quotes")
        add_trust_option(study)
    by_load.add_argument("--policies", nargs="+", default=list(loads.POLICIES), metavar="POLICY")
    exact.add_argument("--steps", type=whole_number, default=100, help="of an episode")
    exact.add_argument("--time-limit", type=float, default=120.0, help="seconds for each optimum")
    exact.add_argument("--workers", type=whole_number, default=2, help="threads of the solver")

    large = add("large", "the linear programme of a pool of 300 units", _large)
    large.add_argument("--episodes", type=whole_number, default=3)
    large.add_argument("--steps", type=whole_number, default=500, help="of an episode")

    divided = add("divisible", "what divisible jobs earn if the arrivals are unknown", _divisible)
    divided.add_argument("--loads", type=float, nargs="+", default=list(divisible.LOADS))
    divided.add_argument("--episodes", type=whole_number, default=8, help="of each load")
    divided.add_argument("--steps", type=whole_number, default=500, help="of an episode")
    divided.add_argument("--futures", type=whole_number, default=12, help="of each programme")
    divided.add_argument("--depth", type=whole_number, default=30, help="steps that it looks ahead")

    distilled = add("distill", "distil networks from rollouts, and judge them on held-out episodes", _distill)
    distilled.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the trainings")
    distilled.add_argument("--labels", type=whole_number, default=60_000, help="decisions recorded for each")
    distilled.add_argument("--futures", type=whole_number, default=32, help="of the teacher's rollouts")
    distilled.add_argument("--epochs", type=whole_number, default=10, help="passes over the data")
    distilled.add_argument(
        "--episodes", type=whole_number, default=256, help="held-out, of each load; a quarter on 50 units"
    )
    distilled.add_argument("--models", type=Path, required=True, help="folder of the networks")

    timed = add("effort", "value against the time of a decision, by number of futures", _effort)
    timed.add_argument("--load", type=float, default=1.0, help="offered load (default: %(default)s)")
    timed.add_argument("--futures", type=whole_number, nargs="+", default=list(effort.FUTURES))
    timed.add_argument("--episodes", type=whole_number, default=256, help="held-out")
    timed.add_argument("--figure", type=Path, metavar="PNG", help="draw it, too")

    informed = add("foresight", "what knowing the arrivals of the next steps is worth", _foresight)
    informed.add_argument("--loads", type=float, nargs="+", default=list(foresight.LOADS))
    informed.add_argument(
        "--known-arrivals", type=int, nargs="+", default=list(foresight.KNOWN_ARRIVALS), metavar="STEPS"
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
        study.add_argument("--out", type=Path, required=True, metavar="CSV")

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
    named: list[PolicySource] = []
    if getattr(options, "policies", None):
        named += policy_sources(options.policies, ENV_ID, options.trust)
    if getattr(options, "model", None):
        named += policy_sources({loads.LEARNED: options.model}, ENV_ID, options.trust)
    for one in named:
        if isinstance(one, ModelSource):
            load_model(one.path, trust=one.trust)
    for load in getattr(options, "loads", ()):
        if not load >= 0:
            raise ValueError(f"--loads {load}: must be 0 or more")
    if options.study == "effort" and not options.load >= 0:
        raise ValueError(f"--load {options.load}: must be 0 or more")
    for known_arrivals in getattr(options, "known_arrivals", ()):
        if known_arrivals < 0:
            raise ValueError(f"--known-arrivals {known_arrivals}: must be 0 or more steps")
    if options.study == "foresight":
        settings = yaml.parse_assignments(options.set, "--set")
        make_vec_env(options.env, 1, **{**settings, "offered_load": options.loads[0]}).close()
    if options.study == "figure":
        for path in (options.values, options.parts, options.divisible):
            path.open().close()


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
    table = distilled.study(options.models, options.futures, options.episodes)
    return _keep(table, options.out, distilled.describe)


def _effort(options: argparse.Namespace) -> str:
    table = effort.study(options.load, sorted(set(options.futures)), options.episodes)
    if options.figure is not None:
        save_figure(effort.draw(table), options.figure)
    return _keep(table, options.out, effort.describe)


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
    save_figure(
        figure.draw(*map(pd.read_csv, (options.values, options.parts, options.divisible))), options.out
    )
    return f"wrote {options.out}"


def _keep(table: pd.DataFrame, path: Path, describe: Callable[[Any], str]) -> str:
    """Write a table as CSV, and return its Markdown."""
    with atomic_write(path) as file:
        file.write(table.to_csv(index=False, float_format="%.6g").encode())
    return describe(table)


if __name__ == "__main__":
    sys.exit(main())
