"""What a report on a site rests on beside the user's files: each assumption with its size and its option."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from greendc.energy.site import SiteConfig
from greendc.traces.job_logs import InspectedLog
from greendc.traces.log_clock import log_start
from greendc.traces.power import PowerTrace
from greendc.traces.swf import JobLog
from sb3_greendc.experiments.my_site.urgency import Urgency

DEFAULTS: dict[str, Any] = {
    "units": 10,
    "resource_types": 2,
    "horizon": 48,
    "step_hours": 1.0,
    "too_large": "clip",
    "offered_load": None,
}
"""Settings of the pool that a log does not have."""


@dataclass(frozen=True)
class Assumption:
    """Something that the results rest on and the files do not say.

    :param about: what it is about, in two or three words
    :param said: what was taken, and how much it matters
    :param option: what sets it
    :param told: whether the user set it; it is then no assumption, but still part of the problem
    """

    about: str
    said: str
    option: str
    told: bool = False


def assumptions(
    options: argparse.Namespace,
    settings: Mapping[str, Any],
    found: InspectedLog,
    urgency: Urgency,
    counts: Mapping[str, int],
    load: float,
) -> list[Assumption]:
    """Return what was assumed, then what was told.

    :param options: of the command
    :param settings: keyword arguments of the environment, as given
    :param found: the job log
    :param urgency: deadlines and values
    :param counts: of the workload: what was dropped and clipped
    :param load: the work that arrives over what the pool can do
    """
    config = {**DEFAULTS, **settings}
    rows = [
        *_about_jobs(options, config, settings, found, counts, load),
        Assumption("deadlines and values", _with_counts(urgency), urgency.option, urgency.given),
        *_about_site(config, settings),
    ]
    return sorted(rows, key=lambda row: row.told)  # sorted() is stable


def assumptions_summary(rows: Sequence[Assumption]) -> str:
    """Return a line for each assumption, for the terminal; what the user set is left out."""
    lines = [f"- {row.about}: {row.said} ({row.option})" for row in rows if not row.told]
    return "\n".join(["assumed, beside your files:", *lines])


def _about_jobs(
    options: argparse.Namespace,
    config: Mapping[str, Any],
    told: Collection[str],
    found: InspectedLog,
    counts: Mapping[str, int],
    load: float,
) -> Iterator[Assumption]:
    log, units, step = found.log, int(config["units"]), 3600.0 * float(config["step_hours"])
    machine = log.machine_processors
    size, run = log.processors, log.column("run_time")
    runs = (run > 0) & (size > 0)
    size, run = np.minimum(size[runs], machine), run[runs]
    yield size_of_machine(found, options.processors is not None)
    wide = np.ceil(size * units / machine) * machine / units
    more = _percent(float((wide * run).sum()), float((size * run).sum()))
    yield Assumption(
        "size of the pool",
        f"{units} units stand for the log's {machine:,} processors, {machine / units:g} each; a job takes "
        f"whole units, which adds {more:.0f} % to the processor-hours",
        "--units",
        "units" in told,
    )
    steps = np.maximum(np.ceil(run / step - 1e-9), 1.0)
    more = _percent(float((steps * step * size).sum()), float((run * size).sum()))
    yield Assumption(
        "time",
        f"steps of {config['step_hours']:g} h; run times are rounded up to them, which adds {more:.0f} % "
        "to the processor-hours",
        "--set step_hours=...",
        "step_hours" in told,
    )
    horizon = int(config["horizon"])
    long = steps > horizon
    lost = 100.0 * float(((steps - horizon) * size)[long].sum()) / max(float((steps * size).sum()), 1e-9)
    clipped = config["too_large"] == "clip"
    what = "cut to that" if clipped else "dropped"
    gone = f", which takes away {lost:.1f} % of the processor-hours" if clipped and lost else ""
    yield Assumption(
        "longest job",
        f"{horizon} steps; {int(long.sum()):,} of {len(steps):,} jobs are longer and were {what}{gone}",
        "--set horizon=..., --too-large drop",
        "horizon" in told or "too_large" in told,
    )
    left_out = say_counts({key: value for key, value in counts.items() if key not in ("jobs",)})
    yield Assumption(
        "jobs left out or changed",
        f"{left_out or 'none'}; {counts.get('jobs', 0):,} jobs are left",
        "--repair, --too-large",
    )
    if int(config["resource_types"]) > 1:
        yield Assumption(
            "other resources",
            f"each job also needs {int(config['resource_types']) - 1} other resource(s), GPUs say, from 0 up "
            "to its units, drawn at random: job logs do not have them",
            "--resource-types 1",
            "resource_types" in told,
        )
    offered = config["offered_load"]
    yield Assumption(
        "arrivals",
        f"{'at the times of the log' if offered is None else 'the log stretched to this load'}: work for "
        f"{100 * load:.0f} % of the full pool",
        "--set offered_load=...",
        "offered_load" in told and offered is not None,
    )


def size_of_machine(found: InspectedLog, told: bool) -> Assumption:
    """Return what was taken for the size of the machine.

    :param found: the job log
    :param told: whether the user said it
    """
    source = "as you said" if told else _size_source(found)
    said = f"{found.log.machine_processors:,} processors: {source}"
    return Assumption("size of the machine", said, "--processors", told)


def _size_source(found: InspectedLog) -> str:
    if found.kind == "sacct":
        return "the most that were in use at one time; sacct does not export the machine's size"
    entry = found.log.size_entry
    return f"{entry} in the log's header" if entry else "the largest job; the log's header does not say"


def _about_site(config: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[Assumption]:
    given = dict(told.get("site") or {})
    site = SiteConfig.from_mapping(given)
    battery = site.battery
    yield Assumption(
        "power of the site",
        f"{site.total_kw:g} kW with every unit in use, of which {site.critical_kw:g} kW (cooling, network) "
        f"always run; {site.pool_kw / int(config['units']):g} kW a unit; an idle unit draws "
        f"{site.idle_fraction:.0%} of that",
        "--total-kw, --critical-kw, --set 'site={idle_fraction: ...}'",
        {"total_kw", "critical_kw"} <= set(given),
    )
    kept = (
        f"{battery.energy_kwh:g} kWh, up to {battery.charge_kw:g} kW in and {battery.discharge_kw:g} kW out, "
        f"{battery.efficiency:.0%} of it comes back; half full at first"
        if battery.energy_kwh
        else "none"
    )
    yield Assumption(
        "battery", kept, "--battery-kwh, --set 'site={battery: {charge_kw: ...}}'", "battery" in given
    )
    grid = {
        "critical": "serves what always runs, without limit; jobs run on sun, wind and battery only",
        "off": "is not used at all",
        "open": "serves anything, without limit",
        "capped": f"serves anything, up to {site.grid_cap_kw} kW",
        "qos_above": f"serves what always runs, and jobs of QoS values above {site.grid_qos_above}",
    }
    yield Assumption("the grid", grid[site.grid], "--grid", "grid" in given)


def about_generators(own: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Assumption]:
    """Return what was assumed of the installed sun and wind.

    :param own: keyword arguments of the environment, as given
    :param settings: the same with what was taken from the trace
    """
    given, taken = dict(own.get("site") or {}), dict(settings.get("site") or {})
    for name, what in (("pv_kw", "photovoltaics"), ("wind_kw", "wind power")):
        if name in taken and name not in given:
            said = f"{taken[name]:,.0f} kW are installed: the peak of the trace"
            yield Assumption(what, said, f"--set 'site={{{name}: ...}}'")


def about_power_clock(
    clock: float | None, log: JobLog, power: PowerTrace, in_utc: bool
) -> Iterator[Assumption]:
    """Return which hour of the power's day is taken for which of the log's.

    :param clock: hours that were added to the power file's clock, if they were given
    :param log: the jobs
    :param power: as the file has it
    :param in_utc: whether the file's times are in UTC where they have no offsets
    """
    begin = log_start(log)
    of_power = timedelta(0) if in_utc and power.start.tzinfo is None else power.start.utcoffset()
    of_log = None if begin is None else begin.utcoffset()
    if clock is not None:
        said = f"{clock:+g} h were added to it to get the job log's"
    else:
        said = "midnight by it is midnight by the job log; "
        if of_power is None or of_log is None:
            told = "none" if of_power is of_log else "one"
            said += f"of the two {told} tells its offset from UTC: say --power-clock if they differ"
        elif of_power == of_log:
            said += "both have the same offset from UTC"
        else:
            log_hours, hours = (offset / timedelta(hours=1) for offset in (of_log, of_power))
            said += (
                f"the log has an offset from UTC of {log_hours:g} h, the power has {hours:g} h: "
                f"say --power-clock {log_hours - hours:g} if both are of one place"
            )
    if begin is None:
        said += "; the log's second 0 is taken for midnight, for its header has no UnixStartTime"
    yield Assumption("clock of the power file", said, "--power-clock", clock is not None)


def _percent(now: float, before: float) -> float:
    return 100.0 * (now / before - 1.0) if before > 0 else 0.0


def _with_counts(urgency: Urgency) -> str:
    counted = say_counts(urgency.counts)
    return f"{urgency.said}; {counted}" if counted else urgency.said


def say_counts(counts: Mapping[str, int]) -> str:
    """Return what was counted, without what there is none of."""
    return ", ".join(f"{value:,} {key.replace('_', ' ')}" for key, value in counts.items() if value)
