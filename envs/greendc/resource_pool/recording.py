"""The recorder of episodes: which job was on which unit in each step, for charts and analyses."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from greendc.resource_pool import layout as at
from greendc.resource_pool.env import ResourcePoolEnv
from greendc.resource_pool.record import EpisodeRecord
from greendc.resource_pool.simulator import ResourcePoolSimulator
from greendc.resource_pool.view import PoolView


def seen(pool: ResourcePoolSimulator, episode: int, steps: int) -> PoolView:
    """Return a view of a pool that stands where its recorder does.

    :param episode: how many episodes had begun when the recorder was reset
    :param steps: recorded
    :raises RuntimeError: if no episode has begun, or if the pool was reset or stepped past the recorder
    """
    view = pool.view()
    if episode != pool.episodes[0] or view.now != steps:
        raise RuntimeError("the pool was reset or stepped past its recorder: reset() the recorder")
    return view


class EpisodeRecorder(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps the record of each episode of a resource pool. Costs nothing where it is not used.

    It looks at the pool right before each decision, so it also sees what whole-queue heuristics place.

    :param env: a :class:`~greendc.resource_pool.env.ResourcePoolEnv`, wrapped or not
    :raises ValueError: for another environment, or one with ``skip_forced``, which passes over steps unseen
        (an agent trained with it acts as well without it)
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        base = env.unwrapped
        if not isinstance(base, ResourcePoolEnv):
            raise ValueError(f"env={env!r}: must be a resource-pool environment")
        if base.config.skip_forced:
            raise ValueError("skip_forced=True: must be False to record every step")
        self.finished: EpisodeRecord | None = None
        """The record of the last episode that ended."""
        self._pool: ResourcePoolSimulator = base.simulator
        self._steps: list[tuple[NDArray[np.int64], int, int, float]] = []
        self._episode = 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and begin a new record."""
        result = super().reset(**options)
        self._steps.clear()
        self._episode = int(self._pool.episodes[0])
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment; if time goes on, the step that passes is added to the record.

        :raises RuntimeError: if the episode is over or not begun, or as :meth:`record`
        """
        view = self._seen()
        passing = (view.cell_jobs()[0], int(view.levels[0]), len(view.queue), view.stored_kwh)
        observation, reward, terminated, truncated, info = super().step(action)
        if info["time_advanced"]:
            self._steps.append(passing)
        if truncated:
            self.finished = self.record()
        return observation, reward, terminated, truncated, info

    def _seen(self) -> PoolView:
        """Return a view of the pool, all of whose episode has been recorded."""
        return seen(self._pool, self._episode, len(self._steps))

    def record(self) -> EpisodeRecord:
        """Return the record of the episode so far.

        :raises RuntimeError: if no episode has begun, or if the pool was reset or stepped past the recorder
        """
        view = self._seen()
        config, steps = self._pool.config, len(self._steps)
        cells, powered, waiting, stored = zip(*self._steps, strict=True) if steps else ((), (), (), ())
        series, _ = self._pool.power_series()
        sources = series[:steps, [at.SOLAR, at.WIND]]
        return EpisodeRecord(
            config,
            np.array(cells, np.int64).reshape(steps, config.resource_types * config.units),
            np.array(powered, np.int64),
            np.array(waiting, np.int64),
            np.array(stored, np.float64),
            sources if config.power == "trace" else np.zeros_like(sources),
            view.job_table(),
        )
