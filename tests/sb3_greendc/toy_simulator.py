"""A tiny simulator with everything that a bridge must carry: seeds, masks, costs, metrics, Dict spaces."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.baselines import BaselineFamily, BaselinePolicy
from greendc.environments import SimulatorEnv, SimulatorVectorEnv
from greendc.registration import Family
from greendc.simulator import Observation, Simulator

N_ACTIONS = 4


class ToySimulator(Simulator):
    """Each episode draws ``max_steps`` numbers; an action earns its number times the hour's, and costs it.

    Episodes of a batch have different lengths (``min_steps`` to ``max_steps``, drawn by the seed).

    :param discrete: one of :data:`N_ACTIONS` levels, in place of a continuous one
    """

    def __init__(self, num_envs: int, discrete: bool = False, min_steps: int = 3, max_steps: int = 9) -> None:
        self.num_envs, self.discrete = num_envs, discrete
        self.min_steps, self.max_steps = min_steps, max_steps
        self.rewards = np.zeros(num_envs)
        self.truncated = np.zeros(num_envs, dtype=np.bool_)
        self.step_info = {
            "cost": np.zeros(num_envs),
            "hour": np.zeros(num_envs, dtype=np.int64),
            "pair": np.zeros((num_envs, 2)),
        }
        self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(N_ACTIONS) if discrete else spaces.Box(0.0, 1.0, (1,), np.float32)
        self.hours = np.zeros(num_envs, dtype=np.int64)
        self._length = np.full(num_envs, max_steps)
        self._numbers = np.zeros((num_envs, max_steps + 1))
        self._return = np.zeros(num_envs)

    def reset_env(self, index: int, rng: np.random.Generator, options: dict[str, Any] | None = None) -> None:
        self._numbers[index] = rng.uniform(-1, 1, self.max_steps + 1)
        self._length[index] = (options or {}).get("length") or rng.integers(
            self.min_steps, self.max_steps + 1
        )
        self.hours[index] = 0
        self._return[index] = 0.0

    def reset_info(self, index: int) -> dict[str, Any]:
        return {"length": int(self._length[index])}

    def step(self, actions: NDArray[Any], out: Observation) -> None:
        if actions.shape != (self.num_envs, *(self.action_space.shape or ())):
            raise ValueError(f"actions of shape {actions.shape}")
        everywhere = np.arange(self.num_envs)
        level = actions / (N_ACTIONS - 1) if self.discrete else actions[:, 0].astype(np.float64)
        self.rewards[:] = level * self._numbers[everywhere, self.hours]
        self.hours += 1
        self._return += self.rewards
        self.truncated[:] = self.hours >= self._length
        self.step_info["cost"][:] = level
        self.step_info["hour"][:] = self.hours
        self.step_info["pair"][:] = self.hours[:, None] * [1.0, 2.0]
        self.observe(out)

    def observe(self, out: Observation, index: int | None = None) -> None:
        assert isinstance(out, np.ndarray)
        where = np.arange(self.num_envs) if index is None else np.array([index])
        out[where] = np.stack(
            [
                self._numbers[where, self.hours[where]],
                self.hours[where] / self.max_steps,
                self._length[where] / self.max_steps,
            ],
            axis=1,
        )

    def episode_metrics(self, index: int) -> dict[str, float]:
        return {"total": float(self._return[index]), "steps": float(self.hours[index])}


class MaskedToySimulator(ToySimulator):
    """The same with a ``Dict`` observation, and masks that leave out one action, another one each step.

    An invalid action raises, so that no test can pass on masks that were ignored.
    """

    def __init__(self, num_envs: int, min_steps: int = 3, max_steps: int = 9) -> None:
        super().__init__(num_envs, discrete=True, min_steps=min_steps, max_steps=max_steps)
        self._masks = np.zeros((num_envs, N_ACTIONS), dtype=np.bool_)
        mask = spaces.Box(0, 1, (N_ACTIONS,), np.int8)
        self.observation_space = spaces.Dict({"vector": self.observation_space, "action_mask": mask})

    def step(self, actions: NDArray[Any], out: Observation) -> None:
        if not self.action_masks()[np.arange(self.num_envs), actions].all():
            raise ValueError(f"actions {actions} are invalid at {self.hours}")
        super().step(actions, out)

    def observe(self, out: Observation, index: int | None = None) -> None:
        assert isinstance(out, dict)
        super().observe(out["vector"], index)
        where = np.arange(self.num_envs) if index is None else np.array([index])
        out["action_mask"][where] = self.action_masks()[where]

    def action_masks(self) -> NDArray[np.bool_]:
        """Return a buffer that the next call overwrites, as compiled simulators may."""
        self._masks[:] = np.arange(N_ACTIONS) != (self.hours % N_ACTIONS)[:, None]
        return self._masks


def _make(num_envs: int, masked: bool = False, split: str = "test", **options: Any) -> ToySimulator:
    if split not in ("train", "test"):
        raise ValueError(f"split={split!r}: must be 'train' or 'test'")
    unknown = set(options) - {"discrete", "min_steps", "max_steps"}
    if unknown:
        raise TypeError(f"Toy: unknown option {unknown.pop()!r}")
    return MaskedToySimulator(num_envs, **options) if masked else ToySimulator(num_envs, **options)


class ToyEnv(SimulatorEnv):
    """The single environment; its picture shows the hour as a grey level."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        super().__init__(_make(1, **options), render_mode)

    def render(self) -> NDArray[np.uint8]:
        assert isinstance(self.simulator, ToySimulator)
        return np.full((4, 6, 3), self.simulator.hours[0], dtype=np.uint8)


class ToyVectorEnv(SimulatorVectorEnv):
    """The batch."""

    def __init__(self, num_envs: int = 1, **options: Any) -> None:
        super().__init__(_make(num_envs, **options))


TOY_FAMILY = Family(
    name="toy",
    module="toy_simulator",
    prefix="Toy",
    presets={
        "Toy-v0": {"max_steps": 4},
        "Toy-v1": {},
        "DiscreteToy-v1": {"discrete": True},
        "MaskedToy-v0": {"masked": True},
    },
    training={"split": "train"},
)


class Level(BaselinePolicy[ToySimulator]):
    """A baseline: always the same level."""

    level: ClassVar[float]

    def act(self, observations: Observation) -> NDArray[Any]:
        assert isinstance(observations, np.ndarray)
        if self.simulator.discrete:
            return np.full(len(observations), int(self.level * (N_ACTIONS - 1)))
        return np.full((len(observations), 1), self.level, dtype=np.float32)


class All(Level):
    level = 1.0


class Half(Level):
    level = 0.5


TOY_BASELINES = BaselineFamily("toy", ToySimulator, {"all": All, "half": Half})
