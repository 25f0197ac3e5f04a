"""The search for the best known curve, and the tuning of thresholds."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from vcc_small import fresh, play, series_of, small_config, trace_of

from greendc.baselines import best_known
from greendc.baselines.vcc import AlwaysOn, BestKnown, Constant, DayAhead, MoerThreshold, Rolling
from greendc.baselines.vcc.best_known import CurveSearch
from greendc.baselines.vcc.tune import tune_threshold


def options(**more):
    config = small_config()
    kept = {"month": config.month, "moer": config.moer, "days": config.days, "workload": config.workload}
    return {**kept, **more}


@pytest.mark.parametrize("discrete", [None, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_no_worse_than_any_policy_whose_curve_it_knows(discrete, seed):
    policies = {AlwaysOn: {}, Constant: {"level": 0.7}, MoerThreshold: {}, DayAhead: {}, Rolling: {}}
    totals, curves = [], []
    config = small_config(discrete_actions=discrete)
    for policy_class, arguments in policies.items():
        simulator, observations = fresh(config, seed=seed)
        play(policy_class(simulator, **arguments), observations)
        totals.append(simulator.episode_metrics(0)["total_cost"])
        curves.append(simulator.report.history["vcc"][0].copy())
    _, metrics = best_known("VCC", seed, curves, 0, **options(discrete_actions=discrete))
    assert metrics["total_cost"] <= min(totals) + 1e-9
    _, searched = best_known("VCC", seed, curves, 300, **options(discrete_actions=discrete))
    assert searched["total_cost"] < metrics["total_cost"]


@pytest.mark.parametrize("env_id", ["VCC", "DiscreteVCC"])
def test_its_metrics_are_those_of_the_environment_under_its_curve(env_id):
    curve, metrics = best_known(env_id, 3, budget=100, **options())
    env = gym.make(env_id + "-v1", **options())
    env.reset(seed=3)
    for level in curve:
        discrete = env.unwrapped.config.discrete_actions
        action = np.array([level], dtype=np.float32) if discrete is None else round(level * (discrete - 1))
        assert env.action_space.contains(action)
        *_, truncated, info = env.step(action)
    assert truncated
    assert info["episode_metrics"] == metrics


def test_the_search_finds_the_known_optimum():
    """One job of two hours a day, two clean hours each day: nothing needs to be emitted."""
    jobs = trace_of((2, 2, 0.4, 100), (26, 2, 0.4, 100), days=2)
    moer = np.full(1000, 0.4)
    moer[[48 + 9, 48 + 10, 48 + 33, 48 + 34]] = 0.0
    config = small_config(
        workload=jobs, moer=series_of(moer), capacity=1.0, resample_days=False, warm_start=False
    )
    simulator, _ = fresh(config)
    search = CurveSearch(simulator, 0)
    metrics = search.metrics(search.run([], 300))
    assert metrics["total_cost"] == 0
    assert metrics["executed_work"] == pytest.approx(1.6)


def test_the_search_is_repeatable_and_leaves_the_environment_alone():
    simulator, _ = fresh(small_config(), num_envs=2)
    before = simulator.state.cluster.copy()
    first = CurveSearch(simulator, 1).run([], 150)
    np.testing.assert_array_equal(CurveSearch(simulator, 1).run([], 150), first)
    np.testing.assert_array_equal(simulator.state.cluster, before)


def test_the_policy_plays_the_curve_of_each_environment():
    simulator, observations = fresh(small_config(), num_envs=2)
    expected = [CurveSearch(simulator, i).run([], 120) for i in range(2)]
    played = play(BestKnown(simulator, budget=120), observations)
    np.testing.assert_array_equal(played[:, :, 0].T, expected)
    assert (expected[0] != expected[1]).any()


def test_curves_to_start_from_may_differ_by_environment():
    simulator, observations = fresh(small_config(), num_envs=2)
    better = np.array([CurveSearch(simulator, i).run([], 200) for i in range(2)])
    played = play(BestKnown(simulator, starts=[better], budget=0), observations)
    np.testing.assert_array_equal(played[:, :, 0].T, better)


def test_what_it_refuses():
    simulator, observations = fresh(small_config())
    with pytest.raises(ValueError, match="curves of 48 hours"):
        CurveSearch(simulator, 0).run([np.ones(47)], 0)
    with pytest.raises(ValueError, match="from 0 to 1"):
        CurveSearch(simulator, 0).run([np.full(48, 1.5)], 0)
    with pytest.raises(ValueError, match="from 0 to 1"):
        CurveSearch(simulator, 0).run([np.full(48, np.nan)], 0)
    simulator.step(np.ones((1, 1)), observations)
    with pytest.raises(ValueError, match="beginning"):
        CurveSearch(simulator, 0)
    with pytest.raises(ValueError, match="beginning"):
        BestKnown(simulator).predict(observations)


def test_tuning_looks_at_training_months_only():
    grid = {"seeds": (0,), "quantiles": (0.5, 0.7), "lows": (0.4, 1.0), "highs": (1.0,), "days": 2}
    table = tune_threshold("VCC-2019", **grid)
    assert len(table) == 4
    assert table["total_cost"].is_monotonic_increasing
    off = table[table["low"] == 1.0]
    np.testing.assert_allclose(off["carbon_change"], 0, atol=1e-12)
    assert (table[table["low"] == 0.4]["carbon_change"] < 0).all()
    assert tune_threshold("VCC-2021", **grid).equals(table)


def test_tuning_needs_a_seed():
    with pytest.raises(ValueError, match="seeds"):
        tune_threshold(seeds=())
