"""The tasks: a training, what does not learn, and learners on data of known quality."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import pandas as pd
from gymnasium import spaces

from sb3_greendc.bc.distill import distill
from sb3_greendc.core import yaml
from sb3_greendc.core.algorithms import algorithm_class, hyperparameters_of
from sb3_greendc.crr import CRR
from sb3_greendc.crr.box_policies import BoxCRRPolicy
from sb3_greendc.datasets import OfflineDataset, concatenate
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.experiments.distillation import loaded
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.known.planned import PLANNING_SEED, Planned, data_of, operations
from sb3_greendc.experiments.known.plans import PLANNERS
from sb3_greendc.experiments.known.players import player
from sb3_greendc.experiments.known.problems import Problem, register
from sb3_greendc.experiments.offline import RECORDING_SEED
from sb3_greendc.experiments.tasks import Files, Outcome, Scenario, Task
from sb3_greendc.experiments.training import Learner, Training
from sb3_greendc.runs.hyperparameters import block_for, load_hyperparameters, policy_for, zoo_file


@dataclass(frozen=True)
class KnownTraining(Training):
    """A training on an environment that is known once this module is imported, as a worker does."""

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 5.0 + self.decisions / self.learner.speed

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        register()
        return super().compute()


def constructor_defaults(algorithm: str, env_id: str) -> dict[str, Any]:
    """Return the values that put an algorithm's own defaults in place of an environment's settings.

    :param algorithm: name of the algorithm
    :param env_id: whose block of the hyperparameter file they replace
    """
    blocks = yaml.load(zoo_file(algorithm))
    heading = block_for(env_id, blocks)
    block = blocks[heading] if heading else {}
    defaults: dict[str, Any] = {"policy": "MlpPolicy", "n_envs": 1}
    for cls in reversed(algorithm_class(algorithm).__mro__):
        if "__init__" in vars(cls):
            for name, parameter in inspect.signature(vars(cls)["__init__"]).parameters.items():
                if parameter.default is not parameter.empty:
                    defaults[name] = parameter.default
    known = {*hyperparameters_of(algorithm), "policy", "n_envs"}
    found = {name: defaults[name] for name in block if name in defaults and name in known}
    if "policy_kwargs" in found:
        found["policy_kwargs"] = {}
    return found


@dataclass(frozen=True)
class Played(Task):
    """What does not learn, on the test episodes.

    :param problem: the problem's name, for titles
    :param scenario: as it is tested
    :param policy: of :func:`~sb3_greendc.experiments.known.players.player`
    :param episodes: number of episodes
    """

    problem: str
    scenario: Scenario
    policy: str
    episodes: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{self.policy} {self.problem}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 3.0

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        register()
        rows = play(player(self.policy, action_space(self.scenario)), self.scenario, self.episodes)
        return Outcome({"episodes": pd.DataFrame(rows).assign(policy=self.policy)})


SAC = Learner("SAC", "sac", {"learning_rate": 1e-3, "learning_starts": 100}, speed=100.0)
"""What makes data of problems with ``Box`` actions: settings of RL Baselines3 Zoo for Pendulum."""

SAC_STEPS = {
    "Pendulum": {"SAC, early": 2_500, "SAC, late": 10_000},
    "HalfCheetah": {"SAC, early": 20_000, "SAC, late": 100_000},
}
"""After how many steps it plays, by problem and name of the player."""


BY_CRITICS = {k: f"CRR, the best of {k}" for k in (4, 16)}
"""Names of CRR in tables where it chooses from so many of its own ``Box`` actions by its critics."""


@dataclass(frozen=True)
class OnData(Task):
    """Critic-regularized regression, or cloning, on data of players of known quality.

    :param name: the learner's name in tables
    :param problem: the problem
    :param data: the data's name
    :param sources: players that are recorded, each an equal share
    :param transitions: transitions recorded in all
    :param steps: gradient steps
    :param seed: number of the run: another one has other data, too
    :param episodes: test episodes
    :param options: in place of those of ``zoo_hparams/crr.yml``
    :param files: of the players that are trained and of the planners; without them these are done here
    """

    name: str
    problem: Problem
    data: str
    sources: tuple[str, ...]
    transitions: int
    steps: int
    seed: int
    episodes: int
    options: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[Files, ...] = field(default=(), repr=False, compare=False)

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{self.name} {self.problem.name} {self.data} seed {self.seed}"

    @property
    def trained(self) -> dict[str, KnownTraining]:
        """The trainings of those of the sources that are trained, by name."""
        steps = SAC_STEPS.get(self.problem.name, {})
        scenario = acting(self.problem)
        return {
            name: KnownTraining(scenario, SAC, steps[name], self.seed, self.episodes)
            for name in self.sources
            if name in steps
        }

    @property
    def planned(self) -> dict[str, Planned]:
        """The data of those of the sources that are planners, by name: their shares in whole episodes."""
        names = [name for name in self.sources if name in PLANNERS]
        if not names:
            return {}
        scenario = acting(self.problem)
        episodes = max(1, self.transitions // len(self.sources) // operations(scenario))
        first = PLANNING_SEED + 100_000 * self.seed
        return {name: Planned(scenario, name, episodes, first) for name in names}

    @property
    def needs(self) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return (*self.trained.values(), *self.planned.values())

    def given(self, *files: Files) -> OnData:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return replace(self, files=files)

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        cloning = self.options.get("weight_mode") == "bc"
        draws = self.problem.name in SAC_STEPS and not cloning  # of a Box, many actions in every update
        return 4.0 + self.transitions / 20_000 + self.steps / (80 if draws else 500)

    def describe(self) -> dict[str, Any]:
        """Add the hyperparameters that the file has today."""
        settings = load_hyperparameters("crr", self.problem.env_id, self.options).settings
        return {**super().describe(), "settings": {k: v for k, v in settings.items() if k != "n_timesteps"}}

    def record(self) -> OfflineDataset:
        """Return the data; those of planners alone have the label ``advantages``."""
        register()
        files = self.files or tuple(task.compute().files for task in self.needs)
        by_name = dict(zip((*self.trained, *self.planned), files, strict=True))
        parts = [data_of(by_name.pop(name)) for name in self.planned]
        played = [name for name in self.sources if name not in self.planned]
        if not played:
            return concatenate(parts)
        models = {name: loaded(given) for name, given in by_name.items()}
        scenario, first = acting(self.problem), RECORDING_SEED + 1000 * self.seed
        space, kwargs = action_space(scenario), scenario.env_kwargs
        actors = {name: models.get(name) or player(name, space, first) for name in played}
        share = self.transitions * len(played) // len(self.sources)
        data = collect(actors, scenario.env_id, share, first, env_kwargs=kwargs, n_envs=4)
        return concatenate([data, *(part.with_labels({}) for part in parts)]) if parts else data

    def learned(self, data: OfflineDataset) -> Any:
        """Return a model that has learned from the data."""
        chosen = load_hyperparameters("crr", self.problem.env_id, self.options)
        policy = policy_for(chosen.policy, hasattr(data.observation_space, "spaces"))
        model = CRR(policy, dataset=data, seed=self.seed, device="cpu", **chosen.arguments)
        return model.learn(self.steps)

    def actors(self, model: Any) -> Iterator[tuple[str, Any]]:
        """Yield what is judged, by its name in tables: with ``Box`` actions also what its critics choose."""
        yield self.name, model
        if isinstance(model.policy, BoxCRRPolicy) and model.config.has_critic:
            for k, name in BY_CRITICS.items():
                model.policy.n_action_samples = k
                yield name, model

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        data = self.record()
        started = time.perf_counter()
        model = self.learned(data)
        head = {
            "train_seed": self.seed,
            "trained_decisions": self.steps,
            "trained_seconds": round(time.perf_counter() - started, 2),
        }
        rows = []
        for name, actor in self.actors(model):
            played = play(actor, tested_in(self.problem), self.episodes)
            rows += [{**head, "policy": name, **row} for row in played]
        returns = data.rewards.sum() / (data.episode_id.max() + 1)
        quality = {"transitions": len(data), "data_return": float(returns), "train_seed": self.seed}
        return Outcome({"episodes": pd.DataFrame(rows), "data": pd.DataFrame([quality])})


BATCH = 256
"""Transitions of an update of distillation."""


@dataclass(frozen=True)
class Distilled(OnData):
    """Distillation of planners: what each action is worth to them, and not only what they did.

    The parameters are those of :class:`OnData`, and the sources planners; the options are those of
    :class:`~sb3_greendc.bc.Distillation`, beside a network of the size that ``zoo_hparams/crr.yml`` says.
    """

    def learned(self, data: OfflineDataset) -> Any:
        """See :class:`OnData`."""
        network = load_hyperparameters("crr", self.problem.env_id).settings["policy_kwargs"]
        passes = max(1, round(self.steps * BATCH / len(data)))
        clone = distill(
            data, policy_kwargs=network, n_epochs=passes, batch_size=BATCH, seed=self.seed, **self.options
        )
        return clone.model

    def describe(self) -> dict[str, Any]:
        """Leave out what is of the algorithm that does not train here."""
        network = load_hyperparameters("crr", self.problem.env_id).settings["policy_kwargs"]
        return {**Task.describe(self), "settings": {"policy_kwargs": network}}


def acting(problem: Problem) -> Scenario:
    """Return a problem as it is learned."""
    return Scenario(problem.env_id, dict(problem.env_kwargs))


def tested_in(problem: Problem) -> Scenario:
    """Return a problem as it is tested."""
    return acting(problem).with_kwargs(**problem.test_kwargs)


def action_space(scenario: Scenario) -> spaces.Space[Any]:
    """Return the space of a problem's actions."""
    return gym.make(scenario.env_id, **scenario.env_kwargs).action_space
