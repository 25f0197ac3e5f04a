"""First part of the demo: PPO learns to shift a datacenter's work to cleaner hours, on real emissions.

Trained on months of May 2019 to April 2020 (September left out), judged on May 2019, which it has seen,
on September 2019, and on May 2021, next to every baseline that decides without hindsight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from greendc import baselines
from greendc.traces import load_moer
from greendc.traces.moer import UTC_OFFSET
from greendc.vcc import VCCSimulator, layout
from greendc.vcc.rendering import WEEK, week_figure
from sb3_greendc.cli.train import prepare, train
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.evaluation.paired import Evaluation
from sb3_greendc.evaluation.plots import bars, save_figure
from sb3_greendc.evaluation.statistics import summarize
from sb3_greendc.evaluation.tables import summary_tables
from sb3_greendc.runs.models import MODEL_FILE

LEARNER = "ppo"
REFERENCE = "always_on"
METRICS = (
    "return",
    "carbon_kg",
    "carbon_change",
    "carbon_per_work",
    "overdue_work",
    "mean_delay",
    "p97_delay",
)


@dataclass(frozen=True)
class Period:
    """A month that policies are judged on."""

    title: str
    env_id: str
    month: str


PERIODS = (
    Period("May 2019 (in-sample)", "VCC-2019", "2019-05"),
    Period("Sept. 2019 (held out)", "VCC-2019", "2019-09"),
    Period("May 2021 (test)", "VCC-2021", "2021-05"),
)


def run(out: Path, timesteps: int, episodes: int, seed: int, console: Console) -> None:
    """Train, evaluate, print a table per period and write everything to ``out``.

    :param out: folder of ``model.zip``, ``progress.csv``, ``results.csv`` and the figures
    :param timesteps: hours to train for
    :param episodes: months of jobs that each policy is judged on in each period
    :param seed: of training; evaluation uses the seeds from 10,000 on
    """
    run = prepare("ppo", "VCC-2019", timesteps, seed, device="cpu")
    console.print(f"[bold]PPO on {run.env_id}[/bold]: {timesteps:,} hours of the training split")
    train(run, out)
    policies = [*baselines.names("vcc"), LEARNER]
    console.print(
        f"[bold]Evaluation[/bold]: {len(policies)} policies, {episodes} episodes a period, same seeds"
    )
    results = pd.concat([_evaluate(period, out, policies, episodes) for period in PERIODS])
    results["carbon_change"] = _change_to_reference(results, "carbon_kg")
    with atomic_write(out / "results.csv") as file:
        results.to_csv(file, index=False)
    summary = summarize(results, METRICS)
    for title, of_period in summary.groupby("env_id", sort=False):
        heading = f"{title}: mean of {episodes} episodes, 95 % interval"
        for table in summary_tables(of_period, heading, console.width):
            console.print(table)
    console.print(UNITS)
    _write_figures(out, summary)


UNITS = (
    "return: reward of VCC-*-v1, to be maximised; carbon_kg: kg CO2; carbon_change: per cent against "
    f"{REFERENCE}; carbon_per_work: kg CO2 per machine-unit-hour done; overdue_work: machine-unit-hours "
    "more than 24 h late at day ends; delays: hours, of flexible jobs."
)


def _evaluate(period: Period, out: Path, policies: Sequence[str], episodes: int) -> pd.DataFrame:
    named = {name: str(out / MODEL_FILE) if name == LEARNER else name for name in policies}
    evaluation = Evaluation(named, period.env_id, episodes, seed=10_000, env_kwargs={"month": period.month})
    return evaluation.run(progress=True).assign(env_id=period.title)


def _change_to_reference(results: pd.DataFrame, metric: str) -> pd.Series[float]:
    """Return a metric's change in per cent against the reference policy on the same episode."""
    reference = results[results["policy"] == REFERENCE].set_index(["env_id", "seed"])[metric]
    of_reference = reference.loc[pd.MultiIndex.from_frame(results[["env_id", "seed"]])].to_numpy()
    change: pd.Series[float] = 100 * (results[metric] / of_reference - 1)
    return change


def _write_figures(out: Path, summary: pd.DataFrame) -> None:
    save_figure(week_of(out / MODEL_FILE), out / "week.png")
    carbon = summary[summary["metric"].isin(["carbon_change", "overdue_work"])]
    save_figure(bars(carbon), out / "carbon.png")
    save_figure(emissions_of_both_years(), out / "moer.png")


def week_of(model: Path, period: Period = PERIODS[-1], first_day: int = 6, seed: int = 10_000) -> Figure:
    """Draw a week of a trained model's decisions: VCC, load, queue and emissions."""
    from sb3_greendc.evaluation.policy_sources import policy_sources

    env = make_vec_env(period.env_id, 1, seed=seed, month=period.month)
    assert isinstance(env, SimulatorVecEnv)
    assert isinstance(env.simulator, VCCSimulator)
    (source,) = policy_sources({LEARNER: str(model)}, period.env_id)
    acting_env = source.prepare_env(env)
    policy = source.policy_for(acting_env)
    observation = acting_env.reset()
    first = layout.DAY * first_day
    for _ in range(first + WEEK):
        actions, _ = policy.predict(observation, deterministic=True)
        observation, *_ = acting_env.step(actions)
    simulator = env.simulator
    return week_figure(
        simulator.report.history[0, first : first + WEEK],
        simulator.world.no_delay[0, first : first + WEEK] / layout.MICRO,
        simulator.capacity / layout.MICRO,
        f"PPO on {period.title}",
        first,
    )


def emissions_of_both_years(region: str = "PGE", months: Sequence[str] = ("2019-05", "2021-05")) -> Figure:
    """Draw the hourly emissions of two months, and their mean day with its quartiles."""
    series = load_moer(region)
    figure = Figure(figsize=(10, 5.5), dpi=110, layout="constrained")
    grid = figure.subplots(len(months), 2, sharey=True, width_ratios=[3, 1])
    for month, (axes, day_axes), color in zip(months, grid, ("#c9822b", "#5b3a8c"), strict=True):
        start = series.month_slice(month, UTC_OFFSET)
        moer = series.moer[start : start + 720]
        days = moer.reshape(-1, layout.DAY)
        axes.plot(np.arange(720) / layout.DAY + 1, moer, color=color, linewidth=0.9)
        axes.set_title(f"{region}, {month}: mean {moer.mean():.3f} kg CO$_2$/kWh", fontsize="medium")
        axes.set_xlim(1, 31)
        axes.set_ylabel("kg CO$_2$/kWh")
        low, middle, high = np.quantile(days, [0.25, 0.5, 0.75], axis=0)
        day_axes.fill_between(np.arange(layout.DAY), low, high, color=color, alpha=0.25, linewidth=0)
        day_axes.plot(np.arange(layout.DAY), middle, color=color)
        day_axes.set_title("median day, quartiles", fontsize="medium")
        day_axes.set_xlim(0, 23)
        day_axes.set_xticks([0, 6, 12, 18, 23])
        for panel in (axes, day_axes):
            panel.set_ylim(0, None)
            panel.spines[["top", "right"]].set_visible(False)
    grid[-1][0].set_xlabel("day of the month")
    grid[-1][1].set_xlabel("hour, local standard time")
    return figure
