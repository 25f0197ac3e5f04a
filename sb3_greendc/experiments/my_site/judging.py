"""Policies on a site: value, carbon and energy of the grid side by side, in table, figures and verdicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.evaluation.plots import TEXT_WIDTH, styled
from sb3_greendc.experiments.bounds import BOUND
from sb3_greendc.experiments.comparison import BEST_OF_ALL, final, margin, matrix, mean_interval
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.figures import color_of
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.my_site import frontier
from sb3_greendc.experiments.my_site.inputs import Site
from sb3_greendc.experiments.my_site.options import NAME
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import Item

SHOWN = {
    "total_job_value_ratio": "value earned",
    "carbon_kg": "kg CO2",
    "carbon_per_value": "kg CO2 / value",
    "brown_kwh": "kWh from the grid",
    "curtailed_kwh": "kWh curtailed",
    "on_time_ratio": "on time",
    "completion_ratio": "finished",
    "utilization_powered": "use of powered units",
}
"""Columns of the table of policies: value and what it costs stand first."""

BESIDE = {"carbon_kg": "CO2", "brown_kwh": "energy from the grid"}
"""What every margin in value is followed by."""
UNITS = {"carbon_kg": "kg", "brown_kwh": "kWh"}

_AXES = {
    "total_job_value_ratio": "share of the arrived value",
    "carbon_kg": "kg CO$_2$ an episode",
    "brown_kwh": "kWh from the grid",
}
_MOST_DRAWN = 12


def site_experiment(site: Site) -> Experiment:
    """Return the experiment on a site: every heuristic in every form, and learners."""
    sweep = Sweep(lambda budget: [Point("my site", 0.0, site.scenario)], pool_learners, "")

    def items(budget: Budget) -> list[Item]:
        more = frontier.items(site.scenario, budget) if frontier.commands(site.scenario) else []
        return [*sweep.items(budget), *more]

    def analyze(results: Results, budget: Budget) -> Analysis:
        results, of_frontier = frontier.apart(results)
        analysis = sweep.analyze(results, budget)
        rows, commanded = results.table(), of_frontier.table()
        comparison = with_emissions(analysis.tables["comparison"], rows)
        policies = policies_table(rows)
        learners = list(comparison[comparison["kind"] == "learner"]["learner"].unique())
        figures = {
            "figure": policies_figure(rows, drawn_policies(policies, comparison), learners),
            "tradeoff": trade_off_figure(policies, learners),
        }
        tables = {**analysis.tables, "comparison": comparison, "policies": policies}
        notes: list[str] = []
        if len(commanded):
            tables["frontier"] = frontier.at_limits(commanded, of_frontier.table("bounds"))
            tables["energies"] = frontier.energies(commanded)
            figures["frontier"] = frontier.draw(commanded, policies, learners)
            notes += frontier.verdicts(tables["frontier"])
        notes += [*verdicts(comparison), *analysis.notes]
        return dataclasses.replace(analysis, tables=tables, figures=figures, notes=notes)

    return Experiment(NAME, "heuristics and trained policies on your own jobs and power", items, analyze)


def policies_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means of every policy in every form, the best first; carbon per value is of the means.

    The unit of value in ``carbon_per_value`` is a unit of the pool that is busy for a step at a QoS value
    of 1.
    """
    rows = rows[rows["policy"] != BOUND]
    metrics = [metric for metric in SHOWN if metric in rows]
    means = final(rows).groupby("policy")[[*metrics, "total_job_value"]].mean()
    if "carbon_kg" in means:
        value = means["total_job_value"]
        means["carbon_per_value"] = means["carbon_kg"] / value.where(value > 0)
    shown = [metric for metric in SHOWN if metric in means]
    return means[shown].sort_values(shown[0], ascending=False).reset_index()


def short_table(policies: pd.DataFrame, rows: int = 8) -> pd.DataFrame:
    """Return the best policies with value, carbon and energy of the grid, for the terminal.

    :param policies: of :func:`policies_table`
    :param rows: how many
    """
    shown = [metric for metric in list(SHOWN)[:4] if metric in policies]
    called = {"carbon_kg": "kg CO2", "carbon_per_value": "CO2/value", "brown_kwh": "grid kWh"}
    names = {"total_job_value_ratio": "value", **called}
    return policies[["policy", *shown]].head(rows).rename(columns=names)


