"""One training run, judged on held-out episodes along the way and at its end."""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

import greendc
from sb3_greendc.core.callbacks import EpisodeMetricsCallback
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.tasks import Files, Outcome, Scenario, Task
from sb3_greendc.runs.hyperparameters import load_hyperparameters
from sb3_greendc.runs.models import MODEL_FILE, NORMALIZER_FILE, RUN_FILE, save_model
from sb3_greendc.runs.training import prepare


@dataclass(frozen=True)
class Learner:
    """An algorithm with one set of hyperparameters, used at every point of an experiment.

    :param name: its name in tables and figures
    :param algorithm: name of the algorithm
    :param hyperparameters: values in place of the hyperparameter file's
    :param choice: keyword arguments of the environment that narrow what the learner chooses from; arrivals
        and power stay those of the scenario
    :param env_id: environment id in place of the scenario's (the same scenario with other actions)
    :param deterministic: whether tests ask for the most likely action, or draw (what a limit on the mean
        cost is about)
    :param decisions: decisions that a run takes in the full budget
    :param quick_decisions: and in the quick budget
    :param quick_seeds: training seeds in the quick budget
    :param speed: about how many decisions a second one core trains on, at ten units
    :param judged_at: decisions at which a run is judged before its end, too
    """

    name: str
    algorithm: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)
    env_id: str | None = None
    deterministic: bool = True
    decisions: int = 1_000_000
    quick_decisions: int = 100_000
    quick_seeds: int = 2
    speed: float = 10_000.0
    judged_at: tuple[int, ...] = ()

    def needs(self, scenario: Scenario, seed: int) -> tuple[Task, ...]:
        """Return the tasks from whose files a run starts.

        :param scenario: as the learner acts in it
        :param seed: number of the run
        """
        return ()

    def start(self, model: BaseAlgorithm, *files: Files) -> list[BaseCallback]:
        """Prepare a new model for training, and return what else is to be called in it.

        :param model: not yet trained
        :param files: of the tasks that it needs
        """
        return []


