"""A datacenter of one's own: job log, power and carbon to heuristics' table, trained policy and report."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from greendc.resource_pool.workloads import make_workload
from greendc.traces import power as traces
from greendc.traces.swf import read_swf
from greendc.traces.trace_files import UnclearTraceError
from sb3_greendc.core import yaml
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.files import atomic_write
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.figures import grouped_bars
from sb3_greendc.experiments.learners import pool_learners
from sb3_greendc.experiments.pages import markdown
from sb3_greendc.experiments.sweep import Point, Sweep
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.runs.models import MODEL_FILE, NORMALIZER_FILE, RUN_FILE

NAME = "my-site"
SHOWN = {
    "total_job_value_ratio": "value earned",
    "on_time_ratio": "on time",
    "completion_ratio": "finished",
    "utilization_powered": "use of powered units",
    "curtailed_kwh": "kWh curtailed",
    "brown_kwh": "kWh from the grid",
    "carbon_kg": "kg CO2",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of one's own site to a command."""
    parser.add_argument("--jobs", type=Path, required=True, metavar="LOG", help="job log (SWF, plain or .gz)")
    parser.add_argument("--power", type=Path, required=True, metavar="CSV", help="sun and wind, in W to GW")
    parser.add_argument(
        "--carbon", type=Path, required=True, metavar="CSV", help="carbon intensity of the grid"
    )
    for name, what in (
        ("solar", "column of solar power, if its name does not tell"),
        ("wind", "column of wind power, likewise"),
        ("power-time", "column of the power file's time stamps, likewise"),
        ("carbon-column", "column of the carbon intensity, likewise"),
        ("carbon-time", "column of the carbon file's time stamps, likewise"),
    ):
        parser.add_argument(f"--{name}", metavar="COLUMN", help=what)
    parser.add_argument("--power-unit", metavar="UNIT", help="W, kW, MW or GW, if the columns do not tell")
    parser.add_argument("--carbon-unit", metavar="UNIT", help="such as g/kWh, if the column does not tell")
    parser.add_argument(
        "--carbon-clock",
        type=float,
        default=0.0,
        metavar="HOURS",
        help="hours to add to the carbon file's clock to get the power file's (-6: from UTC to Texas)",
    )
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="keyword arguments of the environment (units=20 step_hours=1 'site={total_kw: 300}')",
    )
    parser.add_argument("--quick", action="store_true", help="train for seconds rather than minutes")
    parser.add_argument("--seeds", type=whole_number, help="training seeds")


@dataclass(frozen=True)
class Site:
    """Inputs in the form that the environment reads, under names that change with their content.

    :param scenario: the environment
    :param facts: what the report says of the inputs
    """

    scenario: Scenario
    facts: Mapping[str, str]


def prepare_site(options: argparse.Namespace, folder: Path) -> Site:
    """Read and check the inputs, and put them where tasks find them.

    Gaps in the power are joined and gaps in the carbon series interpolated, both counted. A carbon series of
    another year is laid onto the power's calendar, day by day and hour by hour, and the report says so.

    :param options: of :func:`add_options`
    :param folder: for the inputs
    :raises ValueError: for a file that is wrong, or settings that do not fit
    """
    log = read_swf(options.jobs)
    with _telling({"solar": "--solar", "wind": "--wind", "time": "--power-time", "unit": "--power-unit"}):
        power = traces.read_power(
            options.power,
            solar=options.solar,
            wind=options.wind,
            time=options.power_time,
            unit=options.power_unit,
            gaps="join",
        )
    with _telling({"column": "--carbon-column", "time": "--carbon-time", "unit": "--carbon-unit"}):
        carbon = traces.read_carbon(
            options.carbon,
            column=options.carbon_column,
            time=options.carbon_time,
            unit=options.carbon_unit,
            gaps="interpolate",
        )
    settings = {"offered_load": None, **yaml.parse_assignments(options.set, "--set")}
    laid, same_time = lay_on(carbon, power, options.carbon_clock)
    jobs = _keep(
        options.jobs.read_bytes(), folder, "jobs", ".swf.gz" if options.jobs.suffix == ".gz" else ".swf"
    )
    scenario = Scenario(
        "ResourcePool",
        {
            "workload": str(jobs),
            "power": "trace",
            "trace": str(_keep(traces.format_power(power), folder, "power", ".csv")),
            "carbon": str(_keep(_format_carbon(laid, power), folder, "carbon", ".csv")),
            **settings,
        },
    )
    config = {"units": 10, "horizon": 48, "resource_types": 2, "step_hours": 1.0, **settings}
    shape = {key: config[key] for key in ("units", "resource_types", "horizon", "step_hours", "offered_load")}
    workload = make_workload(log, **shape)
    busiest = workload.mean_duration * max(workload.mean_units)
    load = getattr(workload, "jobs_per_step", 0.0) * busiest / config["units"]
    facts = {
        "jobs": f"{options.jobs.name}: {_counts(workload.counts)}; offered load {load:.2f} of a full pool",
        "power": f"{options.power.name}: {len(power)} steps of {power.step_hours:g} h from {power.start}, "
        f"mean {power.solar_kw.mean():.0f} kW of sun and {power.wind_kw.mean():.0f} kW of wind; "
        + _counts(power.counts),
        "carbon": f"{options.carbon.name}: mean {laid.mean():.3f} kg/kWh, "
        + ("at the times of the power" if same_time else "of another time, laid onto the power's calendar")
        + f"; {_counts(carbon.counts)}",
    }
    return Site(scenario, facts)


