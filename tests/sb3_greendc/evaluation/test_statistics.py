from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sb3_greendc.evaluation.statistics import Interval, bootstrap, iqm, paired_difference, summarize


def test_iqm_by_hand() -> None:
    """A quarter of the values, rounded down, goes at each end."""
    assert iqm([1, 2, 3, 4]) == 2.5
    assert iqm([-1000, 2, 3, 1000]) == 2.5
    assert iqm([1, 2, 3, 4, 5, 6, 7, 800]) == 4.5
    assert iqm([1, 2, 30]) == 11.0
    assert iqm([[1, 2], [3, 4]]) == 2.5


def test_estimates() -> None:
    values = np.array([1.0, 2.0, 3.0, 10.0])
    assert bootstrap(values).estimate == 4.0
    assert bootstrap(values, "iqm").estimate == 2.5


def test_single_value_and_constant_values() -> None:
    assert bootstrap([3.0]) == Interval(3.0, 3.0, 3.0)
    assert bootstrap([3.0] * 9, "iqm") == Interval(3.0, 3.0, 3.0)


def test_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=40)
    reference = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    interval = bootstrap(values, n_resamples=20_000)
    spread = reference.high - reference.low
    assert interval.low == pytest.approx(reference.low, abs=0.03 * spread)
    assert interval.high == pytest.approx(reference.high, abs=0.03 * spread)


def test_exact_distribution_of_two_values() -> None:
    """Of two values a resample's mean is either of them with probability 1/4, their mean with 1/2."""
    assert bootstrap([0.0, 1.0], confidence=0.4) == Interval(0.5, 0.5, 0.5)
    assert bootstrap([0.0, 1.0], confidence=0.6) == Interval(0.5, 0.0, 1.0)


def test_coverage() -> None:
    """The 90 % interval of the mean of 30 normal values covers the truth about 88 % of the time."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        interval = bootstrap(rng.normal(size=30), confidence=0.9, n_resamples=500)
        hits += interval.low <= 0.0 <= interval.high
    assert 0.83 < hits / 400 < 0.94


def test_strata_are_resampled_by_themselves() -> None:
    """Two tasks far apart: between-task spread must not widen the interval."""
    rng = np.random.default_rng(0)
    low, high = rng.normal(0, 1, 20), rng.normal(1000, 1, 20)
    stratified = bootstrap([low, high])
    pooled = bootstrap(np.concatenate([low, high]))
    assert stratified.estimate == pooled.estimate
    assert stratified.high - stratified.low < 2
    assert pooled.high - pooled.low > 200


def test_seeded_and_independent_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=50)
    first = bootstrap(values, "iqm", seed=3)
    assert bootstrap(values, "iqm", seed=3) == first
    assert bootstrap(values, "iqm", seed=4) != first
    monkeypatch.setattr("sb3_greendc.evaluation.statistics._CHUNK", 7_777)
    assert bootstrap(values, "iqm", seed=3) == first


def test_pairs_see_through_what_they_share() -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(0, 100, 30)
    a, b = shared + 1.0 + rng.normal(0, 0.1, 30), shared
    difference = paired_difference(a, b)
    assert 0.9 < difference.low < 1.0 < difference.high < 1.1
    assert paired_difference(b, a).estimate == -difference.estimate
    with pytest.raises(ValueError, match="pairs"):
        paired_difference([1.0, 2.0], [1.0])


def test_runs_and_episodes_are_drawn_by_themselves() -> None:
    """The mean's variance: of runs over their number, of episodes over theirs, of the rest over both."""
    rng = np.random.default_rng(1)
    runs, episodes = rng.normal(0, 3, (40, 1)), rng.normal(0, 2, (1, 50))
    interval = bootstrap(runs + episodes)
    half = 1.96 * np.sqrt(runs.var() / 40 + episodes.var() / 50)
    assert (interval.high - interval.low) / 2 == pytest.approx(half, rel=0.05)
    one_run = bootstrap(episodes)
    assert one_run == bootstrap(episodes.ravel()), "a single run is its episodes"


def test_coverage_with_runs() -> None:
    """Trained policies whose runs differ: the interval speaks of the algorithm, not of the runs at hand."""
    rng = np.random.default_rng(0)
    of_runs = of_episodes = 0
    for _ in range(200):
        table = rng.normal(size=(10, 1)) + rng.normal(size=(1, 20)) / 2 + rng.normal(size=(10, 20))
        crossed = bootstrap(table, confidence=0.9, n_resamples=300)
        of_runs += crossed.low <= 0.0 <= crossed.high
        given = bootstrap(list(table), confidence=0.9, n_resamples=300)  # each run a stratum
        of_episodes += given.low <= 0.0 <= given.high
    assert 0.8 < of_runs / 200 < 0.98
    assert of_episodes / 200 < 0.6


