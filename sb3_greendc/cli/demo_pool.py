"""First part of the demo: a policy distilled from a planner schedules jobs on a pool of ten units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import pandas as pd
from matplotlib.figure import Figure

from greendc.resource_pool import ResourcePoolEnv
from greendc.resource_pool.recording import EpisodeRecorder
from greendc.resource_pool.rendering import gantt, pool_figure
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.provenance import provenance
from sb3_greendc.evaluation.paired import Evaluation
from sb3_greendc.evaluation.plots import save_figure
from sb3_greendc.evaluation.statistics import summarize
from sb3_greendc.experiments.distillation import distill_rollouts
from sb3_greendc.experiments.experiment import student_view
from sb3_greendc.experiments.rollouts import strong
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.runs.models import load_model
from sb3_greendc.runs.portable import Environment, write_portable

ENV_ID = "ResourcePool-10"
SETTINGS: dict[str, Any] = {"offered_load": 1.0}
CHOICE: dict[str, Any] = student_view(Scenario(ENV_ID, SETTINGS))
"""What distilled policies choose from and see: jobs that can start now and finish on time, and what each is
worth if no more came. Heuristics choose from all jobs, as the papers have them; arrivals are the same."""

FUTURES, EPOCHS = 16, 5
"""Of the teacher, and passes over its decisions."""
SEARCH = 32
"""Futures of the planner and of guided rollouts, when they are judged."""

DISTILLED, SHIPPED, GUIDED, PLANNER = (
    "distilled here",
    "shipped policy",
    "guided rollouts",
    "planner (rollouts)",
)
CHANCE_MASKED = "random_masked"
"""A random order of the jobs that the learners may choose from."""
HEURISTICS = {
    "random": "random",
    "fcfs": "fcfs",
    "sjf": "sjf",
    "qos": "qos",
    "hvf": "hvf",
    "deadline_never": "deadline_never:dispatch=easy,scope=queue",
}
METRICS = ("total_job_value_ratio", "on_time_ratio", "completion_ratio", "utilization", "mean_slowdown")
LEGEND = "Value: share of the value of all jobs that arrived, earned by jobs that were on time."
SEED = 10_000
PICTURE_STEP = 60


@dataclass(frozen=True)
class PoolPart:
    """What this part does.

    :param out: folder of ``model/`` (portable), ``results.csv`` and pictures
    :param labels: decisions of the planner that the policy is distilled from
    :param episodes: episodes of 500 steps that each policy is judged on
    :param seed: of the distillation; judging uses the seeds from 10,000 on
    """

    out: Path
    labels: int
    episodes: int
    seed: int
    called = ENV_ID

    @property
    def model(self) -> Path:
        """Folder of the policy."""
        return self.out / "model"

    def run(self, say: Callable[[str], None]) -> pd.DataFrame:
        """Distil, judge, write everything to ``out``; return all episodes.

        :param say: is told what happens
        """
        say(f"a planner decides {self.labels:,} times, and a network learns what it thinks of every action")
        scenario = Scenario(ENV_ID, {**SETTINGS, **CHOICE})
        clone = distill_rollouts((scenario,), self.labels, FUTURES, EPOCHS, self.seed)
        saved = clone.save(self.out / "run", labels=self.labels, **provenance())
        write_portable(self.model, saved.parent, Environment(ENV_ID, SETTINGS, CHOICE))
        say(f"judging on {self.episodes} held-out episodes")
        known = {**HEURISTICS, SHIPPED: "pretrained", DISTILLED: str(self.model)}
        searches = {
            CHANCE_MASKED: "random",
            PLANNER: strong(SEARCH).spec,
            GUIDED: f"{strong(SEARCH).spec},prior={self.model}",
        }
        acting = {**SETTINGS, **CHOICE}
        results = pd.concat(
            [
                Evaluation(known, ENV_ID, self.episodes, SEED, SETTINGS).run(),
                Evaluation(searches, ENV_ID, self.episodes, SEED, acting).run(),
            ],
            ignore_index=True,
        )
        with atomic_write(self.out / "results.csv") as file:
            results.to_csv(file, index=False)
        for figure, name in zip(pictures(self.model), ("resource_image", "gantt"), strict=True):
            save_figure(figure, self.out / f"{name}.png")
        say("done")
        return results

    def commands(self) -> list[str]:
        """Return the commands that repeat the table, one for each setting of the environment."""
        named = [f"{name}={spec}" if name != spec else name for name, spec in HEURISTICS.items()]
        choice = " ".join(f"{key}={str(value).lower()}" for key, value in CHOICE.items())
        return [
            f"python scripts/evaluate.py --policies {' '.join(named)} pretrained {self.model} "
            f"--episodes {self.episodes} --seed {SEED}",
            f"python scripts/evaluate.py --env {ENV_ID} --set offered_load=1.0 {choice} --policies "
            f"{CHANCE_MASKED}=random {strong(SEARCH).spec} guided={strong(SEARCH).spec},prior={self.model} "
            f"--episodes {self.episodes} --seed {SEED}",
        ]


def short_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each policy: value with its interval, jobs on time, use of the units; best first."""
    summary = summarize(results, ("total_job_value_ratio", "on_time_ratio", "utilization"))
    wide = summary.pivot(index="policy", columns="metric", values="estimate")
    value = summary[summary["metric"] == "total_job_value_ratio"].set_index("policy")
    rows = wide.sort_values("total_job_value_ratio", ascending=False).index
    return pd.DataFrame(
        {
            "policy": rows,
            "value": [f"{wide.loc[row, 'total_job_value_ratio']:.3f}" for row in rows],
            "95 % interval": [f"{value.loc[row, 'low']:.3f}…{value.loc[row, 'high']:.3f}" for row in rows],
            "on time": [f"{wide.loc[row, 'on_time_ratio']:.3f}" for row in rows],
            "units in use": [f"{wide.loc[row, 'utilization']:.3f}" for row in rows],
        }
    )


def pictures(model: Path, seed: int = SEED) -> tuple[Figure, Figure]:
    """Draw the resource image in mid-episode, and the chart of 100 steps, under a distilled policy."""
    choice = {key: value for key, value in CHOICE.items() if key != "skip_forced"}
    env = EpisodeRecorder(gym.make(f"{ENV_ID}-v0", **SETTINGS, **choice))
    pool = env.unwrapped
    assert isinstance(pool, ResourcePoolEnv)
    policy: Any = load_model(model).model
    observation, _ = env.reset(seed=seed)
    image: Figure | None = None
    truncated = False
    while not truncated:
        action, _ = policy.predict(observation, action_masks=pool.action_masks(), deterministic=True)
        observation, _, _, truncated, info = env.step(action)
        if image is None and info["time_advanced"] and env.record().steps == PICTURE_STEP:
            title = f"distilled policy on {ENV_ID}, step {PICTURE_STEP}"
            image = pool_figure(pool.simulator.view(), title)
    assert image is not None
    assert env.finished is not None
    return image, gantt(env.finished, f"distilled policy on {ENV_ID}", first=0, last=100)
