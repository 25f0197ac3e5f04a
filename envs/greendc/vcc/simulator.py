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
from greendc.records import Records
from greendc.simulator import Observation, Simulator
from greendc.traces.google import read_google_jobs
from greendc.traces.google_like import generate
from greendc.traces.jobs import JobTrace
from greendc.traces.moer import load_moer
from greendc.vcc import columns, forecast, kernel, layout
from greendc.vcc.config import VCCConfig
from greendc.vcc.kernel_metrics import count_unfinished
from greendc.vcc.kernel_queue import UNIT, keys_size
from greendc.vcc.metrics import episode_metrics
from greendc.vcc.snapshot import UnfinishedJobs, copy_state, unfinished_jobs
from greendc.vcc.splits import SPLITS

MOER_SCALE = 0.66375
"""The archive's cap, kg CO2/kWh (12.5 MMBtu/MWh times 53.1 kg/MMBtu): normalised emissions end at 1."""


class VCCSimulator(Simulator):
    """``num_envs`` datacenters of one :class:`~greendc.vcc.config.VCCConfig`.

    ``report.history`` ``(num_envs, hours)`` keeps what every step reported (``columns.Hour``),
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
        self._trace = np.zeros(len(trace), layout.TRACE_JOB)
        self._trace["cpu"] = trace.cpu[order]
        self._trace["duration"] = trace.duration[order]
        self._trace["job_class"] = job_class[order]
        self._trace["order"] = order - trace.day_offsets[trace.submit_hour // layout.DAY]
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
        places = int(self._first_places[-1])
        most_flexible, most_inflexible = self._most_running
        running = layout.RUNNING_JOB
        self.state = layout.State(
            cluster=np.zeros(n, layout.CLUSTER),
            places=np.zeros((n, places), layout.PLACE),
            keys=np.zeros((n, keys_size(places)), np.int32),
            stack=np.zeros((n, most_flexible), running),
            fixed=np.zeros((n, most_inflexible), running),
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
        self.step_info["observation"] = self.report.raw[:, : self._observation_size]

    # What Python calls is called without type checks: its arguments are checked before.

    @cached_property
    def _step(self) -> Callable[..., int]:
        return entry_point(kernel.step_batch, np.zeros(1), *self._arrays, np.zeros((1, 1), np.float32))

    @cached_property
    def _observe(self) -> Callable[..., None]:
        return entry_point(kernel.observe_one, 0, *self._arrays, np.zeros((1, 1), np.float32))

    @cached_property
    def _begin(self) -> Callable[..., int]:
        return entry_point(kernel.begin, 0, True, self.world, self.state, self._day_profiles)

    @cached_property
    def _count_unfinished(self) -> Callable[..., tuple[int, int]]:
        return entry_point(count_unfinished, 0, self.world, self.state, np.zeros(1, np.int64))

    @property
    def _arrays(self) -> tuple[layout.World, layout.State, layout.Report]:
        return self.world, self.state, self.report

    def __getstate__(self) -> dict[str, Any]:
        """Leave out compiled code, and views: copies of them would not show what the kernel writes."""
        views = {"rewards", "truncated", "step_info", "_zeroed"}
        made = views | {"_step", "_observe", "_begin", "_count_unfinished"}
        return {key: value for key, value in vars(self).items() if key not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the arrays and make the views anew."""
        vars(self).update(state)
        numbers = self.report.observation.view(np.float64).reshape(self.num_envs, columns.EXTENDED_SIZE)
        self.report = self.report._replace(raw=numbers)
        self._bind()

    def _build_world(self) -> None:
        config = self.config
        start = np.zeros(1, layout.CLUSTER)
        start["ends"], start["last_vcc"] = self._first_places[:-1], 1.0
        self.world = layout.World(
            settings=self._settings(),
            start=start,
            trace=self._trace,
            input_order=self._input_order,
            hour_offsets=self._hour_offsets,
            days=np.zeros((self.num_envs, config.days + 1), dtype=np.int64),
            moer=self._moer,
            forecast=self._forecast,
            no_delay=np.zeros((self.num_envs, self.hours), dtype=np.int64),
            scale=self._scale,
            started=np.zeros((layout.FLEXIBLE_GROUPS, self._most_running[0] + 1), layout.RUNNING_JOB),
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
        for weight in ("carbon_weight", "slo_weight", "kw_per_unit"):
            settings[weight] = getattr(config, weight)
        settings["first_places"] = self._first_places[:-1]
        return settings

    def _build_spaces(self) -> None:
        extended = self.config.observation == "extended"
        size = columns.EXTENDED_SIZE if extended else columns.PAGE_SIZE
        self._observation_size = size
        low, high = self._raw_bounds()
        scale = np.ones(columns.EXTENDED_SIZE)
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
        bounds = np.zeros(2, columns.OBSERVATION)
        low, high = bounds[0], bounds[1]
        for name in ("vcc", "sine", "cosine", "vcc_spent", "moer_rank"):
            high[name] = 1.0
        high["load"] = high["demand"] = high["delayed"] = most_cpu
        high["waiting"] = float(self._day_sizes.max()) * days
        high["forecast"] = high["moer_mean"] = high["moer_gap"] = self._moer_bound
        low["sine"] = low["cosine"] = -1.0
        low["moer_gap"] = -self._moer_bound
        high["overdue"] = most_work
        # A job can be charged at each day end until it is done, and once at the episode's end.
        high["pending"] = high["pause_charge"] = most_work * (days + 1)
        low["pause_charge"] = -most_work * (days + 1)
        numbers = bounds.view(np.float64).reshape(2, columns.EXTENDED_SIZE)
        return numbers[0], numbers[1]

    def _normalization(self) -> NDArray[np.float64]:
        scale = np.ones(1, columns.OBSERVATION)
        for name in ("load", "demand", "overdue", "delayed", "pending", "pause_charge"):
            scale[name] = 1 / (self.capacity / layout.MICRO)
        for name in ("forecast", "moer_mean", "moer_gap"):
            scale[name] = 1 / MOER_SCALE
        scale["waiting"] = self.trace.days / len(self.trace)
        return scale.view(np.float64)

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
        for numbers in self._zeroed:
            numbers[index] = 0
        self.world.no_delay[index] = 0
        self.report.raw[index] = 0.0
        pause = self._begin(index, self.config.warm_start, self.world, self.state, self._day_profiles)
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
        status = self._step(fractions, *self._arrays, self._writable(out))
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
        return int(self.state.cluster[self._in_episode(index)]["now"])

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
        return int(self.state.cluster[self._in_episode(index)]["month"])

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
                self.state.cluster[row]["forecast"] = row
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
