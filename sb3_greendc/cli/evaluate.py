"""``scripts/evaluate.py``: judge policies on the same episodes: a table, a CSV with its record, a figure."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console

import greendc
from sb3_greendc.cli.common import add_environment_options, one_line_errors, whole_number
from sb3_greendc.common import yaml
from sb3_greendc.common.evaluation import Evaluation
from sb3_greendc.common.files import atomic_write, write_json
from sb3_greendc.common.plots import bars, save_figure
from sb3_greendc.common.provenance import provenance
from sb3_greendc.common.statistics import STATISTICS, summarize
from sb3_greendc.common.tables import summary_tables

MAIN_METRICS = {
    "vcc": ("return", "carbon_kg", "carbon_per_work", "overdue_work", "mean_delay", "p97_delay"),
    "resource_pool": (
        "return",
        "total_job_value_ratio",
        "on_time_ratio",
        "completion_ratio",
        "utilization",
        "accrued_cost",
    ),
}
"""What the table shows of each family by default; the CSV has every metric."""


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(
        prog="evaluate", description="Evaluate baselines and trained models on the same episodes."
    )
    parser.add_argument("--env", nargs="+", required=True, metavar="ID", help="environment ids: VCC-2021 ...")
    parser.add_argument(
        "--policies",
        nargs="+",
        required=True,
        metavar="POLICY",
        help="names of baselines, and saved models: a model.zip, a run's folder, or ALGO:model.zip",
    )
    parser.add_argument("--episodes", type=whole_number, default=10)
    parser.add_argument("--seed", type=int, default=0, help="episode k is seeded SEED + k for every policy")
    add_environment_options(parser)
    parser.add_argument("--stochastic", action="store_true", help="sample actions instead of the most likely")
    parser.add_argument("--metrics", nargs="+", metavar="METRIC", help="columns of the table and the figure")
    parser.add_argument("--statistic", choices=STATISTICS, default="mean")
    parser.add_argument("--reference", metavar="POLICY", help="show the paired difference to this policy")
    parser.add_argument("--out", type=Path, help="CSV of every episode; its record goes beside it as JSON")
    parser.add_argument("--plot", action="store_true", help="draw bars beside --out as PNG")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    with one_line_errors("evaluate"):
        if options.plot and options.out is None:
            raise ValueError("--plot: needs --out, beside which the figure goes")
        if options.reference is not None and options.reference not in options.policies:
            raise ValueError(f"--reference {options.reference}: must be one of --policies")
        env_kwargs = yaml.parse_assignments(options.set, "--set")
        evaluations = [
            Evaluation(
                options.policies,
                env_id,
                options.episodes,
                options.seed,
                env_kwargs,
                deterministic=not options.stochastic,
            )
            for env_id in dict.fromkeys(map(greendc.resolve_env_id, options.env))
        ]
    results = pd.concat([evaluation.run(not options.no_progress) for evaluation in evaluations])
    if options.out is not None:
        _write(results, options)
    metrics = options.metrics or MAIN_METRICS.get(
        greendc.family(options.env[0]) or "", ("return", "cost", "length")
    )
    with one_line_errors("evaluate"):
        summary = summarize(results, metrics, options.statistic, options.reference)
    _print(summary, options)
    if options.plot:
        path = options.out.with_suffix(".png")
        save_figure(bars(summary), path)
        print(f"wrote {path}")
    return 0


def _print(summary: pd.DataFrame, options: argparse.Namespace) -> None:
    console = Console()
    for env_id, of_env in summary.groupby("env_id", sort=False):
        title = f"{env_id}: {options.statistic} of {options.episodes} episodes, 95 % interval"
        if options.reference is not None:
            title += f"; Δ: less {options.reference}, in pairs"
        for table in summary_tables(of_env, title, console.width):
            console.print(table)


def _write(results: pd.DataFrame, options: argparse.Namespace) -> None:
    with atomic_write(options.out) as file:
        results.to_csv(file, index=False)
    record = options.out.with_suffix(".json")
    given = {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()}
    write_json(record, {**provenance(), "options": given})
    print(f"wrote {options.out} and {record}")