@dataclass(frozen=True)
class Training(Task):
    """Train a learner and judge it on test episodes.

    Months are kept apart as in ``scripts/train.py``: environments that have a training split are trained
    on it, and judged on every scenario of ``tests`` (by default the scenario itself).

    :param scenario: what it is trained on
    :param learner: the learner
    :param decisions: environment steps of the run
    :param seed: number of the run
    :param episodes: test episodes at the end
    :param checkpoints: how often it is judged, at equal distances, the last time at the end
    :param judged_at: decisions at which it is judged on the way, in place of equal distances; 0 is the
        untrained model
    :param episodes_along: test episodes at the checkpoints before; default: as many
    :param device: that the model is trained on: no part of what the task is, as the kind of processor is none
    :param tests: other scenarios to judge it on at the end, by name
    :param test_kwargs: keyword arguments of the environment in tests only, such as longer episodes
    :param files: of the tasks that the learner needs; without them these are done here
    """

    scenario: Scenario
    learner: Learner
    decisions: int
    seed: int
    episodes: int
    checkpoints: int = 1
    tests: Mapping[str, Scenario] = field(default_factory=dict)
    test_kwargs: Mapping[str, Any] = field(default_factory=dict)
    episodes_along: int | None = None
    judged_at: tuple[int, ...] = ()
    device: str = field(default="cpu", compare=False)
    files: tuple[Files, ...] = field(default=(), repr=False, compare=False)

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{self.learner.name} {self.env_id} seed {self.seed}"

    @property
    def env_id(self) -> str:
        """The environment that the learner acts in."""
        return self.learner.env_id or self.scenario.env_id

    @property
    def needs(self) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return self.learner.needs(self._acting(self.scenario), self.seed)

    def given(self, *files: Files) -> Training:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return replace(self, files=files)

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        slower = 1.0 + self.scenario.size**2 / 60.0
        training = slower * self.decisions / self.learner.speed
        judging = 2.0 if self.scenario.has_long_queues else 1.0
        along = (self.episodes_along or self.episodes) / self.episodes
        return 3.0 + training + judging * (1.0 + along * len(self.due()))

    def due(self) -> list[int]:
        """Return the decisions at which the model is judged before the end."""
        equal = [self.decisions * k // self.checkpoints for k in range(1, self.checkpoints)]
        return sorted(at for at in self.judged_at or equal if at < self.decisions)

    def describe(self) -> dict[str, Any]:
        """Add the hyperparameters that the learner's file has today to the fields."""
        settings = load_hyperparameters(
            self.learner.algorithm, greendc.resolve_env_id(self.env_id), self.learner.hyperparameters
        ).settings
        # What a run is called, and how long other runs of the learner are, does not change this one.
        settings = {key: value for key, value in settings.items() if key != "n_timesteps"}
        described = {**super().describe(), "settings": settings}
        own = ("name", "decisions", "quick_decisions", "quick_seeds", "speed", "judged_at")
        described["learner"] = {k: v for k, v in described["learner"].items() if k not in own}
        if self.episodes_along is None:
            del described["episodes_along"]
        if not self.judged_at:
            del described["judged_at"]
        return described

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        acting = self._acting(self.scenario)
        files = self.files or tuple(task.compute().files for task in self.needs)
        run = prepare(
            self.learner.algorithm,
            acting.env_id,
            self.decisions,
            1000 * (self.seed + 1),
            acting.env_kwargs,
            self.learner.hyperparameters,
            device=self.device,
        )
        _warm_up(acting)
        judge = _Judge(self)
        with tempfile.TemporaryDirectory() as folder:
            run.model.set_logger(configure(folder, ["csv"]))
            started = time.perf_counter()
            own = [*run.hyperparameters.make_callbacks(), *self.learner.start(run.model, *files)]
            callbacks = [*own, EpisodeMetricsCallback(), judge]
            with warnings.catch_warnings():  # rollouts of a short run may be shorter than an episode
                warnings.filterwarnings("ignore", "No episode finished in a rollout")
                run.model.learn(self.decisions, callback=callbacks)
            seconds = time.perf_counter() - started - judge.seconds
            seconds += sum(float(json.loads(needed[RUN_FILE])["seconds"]) for needed in files)
            tests = self.tests or {"": self.scenario}
            judge.judge(tests, self.episodes, run.model.num_timesteps, seconds)
            run.model.logger.close()
            progress = _read_progress(Path(folder) / "progress.csv")
            save_model(run.model, Path(folder), run.record())
            saved = [Path(folder) / name for name in (MODEL_FILE, RUN_FILE, NORMALIZER_FILE)]
            kept = {path.name: path.read_bytes() for path in saved if path.is_file()}
        episodes = pd.DataFrame(judge.rows).assign(policy=self.learner.name, train_seed=self.seed)
        if self.device != "cpu":
            episodes["trained_on"] = self.device
        return Outcome({"episodes": episodes, "progress": progress.assign(train_seed=self.seed)}, kept)

    def _acting(self, scenario: Scenario) -> Scenario:
        """Return a scenario as the learner acts in it."""
        env_id = self.learner.env_id or scenario.env_id
        return Scenario(env_id, {**scenario.env_kwargs, **self.learner.choice})


class _Judge(BaseCallback):
    """Judges the model at every checkpoint but the last; the time that takes is not training time."""

    def __init__(self, task: Training) -> None:
        super().__init__()
        self.task = task
        self.rows: list[dict[str, Any]] = []
        self.seconds = 0.0
        self._due = task.due()

    def _on_training_start(self) -> None:
        self._started = time.perf_counter()
        self._judge_if_due()

    def _on_step(self) -> bool:
        self._judge_if_due()
        return True

    def _judge_if_due(self) -> None:
        if not self._due or self.num_timesteps < self._due[0]:
            return
        while self._due and self.num_timesteps >= self._due[0]:
            self._due.pop(0)
        trained = time.perf_counter() - self._started - self.seconds
        episodes = self.task.episodes_along or self.task.episodes
        self.judge({"": self.task.scenario}, episodes, self.num_timesteps, trained)

    def judge(self, scenarios: Mapping[str, Scenario], episodes: int, decisions: int, trained: float) -> None:
        """Play test episodes of each scenario."""
        started = time.perf_counter()
        for name, scenario in scenarios.items():
            acting = self.task._acting(scenario).with_kwargs(**self.task.test_kwargs)
            head = {"test": name, "trained_decisions": decisions, "trained_seconds": round(trained, 2)}
            draws = not self.task.learner.deterministic
            for row in play(self.model, acting, episodes, draws):
                self.rows.append({**head, **row})
        self.seconds += time.perf_counter() - started


def _warm_up(scenario: Scenario) -> None:
    """Step an environment once, so that its compilation is not counted as training."""
    env = make_vec_env(scenario.env_id, 1, **scenario.env_kwargs)
    env.reset()
    env.step(np.stack([env.action_space.sample()]))
    env.close()


def _read_progress(path: Path) -> pd.DataFrame:
    """Return what the algorithm logged; nothing if it logged nothing."""
    return pd.read_csv(path) if path.is_file() and path.stat().st_size else pd.DataFrame()
