"""Two agents, one for the jobs and one for the power, each trained while the other is frozen.

SC20 (III-C, V) leaves a second agent for resource and power management to future work, with which the
scheduler cooperates. Here both learn by MaskablePPO, in turns, in the views of
:mod:`greendc.baselines.resource_pool.power_views`.
"""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm

import greendc
from greendc.baselines.resource_pool.power_views import PowerView, SchedulerView
from greendc.resource_pool import ResourcePoolSimulator
from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.experiments.carbon.learners import SHORT_ROLLOUTS
from sb3_greendc.experiments.carbon.start import but_all_on, discourage
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.tasks import Outcome, Scenario, Task
from sb3_greendc.runs.hyperparameters import Hyperparameters, load_hyperparameters

Masks = NDArray[np.bool_]
View = Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]

SCHEDULER, MANAGER = "scheduler", "power manager"
VIEWS: dict[str, View] = {SCHEDULER: SchedulerView, MANAGER: PowerView}
"""What each agent is trained in; the scheduler has the first turn."""
TURNS = "two agents in turn"
ROUNDS = 3
SUSPEND = -2
"""Among the scheduler's actions, from the last one backwards."""
SETTINGS: dict[str, dict[str, Any]] = {
    SCHEDULER: {**SHORT_ROLLOUTS, "callback": "DiscountByTime"},
    MANAGER: {
        **SHORT_ROLLOUTS,
        "policy": "MultiInputPolicy",
        "policy_kwargs": {"features_extractor": "job_set", "net_arch": [64, 64]},
    },
}
"""In place of those of ``zoo_hparams/maskable_ppo.yml``. Each decision of the manager takes an hour, and none
is about a job."""


class TwoAgents:
    """Both agents as one policy of the whole environment: commands are asked for where no job is to start.

    :param scheduler: of the actions of :class:`~greendc.baselines.resource_pool.power_views.SchedulerView`
    :param manager: of those of :class:`~greendc.baselines.resource_pool.power_views.PowerView`
    """

    def __init__(self, scheduler: BaseAlgorithm, manager: BaseAlgorithm) -> None:
        self.scheduler, self.manager = scheduler, manager
        self.first = int(scheduler.action_space.n) - 1  # type: ignore[attr-defined]  # Discrete

    def predict(
        self,
        observation: Mapping[str, NDArray[Any]],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Masks | None = None,
    ) -> tuple[NDArray[Any], None]:
        """Return an action for each observation of a batch.

        :param observation: of the whole environment, ``(B, ...)`` each
        :param state: not used
        :param episode_start: not used
        :param deterministic: the most likely actions instead of draws
        :param action_masks: ``(B, n + 1 + P)``; by default those in the observations
        """
        masks = np.asarray(observation[ACTION_MASK] if action_masks is None else action_masks, bool)
        parts = {SCHEDULER: slice(0, self.first + 1), MANAGER: slice(self.first, None)}
        actions = _asked(self.scheduler, observation, masks[:, parts[SCHEDULER]], deterministic)
        commands = np.flatnonzero(actions == self.first)
        if len(commands):
            seen = {key: values[commands] for key, values in observation.items()}
            found = _asked(self.manager, seen, masks[commands, parts[MANAGER]], deterministic)
            actions[commands] = self.first + found
        return actions, None


def _asked(
    model: BaseAlgorithm, observations: Mapping[str, NDArray[Any]], masks: Masks, deterministic: bool
) -> NDArray[np.int64]:
    """Return an agent's actions, by its own numbers, as often as there are masks."""
    seen = {**observations, ACTION_MASK: masks.astype(np.int8)}
    acting: Any = model
    return np.asarray(acting.predict(seen, action_masks=masks, deterministic=deterministic)[0], np.int64)


class Frozen:
    """An agent where a view asks its partner: it draws actions as in its own training, and learns nothing.

    :param simulator: of a single environment
    :param agents: both of them
    """

    def __init__(self, simulator: ResourcePoolSimulator, agents: TwoAgents) -> None:
        self.simulator, self.agents = simulator, agents

    def choose(self, index: int, mask: Masks) -> int:
        """Return the scheduler's action; the first command if no job is to start."""
        return int(self._ask(self.agents.scheduler, index, mask[: self.agents.first + 1]))

    def command(self, index: int, mask: Masks) -> int:
        """Return the power manager's action."""
        return self.agents.first + self._ask(self.agents.manager, index, mask[self.agents.first :])

    def _ask(self, model: BaseAlgorithm, index: int, mask: Masks) -> int:
        observations: Any = self.simulator.empty_observations()
        self.simulator.observe(observations, index)
        seen = {key: values[index : index + 1] for key, values in observations.items()}
        return int(_asked(model, seen, mask[None], deterministic=False)[0])


