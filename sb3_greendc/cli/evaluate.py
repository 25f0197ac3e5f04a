"""``scripts/evaluate.py``: judge policies on the same episodes: tables, a file with its record, a figure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import greendc
from greendc.config import nearest
from sb3_greendc.cli.common import (
    INTERRUPTED,
    HelpWithDefaults,
    Parser,
    add_environment_options,
    add_trust_option,
    add_wide_option,
    one_line_errors,
    tables_console,
)
from sb3_greendc.core import yaml
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.engine import ENGINES
from sb3_greendc.core.files import write_or_rescue
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.secrets import require_secrets, values_without_secrets
from sb3_greendc.evaluation.bounds import METHODS, SHARE, add_share_of_bound
from sb3_greendc.evaluation.metrics import main_metrics
from sb3_greendc.evaluation.paired import FIRST_SEED, Evaluation, EvaluationInterrupted, run_evaluations
from sb3_greendc.evaluation.plots import intervals, save_figure
from sb3_greendc.evaluation.policy_specs import split_name
from sb3_greendc.evaluation.recorded_environment import recorded_environment
from sb3_greendc.evaluation.result_files import check_path, files_of, partial_path, write_results
from sb3_greendc.evaluation.statistics import STATISTICS, summarize
from sb3_greendc.evaluation.tables import summary_tables

_EPILOG = """examples of POLICY:
  rolling                            a baseline
  random                             chance, in every environment
  hvf:dispatch=easy,scope=queue      with options; an unknown one is answered with those there are
  easy=hvf:dispatch=easy             called "easy" in tables and figures
  runs/ppo/model.zip  runs/ppo       a saved model; dqn:model.zip says the algorithm where no record does
  'ppo=runs/ppo/seed_*'              several runs of one algorithm, judged together
  pretrained  pretrained:NAME        a policy that ships: the environment's own, or by its name
  work_conserving:pretrained         any of these, but never idle while a job could start and be on time