def with_emissions(comparison: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return a comparison with what each margin in value costs: carbon and energy of the grid.

    Columns are ``carbon_kg`` and ``brown_kwh`` of ours, the same of theirs with ``_theirs``, and by how many
    per cent ours are higher, with the interval: ``_percent``, ``_low``, ``_high``; NaN where theirs are 0.

    :param comparison: of :func:`~sb3_greendc.experiments.comparison.compare`
    :param rows: the episodes that it is of
    """
    last = final(rows)
    found = []
    for row in comparison.itertuples():
        cells: dict[str, float] = {}
        for metric in BESIDE:
            if metric not in last:
                continue
            learner = row.learner if row.learner in set(last["policy"]) else None
            ours = matrix(last[last["policy"] == learner], metric) if learner else None
            theirs = matrix(last[last["policy"] == row.form], metric)
            mean = np.nan if ours is None else float(ours.mean())
            cells |= {metric: mean, f"{metric}_theirs": float(theirs.mean())}
            cells |= dict.fromkeys((f"{metric}_percent", f"{metric}_low", f"{metric}_high"), np.nan)
            if ours is not None and theirs.mean() > 0:
                found_margin = margin(ours, theirs)
                cells |= {
                    f"{metric}_percent": found_margin.estimate,
                    f"{metric}_low": found_margin.low,
                    f"{metric}_high": found_margin.high,
                }
        found.append(cells)
    return comparison.join(pd.DataFrame(found, index=comparison.index))


def verdicts(comparison: pd.DataFrame) -> list[str]:
    """Return a sentence for each learner: value, carbon and energy of the grid against the best that stands.

    :param comparison: of :func:`with_emissions`
    """
    found = []
    best = comparison[(comparison["kind"] == "learner") & (comparison["against"] == BEST_OF_ALL)]
    for _, row in best.drop_duplicates(["learner", "form"]).iterrows():
        said = f"{row['learner']} against the {BEST_OF_ALL} ({row['form']}): {summary_of(row)}"
        parts = [f"Value {_interval(row['margin_percent'], row['low'], row['high'])}"]
        for metric, name in BESIDE.items():
            if f"{metric}_percent" in row and np.isfinite(row[f"{metric}_percent"]):
                percent = (row[f"{metric}_{part}"] for part in ("percent", "low", "high"))
                amounts = f"{row[metric]:,.4g} {UNITS[metric]} against {row[f'{metric}_theirs']:,.4g}"
                parts.append(f"{name} {_interval(*percent)} ({amounts} an episode)")
        found.append(f"{said} {'; '.join(parts)}.")
    return found


def summary_of(row: pd.Series) -> str:
    """Return the verdict in words: earns more or less, emits more or less, if the intervals say so."""
    earns = _direction(row["low"], row["high"])
    no_carbon = row.get("carbon_kg") == 0 and row.get("carbon_kg_theirs") == 0
    if not np.isfinite(row.get("carbon_kg_percent", np.nan)):
        return f"it earns {earns} value; neither emits anything." if no_carbon else f"it earns {earns} value."
    emits = _direction(row["carbon_kg_low"], row["carbon_kg_high"])
    share = (1 + row["carbon_kg_percent"] / 100) / (1 + row["margin_percent"] / 100) - 1
    joint = "but" if (earns, emits) in (("more", "more"), ("less", "less")) else "and"
    per_value = f"{100 * share:+.1f} % CO2 for each unit of value"
    return f"it earns {earns} value {joint} emits {emits} CO2 ({per_value})."


def _direction(low: float, high: float) -> str:
    return "more" if low > 0 else "less" if high < 0 else "about as much"


def _interval(estimate: float, low: float, high: float) -> str:
    return f"{estimate:+.1f} % [{low:+.1f}, {high:+.1f}]"


def drawn_policies(policies: pd.DataFrame, comparison: pd.DataFrame) -> list[str]:
    """Return the policies of the figure, the best first: learners, their rivals, the best of each kind."""
    names = list(policies["policy"])
    wanted = {*comparison["learner"], *comparison["form"]}
    kinds: set[str] = set()
    for name in names:
        kind = name.split("/")[0]
        if kind not in kinds:
            kinds.add(kind)
            wanted.add(name)
    chosen = [name for name in names if name in wanted]
    return chosen[:_MOST_DRAWN]


@styled
def policies_figure(rows: pd.DataFrame, policies: Sequence[str], learners: Sequence[str]) -> Figure:
    """Draw value, carbon and energy of the grid beside each other, a row for each policy.

    :param rows: episodes
    :param policies: from the top
    :param learners: those that are drawn in colors
    """
    last = final(rows)
    metrics = [metric for metric in _AXES if metric in last]
    figure = Figure(figsize=(TEXT_WIDTH, 0.9 + 0.24 * len(policies)), dpi=150, layout="constrained")
    grid = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    places = np.arange(len(policies))[::-1]
    for axes, metric in zip(grid, metrics, strict=True):
        for place, policy in zip(places, policies, strict=True):
            found = mean_interval(matrix(last[last["policy"] == policy], metric))
            color = color_of(policy, learners) if policy in learners else "#b9c3ca"
            ends = [[found.estimate - found.low], [found.high - found.estimate]]
            axes.barh(place, found.estimate, 0.72, color=color, xerr=ends, error_kw={"lw": 0.7})
        axes.set_xlabel(_AXES[metric])
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.margins(y=0.01)
    grid[0].set_yticks(places, policies)
    return figure


@styled
def trade_off_figure(policies: pd.DataFrame, learners: Sequence[str]) -> Figure:
    """Draw every policy at its value and its carbon; a line joins those that none beats in both.

    :param policies: of :func:`policies_table`
    :param learners: those that are drawn in colors
    """
    figure = Figure(figsize=(TEXT_WIDTH * 0.72, 3.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    axes.set_ylabel(_AXES["total_job_value_ratio"])
    axes.grid()
    axes.set_axisbelow(True)
    if "carbon_kg" not in policies:
        return figure
    value, carbon = policies["total_job_value_ratio"].to_numpy(), policies["carbon_kg"].to_numpy()
    learned = policies["policy"].isin(learners).to_numpy()
    axes.plot(carbon[~learned], value[~learned], "o", ms=3.5, color="#9aa7b0", label="heuristics and chance")
    front = [k for k in range(len(value)) if not ((value > value[k]) & (carbon <= carbon[k])).any()]
    front = sorted(front, key=lambda k: carbon[k])
    axes.plot(carbon[front], value[front], "-", lw=0.8, color="#555555", label="not beaten in both", zorder=1)
    for k in np.flatnonzero(learned).tolist():
        name = str(policies["policy"].iloc[k])
        axes.plot(carbon[k], value[k], "D", ms=5, color=color_of(name, learners), label=name)
    named = [k for k in front if not learned[k]]
    for k in dict.fromkeys([*named[:1], *named[-1:]]):
        name = str(policies["policy"].iloc[k])
        axes.annotate(name, (carbon[k], value[k]), (5, -8), "data", "offset points", fontsize=6)
    axes.set_xlabel(_AXES["carbon_kg"])
    axes.legend(loc="lower right")
    return figure
