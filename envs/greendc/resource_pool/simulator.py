"""The resource-pool simulator: a batch of pools in flat arrays, stepped by one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from operator import index as as_index
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.compiled import entry_point
from greendc.config import require, require_kinds
from greendc.energy.kernel import SITE_COLUMNS
from greendc.resource_pool import kernel
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import LATE_JOBS, MASKS, ResourcePoolConfig
from greendc.resource_pool.jobs import JobArrays, job_values, latest_finish, require_fit
from greendc.resource_pool.metrics import episode_metrics
from greendc.resource_pool.observation import (
    KERNEL_ORDER,
    battery_kwh,
    dict_space,
    flat_space,
    write_flat,
)
from greendc.resource_pool.outlook import Outlook
from greendc.resource_pool.power import PowerSource
from greendc.resource_pool.view import READY_JOB_COLUMNS, PoolView
from greendc.resource_pool.workloads import make_workload
from greendc.simulator import Observation, Simulator

SINGLE, BYTE = np.dtype(np.float32), np.dtype(np.int8)


class ResourcePoolSimulator(Simulator):
    """``num_envs`` resource pools of one configuration.

    Beyond the contract, :meth:`view` shows what heuristics, planners and pictures need, and :meth:`place`
    places any waiting job.

    :param config: the configuration
    :param num_envs: how many environments
    :raises ValueError: if the workload or the power trace does not fit the configuration

    What a method is given is checked before anything is changed: ``RuntimeError`` for an environment in which
    no episode has begun, ``ValueError`` for a number of an environment that there is not, or an array of the
    wrong shape or dtype. The compiled code does not check.
    """

    episodes: NDArray[np.int64]
    """``(num_envs,)``: how many episodes have begun in each environment."""

    def __init__(self, config: ResourcePoolConfig, num_envs: int = 1) -> None:
        require_kinds({"num_envs": "int"}, {"num_envs": num_envs})
        require(num_envs >= 1, "num_envs", num_envs, "at least 1")
        self.config = config
        self.num_envs = num_envs
        self.workload = make_workload(
            config.workload,
            units=config.units,
            resource_types=config.resource_types,
            horizon=config.longest_job,
            step_hours=config.step_hours,
            offered_load=config.offered_load,
            too_large=config.too_large,
        )
        self.power = PowerSource(config)
        self.mean_value = self.workload.mean_value(config.price_list)
        require(self.mean_value > 0.0, "workload", config.workload, "one whose jobs are worth something")
        self._parts_space = dict_space(config)
        flat = config.observation == "flat"
        self.observation_space = flat_space(self._parts_space) if flat else self._parts_space
        self.action_space = spaces.Discrete(config.ready_pool_size + 2)
        self._layout = [
            (key, (num_envs, *(part.shape or ())), np.dtype(part.dtype))
            for key in KERNEL_ORDER
            for part in (self._parts_space[key],)
        ]
        self._shapes = tuple(shape[1:] for _, shape, _ in self._layout)
        self._cell = np.dtype(config.cell_dtype)
        self._outlook = Outlook(config) if config.outlook else None
        self._allocate()
        self._bind()

    # --- memory -----------------------------------------------------------------------------------------

    def _allocate(self) -> None:
        config, envs = self.config, self.num_envs
        types, horizon = config.resource_types, config.horizon
        words = -(-config.units // at.WORD_BITS)
        self._config_i = self._whole_numbers(words)
        self._config_f = self._real_numbers()
        self._env_i = np.zeros((envs, at.ENV_I + types + config.ready_pool_size + 2), np.int64)
        self._env_i[:, at.NOW] = config.episode_steps  # until the first reset
        self._env_f = np.zeros((envs, at.ENV_F + horizon))
        self._rows = np.zeros((envs, horizon + 1, at.BITS + 2 * types * (words + 1)), np.int64)
        self._image = np.zeros((envs, horizon, types * config.units), config.cell_dtype)
        self._series = np.zeros((envs, self.power.steps, at.SERIES))
        self._jobs_i = np.zeros((envs, 0, at.JOB_I + 3 * types), np.int64)
        self._jobs_f = np.zeros((envs, 0, at.JOB_F))
        self._lists = np.zeros((envs, at.LISTS, 0), np.int64)
        self.truncated = np.zeros(envs, np.bool_)
        self.episodes, self._all_begun = np.zeros(envs, np.int64), False
        self._parts = self._empty_parts()

    def _bind(self) -> None:
        """Make the views that the contract shows."""
        self.rewards = self._env_f[:, at.REWARD]
        self._advanced = self._env_i[:, at.TIME_ADVANCED]
        self._result = self._env_f[0, : at.COST + 1]
        self.step_info = {"cost": self._env_f[:, at.COST], "time_advanced": self._advanced}
        if self.config.info_jobs:
            width = len(READY_JOB_COLUMNS) + self.config.resource_types
            self.step_info["ready_jobs"] = np.zeros((self.num_envs, self.config.ready_pool_size, width))
        self._bind_state()

    def _bind_state(self) -> None:
        self._state = (
            self._config_i,
            self._config_f,
            self._env_i,
            self._env_f,
            self._jobs_i,
            self._jobs_f,
            self._lists,
            self._rows,
            self._image,
        )

    # The kernel's reset and two steps are called without type checks: what goes in is checked before.

    @cached_property
    def _reset(self) -> Callable[..., None]:
        ints, floats, table = np.zeros(1, np.int64), np.zeros(1), np.zeros((1, 1), np.int64)
        jobs = (ints, ints, table, floats, ints, floats, ints)
        return entry_point(kernel.reset_one, *self._state, self._series, 0, *jobs, 0.0, 0.0)

    @cached_property
    def _step(self) -> Callable[..., int]:
        after = (*self._state, self._series, self.truncated, *self._parts.values())
        return entry_point(kernel.step_batch, np.zeros(1, np.int64), *after)

    @cached_property
    def _step_single(self) -> Callable[..., int]:
        require(self.num_envs == 1, "num_envs", self.num_envs, "1 to take a step with step_one()")
        parts = (part[0] for part in self._parts.values())
        return entry_point(kernel.step_single, 0, *self._state, self._series, self.truncated, *parts)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what :meth:`_bind` makes: copies of views would not show what the kernel writes."""
        bound = ("rewards", "step_info", "_advanced", "_result", "_state", "_reset", "_step", "_step_single")
        return {key: value for key, value in vars(self).items() if key not in bound}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the arrays and make the views anew."""
        vars(self).update(state)
        self._bind()

    def _whole_numbers(self, words: int) -> NDArray[np.int64]:
        config = self.config
        numbers = np.zeros(at.CONFIG_I, np.int64)
        numbers[at.UNITS] = config.units
        numbers[at.TYPES] = config.resource_types
        numbers[at.HORIZON] = config.horizon
        numbers[at.READY] = config.ready_pool_size
        numbers[at.EPISODE_STEPS] = config.episode_steps
        numbers[at.LATE_RULE] = LATE_JOBS.index(config.late_jobs)
        numbers[at.PLACE_NOW] = config.placement == "now"
        numbers[at.SUSPEND_ALLOWED] = config.suspend
        numbers[at.MASK_RULE] = MASKS.index(config.mask)
        numbers[at.SKIP_FORCED] = config.skip_forced
        numbers[at.START_DELAY] = config.start_delay
        numbers[at.END_DELAY] = config.end_delay
        numbers[at.WORDS] = words
        numbers[at.HAS_SITE] = config.power == "trace"
        numbers[at.EXACT_LEVELS] = config.power != "trace" and config.forecast_error == 0.0
        numbers[at.CONTEXT_ROWS] = config.summary_rows
        return numbers

    def _real_numbers(self) -> NDArray[np.float64]:
        config, weights = self.config, self.config.weights
        site = config.site_config if config.power == "trace" else None
        numbers = np.zeros(at.CONFIG_F)
        if site is not None:
            numbers[:SITE_COLUMNS] = site.to_array()
        numbers[at.STEP_HOURS] = config.step_hours
        numbers[at.MEAN_VALUE] = self.mean_value
        numbers[at.GAMMA] = config.shaping_gamma
        numbers[at.PAY_EXECUTED] = weights.executed
        numbers[at.PAY_ON_TIME] = weights.on_time
        numbers[at.CHARGE_SUSPENSION] = weights.suspension
        numbers[at.PAY_RESUMPTION] = weights.resumption
        numbers[at.CHARGE_LATENESS] = weights.lateness
        numbers[at.LATENESS_CAP] = weights.lateness_cap
        numbers[at.PAY_POTENTIAL] = weights.potential
        numbers[at.COST_DELAYED], numbers[at.COST_WAITING] = config.cost_pair
        numbers[at.FORECAST_ERROR] = config.forecast_error
        brown_above = None if site is None else site.grid_qos_above
        numbers[at.BROWN_ABOVE] = np.inf if brown_above is None else brown_above
        numbers[at.CELL_SCALE] = 1.0 if config.cell_dtype == "uint8" else 1.0 / 255.0
        numbers[at.BATTERY_KWH] = battery_kwh(config)
        return numbers

    def _make_room(self, jobs: int) -> None:
        """Let the job tables hold ``jobs`` jobs an episode."""
        if jobs <= self._jobs_i.shape[1]:
            return
        capacity = jobs + jobs // 4 + 8
        for name, axis in (("_jobs_i", 1), ("_jobs_f", 1), ("_lists", 2)):
            old = getattr(self, name)
            shape = tuple(capacity if i == axis else size for i, size in enumerate(old.shape))
            new = np.zeros(shape, old.dtype)
            new[tuple(slice(size) for size in old.shape)] = old
            setattr(self, name, new)
        self._bind_state()

    def _empty_parts(self) -> dict[str, NDArray[Any]]:
        return {key: np.empty(shape, dtype) for key, shape, dtype in self._layout}

    # --- the contract -----------------------------------------------------------------------------------

    def reset_env(self, index: int, rng: np.random.Generator, options: dict[str, Any] | None = None) -> None:
        """Start a new episode in environment ``index``.

        :param options: ``{"jobs": JobArrays}`` replaces the workload's jobs in this episode
        :raises TypeError: for a generator or jobs of another type
        :raises ValueError: for another option, or a job that can never fit
        """
        config, index = self.config, self._number(index)
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng: must be a numpy.random.Generator, not {type(rng).__name__}")
        options = options or {}
        if not isinstance(options, Mapping):
            raise TypeError(f"reset options: must be a mapping, not {type(options).__name__}")
        unknown = sorted(set(options) - {"jobs"})
        if unknown:
            raise ValueError(f"reset options {unknown}: only 'jobs' is known")
        jobs = options.get("jobs")
        jobs = self.fitting(self.workload.sample(rng, config.episode_steps) if jobs is None else jobs)
        start_hour = self.power.fill(self._series[index], rng)
        self._make_room(len(jobs))
        latest = latest_finish(jobs)
        self._reset(
            *self._state,
            self._series,
            index,
            np.ascontiguousarray(jobs.arrival),
            np.ascontiguousarray(jobs.duration),
            np.ascontiguousarray(jobs.units),
            np.ascontiguousarray(jobs.qos),
            latest,
            job_values(jobs, config.price_list),
            np.argsort(latest, kind="stable"),
            config.site_config.battery.initial_kwh if config.power == "trace" else 0.0,
            start_hour,
        )
        self.truncated[index] = False
        self.episodes[index] += 1
        self._all_begun = bool(self.episodes.all())

    def fitting(self, jobs: object) -> JobArrays:
        """Return jobs that an empty pool could hold, one by one.

        :raises TypeError: for anything but :class:`~greendc.resource_pool.jobs.JobArrays`
        :raises ValueError: for jobs that need another number of resource types, or one that can never fit
        """
        config = self.config
        result = require_fit(jobs, config.units, config.longest_job)
        allowed = f"{config.resource_types}, as in the pool"
        require(
            result.resource_types == config.resource_types, "resource types", result.resource_types, allowed
        )
        return result

    def require_begun(self) -> None:
        """Raise a ``RuntimeError`` unless an episode has begun in every environment."""
        if not self._all_begun:
            self._begun_number(int(np.argmin(self.episodes)))

    def _number(self, index: int) -> int:
        """Return the number of an environment.

        :raises ValueError: if there is no such environment
        """
        number = as_index(index)
        require(0 <= number < self.num_envs, "index", index, f"an environment, in 0 .. {self.num_envs - 1}")
        return number

    def _begun_number(self, index: int) -> int:
        """Return the number of an environment in which an episode has begun.

        :raises ValueError: if there is no such environment
        :raises RuntimeError: if no episode has begun in it
        """
        number = self._number(index)
        if not self.episodes[number]:
            raise RuntimeError(f"environment {number}: no episode has begun, call reset()")
        return number

    def step(self, actions: NDArray[Any], out: Observation) -> None:
        """Take one decision in every environment and write the observations that follow.

        :param actions: ``(num_envs,)`` whole numbers in ``0 .. ready_pool_size + 1``
        :raises ValueError: if an action has the wrong shape or is not in the action space
        :raises RuntimeError: if an environment's episode is over
        """
        if not isinstance(actions, np.ndarray):
            raise TypeError(f"actions: must be an array of {self.num_envs} whole numbers, not {actions!r}")
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise ValueError(
                f"actions of shape {actions.shape} and dtype {actions.dtype}: "
                f"must be ({self.num_envs},) whole numbers"
            )
        if actions.dtype != np.int64 or not (actions.flags.c_contiguous and actions.flags.aligned):
            actions = np.array(actions, np.int64)
        parts, outputs = self._outputs(out)
        self._check(actions, self._step(actions, *self._state, self._series, self.truncated, *outputs))
        if self._outlook is not None:
            self._outlook.write(self._state, 0, self.num_envs, parts["jobs"], parts["context"])
        if not isinstance(out, dict):
            write_flat(parts, out, slice(None))
        if self.config.info_jobs:
            for i in range(self.num_envs):
                self.step_info["ready_jobs"][i] = self.view(i).ready_jobs()

    def step_one(self, action: Any) -> tuple[Observation, float, float, int, bool]:
        """Step a batch of one, with less around it than :meth:`step`.

        :return: a new observation, reward, cost, time steps that passed, whether the episode is over
        :raises TypeError: if the action is not a whole number
        """
        action = as_index(action)
        image_shape, table_shape, context_shape, mask_shape = self._shapes
        image, table = np.empty(image_shape, self._cell), np.empty(table_shape, SINGLE)
        context, mask = np.empty(context_shape, SINGLE), np.empty(mask_shape, BYTE)
        status = self._step_single(
            action, *self._state, self._series, self.truncated, image, table, context, mask
        )
        if status:
            self._check(np.array([action]), status)
        if self._outlook is not None:
            self._outlook.write(self._state, 0, 1, table[None], context[None])
        observation = {"resources": image, "jobs": table, "context": context, "action_mask": mask}
        reward, cost = self._result.tolist()
        return observation, reward, cost, self._advanced.item(), self.truncated.item()

    def _outputs(self, out: Observation) -> tuple[dict[str, NDArray[Any]], list[NDArray[Any]]]:
        """Return the arrays to write into, by name and in the kernel's order, checked: the kernel does not.

        A batch of flat observations is written from parts that are the simulator's own.
        """
        parts = out
        if not isinstance(parts, dict):
            require(self.config.observation == "flat", "out", type(out).__name__, "a dict of arrays")
            shape = (self.num_envs, *(self.observation_space.shape or ()))
            if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != SINGLE:
                raise ValueError(f"out: must be an array {shape} float32, not {getattr(out, 'shape', out)!r}")
            parts = self._parts
        outputs = []
        for key, shape, dtype in self._layout:
            part = parts.get(key)
            # `carray`: C-contiguous, aligned and writeable.
            if (
                not isinstance(part, np.ndarray)
                or part.shape != shape
                or part.dtype != dtype
                or not part.flags.carray
            ):
                raise _wrong_array(key, part, shape, dtype)
            outputs.append(part)
        return parts, outputs

    def _check(self, actions: NDArray[np.int64], status: int) -> None:
        """Raise the error that the kernel's answer stands for."""
        if status > 0:
            allowed = f"in 0 .. {self.config.ready_pool_size + 1}"
            raise ValueError(f"actions[{status - 1}]={actions[status - 1]}: must be {allowed}")
        if status < 0:
            raise RuntimeError(f"environment {-status - 1}: the episode is over or not begun, call reset()")

    def observe(self, out: Observation, index: int | None = None) -> None:
        """Write the present observation of environment ``index`` (``None``: of all) into batch ``out``."""
        if index is None:
            self.require_begun()
            first, last = 0, self.num_envs
        else:
            first = self._begun_number(index)
            last = first + 1
        parts, outputs = self._outputs(out)
        kernel.observe_batch(*self._state, first, last, *outputs)
        if self._outlook is not None:
            self._outlook.write(self._state, first, last, parts["jobs"], parts["context"])
        if not isinstance(out, dict):
            write_flat(parts, out, slice(first, last))

    def empty_observations(self) -> Observation:
        """Allocate a batch of observations; see :class:`~greendc.simulator.Simulator`."""
        if self.config.observation == "dict":
            return self._empty_parts()
        return np.empty((self.num_envs, *(self.observation_space.shape or ())), np.float32)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return ``(num_envs, ready_pool_size + 2)``, true where an action does what it says.

        Where no episode has begun, no action does anything.
        """
        first = at.ENV_I + self.config.resource_types
        masks: NDArray[np.bool_] = self._env_i[:, first:] != 0
        return masks

    def episode_metrics(self, index: int) -> dict[str, float]:
        """Return the metrics of environment ``index`` over its episode so far."""
        index = self._begun_number(index)
        return episode_metrics(
            self.config, self._env_i[index], self._env_f[index], self._jobs_i[index], self._jobs_f[index]
        )

    def reset_info(self, index: int) -> dict[str, Any]:
        """Return the ready jobs where ``info_jobs`` asks for them."""
        return {"ready_jobs": self.view(index).ready_jobs()} if self.config.info_jobs else {}

    # --- for heuristics, planners and pictures ------------------------------------------------------------

    @property
    def state(self) -> tuple[NDArray[Any], ...]:
        """The kernel's arrays in the order of its parameters (``layout``), for compiled policies."""
        return self._state

    def view(self, index: int = 0) -> PoolView:
        """Return a view of environment ``index`` as it is now, queue, jobs and cells."""
        index = self._begun_number(index)
        return PoolView(
            self.config,
            self._env_i[index],
            self._env_f[index],
            self._jobs_i[index],
            self._jobs_f[index],
            self._lists[index],
            self._rows[index],
        )

    def power_series(self, index: int = 0) -> tuple[NDArray[np.float64], float]:
        """Return the power of the episode, and the hour of day at which it starts.

        :return: ``(episode_steps + horizon, 4)``: sun and wind in kW (with no site: the level, and 0), carbon
            intensity in kg/kWh, and the random walk of the forecast error
        """
        index = self._begun_number(index)
        return self._series[index].copy(), float(self._env_f[index, at.START_HOUR])

    def place(self, index: int, job: int, now_only: bool = False) -> int:
        """Place any waiting job, in the ready pool or not, where a schedule action would.

        For heuristics that look at the whole queue. What it changes is rewarded in the next step.

        :param index: the environment
        :param job: id of a waiting job
        :param now_only: whether only a start in this step will do
        :return: the offset of its start from now, or -1 if there is no place and nothing was changed
        :raises ValueError: if the job is not waiting
        :raises RuntimeError: if the episode is over or not begun
        """
        index, job = self._begun_number(index), as_index(job)
        if self.truncated[index]:
            raise RuntimeError(f"environment {index}: the episode is over, call reset()")
        arrived = int(self._env_i[index, at.NEXT_ARRIVAL])
        waiting = 0 <= job < arrived and self._jobs_i[index, job, at.STATUS] == at.WAITING
        require(bool(waiting), "job", job, "the id of a waiting job")
        offset: int = kernel.place_waiting(*self._state, index, job, bool(now_only))
        return offset


def _wrong_array(name: str, array: object, shape: tuple[int, ...], dtype: object) -> ValueError:
    """Return the error for an array that compiled code cannot write observations into."""
    found = f"{array.shape} {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
    return ValueError(
        f"out[{name!r}] is {found}: must be {shape} {dtype}, C-contiguous, aligned and writeable"
    )
