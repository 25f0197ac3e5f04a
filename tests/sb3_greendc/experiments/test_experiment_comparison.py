from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.experiments.cocorl.loads import SWEEP, in_job_steps
from sb3_greendc.experiments.comparison import FORMS, best_form, compare, final, margin, matrix, summary
from sb3_greendc.experiments.sweep import budgets, drawn, show_best_forms
from sb3_greendc.experiments.text import interval


def test_margin_of_exact_multiples():
    theirs = np.array([[10.0, 20.0, 30.0, 40.0]])
    found = margin(1.2 * np.repeat(theirs, 3, axis=0), theirs)
    # Episodes differ fourfold, but each keeps its pair: the margin is 20 % in every resample.
    assert found.estimate == pytest.approx(20)
    assert (found.low, found.high) == (pytest.approx(20), pytest.approx(20))


def test_margin_counts_the_spread_between_training_seeds():
    rng = np.random.default_rng(1)
    theirs = np.full((1, 50), 10.0)
    alike = margin(theirs * 1.1 + rng.normal(0, 0.1, (5, 50)), theirs)
    apart = margin(theirs * 1.1 + np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]]), theirs)
    assert alike.high - alike.low < 2
    assert apart.low < 1 < 19 < apart.high


def _rows() -> pd.DataFrame:
    def of(policy, baseline, values, seed=np.nan, trained=np.nan):
        return pd.DataFrame(
            {
                "series": "a",
                "x": 10,
                "policy": policy,
                "baseline": baseline,
                "train_seed": seed,
                "trained_decisions": trained,
                "episode": range(len(values)),
                "total_job_value": values,
            }
        )

    return pd.concat(
        [
            of("sjf/skip/ready", "sjf", [11.0, 11.0]),
            of("sjf/skip/queue", "sjf", [10.0, 10.0]),
            of("sjf/reserve/queue", "sjf", [5.0, 5.0]),
            of("sjf/block/queue", "sjf", [9.0, 9.0]),
            of("sjf/block/ready", "sjf", [16.0, 16.0]),
            of("sjf/easy/queue", "sjf", [30.0, 30.0]),
            of("deadline_never/skip/ready", "deadline_never", [20.0, 20.0]),
            of("sjf/skip/ready/masked", "sjf, masked", [14.0, 14.0]),
            of("uniformly random, masked", "uniformly random, masked", [12.0, 12.0]),
            of("uniformly random, valid", "uniformly random, valid", [3.0, 3.0]),
            of("random order, masked", "random order, masked", [13.0, 13.0]),
            of("rollout/32", "rollout", [40.0, 40.0]),
            of("bound", "bound", [44.0]),
            of("ours", np.nan, [1.0, 1.0], 0, 100),
            of("ours", np.nan, [22.0, 22.0], 0, 200),
            of("ours", np.nan, [22.0, 22.0], 1, 200),
        ],
        ignore_index=True,
    )


def test_final_keeps_the_last_checkpoint_and_the_baselines():
    rows = final(_rows())
    assert matrix(rows[rows["policy"] == "ours"], "total_job_value").tolist() == [[22, 22], [22, 22]]
    assert (rows["baseline"].notna()).sum() == 25


def test_the_papers_heuristics_have_their_better_scope_but_their_own_dispatch():
    rows = _rows()
    assert best_form(rows, ["sjf"], "total_job_value", dispatch="skip") == "sjf/skip/ready"
    assert best_form(rows, ["sjf"], "total_job_value", dispatch="skip", scope="queue") == "sjf/skip/queue"
    assert best_form(rows, ["sjf"], "total_job_value") == "sjf/easy/queue"
    assert best_form(rows, ["hvf"], "total_job_value") is None


def test_compare_names_every_rival():
    table = compare(_rows(), ["ours"])
    table = table[table["learner"] == "ours"].set_index("against")
    assert table.loc["sjf", "margin_percent"] == pytest.approx(100)
    assert table.loc["sjf, all waiting jobs", "form"] == "sjf/skip/queue"
    assert table.loc["sjf, all waiting jobs", "margin_percent"] == pytest.approx(120)
    assert table.loc["best of the papers', all waiting jobs", "margin_percent"] == pytest.approx(120)
    assert table.loc["sjf, no overtaking", "form"] == "sjf/block/ready"
    assert table.loc["sjf, first free slot", "form"] == "sjf/reserve/queue"
    assert table.loc["best of the papers', first free slot", "margin_percent"] == pytest.approx(340)
    assert table.loc["best of the papers', masked", "form"] == "sjf/skip/ready/masked"
    assert table.loc["uniformly random, masked", "margin_percent"] == pytest.approx(100 * (22 / 12 - 1))
    assert table.loc["best heuristic", "form"] == "sjf/easy/queue"
    assert table.loc["best non-learning baseline", "margin_percent"] == pytest.approx(-45)
    assert (table["seeds"] == 2).all()
    assert (table["percent_of_bound"] == 50).all()
    assert table.loc["best heuristic", "bound_percent"] == pytest.approx(100 * (44 / 30 - 1))