"""


class _Help(HelpWithDefaults, argparse.RawDescriptionHelpFormatter):
    """Leaves the lines of the examples as they are."""


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
        prog=how_to_start("evaluate"),
        description="Evaluate baselines and trained models on the same episodes.",
        epilog=_EPILOG,
        formatter_class=_Help,
    )
    parser.add_argument(
        "--env",
        nargs="+",
        metavar="ID",
        help="environment ids: VCC-2021 ... (default: that of the first saved model, with its settings, but "
        "not the months of its training)",
    )
    parser.add_argument(
        "--policies",
        nargs="+",
        required=True,
        metavar="POLICY",
        help="baselines and saved models, as below; best_known goes last and starts from what the others did",
    )
    parser.add_argument("--episodes", type=whole_number, default=10, help="of each run (default: 10)")
    parser.add_argument(
        "--seed",
        type=int,
        default=FIRST_SEED,
        help="episode k is seeded SEED + k for every policy (default: %(default)s, far above trainings')",
    )
    add_environment_options(parser)
    add_trust_option(parser)
    parser.add_argument("--stochastic", action="store_true", help="sample actions instead of the most likely")
    parser.add_argument("--metrics", nargs="+", metavar="METRIC", help="columns of the table and the figure")
    parser.add_argument("--statistic", choices=STATISTICS, default="mean", help="iqm: interquartile mean")
    parser.add_argument("--reference", metavar="POLICY", help="show the paired difference to this policy")
    parser.add_argument(
        "--bound",
        choices=METHODS,
        help="show what share of a bound every policy reaches: of a linear programme (default for the "
        "resource pool), or of the clairvoyant optimum (resource pool, OR-Tools); bounds are cached",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="every episode, as .csv (its record beside it as .json) or .parquet; after Ctrl-C the episodes "
        "so far go to NAME.partial.csv",
    )
    add_wide_option(parser)
    parser.add_argument("--plot", action="store_true", help="draw the table beside --out, as PNG and PDF")
    parser.add_argument("--engine", choices=ENGINES, default="serial", help="where episodes run")
    parser.add_argument("--jobs", type=whole_number, help="batches of episodes at once (default: processors)")
    parser.add_argument("--batch-size", type=whole_number, default=128, help="episodes side by side at most")
    parser.add_argument("--ray-address", metavar="ADDRESS", help="of a running cluster, for --engine ray")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    with one_line_errors("evaluate"):
        _check_options(options)
        env_kwargs = yaml.parse_assignments(options.set, "--set")
        if options.env is None:
            env_id, own = recorded_environment(options.policies)
            options.env, env_kwargs = [env_id], {**own, **env_kwargs}
            require_secrets(env_kwargs, "--set")
            shown = values_without_secrets(env_kwargs)
            said = ", ".join(f"{key}={value}" for key, value in shown.items())
            print(f"environment: {env_id}{' with ' if said else ''}{said}, from the first saved model")
        evaluations = [
            Evaluation(
                options.policies,
                env_id,
                options.episodes,
                options.seed,
                env_kwargs,
                not options.stochastic,
                options.batch_size,
                options.trust,
            )
            for env_id in dict.fromkeys(map(greendc.resolve_env_id, options.env))
        ]
        _check_metrics(options.metrics or (), evaluations)
        for evaluation in evaluations:
            _check_bound(options.bound, evaluation.env_id)
        results, completed = _run(options, evaluations, env_kwargs)
    if not completed:
        print(f"interrupted; {len(results):,} episodes had been run")
    with one_line_errors("evaluate"):
        try:
            summary = _summary(results, options, completed)
        except ValueError:  # a metric that only the results know: they are kept all the same
            _keep(options, evaluations, results, completed)
            raise
    try:
        _keep(options, evaluations, results, completed)
    finally:  # also where no disk takes the file
        _print(summary, options)
    if options.plot:
        for suffix in (".png", ".pdf"):
            figure = _place(options, completed).with_suffix(suffix)
            save_figure(intervals(summary), figure)
            print(f"wrote {figure}")
    return 0 if completed else INTERRUPTED


def _summary(results: pd.DataFrame, options: argparse.Namespace, completed: bool) -> pd.DataFrame:
    """Summarize each environment, one of several by the metrics that it has.

    :param completed: whether all environments and policies are there
    :raises ValueError: for a metric that none has
    """
    groups = results.groupby("env_id", sort=False)
    parts = []
    for _, rows in groups:
        own = rows if groups.ngroups == 1 else rows.dropna(axis=1, how="all")
        metrics = options.metrics or (*main_metrics(own), *({SHARE} & {*own.columns}))
        there = [metric for metric in metrics if metric in own or (completed and metric not in results)]
        reference = options.reference if options.reference in set(rows["policy"]) else None
        parts.append(summarize(rows, there or ["return"], options.statistic, reference))
    return pd.concat(parts, ignore_index=True)


def _keep(
    options: argparse.Namespace, evaluations: Sequence[Evaluation], results: pd.DataFrame, completed: bool
) -> None:
    """Write the results, where a file is wanted; those of an interrupted evaluation replace no whole ones."""
    if options.out is None:
        return
    place = _place(options, completed)
    record = {**_record(options, evaluations), "completed": completed}
    write_or_rescue(lambda path: write_results(path, results, record), place, "the table")
    print(f"wrote {' and '.join(map(str, files_of(place)))}")


def _place(options: argparse.Namespace, completed: bool) -> Path:
    out: Path = options.out
    return out if completed else partial_path(out)


def _run(
    options: argparse.Namespace, evaluations: Sequence[Evaluation], env_kwargs: Mapping[str, Any]
) -> tuple[pd.DataFrame, bool]:
    """Run the episodes and return their table, and whether it is complete.

    :raises KeyboardInterrupt: after Ctrl-C before the first episodes were done
    """
    progress = not options.no_progress
    try:
        results = run_evaluations(evaluations, progress, options.engine, options.jobs, options.ray_address)
    except EvaluationInterrupted as stop:
        if not len(stop.results):
            raise
        return stop.results, False
    try:
        return add_share_of_bound(results, options.bound, env_kwargs, progress=progress), True
    except KeyboardInterrupt:
        return results, False
    except Exception:  # episodes are not lost for a bound
        _keep(options, evaluations, results, True)
        raise


def _check_options(options: argparse.Namespace) -> None:
    if options.out is not None:
        check_path(options.out)
    if options.plot and options.out is None:
        raise ValueError("--plot: needs --out, beside which the figure goes")
    if options.metrics is not None:
        options.metrics = list(dict.fromkeys(options.metrics))
    names = [split_name(policy)[0] for policy in options.policies]
    if options.reference is not None and options.reference not in names:
        hint = nearest(options.reference, names)
        raise ValueError(f"--reference {options.reference}: must be one of {', '.join(names)}{hint}")
    if options.ray_address is not None and options.engine != "ray":
        raise ValueError(f"--ray-address {options.ray_address}: needs --engine ray")


def _check_metrics(metrics: Sequence[str], evaluations: Sequence[Evaluation]) -> None:
    """Refuse metrics that no environment has before the episodes are run, where they are known before."""
    known = ["return", "length", "cost", "bound", SHARE]
    for evaluation in evaluations:
        if evaluation.metrics is None:
            return
        known += [metric for metric in evaluation.metrics if metric not in known]
    for metric in metrics:
        if metric not in known:
            whose = " and ".join(evaluation.env_id for evaluation in evaluations)
            raise ValueError(
                f"--metrics {metric}: {whose} {'has' if len(evaluations) == 1 else 'have'} none of that name"
                f"{nearest(metric, known)} (known: {', '.join(known)})"
            )


def _check_bound(method: str | None, env_id: str) -> None:
    if method not in (None, "none") and greendc.family(env_id) is None:
        raise ValueError(f"--bound {method}: there is none for {env_id}, an environment of another package")


def _record(options: argparse.Namespace, evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    given = {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()}
    policies: dict[str, list[str]] = {}
    for one in (source for evaluation in evaluations for source in evaluation.sources):
        found = policies.setdefault(one.name, [])
        if one.source not in found:  # of each environment its own, such as the policy that ships for it
            found.append(one.source)
    settings = dict(evaluations[0].env_kwargs)
    told = {"options": given, "env_kwargs": settings, "policies": policies}
    return {**provenance(), **values_without_secrets(told)}


def _print(summary: pd.DataFrame, options: argparse.Namespace) -> None:
    console = tables_console(options.wide)
    for env_id, of_env in summary.groupby("env_id", sort=False):
        title = f"{env_id}: {options.statistic} of {options.episodes} episodes, 95 % interval"
        for table in summary_tables(of_env, title, console.width):
            console.print(table)


if __name__ == "__main__":
    sys.exit(main())
