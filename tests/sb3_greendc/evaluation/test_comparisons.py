"""Comparisons by hand, and against figures of rliable 1.2.0 (``X``, ``Y``: rows are runs, columns tasks)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.evaluation.comparisons import (
    improvements,
    performance_profile,
    probability_of_improvement,
    profiles,
    relative_to,
)
from sb3_greendc.evaluation.statistics import bootstrap, summarize

X = np.array(
    [[0.13, -0.13, 0.64], [0.1, -0.54, 0.36], [1.3, 0.95, -0.7], [-1.27, -0.62, 0.04], [-2.33, -0.22, -1.25]]
)
Y = np.array([[0.13, -0.04, 0.18], [0.91, 1.54, -0.7], [1.87, -0.17, 0.85], [1.4, 0.59, -0.24]])


class TestAgainstRliable:
    """Estimates must agree exactly, ends of intervals but for the noise of 20,000 resamples."""

    def test_aggregates(self) -> None:
        """``get_interval_estimates`` with ``aggregate_iqm`` and ``aggregate_mean``, 20,000 repetitions."""
        iqm = bootstrap(list(X.T), "iqm", n_resamples=20_000)
        assert iqm.estimate == pytest.approx(-0.17555555555555552, abs=1e-14)
        assert (iqm.low, iqm.high) == pytest.approx((-0.66889, 0.25444), abs=0.03)
        mean = bootstrap(list(X.T), "mean", n_resamples=20_000)
        assert mean.estimate == pytest.approx(-0.236, abs=1e-14)
        assert (mean.low, mean.high) == pytest.approx((-0.69933, 0.202), abs=0.012)
        assert bootstrap(list(Y.T), "iqm").estimate == pytest.approx(0.4366666666666667, abs=1e-14)

    def test_probability_of_improvement(self) -> None:
        found = probability_of_improvement(list(X.T), list(Y.T), n_resamples=20_000)
        assert found.estimate == pytest.approx(0.25, abs=1e-14)
        assert (found.low, found.high) == pytest.approx((0.08333, 0.45), abs=0.012)

    def test_performance_profile(self) -> None:
        profile = performance_profile(list(X.T), [-1, -0.5, 0, 0.25, 1], n_resamples=20_000)
        np.testing.assert_allclose(profile["share"], [0.8, 0.6, 7 / 15, 4 / 15, 1 / 15], atol=1e-14)
        # Multiples of 1/15, so that a quantile may come out one step apart.
        np.testing.assert_allclose(profile["low"], [0.6, 5 / 15, 4 / 15, 1 / 15, 0], atol=1 / 15 + 1e-9)
        np.testing.assert_allclose(
            profile["high"], [14 / 15, 13 / 15, 10 / 15, 7 / 15, 0.2], atol=1 / 15 + 1e-9
        )


class TestProbabilityOfImprovement:
    def test_by_hand(self) -> None:
        """Of the pairs (1,0) (1,3) (2,0) (2,3) (3,0) (3,3): three won, one drawn."""
        assert probability_of_improvement([1, 2, 3], [0, 3]).estimate == pytest.approx(3.5 / 6)
        assert probability_of_improvement([0, 3], [1, 2, 3]).estimate == pytest.approx(2.5 / 6)

    def test_strata_count_alike(self) -> None:
        """A task of four values counts no more than one of two."""
        a, b = [[1, 1, 1, 1], [0, 0]], [[0, 0, 0, 0], [1, 1]]
        assert probability_of_improvement(a, b).estimate == 0.5

    def test_pairs_see_what_episodes_hide(self) -> None:
        """Better by a little in every episode, while episodes differ by much."""
        episodes = 100.0 * np.arange(30)
        apart = probability_of_improvement(episodes + 1, episodes)
        assert apart.estimate == pytest.approx(0.5, abs=0.02)
        paired = probability_of_improvement(episodes + 1, episodes, paired=True)
        assert (paired.estimate, paired.low, paired.high) == (1, 1, 1)

    def test_runs_within_episodes_by_hand(self) -> None:
        """Two runs against one in two episodes: won and lost, lost and drawn."""
        found = probability_of_improvement(np.array([[2, 0], [0, 5]]), [1, 5], paired=True)
        assert found.estimate == pytest.approx((1 + 0.5) / 4)

    def test_pairs_must_be_of_the_same_episodes(self) -> None:
        with pytest.raises(ValueError, match=r"pairs of \[3\] and \[2\] episodes"):
            probability_of_improvement([1, 2, 3], [1, 2], paired=True)
        with pytest.raises(ValueError, match="1 and 2 strata"):
            probability_of_improvement([1, 2], [[1], [2]])

    def test_coverage_with_runs(self) -> None:
        """Runs differ, and so do episodes: 0.5 lies in most 90 % intervals."""
        rng = np.random.default_rng(0)
        hits = 0
        for _ in range(200):
            runs = rng.normal(size=(10, 1)) + rng.normal(size=(10, 20))
            found = probability_of_improvement(runs, np.zeros(20), True, 0.9, n_resamples=300)
            hits += found.low <= 0.5 <= found.high
        assert 0.8 < hits / 200 < 0.98


class TestPerformanceProfile:
    def test_by_hand(self) -> None:
        profile = performance_profile([1.0, 2.0, 2.0, 4.0], [0, 1, 2, 3, 4])
        assert profile["share"].tolist() == [1.0, 0.75, 0.25, 0.25, 0.0]
        lower = performance_profile([1.0, 2.0, 2.0, 4.0], [0, 1, 2, 3, 4], lower_is_better=True)
        assert lower["share"].tolist() == [0.0, 0.0, 0.25, 0.75, 0.75]

    def test_intervals(self) -> None:
        """Of a share p of n values the interval is about p +- 1.96 sqrt(p (1 - p) / n)."""
        values = np.arange(400) / 400
        (row,) = performance_profile(values, [0.75]).to_dict("records")
        half = 1.96 * np.sqrt(0.25 * 0.75 / 400)
        assert row["share"] - row["low"] == pytest.approx(half, rel=0.1)
        assert row["high"] - row["share"] == pytest.approx(half, rel=0.1)


def table() -> pd.DataFrame:
    rows = []
    for env_id, scale in (("A", 1.0), ("B", 100.0)):
        for policy, gain, runs in (("base", 1.0, 1), ("better", 0.9, 2)):
            for run in range(runs):
                for seed in range(6):
                    cost = scale * (seed + 1) * gain
                    row = {"policy": policy, "run": run, "env_id": env_id, "seed": seed}
                    rows.append({**row, "carbon_kg": cost, "return": -cost, "undefined": np.nan})
    return pd.DataFrame(rows)


def test_improvements_know_which_way_is_better() -> None:
    found = improvements(table(), ["carbon_kg", "return", "undefined"], "base")
    assert found["policy"].unique().tolist() == ["better"]
    assert found[["env_id", "metric"]].to_numpy().tolist() == [
        [env_id, metric] for env_id in "AB" for metric in ("carbon_kg", "return")
    ]
    assert (found[["estimate", "low", "high"]] == 1.0).all(axis=None)
    with pytest.raises(ValueError, match=r"reference='bse'.*did you mean 'base'"):
        improvements(table(), ["return"], "bse")


def test_profiles_of_a_table() -> None:
    found = profiles(table(), ["return", "carbon_kg", "undefined"])
    assert set(found["metric"]) == {"return", "carbon_kg"}
    for _, line in found.groupby(["env_id", "metric", "policy"]):
        assert {line["share"].iloc[0], line["share"].iloc[-1]} == {0.0, 1.0}
    middle = found[(found["metric"] == "carbon_kg") & (found["env_id"] == "A")]
    shares = middle.pivot(index="threshold", columns="policy", values="share")
    assert (shares["better"] >= shares["base"]).all()
    assert (shares["better"] > shares["base"]).any()


def test_changes_against_a_reference_are_on_one_scale() -> None:
    changed = relative_to(table(), ["carbon_kg", "return"], "base")
    better = changed[changed["policy"] == "better"]
    np.testing.assert_allclose(better["carbon_kg"], -10.0)
    np.testing.assert_allclose(better["return"], 10.0)
    assert (changed[changed["policy"] == "base"]["carbon_kg"] == 0).all()


@pytest.mark.parametrize(
    "reduce",
    [
        summarize,
        profiles,
        lambda table, metrics: improvements(table, metrics, "a"),
        lambda table, metrics: relative_to(table, metrics, "a"),
    ],
)
def test_a_table_that_lacks_something_is_refused_by_name(
    reduce: Callable[[pd.DataFrame, Any], pd.DataFrame],
) -> None:
    rows = [
        {"env_id": "A", "policy": policy, "seed": seed, "return": 1.0} for policy in "ab" for seed in (0, 1)
    ]
    table = pd.DataFrame(rows)
    assert len(reduce(table, ["return"]))
    with pytest.raises(ValueError, match=r"metric='retrun': must be one of .*; did you mean 'return'"):
        reduce(table, ["retrun"])
    with pytest.raises(ValueError, match="metric='policy': must be a column of numbers"):
        reduce(table, ["policy"])
    with pytest.raises(ValueError, match="metrics='return': must be a list of columns"):
        reduce(table, "return")
    for column in ("env_id", "policy", "seed"):
        with pytest.raises(ValueError, match=f"results: no column '{column}'"):
            reduce(table.drop(columns=column), ["return"])
        with pytest.raises(ValueError, match=f"results: {column} is missing in 1 rows"):
            reduce(table.assign(**{column: table[column].where(table.index > 0)}), ["return"])
