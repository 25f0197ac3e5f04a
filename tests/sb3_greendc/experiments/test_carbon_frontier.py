"""carbon-frontier: rules chosen on one half of 2019, comparison at limits, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.experiments.carbon import frontier
from sb3_greendc.experiments.controls import UniformPlay
from sb3_greendc.experiments.experiment import Budget, unique_tasks
from sb3_greendc.experiments.figures import MOST_SERIES
from sb3_greendc.experiments.registry import load_experiment
from sb3_greendc.experiments.tasks import Scenario

# policy, baseline, kg, value: the second rule lies below the line from the first to the third.
POLICIES = (
    ("grid_off/0", "grid_off", 2_000.0, 0.2),
    ("as_needed/2", "as_needed", 6_000.0, 0.3),
    ("grid_on", "grid_on", 10_000.0, 0.8),
    ("power_plan/0.1", "power_plan", 4_000.0, 0.6),
    ("power_plan/0.02", "power_plan", 8_000.0, 0.8),
    ("power_plan/0.1/noisy", "power_plan", 9_000.0, 0.7),
    ("random_actions", "random_actions", 5_000.0, 0.0),
    ("random", "random", 10_000.0, 0.6),
    ("power_halves/power_plan/carbon_threshold/0.1", "power_halves", 6_000.0, 0.55),
    ("power_halves/carbon_threshold/power_plan/0.1", "power_halves", 6_000.0, 0.65),
    ("distilled plan/0.1", frontier.STUDENT, 4_000.0, 0.5),
    ("distilled plan/0.05", frontier.STUDENT, 8_000.0, 0.78),
)
LEARNED = (frontier.named(frontier.PID, 0.6), 5_800.0, 0.65)
ALONE = (frontier.named(frontier.SCALARISED_SAC, 0.6), 9_000.0, 0.6)


class Fake:
    """Results of policies that do the same in every episode."""

    def table(self, name: str = "episodes") -> pd.DataFrame:
        heads = [(year, k) for year in ("2019", "2021") for k in range(4)]
        if name == "bounds":
            rows: list[dict[str, Any]] = [
                {"year": year, "episode": k, "kg_price": price, "bound": 90.0 - 5_000.0 * price}
                for year, k in heads
                for price in (0.001, 0.01)
            ]
            return pd.DataFrame(rows)
        zeros = dict.fromkeys(frontier.ENERGY, 0.0)
        if name == "times":
            return pd.DataFrame({"policy": ["plan", "distilled plan"], "ms": [12.0, 0.8]})
        rows = [
            {
                **zeros,
                "year": year,
                "episode": k,
                "policy": policy,
                "baseline": baseline,
                "carbon_kg": kg - 100.0,
                "settled_carbon_kg": 100.0,
                frontier.VALUE: value,
                "total_job_value_ratio_inside": value,
                "total_job_value": max(100.0 * value, 1e-9),
                "solar_kwh": 5.0,
                "wind_kwh": 3.0,
                "curtailed_kwh": 2.0,
            }
            for year, k in heads
            for policy, baseline, kg, value in POLICIES
        ]
        for policy, kg, value in (ALONE, LEARNED):
            learned = {**rows[0], "policy": policy, "total_job_value": 100.0 * value, frontier.VALUE: value}
            for year, k in heads:
                learned |= {"test": f"year {year}", "limit_share": 0.6, "episode": k, "carbon_kg": kg - 100.0}
                rows += [{**learned, "year": None, "baseline": None, "train_seed": seed} for seed in (0, 1)]
        # A learner plays as many episodes in each year: those that no rule played do not count.
        rows.append({**rows[-1], "episode": 9, frontier.VALUE: 0.0})
        return pd.DataFrame(rows)


def test_the_hull_is_what_mixtures_of_policies_reach() -> None:
    points = pd.DataFrame({frontier.CARBON: [0.0, 1.0, 2.0, 3.0], frontier.VALUE: [0.0, 0.2, 1.0, 0.9]})
    corners = frontier.hull(points)
    assert corners.tolist() == [[0.0, 0.0], [2.0, 1.0]]
    assert frontier.value_at(corners, 1.0) == 0.5
    assert frontier.value_at(corners, 9.0) == 1.0
    assert np.isnan(frontier.value_at(corners, -1.0))


def test_policies_are_compared_at_shares_of_the_greedy_carbon() -> None:
    analysis = frontier.analyze(Fake(), Budget(quick=True))  # type: ignore[arg-type]
    table = analysis.tables["comparison"].set_index(["series", "limit_share"])
    assert set(table.index.get_level_values(0)) == {frontier.CHOOSING, frontier.HELD_OUT, frontier.SHIFTED}
    row = table.loc[(frontier.SHIFTED, 0.6)]
    assert row["limit_kg"] == pytest.approx(6_000.0)
    assert row["rules"] == pytest.approx(0.5)  # half grid_off, half grid_on, not as_needed
    assert row["plan"] == pytest.approx(0.7)  # between both plans with exact forecasts
    assert row["plan_over_rules_percent"] == pytest.approx(40.0)
    assert row["bound"] == pytest.approx((90.0 - 5.0 + 6.0) / 100.0)
    assert (analysis.tables["results"]["green_kwh"] == 6.0).all()
    assert "grid_off/0, grid_on" in analysis.notes[2]
    assert "plan 12 ms, distilled plan 0.8 ms" in analysis.notes[4]
    # The bound is 85 at a price of 0.001, and the plan gets 80 for 8,000 kg there.
    assert f"at least {100 * (85 - 72) / 85:.1f} % above" in analysis.notes[-2]
    assert f"every unit on: 0.600 of the value and 10,000 kg in {frontier.CHOOSING}" in analysis.notes[5]


def test_no_panel_has_more_series_than_can_be_told_apart() -> None:
    figure = frontier.analyze(Fake(), Budget(quick=True)).figures["figure"]  # type: ignore[arg-type]
    assert len(figure.axes) == 2
    for panel in figure.axes:
        assert 6 <= len(panel.get_legend_handles_labels()[1]) <= MOST_SERIES
        named = {text.get_text() for text in panel.texts}
        assert {"every unit on", "DiscreteSAC", "45%", "60%", "75%"} <= named
        dotted = [line.get_xdata()[0] for line in panel.lines if line.get_linestyle() == ":"]  # type: ignore[index]
        assert dotted == pytest.approx([4_500.0, 6_000.0, 7_500.0])


def test_each_half_of_the_plan_is_compared_with_rules() -> None:
    halves = frontier.analyze(Fake(), Budget(quick=True)).tables["halves"]  # type: ignore[arg-type]
    row = halves[halves["limit_share"] == 0.6].set_index("policy")["over_rules_percent"]
    assert row["the plan decides on both"] == pytest.approx(40.0)  # .7 for .5
    assert row[frontier.HALVES["jobs"]] == pytest.approx(10.0)
    assert row[frontier.HALVES["power"]] == pytest.approx(30.0)


def test_what_was_learned_is_compared_at_equal_carbon() -> None:
    analysis = frontier.analyze(Fake(), Budget(quick=True))  # type: ignore[arg-type]
    row = analysis.tables["comparison"].set_index(["series", "limit_share"]).loc[(frontier.SHIFTED, 0.6)]
    assert row["distilled"] == pytest.approx(0.64)
    assert row["distilled_over_rules_percent"] == pytest.approx(28.0)  # .64 for .5
    assert row["distilled_over_rules_low"] == pytest.approx(28.0)  # every episode is the same
    assert row["distilled_of_plan_percent"] == pytest.approx(100.0 * 0.64 / 0.7)
    assert row["pid_ppo_value"] == pytest.approx(0.65)
    assert row["pid_ppo_carbon_over_limit_percent"] == pytest.approx(100.0 * (5_800 / 6_420 - 1.0))
    rules_there = 0.2 + (5_800 - 2_000) / 8_000 * 0.6  # at the carbon that it emits
    assert row["pid_ppo_over_rules_percent"] == pytest.approx(100.0 * (0.65 / rules_there - 1.0))
    learners = analysis.tables["learners"]
    assert set(learners["learner"]) == {LEARNED[0], ALONE[0]}
    learners = learners[learners["learner"] == LEARNED[0]]
    assert learners["seeds"].tolist() == [2, 2, 2]
    assert learners["share_of_greedy"].tolist() == pytest.approx(3 * [0.58])
    other = analysis.tables["comparison"].set_index(["series", "limit_share"]).loc[(frontier.SHIFTED, 0.45)]
    assert np.isnan(other["pid_ppo_value"])


def test_a_gain_has_an_interval_over_the_episodes_that_all_played() -> None:
    rows = [
        {"policy": policy, "episode": k, frontier.CARBON: 1_000.0, frontier.VALUE: value}
        for policy, values in {"ours": (0.5, 0.7, 0.6), "theirs": (0.4, 0.6, 0.5, 0.0)}.items()
        for k, value in enumerate(values)
    ]
    found = frontier.gain(pd.DataFrame(rows), ["ours"], ["theirs"])
    assert found.estimate == pytest.approx(20.0)  # 0.6 for 0.5
    assert 100.0 / 6.0 - 1e-9 <= found.low < 20.0 < found.high <= 25.0 + 1e-9
    runs = pd.DataFrame(rows).assign(train_seed=0)
    worse = runs[runs["policy"] == "ours"].assign(train_seed=1)
    worse[frontier.VALUE] -= 0.2
    both = frontier.gain(pd.concat([runs, worse]), ["ours"], ["theirs"])
    assert both.estimate == pytest.approx(0.0)
    assert both.low < -15.0 < 15.0 < both.high  # runs are drawn again, too


def test_even_episodes_of_2019_choose() -> None:
    rows = pd.DataFrame({"year": ["2019", "2019", "2021"], "episode": [0, 1, 0]})
    assert frontier.split(rows)["test"].tolist() == [frontier.CHOOSING, frontier.HELD_OUT, frontier.SHIFTED]


def test_chance_and_bounds_stand_in_the_comparison() -> None:
    experiment = load_experiment("carbon-frontier")
    tasks = unique_tasks(experiment.items(Budget(quick=True)))
    names = {variant.name for task in tasks for variant in getattr(task, "variants", ())}
    assert {"random_actions", "random", "power_plan", "grid_on", "carbon_threshold"} <= names
    masks = {task.scenario.env_kwargs["mask"] for task in tasks if isinstance(task, UniformPlay)}
    assert masks == {"valid"}  # the other one is the environment's own
    assert sum(isinstance(task, frontier.Envelope) for task in tasks) == 2
    assert sum(task.seconds() for task in tasks) < 12 * 60  # on one core; it took 10 minutes


def test_an_envelope_is_above_what_is_played() -> None:
    scenario = Scenario(frontier.ENV_ID, {"episode_steps": 48, "carbon": "PGE-2019"})
    bounds = frontier.Envelope(scenario, (0.0, 0.2), 2).compute().tables["bounds"]
    played = frontier.Baselines(scenario, (frontier.Variant("grid_on"),), 2).compute().tables["episodes"]
    for row in bounds.itertuples():
        of_episode = played[played["episode"] == row.episode].iloc[0]
        carbon = of_episode["carbon_kg"] + of_episode["settled_carbon_kg"]
        assert of_episode["total_job_value"] - row.kg_price * carbon <= row.bound + 1e-9
