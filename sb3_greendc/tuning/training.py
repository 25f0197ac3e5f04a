"""One training of a trial's hyperparameters, judged on validation episodes on its way and at its end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.episodes import run_episodes
from sb3_greendc.runs.divergence import divergence_of
from sb3_greendc.runs.hyperparameters import Hyperparameters
from sb3_greendc.runs.models import attach
from sb3_greendc.tuning.models import build_model
from sb3_greendc.tuning.objective import VALIDATION_SEED, Objective
from sb3_greendc.tuning.score import Score

ShouldStop = Callable[[int, Score], bool]
"""Told the number of an evaluation (from 1) and its score; tells whether to give the training up."""


@dataclass(frozen=True)
class Training:
    """What came of a training.

    :param model: the model as it was left
    :param score: its score at the end; ``None`` if it was given up or diverged
    :param diverged: whether weights, distributions or returns are no longer finite
    """

    model: BaseAlgorithm
    score: Score | None
    diverged: bool = False


def train_and_score(
    objective: Objective,
    hyperparameters: Hyperparameters,
    should_stop: ShouldStop,
    is_lost: Callable[[], bool],
) -> Training:
    """Train with the hyperparameters of a trial and judge the result.

    The same objective and hyperparameters give the same score, wherever they run: trainings share their
    seed, their validation episodes and the number of threads.

    :param objective: what is searched for
    :param hyperparameters: of the trial
    :param should_stop: asked after each evaluation but the last
    :param is_lost: asked before each; a training whose result is not needed any more ends
    """
    validation = Validation(objective)
    envs = make_vec_env(objective.env_id, hyperparameters.n_envs, objective.seed, **objective.training_kwargs)
    env = hyperparameters.wrap(envs)
    model = build_model(objective, hyperparameters, env)
    try:
        callback = _EvaluationsOnTheWay(objective, validation, should_stop, is_lost)
        try:
            model.learn(objective.timesteps, callback=[*hyperparameters.make_callbacks(), callback])
            if callback.given_up:
                return Training(model, None)
            score = validation.score(model)
        except Exception as error:
            # Weights that are not finite make SB3, torch or the environment raise, each in its own way.
            if divergence_of(model, error) is None:
                raise
            return Training(model, None, diverged=True)
        return Training(model, score if math.isfinite(score.value) else None, not math.isfinite(score.value))
    finally:
        env.close()
        validation.env.close()


class Validation:
    """The validation episodes, which are the same for every model.

    :param objective: what is searched for
    """

    def __init__(self, objective: Objective) -> None:
        self.cost_limit = objective.cost_limit
        self.env = make_vec_env(objective.env_id, objective.episodes, **objective.validation_kwargs)

    def score(self, model: BaseAlgorithm) -> Score:
        """Run the episodes, seeing them as the model does, and return its score."""
        normalizer = model.get_vec_normalize_env()
        env = self.env if normalizer is None else attach(normalizer, self.env)
        episodes = run_episodes(model, env, VALIDATION_SEED)
        value = float(np.mean([episode["return"] for episode in episodes]))
        if self.cost_limit is None:
            return Score(value)
        cost = float(np.mean([episode["cost"] for episode in episodes]))
        return Score(value, cost - self.cost_limit)


class _EvaluationsOnTheWay(BaseCallback):
    """Evaluate whenever another share of the budget is used up, between updates of the policy.

    Long rollouts may use up several shares at once: then the last of them is evaluated alone. Algorithms
    that learn from data have no rollouts: their steps are updates.
    """

    def __init__(
        self,
        objective: Objective,
        validation: Validation,
        should_stop: ShouldStop,
        is_lost: Callable[[], bool],
    ) -> None:
        super().__init__()
        self.objective = objective
        self.validation = validation
        self.should_stop = should_stop
        self.is_lost = is_lost
        self.given_up = False
        self._done = 0

    def _on_rollout_start(self) -> None:
        self._evaluate_if_due()

    def _on_step(self) -> bool:
        if self.objective.data is not None:
            self._evaluate_if_due()
        return not self.given_up

    def _evaluate_if_due(self) -> None:
        used = self.num_timesteps * self.objective.evaluations // self.objective.timesteps
        if used <= self._done or used >= self.objective.evaluations or self.given_up:
            return
        self._done = used
        score = self.validation.score(self.model)
        self.given_up = self.is_lost() or not math.isfinite(score.value) or self.should_stop(used, score)
