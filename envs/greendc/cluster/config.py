"""Configuration of the cluster environments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from greendc.cluster.clocks import read_start
from greendc.cluster.jobs import ClusterJobs
from greendc.cluster.power import CapacitySeries
from greendc.config import is_number, require, require_default, require_kinds, require_one_of
from greendc.traces.moer import MoerSeries
from greendc.traces.power import CarbonTrace

PROFILES = ("rlscheduler", "easy")
BACKFILLS = ("none", "easy", "conservative")
ON_DROP = ("admit_only", "kill_requeue", "suspend", "checkpoint")
ADMISSIONS = ("now", "forecast")
REWARDS = ("slowdown", "wait", "value", "carbon")
FORECASTS = ("exact", "yesterday")


@dataclass(frozen=True)
class ClusterConfig:
    """Everything that defines a cluster environment.

    :param profile: ``"easy"``, or ``"rlscheduler"``, the frozen rules of that benchmark
    :param backfill: which jobs overtake one that was chosen and cannot start: ``"none"``, ``"easy"`` (in the
        profile ``rlscheduler``: its own greedy form) or ``"conservative"``
    :param workload: ``"lublin"`` (generated), the path of a log (Standard Workload Format, or an
        export of ``sacct -P``), or :class:`~greendc.cluster.jobs.ClusterJobs`
    :param log_start: what the clock shows at second 0 of the log, such as ``"2024-03-01T08:00:00-06:00"``,
        with or without an offset from UTC (default: what the log says; where it says nothing, midnight of a
        day that is not known)
    :param workload_seed: of generated jobs, and of QoS values
    :param workload_jobs: number of generated jobs
    :param overestimate: generated jobs request their run time times up to this
    :param min_qos: give jobs deadlines and values by QoS values from this to 1
        (:meth:`~greendc.cluster.jobs.ClusterJobs.with_qos`)
    :param processors: of the cluster (default: those of the log; 256 for generated jobs)
    :param episode_jobs: consecutive jobs of the log that make an episode
    :param first_job: first row of the log that episodes may use
    :param last_job: first row that they may not use (default: all may be)
    :param visible_jobs: how many waiting jobs the agent sees and chooses from
    :param power: processors that have power: ``None`` (all), ``"green"`` (sun and wind, generated), or a
        :class:`~greendc.cluster.power.CapacitySeries`
    :param power_floor: of ``"green"``: share of the processors that always have power
    :param power_share: of ``"green"``: mean of sun and wind over what the whole cluster needs
    :param power_start: with power, what day of the series an episode begins with: ``"random"`` (the time of
        day is the log's), or ``"log"``, the log's own date
    :param forecast: what is known of the capacity to come: ``"exact"``, ``"yesterday"`` (that of a day ago),
        or a :class:`~greendc.cluster.power.CapacitySeries`
    :param forecast_hours: how far plans look into it
    :param on_drop: what happens to running jobs when the capacity falls below them: ``"admit_only"``
        (nothing), ``"kill_requeue"``, ``"suspend"`` or ``"checkpoint"``; the latest started give way first
    :param checkpoint_seconds: of ``"checkpoint"``: what a job needs to go on
    :param admission: a job may start if it fits ``"now"``, or under the ``"forecast"`` for as long as it
        requests
    :param busy_watts: of a processor that runs a job
    :param idle_watts: of one that has power and none
    :param carbon: kg CO2/kWh: a number or a series, which repeats
    :param reward: ``"slowdown"``, ``"wait"`` (both are paid while jobs wait: the sum is less the mean of the
        episode's jobs, waits in hours), ``"value"`` or ``"carbon"`` (less kg)
    :param limit_days: days from the first arrival after which an episode is cut
    :param record_pieces: how many of the last stretches of running to keep for pictures
    :raises ValueError: for a wrong value; the message names the field, the value and what is allowed
    """

    profile: str = "easy"
    backfill: str = "none"
    workload: str | Path | ClusterJobs = "lublin"
    log_start: str | None = None
    workload_seed: int = 0
    workload_jobs: int = 10_000
    overestimate: float = 1.0
    min_qos: float | None = None
    processors: int | None = None
    episode_jobs: int = 256
    first_job: int = 0
    last_job: int | None = None
    visible_jobs: int = 128
    power: str | CapacitySeries | None = None
    power_floor: float = 0.5
    power_share: float = 0.5
    power_start: str = "random"
    forecast: str | CapacitySeries = "exact"
    forecast_hours: int = 48
    on_drop: str = "admit_only"
    checkpoint_seconds: int = 0
    admission: str = "now"
    busy_watts: float = 200.0
    idle_watts: float = 80.0
    carbon: float | MoerSeries | CarbonTrace = 0.4
    reward: str = "slowdown"
    limit_days: float = 1000.0
    record_pieces: int = 2048

    def __post_init__(self) -> None:
        require_kinds(type(self).__annotations__, vars(self))
        require_one_of("profile", self.profile, PROFILES)
        require_one_of("backfill", self.backfill, BACKFILLS)
        require_one_of("power_start", self.power_start, ("random", "log"))
        require_one_of("on_drop", self.on_drop, ON_DROP)
        require_one_of("admission", self.admission, ADMISSIONS)
        require_one_of("reward", self.reward, REWARDS)
        self._require_ranges()
        if self.log_start is not None:
            read_start("log_start", self.log_start)
        if not (isinstance(self.workload, str) and self.workload == "lublin"):
            self._require_defaults(("workload_jobs", "overestimate"), "beside a log")
        known = isinstance(self.workload, str | Path | ClusterJobs)
        allowed = "'lublin', the path of a log (SWF or sacct), or ClusterJobs"
        require(known, "workload", self.workload, allowed)
        green = isinstance(self.power, str) and self.power == "green"  # an array has no single answer to ==
        known = self.power is None or green or isinstance(self.power, CapacitySeries)
        require(known, "power", self.power, "None, 'green', or a CapacitySeries")
        if not isinstance(self.forecast, CapacitySeries):
            allowed = f"{' or '.join(map(repr, FORECASTS))}, or a CapacitySeries"
            require(isinstance(self.forecast, str), "forecast", self.forecast, allowed)
            require_one_of("forecast", self.forecast, FORECASTS)
        if not isinstance(self.carbon, MoerSeries | CarbonTrace):
            right = is_number(self.carbon) and 0 <= self.carbon <= 5
            require(right, "carbon", self.carbon, "0 to 5 kg CO2/kWh, or a series")
        if self.profile == "rlscheduler":
            self._require_frozen()
        if self.power is None:
            changing = ("power_start", "forecast", "on_drop", "admission")
            self._require_defaults(changing, "without power that changes (power=None)")
        if not green:
            self._require_defaults(("power_floor", "power_share"), "without power='green'")
        if self.on_drop != "checkpoint":
            self._require_defaults(("checkpoint_seconds",), f"with on_drop={self.on_drop!r}")

    def _require_defaults(self, names: tuple[str, ...], where: str) -> None:
        """Refuse options that change nothing."""
        for name in names:
            default, value = type(self).__dataclass_fields__[name].default, getattr(self, name)
            require_default(name, value, default, where)

    def _require_ranges(self) -> None:
        for field in ("workload_seed", "first_job", "checkpoint_seconds", "record_pieces"):
            value = getattr(self, field)
            require(0 <= value <= 10**9, field, value, "0 or more, at most a billion")
        for field in ("workload_jobs", "episode_jobs"):
            value = getattr(self, field)
            require(1 <= value <= 10**7, field, value, "1 to 10 million jobs")
        require(1 <= self.overestimate <= 1000, "overestimate", self.overestimate, "from 1 to 1000")
        if self.min_qos is not None:
            require(0 < self.min_qos <= 1, "min_qos", self.min_qos, "above 0 and at most 1")
        if self.processors is not None:
            require(1 <= self.processors <= 10**9, "processors", self.processors, "1 to a billion")
        if self.last_job is not None:
            allowed = f"at least first_job + episode_jobs = {self.first_job + self.episode_jobs}"
            require(self.last_job >= self.first_job + self.episode_jobs, "last_job", self.last_job, allowed)
        require(1 <= self.visible_jobs <= 10**5, "visible_jobs", self.visible_jobs, "from 1 to 100,000")
        require(0 <= self.power_floor <= 1, "power_floor", self.power_floor, "from 0 to 1")
        require(0 < self.power_share <= 100, "power_share", self.power_share, "above 0 and at most 100")
        require(1 <= self.forecast_hours <= 8784, "forecast_hours", self.forecast_hours, "1 to 8784 hours")
        for field in ("busy_watts", "idle_watts"):
            value = getattr(self, field)
            require(0 <= value <= 1e6, field, value, "from 0 to a million W")
        require(self.busy_watts > 0, "busy_watts", self.busy_watts, "above 0")
        require(1 <= self.limit_days <= 36_500, "limit_days", self.limit_days, "1 to 36,500 days")

    def _require_frozen(self) -> None:
        """The benchmark has neither power that changes nor another way to backfill."""
        require(self.power is None, "power", self.power, "None in the profile 'rlscheduler'")
        self._require_defaults(("limit_days",), "in the profile 'rlscheduler', whose episodes are whole")
        allowed = "'none' or 'easy' in the profile 'rlscheduler'"
        require(self.backfill != "conservative", "backfill", self.backfill, allowed)
