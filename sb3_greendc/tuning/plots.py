"""Figures of a study: its history, what mattered, and each parameter against the value; PNG and HTML."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from greendc.lazy import LazyModule
from sb3_greendc.core.files import atomic_write
from sb3_greendc.evaluation.plots import save_figure
from sb3_greendc.tuning.leases import quiet
from sb3_greendc.tuning.spaces import Space

if TYPE_CHECKING:
    from optuna import importance
else:
    importance = LazyModule("optuna.importance")  # scikit-learn takes a second


_COLUMNS = 4
_VALUE = "validation return"
_COMPLETED: dict[str, Any] = {"color": "#4c9f70", "s": 22}
_PRUNED: dict[str, Any] = {"facecolors": "none", "edgecolors": "#999999", "s": 18}


def draw(study: optuna.Study, space: Space, folder: Path) -> tuple[list[Path], list[str]]:
    """Draw a study's figures into a folder.

    The HTML ones are interactive and need no network: plotly's script lies beside them.

    :param study: the study
    :param space: its search space
    :param folder: created if missing
    :return: the files, and for each figure that could not be drawn why
    """
    completed = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    pruned = study.get_trials(deepcopy=False, states=(TrialState.PRUNED,))
    if not completed:
        return [], ["no figures: no trial was completed"]
    figures = {"history": history(completed, pruned), "slice": slices(completed, pruned, space)}
    missing = []
    with quiet():
        importances = _importances(study, completed)
        if importances:
            figures["importances"] = bars_of(importances)
        else:
            missing.append("no importances: they need two completed trials that differ")
        files = [folder / f"{name}.png" for name in figures]
        for path, figure in zip(files, figures.values(), strict=True):
            save_figure(figure, path)
        if optuna.visualization.is_available():
            files += _write_html(study, folder, list(figures))
        else:
            missing.append("no HTML figures: pip install plotly")
    return files, missing


def history(completed: list[FrozenTrial], pruned: list[FrozenTrial]) -> Figure:
    """Draw the value of every trial, and the best so far."""
    figure = Figure(figsize=(7, 3.5), dpi=150, layout="constrained")
    axes = figure.subplots()
    lowest = _lowest_shown(completed)
    _scatter(axes, [t.number for t in pruned], pruned, _PRUNED, lowest, "pruned, when it was")
    _scatter(axes, [t.number for t in completed], completed, _COMPLETED, lowest, "completed")
    best = np.maximum.accumulate([trial.value or 0.0 for trial in completed])
    axes.step([t.number for t in completed], best, where="post", color="#333333", linewidth=1, label="best")
    axes.set_xlabel("trial")
    axes.set_ylabel(_limit(axes, completed, pruned, lowest))
    figure.legend(loc="outside upper center", ncols=3, fontsize="small", frameon=False)
    return figure


def bars_of(importances: dict[str, float]) -> Figure:
    """Draw how much of the value each parameter explains."""
    figure = Figure(figsize=(7, 1 + 0.28 * len(importances)), dpi=150, layout="constrained")
    axes = figure.subplots()
    axes.barh(list(importances), list(importances.values()), color="#4c9f70")
    axes.invert_yaxis()
    axes.set_xlabel("importance (PED-ANOVA; sums to 1)")
    return figure


def slices(completed: list[FrozenTrial], pruned: list[FrozenTrial], space: Space) -> Figure:
    """Draw the value against each parameter, a panel each."""
    rows = math.ceil(len(space) / _COLUMNS)
    figure = Figure(figsize=(2.6 * _COLUMNS, 2.2 * rows), dpi=150, layout="constrained")
    panels = list(figure.subplots(rows, _COLUMNS, squeeze=False, sharey=True).flat)
    for unused in panels[len(space) :]:
        unused.set_axis_off()
    lowest = _lowest_shown(completed)
    figure.supylabel(_limit(panels[0], completed, pruned, lowest), fontsize="small")
    for panel, (name, distribution) in zip(panels, space.items(), strict=False):
        for trials, style in ((pruned, _PRUNED), (completed, _COMPLETED)):
            known = [trial for trial in trials if name in trial.params]
            if isinstance(distribution, CategoricalDistribution):
                places = [float(distribution.choices.index(trial.params[name])) for trial in known]
                panel.set_xticks(range(len(distribution.choices)), [str(c) for c in distribution.choices])
                panel.set_xlim(-0.5, len(distribution.choices) - 0.5)
            else:
                places = [float(trial.params[name]) for trial in known]
            _scatter(panel, places, known, style, lowest)
        if isinstance(distribution, FloatDistribution | IntDistribution):
            panel.set_xscale("log" if distribution.log else "linear")
            panel.set_xlim(distribution.low, distribution.high)
            panel.xaxis.set_minor_formatter(NullFormatter())
            if not distribution.log:
                panel.xaxis.set_major_locator(MaxNLocator(5))
        panel.set_title(name, fontsize="small")
        panel.tick_params(labelsize="x-small")
    return figure


def _limit(axes: Axes, completed: list[FrozenTrial], pruned: list[FrozenTrial], lowest: float) -> str:
    """Set the limits of the values, and return what to call their axis."""
    values = [t.value for t in (*completed, *pruned) if t.value is not None]
    bottom, top = max(lowest, min(values)), max(values)
    margin = 0.05 * (top - bottom) or 1.0
    axes.set_ylim(bottom - margin, top + margin)
    return f"{_VALUE} (▼ lower)" if bottom > min(values) else _VALUE


def _scatter(
    axes: Axes,
    places: list[float],
    trials: list[FrozenTrial],
    style: dict[str, Any],
    lowest: float,
    label: str = "",
) -> None:
    """Draw the trials that have a value; a trial that diverged may have none.

    Values below the lowest that is shown are drawn there, as triangles.
    """
    points = [(place, t.value) for place, t in zip(places, trials, strict=True) if t.value is not None]
    for marker, chosen in (
        ("o", [point for point in points if point[1] >= lowest]),
        ("v", [(place, lowest) for place, value in points if value < lowest]),
    ):
        if chosen:
            axes.scatter(*zip(*chosen, strict=True), marker=marker, clip_on=False, label=label, **style)
            label = ""


def _lowest_shown(completed: list[FrozenTrial]) -> float:
    """Return the lowest value of a figure: hopeless trials must not hide how the good ones differ."""
    values = [trial.value for trial in completed if trial.value is not None]
    best, middle = max(values), float(np.median(values))
    return best - 4 * (best - middle) if best > middle else min(values)


def _importances(study: optuna.Study, completed: list[FrozenTrial]) -> dict[str, float]:
    if len({trial.value for trial in completed}) < 2:
        return {}
    return importance.get_param_importances(study, evaluator=importance.PedAnovaImportanceEvaluator())


def _write_html(study: optuna.Study, folder: Path, names: list[str]) -> list[Path]:
    import plotly.offline

    functions: dict[str, Callable[[optuna.Study], Any]] = {
        "history": optuna.visualization.plot_optimization_history,
        "slice": optuna.visualization.plot_slice,
        "importances": lambda study: optuna.visualization.plot_param_importances(
            study, evaluator=importance.PedAnovaImportanceEvaluator()
        ),
    }
    with atomic_write(folder / "plotly.min.js") as file:
        file.write(plotly.offline.get_plotlyjs().encode())
    files = []
    for name in names:
        path = folder / f"{name}.html"
        page = functions[name](study).to_html(include_plotlyjs="plotly.min.js")
        with atomic_write(path) as file:
            file.write(page.encode())
        files.append(path)
    return files
