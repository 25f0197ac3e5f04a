"""A batch of VCC datacenters in flat arrays, stepped by one compiled call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import index as as_index
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.compiled import entry_point
from greendc.config import require
from greendc.records import Records
from greendc.simulator import Observation, Simulator, reset_options
from greendc.threads import Threads, rows
from greendc.traces.moer import load_moer
from greendc.vcc import columns, forecast, kernel, layout
from greendc.vcc.config import VCCConfig
from greendc.vcc.kernel_metrics import count_unfinished
from greendc.vcc.kernel_queue import keys_size
from greendc.vcc.metrics import episode_metrics
from greendc.vcc.observation import MOER_SCALE, normalization, raw_bounds
from greendc.vcc.snapshot import UnfinishedJobs, copy_state, unfinished_jobs
from greendc.vcc.splits import DEFAULT_MONTH, SPLITS
from greendc.vcc.workload import Workload, capacity_of

SINGLE = np.dtype(np.float32)


class VCCSimulator(Simulator):
    """``num_envs`` datacenters of one :class:`~greendc.vcc.config.VCCConfig`.

    ``report.history`` ``(num_envs, hours)`` keeps what every step reported (``columns.Hour``),
    ``world.no_delay`` ``(num_envs, hours)`` the no-delay load in millionths of a machine unit.

    :param config: the configuration
    :param num_envs: number of environments
    :param threads: that :meth:`step` splits the batch among; the numbers are the same
    :raises ValueError: if the job trace or the emissions do not fit the configuration
    """

    observation_space: spaces.Box

    def __init__(self, config: VCCConfig, num_envs: int = 1, threads: int = 1) -> None:
        require(as_index(num_envs) >= 1, "num_envs", num_envs, "at least 1")
        self.config = config
        self.num_envs = num_envs
        self._threads = Threads(threads, num_envs)
        self._one_fraction = num_envs == 1 and config.discrete_actions is None
        self.hours = 24 * config.days
        self._workload = Workload(config)
        self.trace = self._workload.trace
        self.capacity = capacity_of(config, self.trace)
        self.months = months_of(config)
        self._build_emission_tables()
        self._build_spaces()
        self._build_state()
        self._build_world()

    # --- building ----------------------------------------------------------------------------------

    def _build_emission_tables(self) -> None:
        config = self.config
        series = config.moer if config.moer is not None else load_moer(config.region)
        rows = self.hours + 1
        moer, forecasts = [], []
        for month in self.months:
            start = series.month_slice(
                month, config.utc_offset, hours=self.hours, extra=columns.LEADS, past=columns.LEADS
            )
            moer.append(series.moer[start : start + self.hours])
            if config.forecast == "oracle":
                forecasts.append(forecast.oracle(series.moer, start, rows))
            elif config.forecast == "persistence":
                forecasts.append(forecast.persistence(series.moer, start, rows))
            else:
                forecasts.append(forecast.sgip(series.moer, series.forecast, start, rows))
        self._moer = np.ascontiguousarray(moer)
        self._month_forecasts = np.ascontiguousarray(forecasts)
        self._moer_bound = max(MOER_SCALE, float(self._month_forecasts.max()), float(self._moer.max()))
        self._forecast = forecast.with_features(self._month_forecasts)
        if config.forecast == "noisy":
            self._forecast = np.zeros((self.num_envs, *self._forecast.shape[1:]))

    def _build_state(self) -> None:
        n, hours = self.num_envs, self.hours
        machines = math.ceil(self.capacity / layout.MICRO)
        places = int(self._workload.first_places[-1])
        running = layout.RUNNING_JOB
        self.state = layout.State(
            cluster=np.zeros(n, layout.CLUSTER),
            places=np.zeros((n, places), layout.PLACE),
            keys=np.zeros((n, keys_size(places)), np.int32),
            stack=np.zeros((n, self._workload.most_flexible), running),
            fixed=np.zeros((n, self._workload.most_inflexible), running),
            loads=np.zeros((n, machines), np.int64),
            inflexible_loads=np.zeros((n, machines), np.int64),
            leaving=np.zeros((n, layout.CALENDAR_ROWS, 2 * machines + 1), np.int64),
            leaving_bins=np.zeros((n, layout.CALENDAR_ROWS, columns.N_DELAY_BINS), np.int64),
            waiting=np.zeros((n, hours // layout.CHUNK + 1, layout.DAY, layout.CHUNK), np.int64),
            left=np.zeros((n, hours + 1), layout.LEFT_HOURS),
            day_ends=np.zeros((n, hours // layout.DAY + 1), layout.DAY_END),
            kinks=np.zeros((n, hours + 2), np.int64),
            delays=np.zeros((n, hours + 2 * layout.DAY + 1), np.int64),
        )
        self.state.cluster["now"] = hours  # until the first reset, as if the episode were over
        self._begun = np.zeros(n, dtype=np.bool_)
        observation = np.zeros(n, columns.OBSERVATION)
        self.report = layout.Report(
            info=np.zeros(n, columns.HOUR),
            history=np.zeros((n, hours), columns.HOUR),
            rewards=np.zeros(n),
            truncated=np.zeros(n, dtype=np.bool_),
            observation=observation,
            raw=observation.view(np.float64).reshape(n, columns.EXTENDED_SIZE),
        )
        self._bind()

    def _bind(self) -> None:
        """Show the report's arrays under the names that wrappers read."""
        self.rewards, self.truncated = self.report.rewards, self.report.truncated
        self.step_info = {name: self.report.info[name] for name in columns.INFO}
        arrays = (getattr(self.state, name) for name in layout.ZEROED)
        self._zeroed = [array.view(np.int64).reshape(self.num_envs, -1) for array in arrays]
        self.step_info["observation"] = seen = self.report.raw[:, : self._shape[1]]
        self._first_hour, self._first_seen = self.report.info[:1].view(np.float64), seen[0]

    # What Python calls is called without type checks: its arguments are checked before.

    @cached_property
    def _step(self) -> Callable[..., int]:
        return entry_point(kernel.step_batch, np.zeros(1), *self._arrays, np.zeros((1, 1), np.float32))

    @cached_property
    def _observe(self) -> Callable[..., None]:
        return entry_point(kernel.observe_one, 0, *self._arrays, np.zeros((1, 1), np.float32))

    @cached_property
    def _begin(self) -> Callable[..., int]:
        return entry_point(kernel.begin, 0, True, self.world, self.state, self._workload.day_profiles)

    @cached_property
    def _count_unfinished(self) -> Callable[..., tuple[int, int, int]]:
        return entry_point(count_unfinished, 0, self.world, self.state, np.zeros(1, np.int64))

    @property
    def _arrays(self) -> tuple[layout.World, layout.State, layout.Report]:
        return self.world, self.state, self.report

    def __getstate__(self) -> dict[str, Any]:
        """Leave out compiled code, and views: copies of them would not show what the kernel writes."""
        views = {"rewards", "truncated", "step_info", "_zeroed", "_first_hour", "_first_seen"}
        made = views | {"_step", "_observe", "_begin", "_count_unfinished"}
        return {key: value for key, value in vars(self).items() if key not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the arrays and make new views of them."""
        vars(self).update(state)
        numbers = self.report.observation.view(np.float64).reshape(self.num_envs, columns.EXTENDED_SIZE)
        self.report = self.report._replace(raw=numbers)
        self._bind()

    def _build_world(self) -> None:
        config = self.config
        start = np.zeros(1, layout.CLUSTER)
        start["ends"], start["last_vcc"] = self._workload.first_places[:-1], 1.0
        self.world = layout.World(
            settings=self._settings(),
            start=start,
            trace=self._workload.jobs,
            input_order=self._workload.input_order,
            hour_offsets=self._workload.hour_offsets,
            days=np.zeros((self.num_envs, config.days + 1), dtype=np.int64),
            moer=self._moer,
            forecast=self._forecast,
            no_delay=np.zeros((self.num_envs, self.hours), dtype=np.int64),
            scale=self._scale,
            started=np.zeros((layout.FLEXIBLE_GROUPS, self._workload.most_flexible + 1), layout.RUNNING_JOB),
        )

    def _settings(self) -> Records:
        config = self.config
        settings = np.zeros(1, layout.SETTINGS)
        settings["hours"] = self.hours
        settings["capacity"] = self.capacity
        settings["evict"] = config.evict
        settings["eviction_loss"] = config.eviction_loss_hours
        settings["slo_overdue"] = config.slo == "overdue"
        settings["incurred"] = config.charge == "incurred"
        settings["baseline"] = config.reward_baseline == "no_delay"
        settings["constrained"] = config.constrained
        settings["extended"] = config.observation == "extended"
        settings["tolerance"] = math.floor(0.03 * 24 * self.trace.mean_load * layout.MICRO)
        settings["mean_day"] = 24 * self.trace.mean_load * layout.MICRO
        for weight in ("carbon_weight", "slo_weight", "kw_per_unit"):
            settings[weight] = getattr(config, weight)
        settings["first_places"] = self._workload.first_places[:-1]
        return settings

    def _build_spaces(self) -> None:
        config = self.config
        extended = config.observation == "extended"
        size = columns.EXTENDED_SIZE if extended else columns.PAGE_SIZE
        self._shape = (self.num_envs, size)
        low, high = raw_bounds(config, self._workload, self._moer_bound)
        normalized = normalization(self._workload, self.capacity)
        self._scale = normalized if config.normalize else np.ones(columns.EXTENDED_SIZE)
        self.observation_space = spaces.Box(
            (low * self._scale)[:size].astype(np.float32),
            (high * self._scale)[:size].astype(np.float32),
            dtype=np.float32,
        )
        levels = config.discrete_actions
        self.action_space = (
            spaces.Box(0.0, 1.0, (1,), dtype=np.float32) if levels is None else spaces.Discrete(levels)
        )

    # --- running -----------------------------------------------------------------------------------

    def reset_env(self, index: int, rng: np.random.Generator, options: dict[str, Any] | None = None) -> None:
        """Start a new episode: a month, its jobs and, for ``noisy``, its forecast errors, from ``rng``.

        :param options: ``{"month": "YYYY-MM"}`` picks one of the configuration's months
        :raises TypeError: for options that are no mapping
        :raises ValueError: for an index that is out of range, an unknown option, or a month that the
            configuration does not have
        """
        index = self.in_range(index)
        month = self._pick_month(rng, reset_options(options, "month"))
        self.world.days[index] = self._workload.draw_days(rng)
        for numbers in self._zeroed:
            numbers[index] = 0
        self.report.raw[index] = 0.0
        pause = self._begin(
            index, self.config.warm_start, self.world, self.state, self._workload.day_profiles
        )
        self.report.observation[index]["pause_charge"] = pause / layout.MICRO
        cluster = self.state.cluster[index]
        cluster["month"] = cluster["forecast"] = month
        if self.config.forecast == "noisy":
            errors = forecast.noise(rng, self.hours + 1, self.config.forecast_noise)
            noisy = np.clip(self._month_forecasts[month] + errors, 0.0, self._moer_bound)
            self._forecast[index] = forecast.with_features(noisy)
            cluster["forecast"] = index
        self.report.truncated[index] = False
        self._begun[index] = True

    def _pick_month(self, rng: np.random.Generator, options: Mapping[str, Any]) -> int:
        if "month" in options:
            if options["month"] not in self.months:
                raise ValueError(
                    f"reset option month={options['month']!r}: must be one of {', '.join(self.months)}"
                )
            return self.months.index(options["month"])
        return int(rng.integers(len(self.months))) if len(self.months) > 1 else 0

    def step(self, actions: NDArray[Any], out: Observation) -> None:
        """Run one hour in every environment, or in none if it raises.

        :param actions: ``(num_envs, *action_space.shape)``
        :param out: ``(num_envs, n)`` float32, as made by :meth:`empty_observations`, overwritten
        :raises ValueError: if an action has the wrong shape or is not in the action space, or if ``out``
            is another array
        :raises RuntimeError: if an environment's episode is over or not begun
        """
        fractions, out = self._fractions(actions), self._writable(out)
        if self._threads.several and self._all_can_step(fractions):
            self._step_shares(fractions, out)
            return
        status = self._step(fractions, self.world, self.state, self.report, out)
        if status:
            self._refuse(actions, status)

    def step_one(self, action: Any) -> tuple[NDArray[np.float32], float, bool, dict[str, Any]]:
        """Step a batch of one, with less around it than :meth:`step`.

        :return: a new observation, reward, whether the episode is over, and ``info``
        :raises: as :meth:`step`
        """
        if type(action) is np.ndarray and self._is_plain(action):
            fractions = action.astype(np.float64)
        else:
            action = np.asarray(action)
            fractions = self._fractions(action[None])
        out, report = np.empty(self._shape, SINGLE), self.report
        status = self._step(fractions, self.world, self.state, report, out)
        if status:
            self._refuse(action[None], status)
        info: dict[str, Any] = dict(zip(columns.INFO, self._first_hour.tolist(), strict=True))
        info["observation"] = self._first_seen.copy()
        return out[0], report.rewards.item(), report.truncated.item(), info

    def _is_plain(self, action: NDArray[Any]) -> bool:
        """Return whether an action is an array of one number, as most are, and there is one environment."""
        return action.shape == (1,) and action.dtype.kind in "fiu" and self._one_fraction

    def _refuse(self, actions: NDArray[Any], status: int) -> None:
        """Raise the error that the kernel's answer stands for."""
        if status > 0:
            raise ValueError(f"action[{status - 1}]={actions[status - 1]}: must be {self._allowed_actions()}")
        raise RuntimeError(f"environment {-status - 1}: the episode is over or not begun, call reset()")

    def empty_observations(self) -> NDArray[np.float32]:
        """Allocate a batch of observations; see :class:`~greendc.simulator.Simulator`."""
        return np.empty(self._shape, SINGLE)

    def _all_can_step(self, fractions: NDArray[np.float64]) -> bool:
        """Return whether all environments can be stepped: where one cannot, none is."""
        valid = (fractions >= 0.0) & (fractions <= 1.0)
        return bool((valid & (self.state.cluster["now"] < self.hours)).all())

    def _step_shares(self, fractions: NDArray[np.float64], out: NDArray[np.float32]) -> None:
        """Step all environments, which can be stepped, in several threads."""
        calls = []
        for share in self._threads.shares:
            world = self.world._replace(
                days=self.world.days[share],
                no_delay=self.world.no_delay[share],
                started=np.empty_like(self.world.started),  # working space
            )
            state, report = rows(self.state, share), rows(self.report, share)
            calls.append((fractions[share], world, state, report, out[share]))
        self._threads.run(self._step, calls)

    def _writable(self, out: object) -> NDArray[np.float32]:
        """Return a batch of observations, checked: the kernel, which writes into it, does not look."""
        if isinstance(out, np.ndarray):
            if out.shape == self._shape and out.dtype == SINGLE and out.flags.carray:
                return out
            found = f"{out.shape} {out.dtype}"
        else:
            found = type(out).__name__
        raise ValueError(f"out is {found}: must be {self._shape} float32, C-contiguous, aligned and writable")

    def _fractions(self, actions: object) -> NDArray[np.float64]:
        """Return the actions as fractions of C, ``(num_envs,)`` and contiguous."""
        levels = self.config.discrete_actions
        if isinstance(actions, np.ndarray):
            if levels is None and actions.shape == (self.num_envs, 1) and actions.dtype.kind in "fiu":
                return actions[:, 0].astype(
                    np.float64
                )  # a copy, which is contiguous whatever it is a copy of
            if levels is not None and actions.shape == (self.num_envs,) and actions.dtype.kind in "iu":
                return np.divide(actions, levels - 1, dtype=np.float64, order="C")
            found = f"of shape {actions.shape} and dtype {actions.dtype}"
        else:
            found = f"of type {type(actions).__name__}"
        raise ValueError(
            f"actions {found} for {self.num_envs} environment(s): each must be {self._allowed_actions()}"
        )

    def _allowed_actions(self) -> str:
        levels = self.config.discrete_actions
        return "an array of shape (1,) in [0, 1]" if levels is None else f"an integer from 0 to {levels - 1}"

    def observe(self, out: Observation, index: int | None = None) -> None:
        """Write present observations; see :class:`~greendc.simulator.Simulator`.

        :raises ValueError: if the index is out of range, or ``out`` is not such a batch
        :raises RuntimeError: if no episode has begun
        """
        out = self._writable(out)
        for i in map(self.in_episode, range(self.num_envs) if index is None else (index,)):
            self._observe(i, *self._arrays, out)

    def reset_info(self, index: int) -> dict[str, Any]:
        """Return the episode's month and the raw observation; call after :meth:`observe`."""
        return {
            "month": self.months[self.month(index)],
            "observation": self.step_info["observation"][index].copy(),
        }

    # --- for planners and searches -----------------------------------------------------------------

    def hour(self, index: int) -> int:
        """Return the hours of its episode that environment ``index`` has passed.

        :raises ValueError: if the index is out of range
        :raises RuntimeError: if no episode has begun
        """
        return int(self.state.cluster[self.in_episode(index)]["now"])

    def running_hour(self, index: int) -> int:
        """Return :meth:`hour` for the policy that decides on it.

        :raises RuntimeError: also if the episode is over
        """
        hour = self.hour(index)
        if hour == self.hours:
            raise RuntimeError(f"environment {index}: the episode is over, call reset()")
        return hour

    def month(self, index: int) -> int:
        """Return the index, in ``months``, of the month of environment ``index``; raises as :meth:`hour`."""
        return int(self.state.cluster[self.in_episode(index)]["month"])

    @property
    def observation_scale(self) -> NDArray[np.float64]:
        """What the raw observation is multiplied by, ``(n,)``."""
        return self._scale[: self._shape[1]]

    def unfinished_jobs(self, index: int) -> UnfinishedJobs:
        """Return what the operator of environment ``index`` knows of its jobs."""
        return unfinished_jobs(self.state, self.in_episode(index), self._workload.first_places[:-1])

    def copy_env(self, source: VCCSimulator, index: int, rows: Sequence[int]) -> None:
        """Make environments of this simulator exact copies of environment ``index`` of another.

        They go on from there as it would, with the jobs, emissions and forecasts of its future.

        :param source: a simulator of the same configuration; may be this one
        :param rows: the environments to overwrite
        :raises ValueError: if the configurations differ, or an index is out of range
        :raises RuntimeError: if no episode has begun in what is to be copied
        """
        if not isinstance(source, VCCSimulator) or source.config != self.config:
            raise ValueError("copy_env: the simulators must have the same configuration")
        if not self._workload.same_jobs(source._workload):
            raise ValueError("copy_env: the simulators must have the same jobs, but their file has changed")
        index, rows = source.in_episode(index), [self.in_range(row) for row in rows]
        copy_state(source.state, index, self.state, rows, self._workload.first_places[:-1])
        for row in rows:
            self.world.days[row] = source.world.days[index]
            self.world.no_delay[row] = source.world.no_delay[index]
            for mine, theirs in zip(self.report, source.report, strict=True):
                mine[row] = theirs[index]
            if self.config.forecast == "noisy":
                self._forecast[row] = source._forecast[index]
                self.state.cluster[row]["forecast"] = row
            self._begun[row] = True

    def episode_metrics(self, index: int) -> dict[str, float]:
        """Return the metrics of :func:`greendc.vcc.metrics.episode_metrics`; raises as :meth:`hour`."""
        index = self.in_episode(index)
        delays = self.state.delays[index].copy()
        unfinished = self._count_unfinished(index, self.world, self.state, delays)
        return episode_metrics(
            self.config,
            self.capacity,
            self.report.history[index],
            self.world.no_delay[index],
            self.state.cluster[index],
            unfinished,
            delays,
        )


def months_of(config: VCCConfig) -> tuple[str, ...]:
    """Return the months that a configuration draws its episodes from."""
    if config.split is not None:
        return SPLITS[config.split]
    month = DEFAULT_MONTH if config.month is None else config.month
    return (month,) if isinstance(month, str) else month
