"""PIDLagrangianPPO at two limits and two loads: whether the limit is held, and what it costs."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from sb3_greendc.experiments.cocorl.control import ends, runs, scenario, training_figure
from sb3_greendc.experiments.constrained import UNLIMITED, pid_ppo
from sb3_greendc.experiments.controls import UNIFORM_VALID, UniformPlay
from sb3_greendc.experiments.episodes import Baselines, all_variants
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import color_of, outer_legend, panels
from sb3_greendc.experiments.tasks import Item

LIMITS = {0.8: (20.0, 26.0), 1.0: (55.0, 68.0)}
"""Both at least 20 % below what the policy without a limit costs, and above the cost of ``sjf``, which no
policy of ours undercuts."""

POINTS = ("sjf", "qos", "hvf", "edf", "deadline_last")


def items(budget: Budget) -> list[Item]:
    """Return, for each load, the heuristics, the runs without a limit, and those at each limit."""
    found: list[Item] = []
    for load, limits in LIMITS.items():
        tested = scenario(load).with_kwargs(episode_steps=500)
        variants = all_variants(POINTS, dispatches=("skip",))
        judged = [
            Baselines(tested, variants, budget.episodes),
            UniformPlay(tested, UNIFORM_VALID, budget.episodes),
        ]
        found += labelled(judged, series=f"load {load:g}", x="")
        found += runs(budget, [pid_ppo(limit, f"limit {limit:g}") for limit in limits], load)
        found += runs(budget, [UNLIMITED], load, full_seeds=2)
    return found


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return the ends of training, held or not, and value against cost with the heuristics as points."""
    table = ends(results)
    table["limit"] = table["x"].str.extract(r"limit (\d+)$")[0].astype(float)
    table["cost_over_limit_percent"] = 100 * (table["training_cost"] / table["limit"] - 1)
    free = table[table["limit"].isna()].set_index("series")
    for column in ("training_cost", "value_ratio"):
        change = table[column] / table["series"].map(free[column]) - 1
        table[f"{column}_change_percent"] = 100 * change
    rows = results.table()
    heuristics = rows[rows["baseline"].notna()]
    means = heuristics.groupby(["series", "policy"])[["accrued_cost", "total_job_value_ratio"]].mean()
    chance = means.reset_index().rename(columns={"policy": "x", "accrued_cost": "test_cost"})
    chance = chance[chance["x"] == UNIFORM_VALID].rename(columns={"total_job_value_ratio": "value_ratio"})
    figures = {"figure": trade_off(table, means)}
    progress = results.table("progress")
    for load, limits in LIMITS.items():
        at_load = progress[progress["series"] == f"load {load:g}"]
        named = {f"limit {limit:g}": limit for limit in limits}
        figures[f"training_{load:g}".replace(".", "_")] = training_figure(at_load, named)
    tables = {"results": pd.concat([table, chance], ignore_index=True), "heuristics": means.reset_index()}
    return Analysis(tables, figures)


def trade_off(table: pd.DataFrame, heuristics: pd.DataFrame) -> Figure:
    """Draw value against cost: PID-PPO at its limits, heuristics as points, a color for each."""
    loads = list(table["series"].unique())
    figure, axes = panels([f"{load} (squares: all waiting jobs, triangles: ready pool)" for load in loads])
    for panel, load in zip(axes, loads, strict=True):
        ours = table[table["series"] == load].sort_values("test_cost")
        panel.plot(ours["test_cost"], ours["value_ratio"], "o-", color="#2a9d5c", label="PID-PPO")
        for row in ours.itertuples():
            panel.annotate(str(row.x), (row.test_cost, row.value_ratio), fontsize="x-small")
        for limit in ours["limit"].dropna():
            panel.axvline(limit, color="#2a9d5c", lw=0.8, ls="--")
        points = heuristics.loc[load]
        for name in points.index:
            of_name = points.loc[name]
            heuristic, *form = name.split("/")
            marker = "s" if form[-1:] == ["queue"] else "^" if form else "x"
            panel.plot(
                of_name["accrued_cost"],
                of_name["total_job_value_ratio"],
                marker,
                color=color_of(heuristic, []),
                label=None if marker == "^" else heuristic,
            )
        panel.set_xlabel("cost of an episode (100 delayed job-steps)")
        panel.set_ylabel("share of the arrived value")
    outer_legend(figure, axes[0])
    return figure


EXPERIMENT = Experiment(
    "pid-ppo-limits",
    "two limits on delay at loads of 0.8 and 1.0: are they kept, and at what price",
    items,
    analyze,
)