@contextmanager
def _telling(options: Mapping[str, str]) -> Iterator[None]:
    """Have errors name the command's options instead of the readers' keyword arguments."""
    try:
        yield
    except UnclearTraceError as error:
        raise ValueError(error.with_options(options[name] for name in error.options)) from None


def lay_on(
    carbon: traces.CarbonTrace, power: traces.PowerTrace, clock: float = 0.0
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], bool]:
    """Return the carbon intensity of each step of a power trace, and whether it is of the same time.

    Where the series does not cover the trace, a step gets the value of the same month, day and hour; where
    the series has none (29 February), that of the hour before.

    :param carbon: the series
    :param power: the trace
    :param clock: hours to add to the series' clock
    """
    if carbon.step_hours != power.step_hours:
        carbon = carbon.resample(power.step_hours)
    step = pd.Timedelta(hours=power.step_hours)
    start = carbon.start.replace(tzinfo=None) + timedelta(hours=clock)
    times = pd.date_range(_whole_hour(start), periods=len(carbon), freq=step)
    wanted = pd.date_range(_whole_hour(power.start.replace(tzinfo=None)), periods=len(power), freq=step)
    series = pd.Series(carbon.kg_per_kwh, index=times)
    if wanted[0] >= times[0] and wanted[-1] <= times[-1]:
        return np.asarray(series.reindex(wanted, method="nearest"), np.float64), True
    by_calendar = series.groupby(times.strftime("%m-%d %H:%M")).mean()
    laid = by_calendar.reindex(wanted.strftime("%m-%d %H:%M")).ffill().bfill()
    return np.asarray(laid, np.float64), False


def _whole_hour(time: datetime) -> datetime:
    """Return the beginning of the hour: means over an hour are stamped at its middle by some."""
    return time.replace(minute=0, second=0, microsecond=0)


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


def site_experiment(site: Site) -> Experiment:
    """Return the experiment on a site: every heuristic in every form, and learners."""
    sweep = Sweep(lambda budget: [Point("my site", 0.0, site.scenario)], pool_learners, "")

    def analyze(results: Results, budget: Budget) -> Analysis:
        analysis = sweep.analyze(results, budget)
        table = analysis.tables["results"]
        shown = table[table["metric"] == "total_job_value_ratio"]
        policies = list(shown["policy"].unique())
        figure = grouped_bars(
            shown.assign(x=""), "total_job_value_ratio", policies, "", "share of the arrived value"
        )
        tables = {**analysis.tables, "policies": policies_table(results.table())}
        return dataclasses.replace(analysis, tables=tables, figures={"figure": figure})

    return Experiment(
        NAME, "heuristics and trained policies on your own jobs and power", sweep.items, analyze
    )


def policies_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means of every policy in every form, the best first."""
    metrics = [metric for metric in SHOWN if metric in rows]
    means = rows.groupby("policy")[metrics].mean().sort_values(metrics[0], ascending=False)
    return means.reset_index()


def write_report(site: Site, analysis: Analysis, folder: Path, model: Path, command: str) -> Path:
    """Write ``report.md`` beside the tables, with the best trained policy as ``model/``; return its path.

    :param site: the site
    :param analysis: of :func:`site_experiment`
    :param folder: of the analysis
    :param model: folder of the best trained model
    :param command: what made it
    """
    policies = analysis.tables["policies"].head(12).rename(columns=SHOWN)
    rounded = policies.apply(lambda c: c.map("{:.4g}".format) if c.dtype.kind == "f" else c)
    comparison = analysis.tables["comparison"]
    best = comparison[comparison["against"].str.startswith("best")].drop_duplicates(["learner", "form"])
    margins = [
        f"- {row.learner} against {row.against} (`{row.form}`): {row.margin_percent:+.1f} % "
        f"[{row.low:+.1f}, {row.high:+.1f}] in total job value"
        for row in best.itertuples()
    ]
    lines = [
        "# Schedulers for my site",
        f"Made by `{command}`.",
        "## Inputs",
        "\n".join(f"- **{name}**: {fact}" for name, fact in site.facts.items()),
        "## Policies",
        "Means over the test episodes; the best twelve, all forms of heuristics in `policies.csv`.",
        markdown(rounded),
        "![value earned by policy](figure.png)",
        "## Trained policies",
        "\n".join([*margins, *(f"- {note}" for note in analysis.notes)]),
        _keep_model(model, folder),
    ]
    path = folder / "report.md"
    with atomic_write(path) as file:
        file.write(("\n\n".join(lines) + "\n").encode())
    return path


def _keep_model(model: Path, folder: Path) -> str:
    """Copy a model beside the report, and say how to use it."""
    target = folder / "model"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in (MODEL_FILE, RUN_FILE, NORMALIZER_FILE):
        if (model / name).is_file():
            shutil.copyfile(model / name, target / name)
    return (
        "The best trained policy, by the same episodes, is in `model/` "
        "(`sb3_greendc.runs.models.load_model`, or `--policies model` of `scripts/evaluate.py` with the "
        "environment settings of `model/run.json`)."
    )
