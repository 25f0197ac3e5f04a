"""What CoCoRL's figures on the controller share: runs at one load, drawn over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sb3_greendc.experiments.constrained import DELAY, pid_ppo
from sb3_greendc.experiments.distilled_start import distilled_pid_ppo
from sb3_greendc.experiments.experiment import Budget, Results, labelled
from sb3_greendc.experiments.figures import color_of, panels
from sb3_greendc.experiments.tasks import Item, Scenario
from sb3_greendc.experiments.training import Learner

STEPS = "time/total_timesteps"
LOGGED = {
    "rollout/ep_rew_mean": "return of an episode",
    "rollout/ep_cost_mean": "cost of an episode (100 delayed job-steps)",
    "train/lagrange_multiplier": "Lagrange multiplier",
}
FULL_SEEDS = 5
_SMOOTHING = 5


def scenario(load: float) -> Scenario:
    """Return ten units at a load, with delay as the cost."""
    return Scenario("ResourcePool-10", {"offered_load": load, **DELAY})


def keeper(budget: Budget, limit: float, name: str, **settings: Any) -> Learner:
    """Return the learner that keeps a limit: from scratch, or in the quick budget from a distilled policy.

    In a minute from scratch no more is to be seen than the way to the limit.

    :param budget: the budget
    :param limit: on the cost of an episode
    :param name: name in tables and figures
    :param settings: further hyperparameters, such as gains
    """
    if budget.quick:
        return distilled_pid_ppo(limit, budget.quick, name, **settings)
    return pid_ppo(limit, name, **settings)


def runs(
    budget: Budget, learners: Sequence[Learner], load: float, full_seeds: int = FULL_SEEDS
) -> list[Item]:
    """Return the runs of each learner, the learner's name as their label ``x``."""
    found: list[Item] = []
    for learner in learners:
        trainings = budget.trainings(scenario(load), learner, full_seeds=full_seeds, test_steps=500)
        found += labelled(trainings, series=f"load {load:g}", x=learner.name)
    return found


def training_figure(progress: pd.DataFrame, limits: Mapping[str, float]) -> Figure:
    """Draw return, cost and multiplier over training, a curve for each learner (mean over seeds).

    :param progress: rows that the algorithm logged, labelled with ``x``
    :param limits: the limit of each learner, drawn in its color
    """
    figure, axes = panels(list(LOGGED.values()), columns=3)
    names = [str(name) for name in progress["x"].unique()]
    for panel, key in zip(axes, LOGGED, strict=True):
        for name in names:
            _draw(panel, progress[progress["x"] == name], key, name, color_of(name, names))
            if key == "rollout/ep_cost_mean" and name in limits:
                panel.axhline(limits[name], color=color_of(name, names), lw=1, ls="--")
        panel.set_xlabel("decisions")
    axes[0].legend(fontsize="x-small", frameon=False)
    return figure


def _draw(panel: Axes, rows: pd.DataFrame, key: str, name: str, color: str) -> None:
    """Draw the mean over the seeds, smoothed over some updates."""
    if key not in rows:
        return
    mean = rows.dropna(subset=[key]).groupby(STEPS)[key].mean().rolling(_SMOOTHING, 1).mean()
    panel.plot(mean.index, mean.to_numpy(), color=color, lw=1.5, label=name)


def ends(results: Results, last: float = 0.2) -> pd.DataFrame:
    """Return cost, multiplier and value of each learner at the end of training.

    Costs are those of the rollouts' own episodes, over the last part of training; the value is that of
    the test episodes.

    :param results: of :func:`runs`
    :param last: which part of training
    """
    progress, episodes = results.table("progress"), results.table()
    found = []
    for (series, name), rows in progress.groupby(["series", "x"], sort=False):
        tail = rows[rows[STEPS] >= (1 - last) * rows[STEPS].max()]
        by_seed = tail.groupby("train_seed")["rollout/ep_cost_mean"].mean()
        tested = episodes[(episodes["series"] == series) & (episodes["x"] == name)]
        found.append(
            {
                "series": series,
                "x": name,
                "seeds": len(by_seed),
                "training_cost": by_seed.mean(),
                "training_cost_min": by_seed.min(),
                "training_cost_max": by_seed.max(),
                "multiplier": tail["train/lagrange_multiplier"].mean(),
                "test_cost": tested["accrued_cost"].mean(),
                "value_ratio": tested["total_job_value_ratio"].mean(),
            }
        )
    return pd.DataFrame(found)
