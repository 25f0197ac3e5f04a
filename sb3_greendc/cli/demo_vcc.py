"""Second part of the demo: PPO learns to shift a datacenter's work to cleaner hours, on real emissions.

Trained on months of May 2019 to April 2020 (September left out), judged on May 2019, which it has seen,
on September 2019, and on May 2021, next to every baseline that decides without hindsight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from greendc import baselines
from greendc.traces import load_moer
from greendc.traces.moer import UTC_OFFSET
from greendc.vcc import VCCSimulator, layout
from greendc.vcc.rendering import WEEK, week_figure
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.evaluation.paired import Evaluation
from sb3_greendc.evaluation.plots import save_figure
from sb3_greendc.evaluation.statistics import summarize
from sb3_greendc.evaluation.tables import number
from sb3_greendc.runs.models import MODEL_FILE
from sb3_greendc.runs.training import prepare, train

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


LEGEND = (
    "CO2: against always_on, on the same months. Overdue: machine-unit-hours that were more than a day late "
    "at day ends."
)
TEST = PERIODS[-1]
SEED = 10_000
SHIPPED, LEARNED = "shipped policy", "PPO, trained here"


@dataclass(frozen=True)
class VccPart:
    """What this part does.

    :param out: folder of ``model.zip``, ``progress.csv``, ``results.csv`` and the figures
    :param timesteps: hours to train for
    :param episodes: months of jobs that each policy is judged on in each period
    :param seed: of training; judging uses the seeds from 10,000 on
    """

    out: Path
    timesteps: int
    episodes: int
    seed: int
    called = "VCC-2019"

    def run(self, say: Callable[[str], None]) -> pd.DataFrame:
        """Train, judge, write everything to ``out``; return all episodes.

        :param say: is told what happens
        :raises KeyboardInterrupt: after Ctrl-C; the model so far is saved, and nothing is judged
        """
        run = prepare("ppo", "VCC-2019", self.timesteps, self.seed, device="cpu")
        say(f"PPO plans {self.timesteps:,} hours of the training months")
        if not train(run, self.out, progress=False):
            raise KeyboardInterrupt  # half a training is not judged as a whole one
        say(f"judging on {self.episodes} months of jobs in each of {len(PERIODS)} periods")
        results = pd.concat([self._judge(period) for period in PERIODS], ignore_index=True)
        results["carbon_change"] = _change_to_reference(results, "carbon_kg")
        with atomic_write(self.out / "results.csv") as file:
            results.to_csv(file, index=False)
        figures = (week_of(self.out / MODEL_FILE), emissions_of_both_years())
        for figure, name in zip(figures, ("week", "moer"), strict=True):
            save_figure(figure, self.out / f"{name}.png")
        say("done")
        return results

    def _policies(self) -> dict[str, str]:
        known = {name: name for name in baselines.names("vcc")}
        return {**known, SHIPPED: "pretrained", LEARNED: str(self.out / MODEL_FILE)}

    def _judge(self, period: Period) -> pd.DataFrame:
        kwargs = {"month": period.month}
        found = Evaluation(self._policies(), period.env_id, self.episodes, SEED, kwargs).run()
        return found.assign(env_id=period.title)

    def commands(self) -> list[str]:
        """Return the commands that repeat training and table."""
        length = f"--timesteps {self.timesteps} --seed {self.seed}"
        policies = f"{' '.join(baselines.names('vcc'))} pretrained {self.out} --reference {REFERENCE}"
        judged = f"--policies {policies} --episodes {self.episodes} --seed {SEED}"
        return [
            f"python scripts/train.py --algo ppo --env VCC-2019 {length} --out {self.out}",
            *(
                f"python scripts/evaluate.py --env {period.env_id} --set month={period.month} {judged}"
                for period in PERIODS
            ),
        ]


def _change_to_reference(results: pd.DataFrame, metric: str) -> pd.Series[float]:
    """Return a metric's change in per cent against the reference policy on the same episode."""
    reference = results[results["policy"] == REFERENCE].set_index(["env_id", "seed"])[metric]
    of_reference = reference.loc[pd.MultiIndex.from_frame(results[["env_id", "seed"]])].to_numpy()
    change: pd.Series[float] = 100 * (results[metric] / of_reference - 1)
    return change


def short_table(results: pd.DataFrame, period: Period = TEST) -> pd.DataFrame:
    """Return a row for each policy in one period, the best first: carbon, late work, return."""
    of_period = results[results["env_id"] == period.title]
    summary = summarize(of_period, ("carbon_change", "overdue_work", "mean_delay", "return"))
    wide = summary.pivot(index="policy", columns="metric", values="estimate")
    carbon = summary[summary["metric"] == "carbon_change"].set_index("policy")
    rows = wide.sort_values("return", ascending=False).index
    return pd.DataFrame(
        {
            "policy": rows,
            "CO2 %": [f"{wide.loc[row, 'carbon_change']:+.2f}" for row in rows],
            "95 % interval": [
                f"{carbon.loc[row, 'low']:+.2f}…{carbon.loc[row, 'high']:+.2f}" for row in rows
            ],
            "overdue": [number(wide.loc[row, "overdue_work"]) for row in rows],
            "delay h": [f"{wide.loc[row, 'mean_delay']:.2f}" for row in rows],
            "return": [number(wide.loc[row, "return"]) for row in rows],
        }
    )


def week_of(model: Path, period: Period = PERIODS[-1], first_day: int = 6, seed: int = 10_000) -> Figure:
    """Draw a week of a trained model's decisions: VCC, load, queue and emissions."""
    from sb3_greendc.evaluation.policy_sources import policy_sources

    env = make_vec_env(period.env_id, 1, seed=seed, month=period.month)
    assert isinstance(env, SimulatorVecEnv)
    assert isinstance(env.simulator, VCCSimulator)
    (source,) = policy_sources({LEARNED: str(model)}, period.env_id)
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
