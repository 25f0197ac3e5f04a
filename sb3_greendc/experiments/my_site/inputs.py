"""The files of a site, read, mended where that is wanted, and put where tasks find them."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from greendc.energy.site import SiteConfig
from greendc.resource_pool.hpc_workloads import log_workload
from greendc.resource_pool.jobs import arrival_rate
from greendc.traces import power as traces
from greendc.traces.defects import DefectsError, Inspection
from greendc.traces.job_logs import InspectedLog, inspect_log
from greendc.traces.mending import inspect_series
from greendc.traces.swf import format_swf, parse_swf
from greendc.traces.trace_files import TraceError, UnclearTraceError, read_file
from sb3_greendc.core import yaml
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.experiments.my_site.assumptions import (
    DEFAULTS,
    Assumption,
    about_generators,
    about_power_clock,
    assumptions,
)
from sb3_greendc.experiments.my_site.carbon import about_carbon, lay_on, says_utc
from sb3_greendc.experiments.my_site.urgency import Urgency, read_urgency
from sb3_greendc.experiments.tasks import Scenario

Trace = TypeVar("Trace")


@dataclass(frozen=True)
class Site:
    """Inputs in the form that the environment reads, under names that change with their content.

    :param scenario: the environment
    :param facts: what the report says of the inputs
    :param assumptions: what it begins with: what the results rest on and the files do not say
    :param mended: what ``--repair`` did, a line for each defect; empty if there was none
    """

    scenario: Scenario
    facts: Mapping[str, str]
    assumptions: Sequence[Assumption] = ()
    mended: Sequence[str] = ()


def prepare_site(options: argparse.Namespace, folder: Path) -> Site:
    """Read and check the inputs, and put them where tasks find them.

    All defects of all files are found before any is reported. Missing days of the power are closed up, its
    shorter gaps and those of the carbon series interpolated, at most a day in a row and a tenth of the
    file, all counted. Where a carbon series is of another year it is laid onto the power's calendar, day by
    day and hour by hour, and the report says so.

    :param options: of :func:`~sb3_greendc.experiments.my_site.options.add_options`
    :param folder: for the inputs
    :raises DefectsError: for defects of the files that are not, or cannot be, mended; names all of them
    :raises ValueError: for settings that do not fit
    """
    for name in ("power", "carbon"):
        if getattr(options, name) is None:
            raise ValueError(f"--{name}: missing; only --validate does without")
    for name in ("order", "backfill"):
        if (given := getattr(options, name)) is not None:
            raise ValueError(f"--{name} {given}: only --validate plays the site's own rule")
    own = _settings(options)
    found, power, carbon, utc, inspections = _read_all(options, folder)
    settings = _with_generators(own, power)
    urgency = read_urgency(options, found)
    laid = lay_on(carbon, power, options.carbon_clock, utc)
    moved = _on_clock_of_log(power, options.power_clock, settings)
    jobs = _keep_jobs(options, found, urgency, folder)
    scenario = Scenario(
        "ResourcePool",
        {
            "workload": str(jobs),
            "power": "trace",
            "trace": str(_keep(traces.format_power(moved), folder, "power", ".csv")),
            "carbon": str(_keep(_format_carbon(laid.kg_per_kwh, moved), folder, "carbon", ".csv")),
            "offered_load": None,
            **settings,
        },
    )
    config = {**DEFAULTS, **settings}
    workload = log_workload(found.log, **{key: config[key] for key in DEFAULTS})
    work = float((workload.duration * workload.cpu).mean())  # no other type gets more than CPU
    load = workload.jobs_per_step / arrival_rate(1.0, config["units"], work)
    counts = {**found.log.counts, **found.inspection.counts, **workload.counts}
    counts = {key: value for key, value in counts.items() if key not in ("unsorted", "partial", "steps")}
    rows = assumptions(options, settings, found, urgency, counts, load)
    rows = [*rows, *about_carbon(options, carbon, laid), *about_generators(own, settings)]
    if config["offered_load"] is None:
        rows += about_power_clock(options.power_clock, found.log, power, "power" in utc)
    mended = [line for one in inspections for line in one.lines()]
    by_file = {one.name: one.counts for one in inspections}
    facts = {
        "jobs": f"{options.jobs.name} ({found.kind}): {_counts(workload.counts)}; "
        f"offered load {load:.2f} of a full pool",
        "power": f"{options.power.name}: {len(power)} steps of {power.step_hours:g} h from {power.start}, "
        f"mean {power.solar_kw.mean():.0f} kW of sun and {power.wind_kw.mean():.0f} kW of wind; "
        + _counts({**power.counts, **by_file.get(str(options.power), {})}),
        "carbon": f"{options.carbon.name}: mean {laid.kg_per_kwh.mean():.3f} kg/kWh, {laid.said}; "
        + _counts({**carbon.counts, **by_file.get(str(options.carbon), {})}),
    }
    return Site(scenario, facts, sorted(rows, key=lambda row: row.told), mended)


def check_environment(scenario: Scenario) -> None:
    """Make the environment once, so that what does not fit is said before anything is run.

    :raises ValueError: naming the option where a file does not fit
    """
    try:
        make_vec_env(scenario.env_id, 1, **scenario.env_kwargs).close()
    except ValueError as error:
        name, _, rest = str(error).partition("=")
        if name in _OF_FILES:
            raise ValueError(f"{_OF_FILES[name]} {rest}") from error
        raise


def read_jobs(options: argparse.Namespace) -> InspectedLog:
    """Read the job log alone, mended if that is wanted.

    :raises DefectsError: for defects that are not, or cannot be, mended
    """
    found = inspect_log(options.jobs)
    _refuse_defects(options, [found.inspection], [])
    return _sized(options, found)


_OF_FILES = {"workload": "--jobs", "power": "--power", "trace": "--power", "carbon": "--carbon"}
"""Keyword arguments of the environment that a file gives, and the file's option."""


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of the environment that were given, by options or by ``--set``.

    :raises ValueError: for one that is given twice, or that a file gives
    """
    given: dict[str, Any] = yaml.parse_assignments(options.set, "--set")
    for name, option in _OF_FILES.items():
        if name in given:
            raise ValueError(f"--set {name}={given[name]}: {option} gives it")
    own = {name: getattr(options, name) for name in ("units", "resource_types", "too_large")}
    battery = None if options.battery_kwh is None else {"energy_kwh": options.battery_kwh}
    site = {
        "total_kw": options.total_kw,
        "critical_kw": options.critical_kw,
        "battery": battery,
        "grid": options.grid,
    }
    for name, value in own.items():
        if value is not None and name in given:
            raise ValueError(f"--{name.replace('_', '-')} {value}: {name} is in --set, too")
    own_site = {name: value for name, value in site.items() if value is not None}
    set_site = _mapping("--set site", given.get("site"))
    if set_site.get("battery") is not None:
        set_site["battery"] = _mapping("--set site={battery: ...}", set_site["battery"])
    for name in own_site:
        if name in set_site and not (name == "battery" and "energy_kwh" not in (set_site[name] or {})):
            raise ValueError(f"--set site={{{name}: ...}}: there is an option for it, too, that was given")
    if own_site.get("battery") and "battery" in set_site:
        own_site["battery"] = {**(set_site.pop("battery") or {}), **own_site["battery"]}
    settings = {**given, **{name: value for name, value in own.items() if value is not None}}
    return {**settings, "site": {**set_site, **own_site}} if own_site or set_site else settings


def _mapping(where: str, value: object) -> dict[str, Any]:
    """Return a mapping that was given by ``--set``, an empty one for none."""
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{where}: {value!r}: must be names and values, {{NAME: VALUE, ...}}")
    return dict(value or {})


def _with_generators(settings: Mapping[str, Any], power: traces.PowerTrace) -> dict[str, Any]:
    """Return settings with as much sun and wind installed as the trace has, if that is more than the default.

    What the user set is left as it is: a trace that exceeds it may have another unit.
    """
    site = dict(settings.get("site") or {})
    for name, series in (("pv_kw", power.solar_kw), ("wind_kw", power.wind_kw)):
        peak = float(np.ceil(series.max()))
        if name not in site and peak > getattr(SiteConfig(), name):
            site[name] = peak
    return {**settings, "site": site} if site else dict(settings)


def _read_all(
    options: argparse.Namespace, folder: Path
) -> tuple[InspectedLog, traces.PowerTrace, traces.CarbonTrace, list[str], list[Inspection]]:
    """Read all files, and which series are in UTC by their columns; all that is wrong is in one error."""
    inspections: list[Inspection] = []
    others: list[str] = []
    found: InspectedLog | None = None
    try:
        found = inspect_log(options.jobs)
        inspections.append(found.inspection)
    except DefectsError as error:
        inspections += error.inspections
        others += error.others
    except TraceError as error:
        others.append(str(error))
    wanted = traces.says_power, {options.solar, options.wind} - {""}
    power_path, of_power = _mended(options.power, wanted, options.power_time, False, folder)
    wanted = traces.says_carbon, {options.carbon_column}
    carbon_path, of_carbon = _mended(options.carbon, wanted, options.carbon_time, True, folder)
    inspections += [*of_power, *of_carbon]
    power = _try(
        traces.read_power,
        power_path,
        {"solar": "--solar", "wind": "--wind", "time": "--power-time", "unit": "--power-unit"},
        options,
        [] if any(one.hopeless for one in of_power) else others,  # what cannot be mended is said once
        gaps="mend",
    )
    carbon = _try(
        traces.read_carbon,
        carbon_path,
        {"column": "--carbon-column", "time": "--carbon-time", "unit": "--carbon-unit"},
        options,
        [] if any(one.hopeless for one in of_carbon) else others,
        gaps="bridge",
    )
    _refuse_defects(options, inspections, others)
    if found is None or power is None or carbon is None:  # each left a line in ``others``
        raise DefectsError(inspections, others)
    times = {"power": (power_path, options.power_time), "carbon": (carbon_path, options.carbon_time)}
    utc = [name for name, (path, time) in times.items() if says_utc(path, time)]
    return _sized(options, found), power, carbon, utc, [one for one in inspections if one.defects]


def _mended(
    path: Path,
    wanted: tuple[Callable[[str], bool], set[str | None]],
    time: str | None,
    empty_allowed: bool,
    folder: Path,
) -> tuple[Path, list[Inspection]]:
    """Return the path of a series to read, the mended one if there is a defect, and what was wrong."""
    if path.name.endswith((".parquet", ".pq", ".json", ".json.gz")):
        return path, []
    says, named = wanted
    try:
        data = read_file(path)
    except TraceError:
        return path, []  # its reader says so
    inspection = inspect_series(
        data, str(path), lambda name: name in named or says(name), time, empty_allowed=empty_allowed
    )
    if not inspection.defects:
        return path, []
    return _keep(inspection.mended, folder, f"mended-{path.name.split('.')[0]}", ".csv"), [inspection]


def _try(
    read: Callable[..., Trace],
    path: Path,
    names: Mapping[str, str],
    options: argparse.Namespace,
    others: list[str],
    **more: str,
) -> Trace | None:
    """Return what a reader reads; ``None`` if it finds something wrong, which is noted.

    :param read: the reader
    :param path: of the file
    :param names: the command's option for each of the reader's keyword arguments
    :param options: of the command
    :param others: where errors are noted
    :param more: further keyword arguments of the reader
    """
    given = {key: vars(options)[name[2:].replace("-", "_")] for key, name in names.items()}
    try:
        return read(path, **given, **more)
    except UnclearTraceError as error:
        others.append(error.with_options(names[name] for name in error.options))
    except TraceError as error:
        others.append(str(error))
    return None


def _refuse_defects(
    options: argparse.Namespace, inspections: Sequence[Inspection], others: Sequence[str]
) -> None:
    hopeless = others or any(one.hopeless for one in inspections)
    if hopeless or (not options.repair and any(one.defects for one in inspections)):
        raise DefectsError(inspections, others)


def _sized(options: argparse.Namespace, found: InspectedLog) -> InspectedLog:
    """Return the log with the size of the machine that was given, if one was."""
    if options.processors is None:
        return found
    header = {**found.log.header, "MaxProcs": str(options.processors)}
    return dataclasses.replace(found, log=dataclasses.replace(found.log, header=header))


def _on_clock_of_log(
    power: traces.PowerTrace, hours: float | None, settings: Mapping[str, Any]
) -> traces.PowerTrace:
    """Return the power with its start on the log's clock.

    :param power: as the file has it
    :param hours: to add to its clock, if they were given
    :param settings: keyword arguments of the environment
    :raises ValueError: for hours beside a load that the log is stretched to: its days are then no days
    """
    if hours is None:
        return power
    if settings.get("offered_load") is not None:
        raise ValueError(f"--power-clock {hours:g}: has no effect with --set offered_load=...")
    return dataclasses.replace(power, start=power.start.replace(tzinfo=None) + timedelta(hours=hours))


def _keep_jobs(options: argparse.Namespace, found: InspectedLog, urgency: Urgency, folder: Path) -> Path:
    """Put the jobs where tasks find them: the log as it is, if nothing was changed or added."""
    untouched = found.kind == "SWF" and not found.inspection.defects
    if untouched and urgency.qos is None and options.processors is None:
        suffix = ".swf.gz" if options.jobs.suffix == ".gz" else ".swf"
        return _keep(options.jobs.read_bytes(), folder, "jobs", suffix)
    content = format_swf(found.log, urgency.qos)
    parse_swf(content, str(options.jobs))  # what is written must be readable before anything is run on it
    return _keep(content, folder, "jobs", ".swf")


def _format_carbon(laid: np.ndarray[Any, np.dtype[np.float64]], power: traces.PowerTrace) -> bytes:
    times = pd.date_range(power.start, periods=len(power), freq=pd.Timedelta(hours=power.step_hours))
    text: str = pd.DataFrame({"time": times, "carbon_kg_per_kwh": laid}).to_csv(index=False)
    return text.encode()


def _keep(content: bytes, folder: Path, name: str, suffix: str) -> Path:
    """Put an input where tasks find it, under a name that changes with its content."""
    path = folder / f"{name}-{hashlib.sha256(content).hexdigest()[:10]}{suffix}"
    if not path.is_file():
        with atomic_write(path) as file:
            file.write(content)
    return path.resolve()


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{value} {key.replace('_', ' ')}" for key, value in counts.items() if value) or "whole"