def test_pairs_of_runs() -> None:
    """Episodes cancel, runs do not."""
    rng = np.random.default_rng(0)
    episodes = rng.normal(0, 100, 30)
    runs = np.array([0.0, 1.0, 2.0, 3.0])
    difference = paired_difference(episodes + runs[:, None], episodes)
    assert difference.estimate == pytest.approx(1.5)
    assert difference.high - difference.low == pytest.approx(2 * 1.96 * runs.std() / 2, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "no values"),
        (([1.0, np.nan],), "finite"),
        (([[1.0], []],), "no values"),
        (([1.0], "median"), "statistic='median': must be one of 'mean', 'iqm'"),
        (([1.0], "mean", 95), "confidence=95"),
        (([1.0], "mean", 0.95, 0), "n_resamples=0"),
    ],
)
def test_bad_input(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap(*arguments)


class TestSummarize:
    results = pd.DataFrame(
        [
            {"env_id": env, "policy": policy, "seed": seed, "return": base + seed, "delay": delay}
            for env, offset in (("A", 0.0), ("B", 100.0))
            for policy, base, delay in (("x", offset, 1.0), ("y", offset + 5.0, np.nan))
            for seed in range(8)
        ]
    )

    def test_one_row_for_each(self) -> None:
        summary = summarize(self.results, ["return", "delay"])
        assert len(summary) == 8
        row = summary[(summary["env_id"] == "B") & (summary["policy"] == "y")].iloc[0]
        assert row["metric"] == "return"
        assert (row["n"], row["estimate"]) == (8, 108.5)
        expected = bootstrap(105.0 + np.arange(8))
        assert (row["low"], row["high"]) == (expected.low, expected.high)

    def test_undefined_values_are_left_out(self) -> None:
        summary = summarize(self.results, ["delay"]).set_index(["env_id", "policy"])
        assert summary.loc[("A", "y"), "n"] == 0
        assert np.isnan(summary.loc[("A", "y"), "estimate"])
        assert summary.loc[("A", "x"), "estimate"] == 1.0

    def test_reference_is_compared_in_pairs(self) -> None:
        shuffled = self.results.sample(frac=1.0, random_state=0)
        summary = summarize(shuffled, ["return"], reference="x").set_index(["env_id", "policy"])
        for env in "AB":
            row = summary.loc[(env, "y")]
            assert (row["difference"], row["difference_low"], row["difference_high"]) == (5.0, 5.0, 5.0)
            assert summary.loc[(env, "x"), "difference"] == 0.0

    def test_runs(self) -> None:
        first = self.results.assign(run=0)
        second = first.assign(run=1, **{"return": first["return"] + 2.0})
        both = pd.concat([first, second[second["policy"] == "y"]])
        row = summarize(both, ["return"], reference="x").set_index(["env_id", "policy"]).loc[("A", "y")]
        assert (row["n"], row["runs"], row["estimate"], row["difference"]) == (16, 2, 9.5, 6.0)
        values = 5.0 + np.arange(8) + np.array([[0.0], [2.0]])
        assert (row["low"], row["high"]) == (bootstrap(values).low, bootstrap(values).high)
        assert row["difference_low"] == pytest.approx(5.0)
        assert row["difference_high"] == pytest.approx(7.0)
        itself = summarize(both, ["return"], reference="y").set_index(["env_id", "policy"]).loc[("A", "y")]
        assert (itself["difference_low"], itself["difference_high"]) == (0.0, 0.0)
        with pytest.raises(ValueError, match="'x' has the episode of seed 0 twice in A, run 0"):
            summarize(pd.concat([first, first]), ["return"])

    def test_environments_are_strata_when_pooled(self) -> None:
        summary = summarize(self.results, ["return"], reference="x", pooled="all")
        row = summary.set_index(["env_id", "policy"]).loc[("all", "y")]
        strata = [5.0 + np.arange(8), 105.0 + np.arange(8)]
        assert (row["estimate"], row["low"]) == (58.5, bootstrap(strata).low)
        assert row["high"] - row["low"] < 4
        assert (row["difference"], row["difference_low"]) == (5.0, 5.0)
        assert len(summary) == 6

    def test_a_policy_that_lacks_an_environment_is_not_pooled(self) -> None:
        """Beside those of all environments, a figure of one would look better or worse than the policy is."""
        results = self.results[(self.results["policy"] == "x") | (self.results["env_id"] == "A")]
        results = results.assign(of_a=results["return"].where(results["env_id"] == "A"))
        summary = summarize(results, ["return", "of_a"], reference="x", pooled="all")
        rows = summary.set_index(["env_id", "policy", "metric"]).loc["all"]
        assert rows["n"].to_dict() == {
            ("x", "return"): 16, ("x", "of_a"): 8, ("y", "return"): 0, ("y", "of_a"): 8
        }  # fmt: skip
        assert rows.loc[("y", "return"), ["estimate", "low", "difference"]].isna().all()
        assert rows.loc[("y", "of_a"), "difference"] == 5.0

    def test_values_that_are_infinite(self) -> None:
        results = self.results.assign(delay=self.results["delay"].where(self.results.index != 3, -np.inf))
        message = "policy 'x' has delay=-inf in the episode of seed 3 of A, run 0: must be finite"
        with pytest.raises(ValueError, match=message):
            summarize(results, ["delay"])

    def test_runs_without_a_common_episode(self) -> None:
        first = self.results.assign(run=0)
        other = first[first["policy"] == "y"].assign(run=1)
        with pytest.raises(ValueError, match="policy 'y': its 2 runs have no episode in common in A"):
            summarize(pd.concat([first, other.assign(seed=other["seed"] + 8)]), ["return"])
        some = summarize(pd.concat([first, other.assign(seed=other["seed"] + 5)]), ["return"])
        assert some.set_index(["env_id", "policy"]).loc[("A", "y"), "n"] == 2 * 3

    def test_bad_names(self) -> None:
        with pytest.raises(ValueError, match=r"metric='retrun'.*did you mean 'return'"):
            summarize(self.results, ["retrun"])
        with pytest.raises(ValueError, match="reference='z'"):
            summarize(self.results, ["return"], reference="z")
