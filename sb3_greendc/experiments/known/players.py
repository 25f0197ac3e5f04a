"""What plays without having learned: controllers of known quality, dispatching rules, and chance."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.evaluation.uniform import Uniform

RANDOM = "random"


@dataclass(frozen=True)
class Controller:
    """Push a pole's cart to the right where ``weights @ observation`` is above 0.

    :param weights: of place, speed, angle and angular speed
    """

    weights: tuple[float, ...]

    def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[NDArray[np.int64], None]:
        """Return an action for each observation of a batch."""
        return (np.asarray(observation) @ np.array(self.weights) > 0).astype(np.int64), None


@dataclass(frozen=True)
class Dispatching:
    """Of a job shop's unfinished jobs, plan that with the greatest value in a column of the observation.

    :param column: of ``observation["jobs"]``: 0 next duration, 1 work left, 2 wait until it can start
    :param sign: 1, or -1 for the least value
    """

    column: int
    sign: float = 1.0

    def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[NDArray[np.int64], None]:
        """Return an action for each observation of a batch."""
        values = self.sign * np.asarray(observation["jobs"])[..., self.column]
        return np.where(np.asarray(observation[ACTION_MASK]) > 0, values, -np.inf).argmax(axis=-1), None


@dataclass
class Lander:
    """Gymnasium's own controller of LunarLander, which now and then does anything.

    :param chance: the share of actions that are drawn, each of the four with the same probability
    :param seed: of the generator
    """

    chance: float
    seed: int = 0
    rng: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[NDArray[np.int64], None]:
        """Return an action for each observation of a batch."""
        lander: Any = importlib.import_module("gymnasium.envs.box2d.lunar_lander")  # which needs Box2D
        # All that it asks of an environment, in Gymnasium 0.29 and in 1.
        env = SimpleNamespace(continuous=False, unwrapped=SimpleNamespace(continuous=False))
        steered = np.array([lander.heuristic(env, state) for state in np.asarray(observation)], np.int64)
        drawn = self.rng.integers(4, size=len(steered))
        return np.where(self.rng.random(len(steered)) < self.chance, drawn, steered), None


PLAYERS: dict[str, Controller | Dispatching] = {
    "good controller": Controller((0.1, 0.3, 1.0, 0.6)),
    "weak controller": Controller((1.0, 0.3, 1.0, 0.6)),
    "most work left": Dispatching(1),
    "shortest operation": Dispatching(0, -1.0),
    "earliest start": Dispatching(2, -1.0),
}
"""By name. Of CartPole's, the good one reaches 500, the weak one about 120; chance about 20."""

RULES = ("most work left", "shortest operation", "earliest start")
"""Those of job shops."""


LANDERS = {"Gymnasium's controller": 0.0, "Gymnasium's controller, 30 % chance": 0.3}
"""LunarLander's: the share of drawn actions. They reach about 245 and 10; chance −180."""


def player(
    name: str, action_space: spaces.Space[Any], seed: int = 0
) -> Controller | Dispatching | Lander | Uniform:
    """Return what plays under a name.

    :param name: :data:`RANDOM`, or one of :data:`PLAYERS` or :data:`LANDERS`
    :param action_space: of the environment
    :param seed: of chance
    """
    if name in LANDERS:
        return Lander(LANDERS[name], seed)
    return Uniform(action_space, seed) if name == RANDOM else PLAYERS[name]
