"""``scripts/calibrate_cost_limit.py``: what an episode costs without a limit, and limits worth trying."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

import greendc
from sb3_greendc.cli.common import (
    Parser,
    add_environment_options,
    add_trust_option,
    add_wide_option,
    one_line_errors,
    print_table,
    tables_console,
)
from sb3_greendc.core import yaml
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.files import atomic_write, require_room, write_json, write_or_rescue
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.secrets import values_without_secrets
from sb3_greendc.evaluation.paired import FIRST_SEED, Evaluation
from sb3_greendc.evaluation.plots import save_figure
from sb3_greendc.evaluation.run_folders import is_run
from sb3_greendc.evaluation.tables import number
from sb3_greendc.runs.training import training_split

FRACTIONS = (0.95, 0.8, 0.65, 0.5)
RECORD_FILE = "calibration.json"
_QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9}


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = Parser(
        prog=how_to_start("calibrate"),
        description="Run policies that know no limit, show the distribution of an episode's cost, and "
        "propose values of --cost-limit (CoCoRL, section V-H).",
    )
    parser.add_argument("--env", required=True, metavar="ID", help="environment id: ResourcePool-10 ...")
    parser.add_argument(
        "--policies",
        nargs="+",
        required=True,
        metavar="POLICY",
        help="the policy trained without a limit first, then others for comparison: baselines, models",
    )
    parser.add_argument("--episodes", type=whole_number, default=100, help="of each policy")
    parser.add_argument(
        "--seed",
        type=int,
        default=FIRST_SEED,
        help="episode k is seeded SEED + k for every policy (default: %(default)s, far above trainings')",
    )
    add_environment_options(parser)
    add_trust_option(parser)
    parser.add_argument(
        "--fractions",
        nargs="+",
        type=float,
        default=list(FRACTIONS),
        metavar="F",
        help="propose these shares of the first policy's mean cost (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help=f"folder for episodes.csv, limits.csv, calibration.png and {RECORD_FILE}; not that of a run",
    )
    add_wide_option(parser)
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    with one_line_errors("calibrate"):
        if options.out is not None:
            check_folder(options.out)
        for fraction in options.fractions:
            if not 0.0 < fraction < 1.0:
                raise ValueError(f"--fractions {fraction}: must be between 0 and 1")
        env_id = greendc.resolve_env_id(options.env)
        chosen = yaml.parse_assignments(options.set, "--set")
        # A limit is a setting of training: months of the test split have no say in it.
        env_kwargs = {**training_split(env_id, chosen), **chosen}
        evaluation = Evaluation(
            options.policies, env_id, options.episodes, options.seed, env_kwargs, trust=options.trust
        )
    episodes = evaluation.run(not options.no_progress)
    with one_line_errors("calibrate"):
        distribution = cost_distribution(episodes)
    limits = propose_limits(episodes, options.fractions)
    console = tables_console(options.wide)
    _print(console, *_distribution(distribution, env_id))
    _print(console, *_proposals(limits, str(distribution.index[0])))
    if options.out is not None:
        told = {"env_id": env_id, "env_kwargs": env_kwargs, "seed": options.seed}
        record = {**values_without_secrets(told), **provenance()}
        write_or_rescue(lambda folder: _write(folder, episodes, limits, record), options.out, "the result")
        console.print(f"written: {options.out}", markup=False)
    return 0


def check_folder(folder: Path) -> None:
    """Raise an error, before the episodes are run, if results could not be written there, or must not be.

    :raises ValueError: if it is the folder of a training run
    :raises OSError: if it cannot be made or written, or is a file
    """
    if is_run(folder):
        raise ValueError(f"--out {folder}: holds a training run; choose another folder")
    require_room(folder)


def _write(folder: Path, episodes: pd.DataFrame, limits: pd.DataFrame, record: Mapping[str, Any]) -> None:
    for name, frame in (("episodes", episodes), ("limits", limits)):
        with atomic_write(folder / f"{name}.csv") as file:
            frame.to_csv(file, index=False)
    save_figure(draw(episodes, limits), folder / "calibration.png")
    write_json(folder / RECORD_FILE, record)


def cost_distribution(episodes: pd.DataFrame) -> pd.DataFrame:
    """Return the distribution of the episode's cost, a row per policy in the order of ``episodes``.

    :param episodes: what :func:`~sb3_greendc.evaluation.paired.evaluate` returns
    :return: columns ``mean``, ``std``, ``min``, ``p10``, ``median``, ``p90``, ``max``, ``return``
    :raises ValueError: if the environment reports no cost
    """
    if episodes["cost"].isna().any():
        raise ValueError(f'{episodes["env_id"].iloc[0]}: the environment reports no info["cost"]')
    of_policy = episodes.groupby("policy", sort=False)
    cost = of_policy["cost"]
    quantiles = {name: cost.quantile(share) for name, share in _QUANTILES.items()}
    return pd.DataFrame(
        {
            "mean": cost.mean(),
            "std": cost.std(),
            "min": cost.min(),
            **quantiles,
            "max": cost.max(),
            "return": of_policy["return"].mean(),
        }
    )


def propose_limits(episodes: pd.DataFrame, fractions: Sequence[float]) -> pd.DataFrame:
    """Return limits on the mean cost of an episode, as shares of what the first policy's costs.

    A limit below the lowest mean cost among the policies may be out of reach of any policy.

    :param episodes: what :func:`~sb3_greendc.evaluation.paired.evaluate` returns
    :param fractions: of the first policy's mean cost
    :return: columns ``fraction``, ``cost_limit``, ``episodes_within`` (share of the first policy's episodes
        that cost no more), ``cheapest`` (the lowest mean among the policies), ``reached`` (whether a policy
        costs no more)
    """
    means = episodes.groupby("policy", sort=False)["cost"].mean()
    unconstrained = episodes.loc[episodes["policy"] == means.index[0], "cost"]
    rows = []
    for fraction in sorted(fractions, reverse=True):
        limit = fraction * float(means.iloc[0])
        rows.append(
            {
                "fraction": fraction,
                "cost_limit": limit,
                "episodes_within": float((unconstrained <= limit).mean()),
                "cheapest": float(means.min()),
                "reached": bool(means.min() <= limit),
            }
        )
    return pd.DataFrame(rows)


def draw(episodes: pd.DataFrame, limits: pd.DataFrame) -> Figure:
    """Draw the distribution of cost per policy, with the proposed limits as lines."""
    policies = list(episodes["policy"].unique())
    figure = Figure(figsize=(7, 1.6 + 0.5 * len(policies)), dpi=150, layout="constrained")
    panel = figure.subplots()
    for place, policy in enumerate(policies):
        cost = episodes.loc[episodes["policy"] == policy, "cost"]
        low, lower, upper, high = cost.quantile([0.05, 0.25, 0.75, 0.95])
        panel.hlines(place, low, high, color="#333333", linewidth=1.0)
        panel.hlines(place, lower, upper, color="#9ccbb0", linewidth=9.0)
        panel.plot(cost.median(), place, "|", color="#333333", markersize=9)
        panel.plot(cost.mean(), place, "D", color="#2e6b47", markersize=5)
    panel.set_yticks(range(len(policies)), policies)
    panel.invert_yaxis()
    for limit, fraction in zip(limits["cost_limit"], limits["fraction"], strict=True):
        panel.axvline(limit, color="#b03a2e", linewidth=0.9, linestyle="--")
        panel.annotate(
            f"{fraction:.0%}",
            (limit, 1.01),
            xycoords=("data", "axes fraction"),
            rotation=45,
            fontsize="small",
        )
    panel.set_xlabel("cost of an episode (thick: quartiles, thin: 5 to 95 %, bar: median, diamond: mean)")
    panel.grid(axis="x", linewidth=0.4, alpha=0.5)
    panel.spines[["top", "right"]].set_visible(False)
    return figure


def _distribution(distribution: pd.DataFrame, env_id: str) -> tuple[str, list[str], list[list[str]]]:
    """Return title, heads and rows of the table of costs; what matters most comes first."""
    first = ["mean", "p10", "median", "p90", "return"]
    columns = [*first, *(name for name in distribution.columns if name not in first)]
    rows = [
        [str(policy), *(number(float(value)) for value in row)]
        for policy, row in zip(distribution.index, distribution[columns].to_numpy(), strict=True)
    ]
    return f"{env_id}: cost of an episode", ["policy", *columns], rows


def _proposals(limits: pd.DataFrame, policy: str) -> tuple[str, list[str], list[list[str]]]:
    """Return title, heads and rows of the table of limits."""
    rows = []
    for row in limits.to_dict("records"):
        reached = "yes" if row["reached"] else "no: may be out of reach"
        share, within = f"{row['fraction']:.0%}", f"{row['episodes_within']:.0%}"
        rows.append([share, number(row["cost_limit"]), within, reached])
    heads = ["share", "--cost-limit", "episodes within it", "a policy above reaches it"]
    return f"limits, as shares of the mean cost of {policy}", heads, rows


def _print(console: Console, title: str, heads: list[str], rows: list[list[str]]) -> None:
    print_table(console, title, heads, rows, right=heads[1:])


if __name__ == "__main__":
    sys.exit(main())
