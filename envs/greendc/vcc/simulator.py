"""A batch of VCC datacenters in flat arrays, stepped by one compiled call."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import index as as_index
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.compiled import entry_point
from greendc.config import require
from greendc.simulator import Observation, Simulator
from greendc.traces.google import read_google_jobs
from greendc.traces.google_like import generate
from greendc.traces.jobs import JobTrace
from greendc.traces.moer import load_moer
from greendc.vcc import forecast, kernel, layout
from greendc.vcc.config import VCCConfig
from greendc.vcc.kernel_metrics import count_unfinished
from greendc.vcc.kernel_queue import UNIT, keys_size
from greendc.vcc.kernel_report import observe
from greendc.vcc.metrics import episode_metrics
from greendc.vcc.snapshot import UnfinishedJobs, copy_state, unfinished_jobs
from greendc.vcc.splits import SPLITS

MOER_SCALE = 0.66375
"""The archive's cap, kg CO2/kWh (12.5 MMBtu/MWh times 53.1 kg/MMBtu): normalised emissions end at 1."""


class VCCSimulator(Simulator):
    """``num_envs`` datacenters of one :class:`~greendc.vcc.config.VCCConfig`.

    ``report.history`` ``(num_envs, hours, 9)`` keeps what every step reported (columns: ``layout.INFO``),
    ``world.no_delay`` ``(num_envs, hours)`` the no-delay load in millionths of a machine unit.

    :param config: the configuration
    :param num_envs: number of environments
    :raises ValueError: if the job trace or the emissions do not fit the configuration
    """

    observation_space: spaces.Box

    def __init__(self, config: VCCConfig, num_envs: int = 1) -> None:
        require(as_index(num_envs) >= 1, "num_envs", num_envs, "at least 1")
        self.config = config
        self.num_envs = num_envs
        self.hours = 24 * config.days
        self.trace = load_trace(config)
        self.capacity = capacity_of(config, self.trace)
        self.months = months_of(config)
        self._build_trace_arrays()
        self._build_emission_tables()
        self._build_spaces()
        self._build_state()
        self._build_world()

    # --- building ----------------------------------------------------------------------------------

    def _build_trace_arrays(self) -> None:
        trace, config = self.trace, self.config
        if not config.resample_days and trace.days < config.days:
            raise ValueError(
                f"days={config.days}: the job trace has {trace.days} days; "
                "lower days or let resample_days=True draw them anew"
            )
        require_countable(trace, self.hours)
        job_class = trace.job_class
        order = np.lexsort((job_class, trace.submit_hour))
        self._trace = np.zeros((len(trace), layout.TRACE_FIELDS), dtype=np.int32)
        self._trace[:, layout.TRACE_CPU] = trace.cpu[order]
        self._trace[:, layout.TRACE_DURATION] = trace.duration[order]
        self._trace[:, layout.TRACE_CLASS] = job_class[order]
        self._trace[:, layout.TRACE_ORDER] = order - trace.day_offsets[trace.submit_hour // layout.DAY]
        self._input_order = np.lexsort((order, trace.submit_hour[order])).astype(np.int32)
        hours = np.arange(layout.DAY * trace.days + 1)
        self._hour_offsets = np.searchsorted(trace.submit_hour, hours).astype(np.int64)
        self._day_sizes = np.diff(trace.day_offsets)
        self._count_places(job_class)
        self._day_profiles = np.zeros((trace.days, self.hours + layout.DAY), dtype=np.int64)
        for day in range(trace.days):
            kernel.add_profile(self._trace, self._hour_offsets, layout.DAY * day, self._day_profiles[day])

    def _count_places(self, job_class: NDArray[np.int8]) -> None:
        """Make room for the jobs of any days: places by group, and lists of running jobs."""
        group = np.maximum(job_class - layout.FIRST_FLEXIBLE_CLASS, -1)
        of_day = np.zeros((self.trace.days, layout.FLEXIBLE_GROUPS + 1), dtype=np.int64)
        np.add.at(of_day, (self.trace.submit_hour // layout.DAY, group), 1)
        *flexible, inflexible = of_day.max(axis=0) * (self.config.days + 1)
        self._first_places = UNIT * np.cumsum([0, *(count // UNIT + 1 for count in flexible)])
        self._most_running = max(1, int(sum(flexible))), int(inflexible) + 1

    def _build_emission_tables(self) -> None:
        config = self.config
        series = config.moer if config.moer is not None else load_moer(config.region)
        rows = self.hours + 1
        moer, forecasts = [], []
        for month in self.months:
            start = series.month_slice(
                month, config.utc_offset, hours=self.hours, extra=forecast.LEADS, past=forecast.LEADS
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
        places = int(self._first_places[-1])
        most_flexible, most_inflexible = self._most_running
        self.state = kernel.State(
            places=np.zeros((n, places, layout.PLACE_FIELDS), dtype=np.int32),
            keys=np.zeros((n, keys_size(places)), dtype=np.int32),
            stack=np.zeros((n, most_flexible, layout.RUNNING_FIELDS), dtype=np.int32),
            fixed=np.zeros((n, most_inflexible, layout.RUNNING_FIELDS), dtype=np.int32),
            machines=np.zeros((n, layout.MACHINE_ROWS, machines), dtype=np.int64),
            waiting=np.zeros((n, hours // layout.CHUNK + 1, layout.DAY, layout.CHUNK), dtype=np.int64),
            calendar=np.zeros((n, layout.CALENDAR_ROWS, layout.LEAVING + 2 * machines + 1), dtype=np.int64),
            counters=np.zeros((n, layout.COUNTERS), dtype=np.int64),
            lateness=np.zeros((n, layout.LATE_ROWS, hours + 2 * layout.DAY + 1), dtype=np.int64),
            sums=np.zeros((n, layout.SUMS)),
        )
        self.state.counters[:, layout.HOUR] = hours  # until the first reset, as if the episode were over
        self._begun = np.zeros(n, dtype=np.bool_)
        self.report = kernel.Report(
            info=np.zeros((n, len(layout.INFO))),
            history=np.zeros((n, hours, len(layout.INFO))),
            rewards=np.zeros(n),
            truncated=np.zeros(n, dtype=np.bool_),
            raw=np.zeros((n, layout.EXTENDED_SIZE)),
        )
        self._bind()

    def _bind(self) -> None:
        """Show the report's arrays under the names that wrappers read."""
        self.rewards, self.truncated = self.report.rewards, self.report.truncated
        self.step_info = {name: self.report.info[:, k] for k, name in enumerate(layout.INFO)}
        self.step_info["observation"] = self.report.raw[:, : self._observation_size]

    @cached_property
    def _step(self) -> Callable[..., int]:
        """The kernel's step, called without type checks: its arguments are checked before."""
        out = np.zeros((1, 1), np.float32)
        return entry_point(kernel.step_batch, np.zeros(1), *self.world, *self.state, *self.report, out)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what :meth:`_bind` makes: copies of views would not show what the kernel writes."""
        bound = ("rewards", "truncated", "step_info", "_step")
        return {key: value for key, value in vars(self).items() if key not in bound}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the arrays and make the views anew."""
        vars(self).update(state)
        self._bind()

    def _build_world(self) -> None:
        config = self.config
        self.world = kernel.World(
            trace=self._trace,
            input_order=self._input_order,
            hour_offsets=self._hour_offsets,
            days=np.zeros((self.num_envs, config.days + 1), dtype=np.int64),
            moer=self._moer,
            forecast=self._forecast,
            no_delay=np.zeros((self.num_envs, self.hours), dtype=np.int64),
            switches=self._switches(),
            settings=np.array([config.carbon_weight, config.slo_weight, config.kw_per_unit]),
            scale=self._scale,
            started=np.zeros(
                (layout.FLEXIBLE_GROUPS, self._most_running[0] + 1, layout.RUNNING_FIELDS), dtype=np.int32
            ),
        )

    def _switches(self) -> NDArray[np.int64]:
        config = self.config
        switches = np.zeros(layout.SWITCHES, dtype=np.int64)
        switches[layout.HOURS] = self.hours
        switches[layout.CAPACITY] = self.capacity
        switches[layout.EVICT] = config.evict
        switches[layout.EVICTION_LOSS] = config.eviction_loss_hours
        switches[layout.SLO_OVERDUE] = config.slo == "overdue"
        switches[layout.INCURRED] = config.charge == "incurred"
        switches[layout.BASELINE] = config.reward_baseline == "no_delay"
        switches[layout.CONSTRAINED] = config.constrained
        switches[layout.TOLERANCE] = math.floor(0.03 * 24 * self.trace.mean_load * layout.MICRO)
        switches[layout.EXTENDED] = config.observation == "extended"
        switches[layout.FIRST_PLACES :] = self._first_places[:-1]
        return switches

    def _build_spaces(self) -> None:
        extended = self.config.observation == "extended"
        size = layout.EXTENDED_SIZE if extended else layout.PAGE_SIZE
        self._observation_size = size
        low, high = self._raw_bounds()
        scale = np.ones(layout.EXTENDED_SIZE)
        if self.config.normalize:
            scale = self._normalization()
        self._scale = scale
        self.observation_space = spaces.Box(
            (low * scale)[:size].astype(np.float32),
            (high * scale)[:size].astype(np.float32),
            dtype=np.float32,
        )
        levels = self.config.discrete_actions
        self.action_space = (
            spaces.Box(0.0, 1.0, (1,), dtype=np.float32) if levels is None else spaces.Discrete(levels)
        )

    def _raw_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds of the raw observation that hold for any jobs that the trace can give."""
        days = self.config.days + 1
        cpu = self.trace.cpu / layout.MICRO
        work = cpu * np.minimum(self.trace.duration, self.hours + layout.DAY)
        day_of = self.trace.submit_hour // 24
        most_cpu = days * float(np.bincount(day_of, cpu).max())
        most_work = days * float(np.bincount(day_of, work).max())
        low, high = np.zeros(layout.EXTENDED_SIZE), np.ones(layout.EXTENDED_SIZE)
        high[1] = most_cpu
        high[2] = float(self._day_sizes.max()) * days
        high[3 : layout.PAGE_SIZE] = self._moer_bound
        low[[layout.SINE, layout.COSINE]] = -1.0
        high[layout.DEMAND] = most_cpu
        high[layout.OVERDUE] = most_work
        high[layout.MOER_MEAN] = self._moer_bound
        low[layout.MOER_GAP], high[layout.MOER_GAP] = -self._moer_bound, self._moer_bound
        high[layout.DELAY_BINS : layout.PENDING] = most_cpu
        # A job can be charged at each day end until it is done, and once at the episode's end.
        high[[layout.PENDING, layout.PAUSE_CHARGE]] = most_work * (days + 1)
        low[layout.PAUSE_CHARGE] = -most_work * (days + 1)
        return low, high

    def _normalization(self) -> NDArray[np.float64]:
        capacity = self.capacity / layout.MICRO
        scale = np.ones(layout.EXTENDED_SIZE)
        scale[1] = 1 / capacity
        scale[2] = self.trace.days / len(self.trace)
        scale[3 : layout.PAGE_SIZE] = 1 / MOER_SCALE
        scale[[layout.MOER_MEAN, layout.MOER_GAP]] = 1 / MOER_SCALE
        for feature in (layout.DEMAND, layout.OVERDUE, layout.PENDING, layout.PAUSE_CHARGE):
            scale[feature] = 1 / capacity
        scale[layout.DELAY_BINS : layout.PENDING] = 1 / capacity
        return scale

    # --- running -----------------------------------------------------------------------------------

    def reset_env(self, index: int, rng: np.random.Generator, options: dict[str, Any] | None = None) -> None:
        """Start a new episode: a month, its jobs and, for ``noisy``, its forecast errors, from ``rng``.

        :param options: ``{"month": "YYYY-MM"}`` picks one of the configuration's months
        :raises ValueError: for an index that is out of range, an unknown option, or a month that the
            configuration does not have
        """
        index = self._in_range(index)
        month = self._pick_month(rng, options or {})
        self.world.days[index] = self._pick_days(rng)
        kernel.begin(
            index,
            self.config.warm_start,
            self.world,
            self.state,
            self._day_profiles,
            self.report.raw[index],
        )
        counters = self.state.counters[index]
        counters[layout.MONTH] = month
        counters[layout.FORECAST] = month
        if self.config.forecast == "noisy":
            errors = forecast.noise(rng, self.hours + 1, self.config.forecast_noise)
            noisy = np.clip(self._month_forecasts[month] + errors, 0.0, self._moer_bound)
            self._forecast[index] = forecast.with_features(noisy)
            counters[layout.FORECAST] = index
        self.report.truncated[index] = False
        self._begun[index] = True

    def _pick_month(self, rng: np.random.Generator, options: dict[str, Any]) -> int:
        unknown = set(options) - {"month"}
        if unknown:
            raise ValueError(f"reset options {sorted(unknown)}: only 'month' is known")
        if "month" in options:
            if options["month"] not in self.months:
                raise ValueError(
                    f"reset option month={options['month']!r}: must be one of {', '.join(self.months)}"
                )
            return self.months.index(options["month"])
        return int(rng.integers(len(self.months))) if len(self.months) > 1 else 0

    def _pick_days(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the trace's day for the day before t = 0 and for each day of the episode."""
        wanted = np.arange(-1, self.config.days) % self.trace.days
        if not self.config.resample_days:
            return wanted
        weekdays = np.arange(-1, self.config.days) % 7
        draws = rng.random(len(weekdays))
        if self.trace.days < 7:
            return (draws * self.trace.days).astype(np.int64)
        choices = (self.trace.days - 1 - weekdays) // 7 + 1
        return weekdays + 7 * (draws * choices).astype(np.int64)

    def step(self, actions: NDArray[Any], out: Observation) -> None:
        """Run one hour in every environment, or in none if it raises.

        :param actions: ``(num_envs, *action_space.shape)``
        :param out: ``(num_envs, n)`` float32, as made by :meth:`empty_observations`, overwritten
        :raises ValueError: if an action has the wrong shape or is not in the action space, or if ``out``
            is another array
        :raises RuntimeError: if an environment's episode is over or not begun
        """
        fractions = self._fractions(actions)
        status = self._step(fractions, *self.world, *self.state, *self.report, self._writable(out))
        if status > 0:
            raise ValueError(f"action[{status - 1}]={actions[status - 1]}: must be {self._allowed_actions()}")
        if status < 0:
            raise RuntimeError(f"environment {-status - 1}: the episode is over or not begun, call reset()")

    def _writable(self, out: object) -> NDArray[np.float32]:
        """Return a batch of observations, checked: the kernel, which writes into it, does not look."""
        shape = (self.num_envs, self._observation_size)
        if isinstance(out, np.ndarray):
            if out.shape == shape and out.dtype == np.float32 and out.flags.carray:
                return out
            found = f"{out.shape} {out.dtype}"
        else:
            found = type(out).__name__
        raise ValueError(f"out is {found}: must be {shape} float32, C-contiguous, aligned and writable")

    def _in_range(self, index: int) -> int:
        """Return the index of an environment."""
        i = as_index(index)
        require(0 <= i < self.num_envs, "index", index, f"an environment, from 0 to {self.num_envs - 1}")
        return i

    def _in_episode(self, index: int) -> int:
        """Return the index of an environment that has been reset."""
        i = self._in_range(index)
        if not self._begun[i]:
            raise RuntimeError(f"environment {i}: no episode has begun, call reset()")
        return i

    def _fractions(self, actions: object) -> NDArray[np.float64]:
        """Return the actions as fractions of C, ``(num_envs,)`` and contiguous."""
        levels = self.config.discrete_actions
        if isinstance(actions, np.ndarray):
            if levels is None and actions.shape == (self.num_envs, 1) and actions.dtype.kind in "fiu":
                return actions.astype(np.float64, order="C").reshape(self.num_envs)
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
        for i in map(self._in_episode, range(self.num_envs) if index is None else (index,)):
            counters = self.state.counters[i]
            observe(
                self.world.forecast,
                self._scale,
                counters,
                self.state.lateness[i],
                self.world.switches,
                self.state.sums[i],
                self.report.raw[i],
                out[i],
            )

    def reset_info(self, index: int) -> dict[str, Any]:
        """Return the episode's month and the raw observation; call after :meth:`observe`."""
        index = self._in_episode(index)
        return {
            "month": self.months[int(self.state.counters[index, layout.MONTH])],
            "observation": self.step_info["observation"][index].copy(),
        }

    # --- for planners and searches -----------------------------------------------------------------

    def hour(self, index: int) -> int:
        """Return the hours of its episode that environment ``index`` has passed.

        :raises ValueError: if the index is out of range
        :raises RuntimeError: if no episode has begun
        """
        return int(self.state.counters[self._in_episode(index), layout.HOUR])

    def running_hour(self, index: int) -> int:
        """Return :meth:`hour` for whoever decides on it.

        :raises RuntimeError: also if the episode is over
        """
        hour = self.hour(index)
        if hour == self.hours:
            raise RuntimeError(f"environment {index}: the episode is over, call reset()")
        return hour

    def month(self, index: int) -> int:
        """Return the index, in ``months``, of the month of environment ``index``; raises as :meth:`hour`."""
        return int(self.state.counters[self._in_episode(index), layout.MONTH])

    @property
    def observation_scale(self) -> NDArray[np.float64]:
        """What the raw observation is multiplied by, ``(n,)``."""
        return self._scale[: self._observation_size]

    def unfinished_jobs(self, index: int) -> UnfinishedJobs:
        """Return what the operator of environment ``index`` knows of its jobs."""
        return unfinished_jobs(self.state, self._in_episode(index), self._first_places[:-1])

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
        if not self._has_jobs_of(source):
            raise ValueError("copy_env: the simulators must have the same jobs, but their file has changed")
        index, rows = source._in_episode(index), [self._in_range(row) for row in rows]
        copy_state(source.state, index, self.state, rows, self._first_places[:-1])
        for row in rows:
            self.world.days[row] = source.world.days[index]
            self.world.no_delay[row] = source.world.no_delay[index]
            for mine, theirs in zip(self.report, source.report, strict=True):
                mine[row] = theirs[index]
            if self.config.forecast == "noisy":
                self._forecast[row] = source._forecast[index]
                self.state.counters[row, layout.FORECAST] = row
            self._begun[row] = True

    def _has_jobs_of(self, other: VCCSimulator) -> bool:
        """Return whether the other simulator, of the same configuration, has read the same jobs."""
        if isinstance(self.config.workload, JobTrace) or self.config.workload == "google_like":
            return True
        pairs = (self._trace, other._trace), (self._hour_offsets, other._hour_offsets)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    def episode_metrics(self, index: int) -> dict[str, float]:
        """Return the metrics of :func:`greendc.vcc.metrics.episode_metrics`; raises as :meth:`hour`."""
        index = self._in_episode(index)
        state, counters = self.state, self.state.counters[index]
        delays = state.lateness[index, layout.DELAYS].copy()
        unfinished = count_unfinished(
            delays,
            state.places[index],
            state.keys[index],
            state.stack[index],
            state.fixed[index],
            counters,
            self.world.switches,
        )
        return episode_metrics(
            self.config,
            self.capacity,
            self.report.history[index],
            self.world.no_delay[index],
            counters,
            unfinished,
            delays,
        )


def load_trace(config: VCCConfig) -> JobTrace:
    """Return the job trace that a configuration names."""
    if isinstance(config.workload, JobTrace):
        return config.workload
    if config.workload == "google_like":
        return generate(config.workload_seed)
    path = Path(config.workload)
    if not path.exists():
        raise ValueError(
            f"workload={str(config.workload)!r}: must be 'google_like', a JobTrace, or an existing file "
            "or folder of per-day job CSVs"
        )
    return read_google_jobs(path)


def require_countable(trace: JobTrace, hours: int) -> None:
    """Raise a ``ValueError`` if hours, or the work of an episode, are too large for the kernel's integers."""
    longest = int(trace.duration.max())
    most = np.iinfo(np.int32).max - hours - layout.DAY
    require(longest <= most, "workload", f"a job of {longest} hours", f"one of jobs of at most {most} hours")
    work = np.bincount(trace.submit_hour // layout.DAY, trace.cpu.astype(np.float64) * trace.duration)
    most_work = float(work.max()) * (hours // layout.DAY + 1)
    most = 2**62 // layout.MICRO
    found = f"up to {most_work / layout.MICRO:.3g} machine-unit-hours an episode"
    require(most_work / layout.MICRO < most, "workload", found, f"below {most:.3g}")


def capacity_of(config: VCCConfig, trace: JobTrace) -> int:
    """Return C in millionths of a machine unit; warn above a target load of 0.8.

    :raises ValueError: if so small a ``target_load`` needs a million machines
    """
    if config.capacity is not None:
        return round(config.capacity * layout.MICRO)
    needed = trace.mean_load / config.target_load
    require(needed < 1e6, "target_load", config.target_load, f"at least {trace.mean_load / 1e6:.3g} here")
    if config.target_load > 0.8:
        warnings.warn(
            f"target_load={config.target_load}: above 0.8 the work of some days exceeds the capacity",
            stacklevel=2,
        )
    return math.ceil(trace.mean_load / config.target_load * layout.MICRO)


def months_of(config: VCCConfig) -> tuple[str, ...]:
    """Return the months that a configuration draws its episodes from."""
    if config.split is not None:
        return SPLITS[config.split]
    return (config.month,) if isinstance(config.month, str) else config.month
