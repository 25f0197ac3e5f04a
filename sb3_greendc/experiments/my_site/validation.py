"""Does the cluster simulator give the waits that a log records? Table, figure, and what it cannot know."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import spearmanr

from greendc.cluster import ClusterConfig, ClusterJobs, ClusterSimulator
from greendc.traces.job_logs import InspectedLog
from greendc.traces.swf import JobLog
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.provenance import provenance
from sb3_greendc.evaluation.plots import PALETTE, TEXT_WIDTH, save_figure, styled
from sb3_greendc.evaluation.report import Section
from sb3_greendc.evaluation.report import write_report as write_page
from sb3_greendc.experiments.controls import play_randomly
from sb3_greendc.experiments.my_site.assumptions import say_counts, size_of_machine
from sb3_greendc.experiments.text import markdown

MOST_JOBS = 30_000
"""Jobs of a log that are played; of a longer log the first ones."""
WARM_UP = 0.05
"""Share of the jobs, at the beginning, that is left out of the comparison: the simulator starts empty."""
SITE_RULE = ("fcfs", "easy")
"""Order and backfilling that a site is taken to have, if it does not say."""
RULES = (
    SITE_RULE,
    ("fcfs", "conservative"),
    ("fcfs", "none"),
    ("sjf", "easy"),
    ("saf", "easy"),
    ("smallest", "easy"),
    ("wfp3", "easy"),
    ("unicep", "easy"),
)
"""Orders and backfillings that are tried beside the site's own."""
CHANCE = ("random order", "easy")
"""Any waiting job is next: a rule that is no nearer to the log than this tells nothing of its order."""

EDGES = (1, 2, 5, 17, 65, 257, 1025)
_MINUTE = 60.0
_STATISTICS = ("mean", "median", "p95")

UNKNOWN = (
    "priorities, fair share, quotas and reservations: the simulator has one queue and one order",
    "partitions, memory, licences and whole nodes: a job fits wherever enough processors are free",
    "failures, maintenance and processors that were added later: the machine has one size throughout",
    "jobs that are not in the log, such as those cancelled while they waited, which still held up others",
    "holds and dependencies: a job waits from its submission (of an sacct export with Eligible: from then)",
    "interactive use, and what operators did by hand",
)
"""What no replay of a log can know, for the report."""


@dataclass(frozen=True)
class Validation:
    """Recorded and simulated waits of the same jobs.

    :param by_width: a row for each width of jobs and one for all: number, and mean, median and 95th
        percentile of the recorded and of the simulated wait, in hours
    :param by_rule: a row for each rule: the same of all jobs, ``factor`` (how far apart the two distributions
        are, on average, on a scale of factors: 1 is equal) and ``rank_correlation`` job by job
    :param figure: bars by width, and both distributions
    :param notes: what came out, in sentences
    :param rule: the site's, as it is called in the table
    """

    by_width: pd.DataFrame
    by_rule: pd.DataFrame
    figure: Figure
    notes: Sequence[str]
    rule: str


def validate(
    found: InspectedLog,
    most: int = MOST_JOBS,
    told_size: bool = False,
    site_rule: tuple[str, str] = SITE_RULE,
) -> Validation:
    """Play the jobs of a log with their recorded run times, and compare waits.

    :param found: the log
    :param most: jobs that are played
    :param told_size: whether the user said how large the machine is
    :param site_rule: the site's order (:data:`greendc.cluster.rules.RULES`) and backfilling (``"none"``,
        ``"easy"``, ``"conservative"``)
    :raises ValueError: if fewer than a hundred jobs of the log have a recorded wait, or for an unknown rule
    """
    log = found.log
    jobs, recorded, notes = _jobs_with_waits(log, most)
    first = int(WARM_UP * len(jobs))
    kept = slice(first, None)
    recorded, width = recorded[kept], jobs.processors[kept]
    rules = dict.fromkeys((site_rule, *RULES, CHANCE))
    waits = {rule: simulated_waits(jobs, *rule)[kept] for rule in rules}
    by_rule = pd.DataFrame(
        [
            {
                "rule": _called(rule),
                **{f"simulated_{key}": value for key, value in _statistics(wait).items()},
                "factor": factor_apart(recorded, wait),
                "rank_correlation": _correlation(recorded, wait),
            }
            for rule, wait in waits.items()
        ]
    )
    by_rule = by_rule.sort_values("factor", ignore_index=True, kind="stable")
    ours = waits[site_rule]
    by_width = _by_width(width, recorded, ours)
    size = size_of_machine(found, told_size)
    size_said = f"{size.about}: {size.said} ({size.option})."
    notes = [*_verdict(recorded, ours, by_rule, _called(site_rule)), size_said, *notes]
    left_out = {} if found.kind == "SWF" else {**found.log.counts, "steps": 0}  # steps are parts of jobs
    if said := say_counts({**left_out, **found.inspection.counts}):
        notes.append(f"of the file, not among these jobs or changed: {said}.")
    return Validation(by_width, by_rule, _figure(by_width, recorded, ours), notes, _called(site_rule))


