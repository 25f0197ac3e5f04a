"""From data to an environment: whether a policy keeps what it learned from data while it goes on learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from stable_baselines3.common.callbacks import BaseCallback

import greendc
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.experiments.comparison import VALUE
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import panels
from sb3_greendc.experiments.offline import offline_model
from sb3_greendc.experiments.rare.agreement import CRR_OPTIONS, HEURISTICS, judged
from sb3_greendc.experiments.tasks import Item, Outcome, Scenario, Task

UNITS = 20
ONLINE_STEPS = 50_000
ONLINE_OPTIONS = {"learning_rate": 2e-4, "learning_starts": 10_000}
"""Small steps after a learning rate that ended at zero, and none before the environments have seen most of an
episode: ``docs/crr.md`` says what happens otherwise."""

BOUND_PERCENT = 90.0
"""What a fine-tuned policy shall keep of its offline value."""


@dataclass(frozen=True)
class Finetuning(Task):
    """Train :class:`~sb3_greendc.crr.CRR` on recorded teachers, tune it online, and judge it along the way.

    :param scenario: what is recorded, played and tested
    :param teachers: policies that are recorded
    :param transitions: transitions recorded in all
    :param steps: gradient steps on the data
    :param online_steps: transitions of the environment
    :param checkpoints: how often the policy is judged online, at equal distances
    :param seed: number of the run
    :param episodes: test episodes each time
    :param n_envs: environments side by side; each round of steps is followed by an update
    :param options: of the algorithm, written as in ``zoo_hparams/crr.yml``
    :param online_options: of ``CRR.finetune``
    """

    scenario: Scenario
    teachers: tuple[str, ...]
    transitions: int
    steps: int
    online_steps: int
    checkpoints: int
    seed: int
    episodes: int
    n_envs: int = 16
    options: Mapping[str, Any] = field(default_factory=dict)
    online_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"CRR online after {' '.join(self.teachers)} seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 8.0 + self.steps / 150 + self.online_steps / 1_000 + 1.5 * self.checkpoints

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        model = offline_model(self.scenario, self.teachers, self.transitions, self.seed, self.options)
        model.learn(self.steps)
        judge = _Judge(self)
        judge.init_callback(model)
        judge.play(0)
        env_id = greendc.resolve_env_id(self.scenario.env_id)
        env = make_vec_env(env_id, self.n_envs, self.seed, **self.scenario.env_kwargs)
        model.finetune(env, self.online_steps, callback=judge, **self.online_options)
        env.close()
        return Outcome({"episodes": pd.DataFrame(judge.rows)})


class _Judge(BaseCallback):
    """Plays the test episodes of a task at equal distances."""

    def __init__(self, task: Finetuning) -> None:
        super().__init__()
        self.task = task
        self.rows: list[dict[str, Any]] = []
        self.played = 0

    def play(self, steps: int) -> None:
        """Play the test episodes by the policy's best actions."""
        head = {"policy": "CRR", "train_seed": self.task.seed, "online_steps": steps}
        self.rows += [{**head, **row} for row in play(self.model, self.task.scenario, self.task.episodes)]

    def _on_step(self) -> bool:
        distance = self.task.online_steps // self.task.checkpoints
        if self.num_timesteps // distance > self.played:
            self.played = self.num_timesteps // distance
            self.play(self.played * distance)
        return True


def items(budget: Budget) -> list[Item]:
    """Return the runs, for data of each heuristic, the heuristic itself, and chance."""
    found: list[Item] = []
    for heuristic in budget.pick(HEURISTICS[2:3], HEURISTICS):
        found += labelled(judged(budget, UNITS, (heuristic,)), series=heuristic)
        for seed in budget.seeds_of("CRR"):
            task = Finetuning(
                Scenario(f"ResourcePool-{UNITS}"),
                (heuristic,),
                transitions=budget.pick(100_000, 200_000),
                steps=budget.pick(1_500, 3_000),
                online_steps=ONLINE_STEPS,
                checkpoints=10,
                seed=seed,
                episodes=budget.episodes_of(32, 128),
                options=CRR_OPTIONS,
                online_options=ONLINE_OPTIONS,
            )
            found += labelled([task], series=heuristic)
    return found


def analyze(results: Results, budget: Budget) -> Analysis:
    """Return each run's value along the way as a share of what it was offline, and its lowest.

    The teacher and chance stand beside the runs, in per cent of the same.
    """
    everything = results.table()
    tuned = everything["online_steps"].notna()
    rows, baselines = everything[tuned], everything[~tuned]
    by_run = ["series", "train_seed"]
    values = rows.groupby([*by_run, "online_steps"], sort=False)[VALUE].mean().rename("value").reset_index()
    offline = values[values["online_steps"] == 0].set_index(by_run)["value"]
    values["percent_of_offline"] = 100 * values["value"] / offline.loc[_keys(values, by_run)].to_numpy()
    kept = values.groupby(by_run, sort=False)["percent_of_offline"]
    lowest = kept.agg(lowest_percent="min", last_percent="last").reset_index().assign(policy="CRR")
    means = offline.groupby("series", sort=False).mean()
    others = baselines.groupby(["series", "policy"], sort=False)[VALUE].mean().rename("value").reset_index()
    others["percent_of_offline"] = 100 * others["value"] / others["series"].map(means).to_numpy()
    beside = others[["series", "policy"]].assign(last_percent=others["percent_of_offline"])
    columns = ["series", "policy", "train_seed", "lowest_percent", "last_percent"]
    table = pd.concat([lowest, beside], ignore_index=True)[columns].astype({"train_seed": "Int64"})
    tables = {"results": table, "curves": values, "heuristics": others}
    return Analysis(tables, {"figure": _figure(values)})


def _figure(values: pd.DataFrame) -> Figure:
    """Draw a panel for each teacher: the runs, and their mean."""
    by_teacher = {str(teacher): runs for teacher, runs in values.groupby("series", sort=False)}
    figure, axes = panels([f"after data of {teacher}" for teacher in by_teacher])
    for panel, runs in zip(axes, by_teacher.values(), strict=True):
        for _, run in runs.groupby("train_seed"):
            panel.plot(run["online_steps"], run["percent_of_offline"], color="#2a9d5c", lw=0.8, alpha=0.6)
        mean = runs.groupby("online_steps")["percent_of_offline"].mean()
        panel.plot(mean.index, mean.to_numpy(), color="#2a9d5c", lw=2.5)
        panel.axhline(BOUND_PERCENT, color="0.5", linestyle=":")
        panel.set_xlabel("steps of the environment")
        panel.set_ylabel("per cent of the offline value")
    return figure


def _keys(values: pd.DataFrame, columns: list[str]) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(values[columns])


EXPERIMENT = Experiment(
    "crr-online", "CRR trained on heuristics' data, then online (20 units)", items, analyze
)
