"""Limits on problems that others made: which trials are chosen, intervals, who keeps the limit, a figure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.experiments.known import limits
from sb3_greendc.experiments.known.problems import CARTPOLE_COST, GRID, LIMITS

NAME = GRID.name
LIMIT = LIMITS[NAME]

TRIALS = {
    "PPO penalty 0": (9.0, LIMIT + 1, 1.0, 0.0),  # over the limit where trials are chosen
    "PPO penalty 1": (5.0, LIMIT, 7.0, LIMIT + 2),  # chosen, and over the limit where it is judged
    "PPO penalty 2": (4.0, 0.0, 8.0, 0.0),
    "PIDLagrangianPPO a": (5.0, LIMIT + 2, 3.0, 0.0),  # of this kind none is within the limit
    "PIDLagrangianPPO b": (1.0, LIMIT + 1, 2.0, 0.0),
    "random": (9.0, 0.0, 9.0, 0.0),
}
"""Return and cost on the episodes that choose, and on those that judge."""


def episodes(trials: dict[str, tuple[float, float, float, float]], series: str = NAME) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"series": series, "policy": policy, "train_seed": 0, "episode": k, "return": value, "cost": cost}
            for policy, numbers in trials.items()
            for k, (value, cost) in enumerate((numbers[:2], numbers[2:]))
        ]
    )


def test_trials_are_chosen_on_other_episodes_than_they_are_judged_on() -> None:
    table = limits.under_limits(episodes(TRIALS)).set_index("policy")
    assert list(table.index[table["chosen"]]) == ["PPO penalty 1"]
    assert table["return"].tolist() == [judged for *_, judged, _ in TRIALS.values()]
    assert list(table.index[~table["within the limit"]]) == ["PPO penalty 1"]
    assert limits.under_limits(pd.DataFrame()).empty


def test_a_kind_without_a_trial_that_keeps_the_limit_is_named() -> None:
    table = limits.under_limits(episodes(TRIALS))
    assert limits.broken(table) == [
        f"{NAME}: no trial of PIDLagrangianPPO kept the limit on the episodes that choose, so none is chosen."
    ]
    assert limits.broken(pd.DataFrame()) == []


def test_return_and_cost_have_intervals_over_seeds_and_episodes() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        [
            {
                "train_seed": seed,
                "episode": k,
                "return": level + rng.normal(),
                "cost": 9 * level + rng.normal(),
            }
            for seed, level in enumerate((1.0, 3.0))
            for k in range(40)
        ]
    ).assign(series=NAME, policy="PPO penalty 0")
    (row,) = limits.under_limits(rows).to_dict("records")
    for metric, low, high in (("return", 1, 3), ("cost", 9, 27)):
        ends = [row[f"{metric} low"], row[f"{metric} high"]]
        assert ends[0] < row[metric] < ends[1]
        assert ends == pytest.approx([low, high], abs=0.6)  # two seeds apart: either could come twice


def test_the_figure_has_a_point_for_each_trial_and_fills_those_that_are_chosen() -> None:
    rows = pd.concat([episodes(TRIALS), episodes(TRIALS, CARTPOLE_COST.name)])
    table = limits.under_limits(rows)
    figure = limits.draw(table)
    assert [panel.get_title() for panel in figure.axes] == [NAME, CARTPOLE_COST.name]
    for panel, (_, mine) in zip(figure.axes, table.groupby("series", sort=False), strict=True):
        points = [container.lines[0] for container in panel.containers]
        places = [(float(x), float(y)) for point in points for x, y in zip(*point.get_data(), strict=True)]
        assert places == [*zip(mine["cost"], mine["return"], strict=True)]
        full = [point.get_markerfacecolor() != "white" for point in points]
        assert full == mine["chosen"].tolist()
        assert {line.get_xdata()[0] for line in panel.lines if len(set(line.get_xdata())) == 1} >= {
            mine["limit"].iloc[0]
        }
    (legend,) = figure.legends
    said = [text.get_text() for text in legend.get_texts()]
    assert said == ["PPO", "PIDLagrangianPPO", "random", "not chosen", "limit"]


@pytest.mark.parametrize(("times", "scale"), [(2.9, "linear"), (3.1, "symlog")])
def test_costs_are_drawn_to_one_scale_unless_some_are_far_beyond_the_limit(times: float, scale: str) -> None:
    table = limits.under_limits(episodes(TRIALS))
    table["cost high"] = times * table["limit"]
    (panel,) = limits.draw(table).axes
    assert panel.get_xscale() == scale
    assert ("logarithmic" in panel.get_xlabel()) == (scale == "symlog")


def test_the_analysis_has_figure_and_notes() -> None:
    class Given:
        def table(self) -> pd.DataFrame:
            return episodes(TRIALS)

    analysis = limits.EXPERIMENT.analyze(Given(), limits.Budget(quick=True))  # type: ignore[arg-type]
    assert list(analysis.figures) == ["figure"]
    assert any("no trial of PIDLagrangianPPO" in note for note in analysis.notes)
    assert analysis.tables["results"]["chosen"].sum() == 1
