"""The report on a site, as Markdown and as one HTML page: what was assumed comes first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.files import atomic_write
from sb3_greendc.core.provenance import provenance
from sb3_greendc.evaluation.report import Section
from sb3_greendc.evaluation.report import write_report as write_page
from sb3_greendc.evaluation.tables import number
from sb3_greendc.experiments.comparison import BEST_OF_ALL
from sb3_greendc.experiments.episodes import TEST_SEED
from sb3_greendc.experiments.experiment import Analysis
from sb3_greendc.experiments.my_site.assumptions import Assumption
from sb3_greendc.experiments.my_site.inputs import Site
from sb3_greendc.experiments.my_site.judging import SHOWN
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.experiments.text import markdown
from sb3_greendc.runs.portable import Environment, write_portable

MODEL = "model"
_TITLE = "Schedulers for my site"
_BEFORE = (
    "The results rest on your files and on the following. Each line names the option that sets it; what you "
    "set stands last."
)
_FIGURE = "value earned, carbon and energy of the grid by policy, with 95 % intervals"
_TRADE_OFF = "every policy at its value and its carbon; the line joins those that no other beats in both"
_POLICIES = (
    "Means over the test episodes; the best twelve. All forms of all heuristics are in policies.csv. Value "
    "is the share of the value of all jobs that arrived; energy and carbon are of an episode, what always "
    "runs included."
)


def assumptions_table(assumptions: Sequence[Assumption]) -> pd.DataFrame:
    """Return a row for each assumption: what it is about, what was taken, and the option that sets it."""
    return pd.DataFrame(
        [
            {
                "about": one.about,
                "taken": one.said,
                "set by": one.option + (" (you did)" if one.told else ""),
            }
            for one in assumptions
        ]
    )


def portable_environment(site: Scenario, acting: Mapping[str, Any], steps: int) -> Environment:
    """Return the environment of a trained model, in the parts that :mod:`sb3_greendc.runs.portable` wants.

    :param site: the site's scenario
    :param acting: keyword arguments under which the model acts
    :param steps: of a test episode
    """
    own = {**site.env_kwargs, "episode_steps": steps}
    choice = {key: value for key, value in acting.items() if key not in own or own[key] != value}
    choice.pop("episode_steps", None)
    return Environment(site.env_id, own, choice)


def write_report(
    site: Site,
    analysis: Analysis,
    folder: Path,
    model: Path,
    environment: Environment,
    command: str,
    episodes: int,
) -> Path:
    """Write ``report.md`` and ``report.html`` beside the tables, and the best model as ``model/``.

    :param site: the site
    :param analysis: of :func:`~sb3_greendc.experiments.my_site.judging.site_experiment`
    :param folder: of the analysis
    :param model: folder of the best trained model
    :param environment: that it acts in
    :param command: what made it
    :param episodes: that policies were judged on
    :return: the path of the Markdown
    """
    write_portable(folder / MODEL, model, environment)
    rows = assumptions_table(site.assumptions)
    policies = analysis.tables["policies"].head(12)
    rounded = _rounded(policies).rename(columns=SHOWN)
    best = str(_rivals(analysis)["form"].iloc[0]) if len(_rivals(analysis)) else "deadline_never"
    again = commands(folder / MODEL, best, episodes)
    facts = [f"{name}: {fact}" for name, fact in site.facts.items()]
    lines = [
        f"# {_TITLE}",
        "## What was assumed",
        _BEFORE,
        markdown(rows),
        "## Verdict",
        "\n".join(f"- {note}" for note in analysis.notes),
        "## Inputs",
        "\n".join(f"- {fact}" for fact in facts),
        *_mended_lines(site.mended),
        "## Policies",
        _POLICIES,
        markdown(rounded),
        f"![{_FIGURE}](figure.png)",
        f"![{_TRADE_OFF}](tradeoff.png)",
        *_frontier_lines(analysis),
        "## Take the policy along",
        _CARRY,
        "\n".join(["```bash", *again, "```"]),
        "## Made by",
        f"```bash\n{command}\n```",
    ]
    path = folder / "report.md"
    with atomic_write(path) as file:
        file.write(("\n\n".join(lines) + "\n").encode())
    _write_page(site, analysis, folder, rows, rounded, facts, again, command)
    return path


_CARRY = (
    "The best trained policy, by the same episodes, is in model/: a folder with the model, its environment, "
    "and the jobs, power and carbon that it needs. Copy it anywhere; nothing has to be typed again. The "
    "first command repeats the figures above."
)


def _frontier_lines(analysis: Analysis) -> list[str]:
    if "frontier" not in analysis.tables:
        return []
    limits, energies = (markdown(_rounded(analysis.tables[name])) for name in ("frontier", "energies"))
    return [f"## {_COMMANDED}", _FRONTIER, limits, f"![{_DRAWN}](frontier.png)", _ENERGIES, energies]


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    rounded: pd.DataFrame = table.apply(lambda one: one.map(number) if one.dtype.kind == "f" else one)
    return rounded


_COMMANDED = "Machines and battery commanded"
_SOURCES = "Where the energy came from"
_ENERGIES = (
    "Energy of an episode by policy, the most valuable first, in the episodes that judge: of sun and wind "
    "what was used or stored, what the grid delivered, what went into the battery and came out of it, units "
    "that were started and what starting took."
)
_DRAWN = "value against carbon where machines and battery are commanded"
_FRONTIER = (
    "The grid serves everything here, so that carbon is a decision: how many machines are on, what the "
    "battery does, which jobs are worth what they emit. Rules were chosen by half of the episodes, and are "
    "judged with plan and chance by the other half. Columns are shares of the value at a limit on carbon; a "
    "limit is a share of what every unit on emits. Each hour the plan solves a linear programme of the next "
    "ones. It knows run times of waiting jobs, and sun, wind and carbon of those hours exactly, which rules "
    "do not. It plays fewer episodes: its column is that of rules times its gain over them in these. No "
    "policy is above the bound, which knows the arrivals, too."
)


def _rivals(analysis: Analysis) -> pd.DataFrame:
    comparison = analysis.tables["comparison"]
    return comparison[(comparison["kind"] == "learner") & (comparison["against"] == BEST_OF_ALL)]


def commands(model: Path, rival: str, episodes: int) -> list[str]:
    """Return commands that judge a policy again and load it, as they are typed where the report is made.

    :param model: its folder
    :param rival: a heuristic to judge beside it
    :param episodes: how many
    """
    name, *form = rival.split("/")
    options = [f"{key}={value}" for key, value in zip(("dispatch", "scope"), form, strict=False)]
    baseline = f"{name}:{','.join(options)}" if options else name
    metrics = ["total_job_value_ratio", "carbon_kg", "brown_kwh"]
    first = [*how_to_start("evaluate").split(), "--policies", baseline, str(model)]
    first += ["--episodes", str(episodes), "--seed", str(TEST_SEED), "--metrics", *metrics]
    second = f'python -c "from sb3_greendc.runs.models import load_model; load_model({str(model)!r})"'
    return [shlex.join(first), second]


def _mended_lines(mended: Sequence[str]) -> list[str]:
    if not mended:
        return []
    return ["### Mended by --repair", "\n".join(f"- {line.replace('; --repair: ', ': ')}" for line in mended)]


def _write_page(
    site: Site,
    analysis: Analysis,
    folder: Path,
    rows: pd.DataFrame,
    policies: pd.DataFrame,
    facts: Sequence[str],
    again: Sequence[str],
    command: str,
) -> None:
    """Write the same as one HTML page."""
    sections = [
        Section("What was assumed", _BEFORE, frames=[rows]),
        Section("Verdict", points=analysis.notes),
        Section("Inputs", points=facts),
        Section(
            "Policies",
            _POLICIES,
            frames=[policies],
            figures=[(analysis.figures["figure"], _FIGURE), (analysis.figures["tradeoff"], _TRADE_OFF)],
        ),
        Section("Take the policy along", _CARRY, code=again),
    ]
    if "frontier" in analysis.tables:
        figures = [(analysis.figures["frontier"], _DRAWN)]
        sections.insert(
            4,
            Section(_COMMANDED, _FRONTIER, frames=[_rounded(analysis.tables["frontier"])], figures=figures),
        )
        sections.insert(5, Section(_SOURCES, _ENERGIES, frames=[_rounded(analysis.tables["energies"])]))
    if site.mended:
        mended = [line.replace("; --repair: ", ": ") for line in site.mended]
        sections.insert(3, Section("Mended by --repair", points=mended))
    record = {**provenance(), "command": command}
    write_page(folder / "report.html", _TITLE, sections, [], record)