@dataclass(frozen=True)
class TurnsTraining(Task):
    """Train the two agents in turns, and judge them together on test episodes.

    In its first turn the scheduler has the rule ``as_needed`` for a partner, since there is no manager yet.
    Both begin as :mod:`~sb3_greendc.experiments.carbon.start` says.

    :param name: of the agents in tables
    :param scenario: what they are trained on, with the reward of both
    :param settings: hyperparameters of each agent in place of the file's
    :param decisions: of both agents together
    :param rounds: turns of each
    :param seed: number of the run
    :param episodes: test episodes
    :param tests: what they are judged on, by name
    """

    name: str
    scenario: Scenario
    settings: Mapping[str, Mapping[str, Any]]
    decisions: int
    rounds: int
    seed: int
    episodes: int
    tests: Mapping[str, Scenario]

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{self.name} seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 5.0 + self.decisions / 1250.0 + 0.2 * self.episodes * len(self.tests)

    def describe(self) -> dict[str, Any]:
        """Add the hyperparameters that the file has today to the fields."""
        settings = {agent: dict(self._hyperparameters(agent).settings) for agent in VIEWS}
        described = {**super().describe(), "settings": settings}
        del described["name"]  # what a run is called does not change it
        return described

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        started = time.perf_counter()
        agents = self.train()
        trained = {"trained_decisions": self.decisions, "trained_seconds": time.perf_counter() - started}
        head = {"policy": self.name, "train_seed": self.seed, **trained}
        rows = [
            {**head, "test": test, **row}
            for test, scenario in self.tests.items()
            for row in play(agents, scenario, self.episodes, draws=True)
        ]
        files = {"scheduler.zip": _saved(agents.scheduler), "power_manager.zip": _saved(agents.manager)}
        return Outcome({"episodes": pd.DataFrame(rows)}, files)

    def train(self) -> TwoAgents:
        """Return the agents after their last turns."""
        models = {agent: self._model(agent) for agent in VIEWS}
        agents = TwoAgents(models[SCHEDULER], models[MANAGER])
        for turn, agent in enumerate(self.turns()):
            model = models[agent]
            if turn > 0:
                _pair(model, agents)
            callbacks = self._hyperparameters(agent).make_callbacks()
            with warnings.catch_warnings():  # rollouts of a short run may be shorter than an episode
                warnings.filterwarnings("ignore", "No episode finished in a rollout")
                model.learn(self.decisions // (2 * self.rounds), callbacks, reset_num_timesteps=False)
        return agents

    def turns(self) -> Iterator[str]:
        """Yield who learns in each turn."""
        for _ in range(self.rounds):
            yield from VIEWS

    def _hyperparameters(self, agent: str) -> Hyperparameters:
        env_id = greendc.resolve_env_id(self.scenario.env_id)
        return load_hyperparameters("maskable_ppo", env_id, self.settings[agent])

    def _first_seed(self, agent: str) -> int:
        """Return the seed of an agent's model and of the first of its environments."""
        return 1000 * (self.seed + 1) + 500 * list(VIEWS).index(agent)

    def _model(self, agent: str) -> MaskablePPO:
        chosen = self._hyperparameters(agent)
        first_seed = self._first_seed(agent)
        env = make_vec_env(
            self.scenario.env_id,
            chosen.n_envs,
            first_seed,
            wrapper_class=VIEWS[agent],
            env_kwargs=self.scenario.env_kwargs,
        )
        model = chosen.build(chosen.wrap(env), first_seed, "cpu")
        assert isinstance(model, MaskablePPO)
        discourage(model, [SUSPEND] if agent == SCHEDULER else but_all_on(int(env.action_space.n)))  # type: ignore[attr-defined]
        return model


def _pair(model: BaseAlgorithm, agents: TwoAgents) -> None:
    """Let the other agent be the partner in all of an agent's environments."""
    env: Any = model.get_env()
    for view in env.unwrapped.envs:
        view.rule = Frozen(view.rule.simulator, agents)


def _saved(model: BaseAlgorithm) -> bytes:
    """Return a model's file."""
    content = io.BytesIO()
    model.save(content)
    return content.getvalue()


def two_agents(
    name: str, scenario: Scenario, decisions: int, seed: int, episodes: int, tests: Mapping[str, Scenario]
) -> TurnsTraining:
    """Return a run of the two agents with the settings that experiments share; see :class:`TurnsTraining`."""
    return TurnsTraining(name, scenario, SETTINGS, decisions, ROUNDS, seed, episodes, tests)
