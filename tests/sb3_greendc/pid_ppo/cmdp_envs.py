"""Small constrained problems whose optimum is known, and settings that reach it quickly."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class ContextCMDP(gym.Env):
    """One of three contexts per step, drawn independently; action 1 earns .3, .6 or .9 and costs 1.

    Thirty steps, then ``terminated``. Each context comes ten times on average, so the best policy under a
    limit ``d`` takes the dearest ones first: d=15 earns 12.0 at a multiplier of .6, d=21 15.3 at .3, d=6 5.4
    at .9.
    """

    OPTIMA = {6.0: (5.4, 0.9), 15.0: (12.0, 0.6), 21.0: (15.3, 0.3)}  # noqa: RUF012
    """Limit: (return, multiplier)."""

    def __init__(self, n_steps: int = 30) -> None:
        self.n_steps = n_steps
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(2)

    def _observe(self) -> np.ndarray:
        self.context = int(self.np_random.integers(3))
        return np.eye(3, dtype=np.float32)[self.context]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(action) * (0.3, 0.6, 0.9)[self.context]
        self.t += 1
        return self._observe(), reward, self.t == self.n_steps, False, {"cost": float(action)}


class CueCMDP(gym.Env):
    """A cue, + or -, is shown at the first of eight steps; action 1 earns 1 after +, .2 after -, and costs 1.

    Under a limit of 4 a policy with memory acts only after +: 4.0. Without memory it acts half the time:
    about 2.6, the start included. Ends ``terminated``.
    """

    N_STEPS = 8

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def _observe(self) -> np.ndarray:
        return np.array([self.cue if self.t == 0 else 0.0, self.t / self.N_STEPS], dtype=np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.t = 0
        self.cue = float(self.np_random.choice((-1.0, 1.0)))
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(action) * (1.0 if self.cue > 0 else 0.2)
        self.t += 1
        return self._observe(), reward, self.t == self.N_STEPS, False, {"cost": float(action)}


class ScriptedEnv(gym.Env):
    """An environment of any space whose costs and episode lengths are fixed in advance, for exact sums.

    The cost of step ``t`` of any episode is ``base + t``. An invalid action is an ``AssertionError``.

    :param length: steps per episode
    :param truncate: whether episodes are cut by a time limit; else they terminate
    :param observation: ``"box"``, ``"discrete"``, ``"image"`` or ``"dict"``
    :param action: ``"discrete"``, ``"multidiscrete"``, ``"multibinary"`` or ``"box"``
    :param masks: ``"observation"`` (makes it a Dict), ``"method"`` or ``None``
    """

    def __init__(
        self,
        length: int = 5,
        base: float = 0.0,
        truncate: bool = False,
        observation: str = "box",
        action: str = "discrete",
        masks: str | None = None,
    ) -> None:
        self.length, self.base, self.truncate, self.masks = length, base, truncate, masks
        self.action_space = {
            "discrete": spaces.Discrete(4),
            "multidiscrete": spaces.MultiDiscrete([3, 2]),
            "multibinary": spaces.MultiBinary(3),
            "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
        }[action]
        self.sizes = {"discrete": [4], "multidiscrete": [3, 2]}.get(action, [])
        box = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.observation_space = {
            "box": box,
            "discrete": spaces.Discrete(6),
            "image": spaces.Box(0, 255, (36, 36, 1), np.uint8),
            "dict": spaces.Dict(x=box, n=spaces.Discrete(3)),
        }[observation]
        if masks == "observation":
            mask = spaces.Box(0, 1, (sum(self.sizes),), np.int8)
            self.observation_space = spaces.Dict(x=box, action_mask=mask)
        if masks == "method":
            self.action_masks = lambda: self.mask

    def _observe(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        observation = self.observation_space.sample()
        masks = [self.np_random.random(size) < 0.3 for size in self.sizes]
        for mask in masks:
            mask[self.np_random.integers(len(mask))] = True
        self.mask = np.concatenate(masks) if masks else np.ones(0, bool)
        if self.masks == "observation":
            observation["action_mask"] = self.mask.astype(np.int8)
        return observation

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.masks is not None:
            offsets = np.cumsum([0, *self.sizes[:-1]])
            assert self.mask[offsets + np.atleast_1d(action)].all(), f"invalid action {action}"
        cost = self.base + self.t
        self.t += 1
        over = self.t == self.length
        return self._observe(), 1.0, over and not self.truncate, over and self.truncate, {"cost": cost}