def test_the_bound_is_compared_in_the_episodes_that_have_one():
    rows = _rows()
    rows.loc[(rows["policy"] == "ours") & (rows["episode"] == 1), "total_job_value"] = 40.0
    rows.loc[rows["policy"] == "bound", "episode"] = 1
    table = compare(rows, ["ours"])
    table = table[table["kind"] == "learner"]
    assert table["percent_of_bound"].to_numpy() == pytest.approx(100 * 40 / 44)
    without = compare(rows[rows["policy"] != "bound"], ["ours"])
    assert without[["percent_of_bound", "bound_percent"]].isna().all(axis=None)


def test_the_figure_shows_the_same_forms():
    shown = show_best_forms(_rows(), ["sjf"], ["ours"], "total_job_value")
    table = summary(shown, ["total_job_value"]).set_index("policy")["estimate"]
    assert table.to_dict() == {
        "sjf": 11,
        "sjf, all waiting jobs": 10,
        "sjf, no overtaking": 16,
        "sjf, first free slot": 5,
        "best of the papers'": 11,
        "best of the papers', all waiting jobs": 10,
        "best of the papers', no overtaking": 16,
        "best of the papers', first free slot": 5,
        "best of the papers', masked": 14,
        "best heuristic": 30,
        "rollouts": 40,
        "uniformly random, valid": 3,
        "uniformly random, masked": 12,
        "random order, masked": 13,
        "ours": 22,
    }


def test_chance_and_masked_heuristics_stand_beside_the_papers_best():
    table = compare(_rows(), ["ours"])
    controls = table[table["kind"] == "control"]
    bests = {f"best of the papers'{form}" for form in FORMS}
    assert set(controls["against"]) == bests
    better = controls[controls["against"] == "best of the papers'"].set_index("learner")
    assert better["margin_percent"].to_dict() == pytest.approx(
        {
            "uniformly random, valid": 100 * (3 / 11 - 1),
            "uniformly random, masked": 100 * (12 / 11 - 1),
            "random order, masked": 100 * (13 / 11 - 1),
            "best of the papers', masked": 100 * (14 / 11 - 1),
        }
    )


def test_a_figure_has_no_more_policies_than_can_be_told_apart():
    learners = ["MaskablePPO", *(f"learner {k}" for k in range(4))]
    known = ["best of the papers'", "uniformly random, masked", "best heuristic", "rollouts", *learners]
    policies = drawn(pd.DataFrame({"policy": ["sjf", *known]}), learners)
    assert policies == [name for name in known if name != "MaskablePPO"]


def test_the_papers_learner_is_never_left_out():
    learners = [*(f"learner {k}" for k in range(9)), "A2C as printed"]
    shown = drawn(pd.DataFrame({"policy": learners}), learners)
    assert len(shown) == 8
    assert shown[0] == "A2C as printed"


def test_a_figure_may_name_heuristics_in_place_of_the_best():
    known = ["sjf", "hvf", "best of the papers'", "uniformly random, masked", "ours"]
    shown = drawn(pd.DataFrame({"policy": known}), ["ours"], named=["sjf"])
    assert shown == ["sjf", "uniformly random, masked", "ours"]


def test_a_figure_says_how_long_a_learner_learned():
    had = budgets(_rows().assign(trained_decisions=24_000), ["ours"])
    assert had == {"ours": "24 k decisions, 2 seeds"}


def test_an_estimate_without_an_interval_stands_alone():
    row = pd.Series({"margin_percent": 1.04, "low": -0.5, "high": 2.0})
    assert interval(row) == "+1.0 [-0.5, +2.0]"
    assert interval(row.replace(-0.5, np.nan)) == "+1.0"
    assert interval(row * np.nan) == ""


def test_costs_of_all_learners_are_in_job_steps():
    rows = pd.DataFrame({"policy": ["CoCoRL as printed", "qos/skip/ready"], "accrued_cost": [30.0, 0.5]})
    assert in_job_steps(rows)["accrued_cost"].tolist() == [30.0, 50.0]
    assert SWEEP.in_one_unit is in_job_steps