def _jobs_with_waits(log: JobLog, most: int) -> tuple[ClusterJobs, NDArray[np.float64], list[str]]:
    """Return the jobs that are played, their recorded waits in seconds, and notes on what was done."""
    size, run, submit = log.processors, log.column("run_time"), log.column("submit_time")
    fits = {
        "without a run time above 0": run > 0,
        f"not on 1 to {log.machine_processors:,} processors": (size > 0) & (size <= log.machine_processors),
        "without a time of submission": submit >= 0,
        "that are parts of others (status 2 to 4)": ~np.isin(log.column("status"), (2, 3, 4)),
    }
    runs = np.logical_and.reduce(list(fits.values()))
    known = runs & (log.column("wait_time") >= 0)
    rows = np.flatnonzero(known)[:most]
    if len(rows) < 100:
        left_out = say_counts({what: int(np.count_nonzero(~kept)) for what, kept in fits.items()})
        raise ValueError(
            f"{log.source}: {len(rows)} of {len(log):,} jobs can be played and have a recorded wait; "
            "--validate needs 100" + (f" (left out: {left_out})" if left_out else "")
        )
    played = dataclasses.replace(log, table=log.table[rows])
    jobs = ClusterJobs.from_log(played, processors=log.machine_processors)  # the widest may not be played
    beyond = int(np.count_nonzero(jobs.run > jobs.request))
    jobs = dataclasses.replace(jobs, request=np.maximum(jobs.request, jobs.run))
    notes = [
        f"{len(rows):,} of {len(log):,} jobs were played on {jobs.machine:,} processors; the first "
        f"{int(WARM_UP * len(rows)):,} are left out of all figures, since the simulator starts empty."
    ]
    for count, what in (
        (
            int(np.count_nonzero(~runs)),
            "jobs did not run, are parts of others or larger than the machine, and were left out",
        ),
        (int(np.count_nonzero(runs & ~known)), "jobs have no recorded wait and were left out"),
        (beyond, "jobs ran longer than they asked for; they are taken to have asked for what they ran"),
        (jobs.counts["no_request"], "jobs have no time limit; the simulator knows their run time instead"),
    ):
        if count:
            notes.append(f"{count:,} {what}.")
    return jobs, log.column("wait_time")[rows], notes


def simulated_waits(jobs: ClusterJobs, rule: str, backfill: str) -> NDArray[np.float64]:
    """Return how long each job waits, in seconds, if a rule of the cluster simulator had decided.

    :param jobs: in order of submission
    :param rule: the order of the queue (:data:`greendc.cluster.rules.RULES`), or ``"random order"``
    :param backfill: ``"none"``, ``"easy"`` or ``"conservative"``
    """
    config = ClusterConfig(
        workload=jobs, backfill=backfill, episode_jobs=len(jobs), visible_jobs=1, limit_days=36_500
    )
    simulator = ClusterSimulator(config)
    simulator.reset_env(0, np.random.default_rng(0), {"start": 0})
    if rule == CHANCE[0]:
        play_randomly(simulator, np.random.default_rng(0))
    else:
        simulator.play(0, rule)
    waits: NDArray[np.float64] = simulator.state.jobs[0]["delay"].astype(np.float64)
    return waits


