"""The resource-pool simulator: a batch of pools in flat arrays, stepped by one compiled call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import index as as_index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.config import require, require_kinds
from greendc.resource_pool import layout as at
from greendc.resource_pool.batch import PoolBatch
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.jobs import JobArrays, job_values, latest_finish, require_fit
from greendc.resource_pool.layout import NewJobs
from greendc.resource_pool.metrics import episode_metrics
from greendc.resource_pool.observation import write_flat
from greendc.resource_pool.power import PowerSource
from greendc.resource_pool.restore import restored, snapshot_of
from greendc.resource_pool.snapshot import PoolSnapshot
from greendc.resource_pool.view import PoolView
from greendc.resource_pool.workloads import make_workload
from greendc.simulator import Observation, reset_options
from greendc.threads import rows

SINGLE, BYTE = np.dtype(np.float32), np.dtype(np.int8)


class ResourcePoolSimulator(PoolBatch):
    """``num_envs`` resource pools of one configuration.

    Beyond the contract, :meth:`view` shows what heuristics, planners and pictures need, and :meth:`place`
    places any waiting job.

    :param config: the configuration
    :param num_envs: how many environments
    :param threads: that :meth:`step` splits the batch among; the numbers are the same
    :raises ValueError: if the workload or the power trace does not fit the configuration, or there are more
        threads than environments

    What a method is given is checked before anything is changed: ``RuntimeError`` for an environment in which
    no episode has begun, ``ValueError`` for a number of an environment that there is not, or an array of the
    wrong shape or dtype. The compiled code does not check.
    """

    instead_of_invalid = "let time go on"

    def __init__(self, config: ResourcePoolConfig, num_envs: int = 1, threads: int = 1) -> None:
        require_kinds({"num_envs": "int"}, {"num_envs": num_envs})
        require(num_envs >= 1, "num_envs", num_envs, "at least 1")
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
        worth = 0.0 < self.mean_value < math.inf
        require(worth, "workload", config.workload, "one whose jobs are worth something, and finite")
        super().__init__(config, num_envs, threads, self.mean_value, self.power)

    # --- the contract -----------------------------------------------------------------------------------

    def reset_env(self, index: int, rng: np.random.Generator, options: dict[str, Any] | None = None) -> None:
        """Start a new episode in environment ``index``.

        :param options: ``{"jobs": JobArrays}`` replaces the workload's jobs in this episode; its power stays
            that of the generator
        :raises TypeError: for a generator, options or jobs of another type
        :raises ValueError: for another option, or a job that can never fit
        """
        config, index = self.config, self.in_range(index)
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng: must be a numpy.random.Generator, not {type(rng).__name__}")
        given = reset_options(options, "jobs").get("jobs")
        given = None if given is None else self.fitting(given)
        drawn = self.workload.sample(rng, config.episode_steps)  # always: the power drawn next is the seed's
        jobs = self.fitting(drawn) if given is None else given
        self._make_room(len(jobs))
        state, latest = self._state, latest_finish(jobs)
        env = state.env[index : index + 1]
        env.view(np.int64)[:] = 0  # all fields at once
        state.counts[index] = 0
        env["start_hour"] = self.power.fill(state.series[index], rng)
        env["stored_kwh"] = config.site_config.battery.initial_kwh if config.power == "trace" else 0.0
        if config.power_levels is not None:
            env["units_on"] = env["units_next"] = config.power_levels[-1]
        values, by_latest = job_values(jobs, config.price_list), np.argsort(latest, kind="stable")
        columns = (jobs.arrival, jobs.duration, latest, jobs.units, values, jobs.qos, by_latest)
        self._reset(state, index, NewJobs.of(*columns))
        self._begin(index)

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

    def step(self, actions: NDArray[Any], out: Observation) -> None:
        """Take one decision in every environment and write the observations that follow.

        :param actions: ``(num_envs,)`` whole numbers of the action space
        :raises ValueError: if an action has the wrong shape or is not in the action space
        :raises RuntimeError: if an environment's episode is over
        :raises TypeError: if ``actions`` is no array
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
        if self._threads.several and self._all_can_step(actions):
            self._step_shares(actions, outputs)
            if self._afterstates[0]:
                shares = enumerate(self._threads.shares)
                self._threads.run(self._write_afterstates, [(k, share, parts) for k, share in shares])
        else:
            self._check(actions, self._step(actions, self._state, self.truncated, *outputs))
            self._write_afterstates(0, slice(0, self.num_envs), parts)
        if not isinstance(out, dict):
            write_flat(parts, out, slice(None))
        if self.config.info_jobs:
            for i in range(self.num_envs):
                self.step_info["ready_jobs"][i] = self.view(i).ready_jobs()

    def _all_can_step(self, actions: NDArray[np.int64]) -> bool:
        """Return whether all environments can be stepped: where one cannot, none is."""
        valid = (actions >= 0) & (actions < self.config.n_actions)
        return bool((valid & (self._state.env["now"] < self.config.episode_steps)).all())

    def _step_shares(self, actions: NDArray[np.int64], outputs: Sequence[NDArray[Any]]) -> None:
        """Step all environments, which can be stepped, in several threads."""
        calls = []
        for share in self._threads.shares:
            state = rows(self._state, share, common=("config",))
            calls.append((actions[share], state, self.truncated[share], *(part[share] for part in outputs)))
        self._threads.run(self._step, calls)

    def _write_afterstates(self, k: int, share: slice, parts: Mapping[str, NDArray[Any]]) -> None:
        """Write what observations of some environments tell of the states after actions, in thread ``k``."""
        for feature in self._afterstates[k]:
            feature.write(self._state, share.start, share.stop, parts["jobs"], parts["context"])

    def step_one(self, action: Any) -> tuple[Observation, float, float, int, bool]:
        """Step a batch of one, with less around it than :meth:`step`.

        :return: a new observation, reward, cost, time steps that passed, whether the episode is over
        :raises TypeError: if the action is not a whole number
        """
        try:
            action = as_index(action)
        except TypeError:
            allowed = f"a whole number in 0 .. {self.config.n_actions - 1}"
            raise TypeError(f"action={action!r}: must be {allowed}") from None
        image_shape, table_shape, context_shape, mask_shape = self._shapes
        image, table = np.empty(image_shape, self._cell), np.empty(table_shape, SINGLE)
        context, mask = np.empty(context_shape, SINGLE), np.empty(mask_shape, BYTE)
        status = self._step_single(action, self._state, self.truncated, image, table, context, mask)
        if status:
            self._check(np.array([action]), status)
        if self._afterstates[0]:
            self._write_afterstates(0, slice(0, 1), {"jobs": table[None], "context": context[None]})
        observation = {"resources": image, "jobs": table, "context": context, "action_mask": mask}
        cost, advanced = self._cost.item(), self._advanced.item()
        return observation, self.rewards.item(), cost, advanced, self.truncated.item()

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
            allowed = f"in 0 .. {self.config.n_actions - 1}"
            raise ValueError(f"actions[{status - 1}]={actions[status - 1]}: must be {allowed}")
        if status < 0:
            raise RuntimeError(f"environment {-status - 1}: the episode is over or not begun, call reset()")

    def observe(self, out: Observation, index: int | None = None) -> None:
        """Write the present observation of environment ``index`` (``None``: of all) into batch ``out``."""
        if index is None:
            self.require_begun()
            first, last = 0, self.num_envs
        else:
            first = self.in_episode(index)
            last = first + 1
        parts, outputs = self._outputs(out)
        self._observe(self._state, first, last, *outputs)
        self._write_afterstates(0, slice(first, last), parts)
        if not isinstance(out, dict):
            write_flat(parts, out, slice(first, last))

    def empty_observations(self) -> Observation:
        """Allocate a batch of observations; see :class:`~greendc.simulator.Simulator`."""
        if self.config.observation == "dict":
            return self._empty_parts()
        return np.empty((self.num_envs, *(self.observation_space.shape or ())), np.float32)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return ``(num_envs, n_actions)``, true where an action does what it says.

        :raises RuntimeError: if no episode has begun in one of them
        """
        self.require_begun()
        masks: NDArray[np.bool_] = self._state.counts[:, self.config.resource_types :] != 0
        return masks

    def episode_metrics(self, index: int) -> dict[str, float]:
        """Return the metrics of environment ``index`` over its episode so far."""
        index = self.in_episode(index)
        return episode_metrics(self.config, self._state.env[index], self._state.jobs[index])

    def reset_info(self, index: int) -> dict[str, Any]:
        """Return the ready jobs where ``info_jobs`` asks for them."""
        return {"ready_jobs": self.view(index).ready_jobs()} if self.config.info_jobs else {}

    # --- for heuristics, planners and pictures ------------------------------------------------------------

    def view(self, index: int = 0) -> PoolView:
        """Return a view of environment ``index`` as it is now, queue, jobs and cells."""
        index = self.in_episode(index)
        return PoolView(self.config, self, index)

    def snapshot(self, index: int = 0, future: bool = False) -> PoolSnapshot:
        """Return what environment ``index`` looks like now, as a record with a JSON form.

        :param future: tell what is to come, too, jobs and power; otherwise what is foreseen of power
        :raises RuntimeError: if the episode is over or not begun
        """
        index = self.in_episode(index)
        if self._state.env["now"][index] >= self.config.episode_steps:
            raise RuntimeError(f"environment {index}: the episode is over, call reset()")
        return snapshot_of(self.config, self._state, index, future)

    def load(self, snapshot: PoolSnapshot, index: int = 0) -> None:
        """Let environment ``index`` stand where a snapshot was taken, in an episode of its own.

        Observations, masks and the decisions of planners are those of the pool that the snapshot shows. From
        there on power is as the snapshot foresees it, and no jobs come but those that it knows.

        :param snapshot: of a simulator of the same configuration, or of a pool that it describes
        :raises SnapshotError: names the field that does not fit, or contradicts another; nothing is changed
        :raises TypeError: for anything but a snapshot of a pool
        """
        index = self.in_range(index)
        if not isinstance(snapshot, PoolSnapshot):
            raise TypeError(f"snapshot: must be a PoolSnapshot, not {type(snapshot).__name__}")
        loaded, count = restored(self.config, self._state, snapshot), len(snapshot.jobs)
        self._make_room(count)
        state = self._state
        state.jobs[index, :count], state.units[index, :, :count] = loaded.jobs[0], loaded.units[0]
        state.lists[index, :, :count] = loaded.lists[0]
        for name in ("env", "counts", "forecast", "rows", "image", "series"):
            getattr(state, name)[index] = getattr(loaded, name)[0]
        self._begin(index)

    def power_series(self, index: int = 0) -> tuple[NDArray[np.float64], float]:
        """Return the power of the episode, and the hour of day at which it starts.

        :return: ``(episode_steps + horizon, 5)``: sun and wind in kW (with no site: the level, and 0), carbon
            intensity in kg/kWh, the random walk of the forecast error, and the price of a kWh
        """
        index = self.in_episode(index)
        return self._state.series[index].copy(), float(self._state.env["start_hour"][index])

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
        index, job = self.in_episode(index), as_index(job)
        if self.truncated[index]:
            raise RuntimeError(f"environment {index}: the episode is over, call reset()")
        arrived = self._state.env["next_arrival"][index]
        waiting = 0 <= job < arrived and self._state.jobs["status"][index, job] == at.WAITING
        require(bool(waiting), "job", job, "the id of a waiting job")
        offset: int = self._place(self._state, index, job, bool(now_only))
        return offset


def _wrong_array(name: str, array: object, shape: tuple[int, ...], dtype: object) -> ValueError:
    """Return the error for an array that compiled code cannot write observations into."""
    found = f"{array.shape} {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
    return ValueError(
        f"out[{name!r}] is {found}: must be {shape} {dtype}, C-contiguous, aligned and writeable"
    )
