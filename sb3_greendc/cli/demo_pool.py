"""Second part of the demo: MaskablePPO schedules jobs on a pool of ten units, next to the heuristics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from greendc.baselines.resource_pool import HEURISTICS
from greendc.resource_pool import ResourcePoolEnv
from greendc.resource_pool.recording import EpisodeRecorder
from greendc.resource_pool.rendering import gantt, pool_figure
from sb3_greendc.core.files import atomic_write
from sb3_greendc.evaluation.paired import Evaluation
from sb3_greendc.evaluation.plots import save_figure
from sb3_greendc.evaluation.statistics import summarize
from sb3_greendc.evaluation.tables import summary_tables
from sb3_greendc.runs.models import MODEL_FILE, load_model
from sb3_greendc.runs.training import prepare, train

ENV_ID = "ResourcePool-10"
LEARNER = "maskable_ppo"
PROBLEM: dict[str, Any] = {"offered_load": 1.0}
CHOICE: dict[str, Any] = {"mask": "now_on_time"}
"""What the learner chooses from: jobs that can start now and finish on time. The heuristics choose from all
jobs, as the papers have them; arrivals are the same."""
METRICS = (
    "total_job_value_ratio",
    "completion_ratio",
    "on_time_ratio",
    "utilization",
    "mean_slowdown",
)
UNITS = (
    "total_job_value_ratio: value of the jobs that finished on time over that of all that arrived; "
    "mean_slowdown: of the jobs that finished, late ones included."
)
PLANNER = "rollout"
EVALUATION_SEED = 10_000
PICTURE_STEP = 60


def run(out: Path, decisions: int, episodes: int, seed: int, console: Console) -> None:
    """Train, evaluate, print the table and write everything to ``out``.

    :param out: folder of ``model.zip``, ``progress.csv``, ``results.csv`` and the pictures
    :param decisions: decisions to train for
    :param episodes: episodes of 500 steps that each policy is judged on
    :param seed: of training; evaluation uses the seeds from 10,000 on
    """
    training = prepare(LEARNER, ENV_ID, decisions, seed, {**PROBLEM, **CHOICE}, device="cpu")
    console.print(f"[bold]MaskablePPO on {training.env_id}[/bold]: {decisions:,} decisions at load 1.0")
    train(training, out)
    policies = [*HEURISTICS, PLANNER]
    console.print(f"[bold]Evaluation[/bold]: {len(policies) + 1} policies, {episodes} episodes, same seeds")
    learner = {LEARNER: str(out / MODEL_FILE)}
    results = pd.concat(
        [
            Evaluation(policies, ENV_ID, episodes, EVALUATION_SEED, PROBLEM).run(progress=True),
            Evaluation(learner, ENV_ID, episodes, EVALUATION_SEED, {**PROBLEM, **CHOICE}).run(progress=True),
        ]
    )
    with atomic_write(out / "results.csv") as file:
        results.to_csv(file, index=False)
    heading = f"{ENV_ID}, offered load 1.0: mean of {episodes} episodes, 95 % interval"
    for table in summary_tables(summarize(results, METRICS), heading, console.width):
        console.print(table)
    console.print(UNITS)
    image, chart = pictures(out / MODEL_FILE)
    save_figure(image, out / "resource_image.png")
    save_figure(chart, out / "gantt.png")


def pictures(model: Path, seed: int = EVALUATION_SEED) -> tuple[Figure, Figure]:
    """Draw the resource image in mid-episode, and the chart of 100 steps, under a trained model."""
    env = EpisodeRecorder(gym.make(f"{ENV_ID}-v0", **PROBLEM, mask=CHOICE["mask"]))
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
            title = f"MaskablePPO on {ENV_ID}, step {PICTURE_STEP}"
            image = pool_figure(pool.simulator.view(), title)
    assert image is not None
    assert env.finished is not None
    return image, gantt(env.finished, f"MaskablePPO on {ENV_ID}", first=0, last=100)