def factor_apart(recorded: NDArray[np.float64], simulated: NDArray[np.float64]) -> float:
    """Return by what factor the sorted waits differ on average; a minute is added to each, for the zeros."""
    logs = [np.log(np.sort(waits) + _MINUTE) for waits in (recorded, simulated)]
    return float(np.exp(np.abs(logs[0] - logs[1]).mean()))


def _correlation(recorded: NDArray[np.float64], simulated: NDArray[np.float64]) -> float:
    if np.ptp(recorded) == 0 or np.ptp(simulated) == 0:
        return float("nan")
    return float(spearmanr(recorded, simulated).statistic)


def _statistics(waits: NDArray[np.float64]) -> dict[str, float]:
    hours = waits / 3600.0
    return dict(zip(_STATISTICS, (hours.mean(), *np.quantile(hours, [0.5, 0.95])), strict=True))


def _by_width(
    width: NDArray[np.int64], recorded: NDArray[np.float64], simulated: NDArray[np.float64]
) -> pd.DataFrame:
    rows = []
    classes = [
        (low, high, (width >= low) & (width < high))
        for low, high in zip(EDGES, (*EDGES[1:], np.inf), strict=True)
    ]
    named = [(_range(low, high), chosen) for low, high, chosen in classes if chosen.any()]
    for name, chosen in [*named, ("all", np.ones(len(width), np.bool_))]:
        row = {"processors": name, "jobs": int(chosen.sum())}
        for kind, waits in (("recorded", recorded), ("simulated", simulated)):
            row |= {f"{kind}_{key}": value for key, value in _statistics(waits[chosen]).items()}
        rows.append(row)
    return pd.DataFrame(rows)


def _range(low: float, high: float) -> str:
    if high == low + 1:
        return f"{low:g}"
    return f"{low:g} or more" if np.isinf(high) else f"{low:g} to {high - 1:g}"


def _called(rule: tuple[str, str]) -> str:
    order, backfill = rule
    name = order.upper() if order in ("fcfs", "sjf", "saf", "wfp3") else order
    return {"none": name, "easy": f"{name} + EASY"}.get(backfill, f"{name} + {backfill}")


def _verdict(
    recorded: NDArray[np.float64], simulated: NDArray[np.float64], by_rule: pd.DataFrame, rule: str
) -> list[str]:
    theirs, ours = _statistics(recorded), _statistics(simulated)
    said = "; ".join(f"{key} {ours[key]:.2f} h where the log has {theirs[key]:.2f} h" for key in _STATISTICS)
    of_site = by_rule[by_rule["rule"] == rule].iloc[0]
    chance = float(by_rule.loc[by_rule["rule"] == _called(CHANCE), "factor"].iloc[0])
    nearest = by_rule[by_rule["rule"] != _called(CHANCE)].iloc[0]
    apart = f"the two distributions are a factor of {of_site['factor']:.2f} apart"
    notes = [f"{rule} gives waits of {said}: {apart}."]
    if nearest["rule"] != of_site["rule"]:
        notes.append(
            f"Of the rules tried, {nearest['rule']} comes nearest to the log: a factor of "
            f"{nearest['factor']:.2f}. The order at this site may be like that one, or the difference has "
            "another cause (below)."
        )
    else:
        notes.append("None of the other rules tried comes nearer to the log.")
    known = (
        "so that nothing is known of the site's order" if chance <= nearest["factor"] else "for comparison"
    )
    notes.append(f"A random order is a factor of {chance:.2f} apart, {known}.")
    return notes


