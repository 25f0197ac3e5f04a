"""``scripts/plot.py``: figures of evaluation results and training logs, and a report that holds them all."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from greendc.config import nearest, require
from sb3_greendc.cli.common import Parser, one_line_errors
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.files import require_room
from sb3_greendc.core.provenance import provenance
from sb3_greendc.evaluation.comparisons import improvements, profiles, relative_to
from sb3_greendc.evaluation.metrics import LOWER_IS_BETTER, main_metrics, trade_off
from sb3_greendc.evaluation.plots import FORMATS, intervals, save_figure
from sb3_greendc.evaluation.plots_comparison import draw_improvements, draw_profiles, draw_trade_off
from sb3_greendc.evaluation.plots_training import draw_constrained_training, draw_learning_curves, having
from sb3_greendc.evaluation.policy_specs import split_name
from sb3_greendc.evaluation.progress import COST, REWARD, TrainingRun, read_runs
from sb3_greendc.evaluation.report import Section, Source, write_report
from sb3_greendc.evaluation.result_files import read_results
from sb3_greendc.evaluation.statistics import STATISTICS, summarize

POOLED = "all environments"


@dataclass(frozen=True)
class Drawn:
    """A figure with the name of its files and its caption."""

    name: str
    figure: Figure
    caption: str


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
        prog=how_to_start("plot"),
        description="Draw results of `evaluate`, and logs of `train`.",
    )
    parser.add_argument(
        "results", nargs="*", type=Path, metavar="RESULTS", help="results.csv or .parquet ..."
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the figures")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write everything into one HTML report, too"
    )
    parser.add_argument("--title", help="of the report (default: Evaluation)")
    parser.add_argument(
        "--formats", nargs="+", choices=FORMATS, default=["png", "pdf"], help="of the figures"
    )
    group = parser.add_argument_group("results")
    group.add_argument("--policies", nargs="+", metavar="POLICY", help="only these, in this order")
    group.add_argument("--metrics", nargs="+", metavar="METRIC", help="default: those of the family")
    group.add_argument("--statistic", choices=STATISTICS, help="default: mean; iqm: interquartile mean")
    group.add_argument("--reference", metavar="POLICY", help="compare with this policy (default: the first)")
    group.add_argument(
        "--relative",
        action="store_true",
        help="show metrics in per cent change against --reference, and over all environments together",
    )
    group.add_argument(
        "--lower-is-better", nargs="+", default=[], metavar="METRIC", help="besides those known to be so"
    )
    group.add_argument(
        "--trade-off",
        nargs=2,
        metavar=("OBJECTIVE", "COST"),
        help="metrics of the trade-off figure; policies called NAME@LIMIT form a curve",
    )
    group = parser.add_argument_group("training")
    group.add_argument(
        "--progress",
        nargs="+",
        default=[],
        metavar="[NAME=]RUNS",
        help="run folders or progress.csv files, one algorithm each: 'ppo=runs/ppo/seed_*'",
    )
    group.add_argument("--curves", nargs="+", metavar="COLUMN", help=f"of progress.csv (default: {REWARD})")
    group.add_argument("--cost-limit", type=float, help="default: what the runs' records say")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    with one_line_errors("plot"), ExitStack() as undo:
        if not options.results and not options.progress:
            raise ValueError("nothing to draw: give RESULTS, --progress, or both")
        _refuse_what_has_no_effect(options)
        if not options.out.exists():
            undo.callback(_remove_if_empty, options.out)
        require_room(options.out)
        if options.html is not None:
            if options.html.is_dir():
                raise ValueError(f"--html {options.html}: is a folder; must be a file")
            require_room(options.html.parent, "--html")
        groups = read_groups(options.progress)
        sections: list[Section] = []
        drawn: list[Drawn] = []
        sources: list[Source] = []
        if options.results:
            results, of_results = read_all(options.results)
            of_evaluation, section = draw_results(results, options)
            drawn += of_evaluation
            sources += of_results
            sections.append(section)
        if groups:
            of_training = draw_training(groups, options.curves, options.cost_limit)
            drawn += of_training
            sources += [Source(run.path, run.record) for runs in groups.values() for run in runs]
            figures = [(one.figure, one.caption) for one in of_training]
            sections.append(Section("Training", figures=figures))
        undo.pop_all()
    for one in drawn:
        for suffix in dict.fromkeys(options.formats):
            path = options.out / f"{one.name}.{suffix}"
            save_figure(one.figure, path)
            print(f"wrote {path}")
    if options.html is not None:
        better = LOWER_IS_BETTER | set(options.lower_is_better)
        write_report(options.html, options.title or "Evaluation", sections, sources, provenance(), better)
        print(f"wrote {options.html}")
    return 0


def _refuse_what_has_no_effect(options: argparse.Namespace) -> None:
    """Refuse options about what is not drawn.

    :raises ValueError: naming the first
    """
    of_results = ("policies", "metrics", "statistic", "reference", "relative", "lower_is_better", "trade_off")
    for given, needed, keys in (
        (options.results, "RESULTS", of_results),
        (options.progress, "--progress", ("curves", "cost_limit")),
        (options.html, "--html", ("title",)),
    ):
        for key in keys:
            value = getattr(options, key)
            if not given and value is not None and value is not False and value != []:
                raise ValueError(f"--{key.replace('_', '-')}: has no effect without {needed}")


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def read_all(paths: Sequence[Path]) -> tuple[pd.DataFrame, list[Source]]:
    """Read several tables of episodes as one.

    :raises ValueError: for a file that is none, or if two have the same policy, run and episode
    """
    tables, sources = [], []
    for path in paths:
        table, record = read_results(path)
        tables.append(table)
        sources.append(Source(path, record))
    results = pd.concat(tables, ignore_index=True)
    keys = results[["env_id", "policy", "run", "seed"]]
    if keys.duplicated().any():
        env_id, policy, run, seed = keys[keys.duplicated()].iloc[0]
        raise ValueError(
            f"{', '.join(map(str, paths))}: policy {policy!r} has seed {seed} of {env_id} twice (run {run}); "
            "evaluate under different names (NAME=POLICY), or leave a file out"
        )
    return results, sources


def draw_results(results: pd.DataFrame, options: argparse.Namespace) -> tuple[list[Drawn], Section]:
    """Draw everything that results alone tell, and return it with the section of the report.

    :raises ValueError: for an unknown policy or metric
    """
    results = _choose_policies(results, options.policies)
    policies = [str(policy) for policy in results["policy"].unique()]
    metrics = list(dict.fromkeys(options.metrics or _main_metrics(results)))
    pair = list(options.trade_off or _present(trade_off(results), results))
    _check_metrics([*metrics, *pair, *sorted({*options.lower_is_better} - LOWER_IS_BETTER)], results)
    reference = options.reference or policies[0]
    if reference not in policies:
        raise ValueError(
            f"--reference {reference}: must be one of {', '.join(policies)}{nearest(reference, policies)}"
        )
    lower = LOWER_IS_BETTER | set(options.lower_is_better)
    statistic = options.statistic or "mean"
    several = results["env_id"].nunique() > 1
    shown = relative_to(results, metrics, reference) if options.relative else results
    if options.relative and not options.metrics:
        metrics = _present(metrics, shown) or metrics
    _require_values(metrics, shown, f" other than 0 for {reference}" if options.relative else "")
    summary = summarize(
        shown,
        metrics,
        statistic,
        None if options.relative else reference,
        pooled=POOLED if several and options.relative else None,
    )
    summary = summary.groupby(["env_id", "metric"], sort=False).filter(lambda rows: rows["n"].any())
    what = {"mean": "Mean", "iqm": "Interquartile mean"}[statistic]
    of_what = f" of the per cent change against {reference}" if options.relative else ""
    unit = "per cent" if options.relative else None
    episodes = _episodes_said(results)
    drawn = [
        Drawn(
            "intervals",
            intervals(summary, lower, unit),
            f"{what}{of_what} with 95 % bootstrap interval ({episodes}). Arrows point to the better side.",
        ),
        Drawn(
            "performance_profiles",
            draw_profiles(profiles(results, metrics, lower), lower),
            "Performance profiles: share of episodes better than each value, with pointwise 95 % bootstrap "
            "intervals. Better is to the right; the higher line is the better policy at that value.",
        ),
    ]
    compared = improvements(results, metrics, reference, lower)
    if len(compared):
        caption = (
            f"Probability that a policy does better than {reference} on the same episode (a tie counts "
            "half), with 95 % bootstrap interval."
        )
        figure = draw_improvements(compared, reference, lower)
        drawn.append(Drawn("probability_of_improvement", figure, caption))
    if len(pair) == 2 and _traded(results, pair):
        caption = (
            "Trade-off: mean of each policy with 95 % bootstrap intervals; policies NAME@LIMIT form a curve."
        )
        figure = draw_trade_off(summarize(results, pair), pair[0], pair[1], lower)
        drawn.append(Drawn("trade_off", figure, caption))
    elif options.trade_off:
        raise ValueError(f"--trade-off {' '.join(pair)}: no environment has values of both")
    text = f"{what}{of_what} of {episodes}, with 95 % bootstrap intervals."
    if not options.relative:
        text += f" Δ: mean difference to {reference} on the same episode."
    figures = [(one.figure, one.caption) for one in drawn]
    return drawn, Section("Results", text, [summary], figures, unit=unit)


def read_groups(arguments: Sequence[str]) -> dict[str, list[TrainingRun]]:
    """Read the logs of each algorithm: ``NAME=PATTERN``, or a pattern alone.

    :raises ValueError: for a name given twice, or files that are no logs
    """
    groups: dict[str, list[TrainingRun]] = {}
    for argument in arguments:
        name, pattern = split_name(argument)
        if name in groups:
            raise ValueError(f"--progress: {name!r} given twice")
        groups[name] = read_runs(pattern)
    return groups


def draw_training(
    groups: Mapping[str, Sequence[TrainingRun]], curves: Sequence[str] | None, cost_limit: float | None
) -> list[Drawn]:
    """Draw learning curves, and constrained training where the logs have costs.

    :param groups: the runs of each algorithm
    :param curves: columns of the logs
    :param cost_limit: in place of what the runs' records say
    :raises ValueError: if a log lacks a column, or for a limit that is no number
    """
    require(cost_limit is None or math.isfinite(cost_limit), "--cost-limit", cost_limit, "a finite number")
    seeds = ", ".join(f"{name}: {len(runs)}" for name, runs in groups.items())
    drawn = [
        Drawn(
            "learning_curves",
            draw_learning_curves(groups, curves or [REWARD]),
            "Learning curves: mean over runs with 95 % bootstrap interval, single runs faint (number of "
            f"runs: {seeds}).",
        )
    ]
    if having(groups, COST):
        drawn.append(
            Drawn(
                "constrained_training",
                draw_constrained_training(groups, cost_limit),
                "Constrained training: return, cost with its limit (dashed), and Lagrange multiplier; mean "
                "over runs with 95 % bootstrap interval.",
            )
        )
    elif cost_limit is not None:
        raise ValueError(f"--cost-limit {cost_limit}: no log has the column {COST}")
    return drawn


def _choose_policies(results: pd.DataFrame, policies: Sequence[str] | None) -> pd.DataFrame:
    if policies is None:
        return results
    known = list(results["policy"].unique())
    if len(set(policies)) < len(policies):
        raise ValueError(f"--policies {' '.join(policies)}: each policy may be given once")
    for policy in policies:
        if policy not in known:
            raise ValueError(f"--policies {policy}: not in the results{nearest(policy, known)}")
    return pd.concat([results[results["policy"] == policy] for policy in policies], ignore_index=True)


def _check_metrics(metrics: Sequence[str], results: pd.DataFrame) -> None:
    known = [str(column) for column in results.select_dtypes("number").columns]
    known = [column for column in known if column not in ("seed", "run", "episode")]
    for metric in metrics:
        if metric not in known:
            raise ValueError(
                f"metric {metric!r}: not in the results{nearest(metric, known)} (known: {', '.join(known)})"
            )


def _main_metrics(results: pd.DataFrame) -> list[str]:
    """Return the metrics that are shown by default: of each environment those of its family."""
    found = dict[str, None]()
    for _, rows in results.groupby("env_id", sort=False):
        found |= dict.fromkeys(_present(main_metrics(rows.dropna(axis="columns", how="all")), rows))
    if not found:
        raise ValueError(
            "no usual metric is in the results: name metrics with --metrics, or evaluate again "
            f"(columns: {', '.join(map(str, results.columns))})"
        )
    return list(found)


def _require_values(metrics: Sequence[str], results: pd.DataFrame, which: str) -> None:
    for metric in metrics:
        if results[metric].isna().all():
            raise ValueError(f"metric {metric!r}: no episode has a value{which}")


def _traded(results: pd.DataFrame, pair: Sequence[str]) -> bool:
    """Tell whether there are values of both metrics in any environment."""
    return bool(results.groupby("env_id")[list(dict.fromkeys(pair))].count().gt(0).all(axis=1).any())


def _present(metrics: Sequence[str], results: pd.DataFrame) -> list[str]:
    return [metric for metric in metrics if metric in results.columns and results[metric].notna().any()]


def _episodes_said(results: pd.DataFrame) -> str:
    counts = results.groupby(["env_id", "policy", "run"]).size()
    least, most = int(counts.min()), int(counts.max())
    return f"{most} episodes a run" if least == most else f"{least} to {most} episodes a run"


if __name__ == "__main__":
    sys.exit(main())
