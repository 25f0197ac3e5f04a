"""The memory of a batch of pools: its arrays, the compiled code for them, and which episodes have begun."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.compiled import entry_point
from greendc.config import require
from greendc.resource_pool import kernel
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.config_record import config_record
from greendc.resource_pool.fragmentation import Fragmentation
from greendc.resource_pool.layout import NewJobs, PoolState
from greendc.resource_pool.lookahead import Lookahead
from greendc.resource_pool.observation import KERNEL_ORDER, dict_space, flat_space
from greendc.resource_pool.power import PowerSource
from greendc.resource_pool.view import READY_JOB_COLUMNS
from greendc.simulator import Simulator
from greendc.threads import Threads

B = TypeVar("B", bound="PoolBatch")


class PoolBatch(Simulator):
    """The memory of a :class:`~greendc.resource_pool.ResourcePoolSimulator`, and copies of it.

    :param config: the configuration
    :param num_envs: how many environments
    :param threads: that the batch is split among
    :param mean_value: of the workload's jobs
    :param power: of the episodes
    """

    episodes: NDArray[np.int64]
    """``(num_envs,)``: how many episodes have begun in each environment."""

    def __init__(
        self,
        config: ResourcePoolConfig,
        num_envs: int,
        threads: int,
        mean_value: float,
        power: PowerSource,
    ) -> None:
        self.config = config
        self.num_envs = num_envs
        self._threads = Threads(threads, num_envs)
        self._parts_space = dict_space(config)
        flat = config.observation == "flat"
        self.observation_space = flat_space(self._parts_space) if flat else self._parts_space
        self.action_space = spaces.Discrete(config.n_actions)
        self._layout = [
            (key, (num_envs, *(part.shape or ())), np.dtype(part.dtype))
            for key in KERNEL_ORDER
            for part in (self._parts_space[key],)
        ]
        self._shapes = tuple(shape[1:] for _, shape, _ in self._layout)
        self._cell = np.dtype(config.cell_dtype)
        self._afterstates = [_afterstates(config) for _ in range(threads)]
        self._allocate(mean_value, power)
        self._bind()

    def _allocate(self, mean_value: float, power: PowerSource) -> None:
        config, envs = self.config, self.num_envs
        types, horizon = config.resource_types, config.horizon
        words = -(-config.units // at.WORD_BITS)
        self._state = PoolState(
            config=config_record(config, words, mean_value, power.mean_price),
            env=np.zeros(envs, at.ENV),
            counts=np.zeros((envs, types + config.n_actions), np.int64),
            forecast=np.zeros((envs, horizon)),
            jobs=np.zeros((envs, 0), at.JOB),
            units=np.zeros((envs, 3, 0, types), np.int64),
            lists=np.zeros((envs, at.OVERDUE + 1, 0), np.int64),
            rows=np.zeros((envs, horizon + 1, at.BITS + 2 * types * (words + 1)), np.int64),
            image=np.zeros((envs, horizon, types * config.units), config.cell_dtype),
            series=np.zeros((envs, power.steps, at.SERIES)),
        )
        self._state.env["now"] = config.episode_steps  # until the first reset
        self.truncated = np.zeros(envs, np.bool_)
        self.episodes, self._all_begun = np.zeros(envs, np.int64), False
        self._parts = self._empty_parts()

    def _bind(self) -> None:
        """Make the views that the contract shows."""
        env = self._state.env
        self.rewards, self._advanced, self._cost = env["reward"], env["time_advanced"], env["cost"]
        self.step_info = {"cost": self._cost, "time_advanced": self._advanced}
        if self.config.info_jobs:
            width = len(READY_JOB_COLUMNS) + self.config.resource_types
            self.step_info["ready_jobs"] = np.zeros((self.num_envs, self.config.ready_pool_size, width))

    # The kernel's reset and two steps are called without type checks: what goes in is checked before.

    @cached_property
    def _reset(self) -> Callable[..., None]:
        whole, real = np.zeros(1, np.int64), np.zeros(1)
        jobs = NewJobs(whole, whole, whole, np.zeros((1, 1), np.int64), real, real, whole)
        return entry_point(kernel.reset_one, self._state, 0, jobs)

    @cached_property
    def _step(self) -> Callable[..., int]:
        parts = self._parts.values()
        return entry_point(kernel.step_batch, np.zeros(1, np.int64), self._state, self.truncated, *parts)

    @cached_property
    def _step_single(self) -> Callable[..., int]:
        require(self.num_envs == 1, "num_envs", self.num_envs, "1 to take a step with step_one()")
        parts = (part[0] for part in self._parts.values())
        return entry_point(kernel.step_single, 0, self._state, self.truncated, *parts)

    @cached_property
    def _observe(self) -> Callable[..., None]:
        return entry_point(kernel.observe_batch, self._state, 0, 0, *self._parts.values())

    @cached_property
    def _place(self) -> Callable[..., int]:
        return entry_point(kernel.place_one, self._state, 0, 0, False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what :meth:`_bind` makes: copies of views would not show what the kernel writes."""
        bound = ("rewards", "step_info", "_advanced", "_cost")
        code = ("_reset", "_step", "_step_single", "_observe", "_place")
        return {key: value for key, value in vars(self).items() if key not in bound + code}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the arrays and make new views of them."""
        vars(self).update(state)
        self._bind()

    def _make_room(self, jobs: int) -> None:
        """Let the job tables hold ``jobs`` jobs an episode."""
        if jobs <= self._state.jobs.shape[1]:
            return
        capacity = jobs + jobs // 4 + 8
        larger = {}
        for name, axis in (("jobs", 1), ("units", 2), ("lists", 2)):
            old = getattr(self._state, name)
            shape = tuple(capacity if i == axis else size for i, size in enumerate(old.shape))
            larger[name] = np.zeros(shape, old.dtype)
            larger[name][tuple(slice(size) for size in old.shape)] = old
        self._state = self._state._replace(**larger)

    def _empty_parts(self) -> dict[str, NDArray[Any]]:
        return {key: np.empty(shape, dtype) for key, shape, dtype in self._layout}

    def _begin(self, index: int) -> None:
        """Note that an episode begins in an environment."""
        self.truncated[index] = False
        self.episodes[index] += 1
        self._all_begun = self._all_begun or bool(self.episodes.all())

    def require_begun(self) -> None:
        """Raise a ``RuntimeError`` unless an episode has begun in every environment."""
        if not self._all_begun:
            self.in_episode(int(np.argmin(self.episodes)))

    @property
    def _begun(self) -> NDArray[np.int64]:  # type: ignore[override]
        return self.episodes

    @property
    def state(self) -> PoolState:
        """The arrays of all environments, for compiled policies; others take their place at a reset."""
        return self._state

    def alone(self: B, index: int) -> B:
        """Return a copy that holds environment ``index`` alone, as it is now; this one stays as it is."""
        index = self.in_episode(index)
        rows = {name: array[index : index + 1].copy() for name, array in self._state._asdict().items()}
        rows["config"] = self._state.config.copy()
        copied = object.__new__(type(self))
        vars(copied).update(
            self.__getstate__(),
            num_envs=1,
            truncated=self.truncated[index : index + 1].copy(),
            episodes=self.episodes[index : index + 1].copy(),
            _all_begun=True,
            _layout=[(key, (1, *shape[1:]), dtype) for key, shape, dtype in self._layout],
            _state=PoolState(**rows),
            _afterstates=copy.deepcopy(self._afterstates[:1]),
            _threads=Threads(1, 1),
        )
        copied._parts = copied._empty_parts()
        copied._bind()
        return copied


def _afterstates(config: ResourcePoolConfig) -> list[Fragmentation | Lookahead]:
    """Return what writes the features of the states after actions."""
    found: list[Fragmentation | Lookahead] = [Fragmentation(config)] if config.fragmentation else []
    return [*found, Lookahead(config)] if config.lookahead else found