@styled
def _figure(by_width: pd.DataFrame, recorded: NDArray[np.float64], simulated: NDArray[np.float64]) -> Figure:
    figure = Figure(figsize=(TEXT_WIDTH, 2.7), dpi=150, layout="constrained")
    panels = figure.subplots(1, 3, width_ratios=[1, 1, 1.15])
    kinds = (("recorded", recorded, "#8a949b"), ("simulated", simulated, PALETTE[0]))
    places = np.arange(len(by_width))
    for axes, statistic, title in zip(panels[:2], ("mean", "p95"), ("mean", "95th percentile"), strict=True):
        for offset, (kind, _, color) in zip((-0.2, 0.2), kinds, strict=True):
            axes.bar(places + offset, by_width[f"{kind}_{statistic}"], 0.38, color=color, label=kind)
        axes.set_xticks(places, by_width["processors"], rotation=35, ha="right")
        axes.set_xlabel("processors of the job")
        axes.set_ylabel("wait (h)")
        axes.set_title(title)
        axes.grid(axis="y")
        axes.set_axisbelow(True)
    for kind, waits, color in kinds:
        ordered = np.sort(waits / 3600.0)
        panels[2].plot(ordered, np.arange(1, len(ordered) + 1) / len(ordered), color=color, label=kind)
    panels[2].set_xscale("symlog", linthresh=1 / 60)
    panels[2].set_xticks([0, 1 / 60, 1, 24, 24 * 7], ["0", "1 min", "1 h", "1 d", "1 w"])
    panels[2].set_xlim(0, max(1.0, float(max(recorded.max(), simulated.max())) / 3600.0))
    panels[2].set_ylim(0, 1)
    panels[2].set_xlabel("wait")
    panels[2].set_ylabel("share of jobs that waited no longer")
    panels[2].set_title("all jobs")
    panels[2].grid()
    panels[0].legend()
    return figure


_TITLE = "Does the simulator give the waits of the log?"
_TABLE = "Waits in hours, with {rule}, by the width of jobs."
_BESIDE = (
    "Other rules on the same jobs. The factor says how far the distribution of waits is from that of the "
    "log, 1 being equal; the rank correlation compares job by job. A rule that is no nearer than "
    "a random order tells nothing of the site's."
)
_CAPTION = "Recorded and simulated waits, by the width of jobs and of all jobs."


def write_validation(found: InspectedLog, validation: Validation, folder: Path, command: str) -> Path:
    """Write ``validation.md``, the same as ``.html``, its tables and its figure; return the Markdown's path.

    :param found: the log
    :param validation: of :func:`validate`
    :param folder: created if missing
    :param command: what made it
    """
    folder.mkdir(parents=True, exist_ok=True)
    frames = {"waits_by_width": validation.by_width, "waits_by_rule": validation.by_rule}
    for name, frame in frames.items():
        with atomic_write(folder / f"{name}.csv") as file:
            frame.to_csv(file, index=False, float_format="%.6g")
    save_figure(validation.figure, folder / "validation.png")
    width, rule = (rounded(frame) for frame in frames.values())
    table = _TABLE.format(rule=validation.rule)
    defects = [line.replace("; --repair: ", ": ") for line in found.inspection.lines()]
    parts = [
        f"# {_TITLE}",
        f"The log is {Path(found.log.source).name}.",
        "\n".join(f"- {note}" for note in validation.notes),
        table,
        markdown(width),
        f"![{_CAPTION}](validation.png)",
        _BESIDE,
        markdown(rule),
        "## What the simulator cannot know",
        "\n".join(f"- {one}" for one in UNKNOWN),
        *(["## Mended by --repair", "\n".join(f"- {one}" for one in defects)] if defects else []),
        f"## Made by\n\n```bash\n{command}\n```",
    ]
    path = folder / "validation.md"
    with atomic_write(path) as file:
        file.write(("\n\n".join(parts) + "\n").encode())
    sections = [
        Section("What came out", f"The log is {Path(found.log.source).name}.", points=validation.notes),
        Section("Waits by width", table, frames=[width], figures=[(validation.figure, _CAPTION)]),
        Section("Other rules", _BESIDE, frames=[rule]),
        Section("What the simulator cannot know", points=UNKNOWN),
    ]
    if defects:
        sections.append(Section("Mended by --repair", points=defects))
    write_page(folder / "validation.html", _TITLE, sections, [], {**provenance(), "command": command})
    return path


def rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table as people read it: words for columns, two decimals."""
    shown: pd.DataFrame = frame.apply(lambda c: c.map("{:.2f}".format) if c.dtype.kind == "f" else c)
    shown.columns = pd.Index([str(name).replace("_", " ") for name in shown.columns])
    return shown
