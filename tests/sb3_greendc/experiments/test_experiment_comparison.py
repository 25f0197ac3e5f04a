from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.experiments.claims import Claim
from sb3_greendc.experiments.comparison import best_form, compare, final, margin, matrix, summary
from sb3_greendc.experiments.sweep import show_best_forms


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
            of("sjf/skip/ready", "sjf", [10.0, 10.0]),
            of("sjf/skip/queue", "sjf", [11.0, 11.0]),
            of("sjf/easy/queue", "sjf", [30.0, 30.0]),
            of("deadline_never/skip/ready", "deadline_never", [20.0, 20.0]),
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
    assert (rows["baseline"].notna()).sum() == 11


def test_the_papers_heuristics_have_their_better_scope_but_their_own_dispatch():
    rows = _rows()
    assert best_form(rows, ["sjf"], "total_job_value", dispatch="skip") == "sjf/skip/queue"
    assert best_form(rows, ["sjf"], "total_job_value") == "sjf/easy/queue"
    assert best_form(rows, ["hvf"], "total_job_value") is None


def test_compare_names_every_rival():
    claims = (Claim("best of the papers'", 18.0, "somewhere", points=(10.0,)),)
    table = compare(_rows(), ["ours"], claims).set_index("against")
    assert table.loc["sjf", "margin_percent"] == pytest.approx(100)
    assert table.loc["best of the papers'", "printed_percent"] == 18
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
    assert table["percent_of_bound"].to_numpy() == pytest.approx(100 * 40 / 44)
    without = compare(rows[rows["policy"] != "bound"], ["ours"])
    assert without[["percent_of_bound", "bound_percent"]].isna().all(axis=None)


def test_the_figure_shows_the_same_forms():
    shown = show_best_forms(_rows(), ["sjf"], ["ours"], "total_job_value")
    table = summary(shown, ["total_job_value"]).set_index("policy")["estimate"]
    assert table.to_dict() == {"sjf": 11, "best heuristic": 30, "rollouts": 40, "ours": 22}
