"""VCC baselines that look at the forecast alone, and what all of them share."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from vcc_small import fresh, play, series_of, small_config

from greendc.baselines.vcc import (
    AlwaysOn,
    BestKnown,
    Constant,
    DayAhead,
    MoerThreshold,
    RandomCapacity,
    Rolling,
)
from greendc.baselines.vcc.policy import lowest_level_not_below
from greendc.vcc.columns import FORECAST

ALL = [AlwaysOn, Constant, MoerThreshold, DayAhead, Rolling]


@pytest.mark.parametrize("levels", [2, 3, 11, 101])
def test_a_discrete_cap_is_the_lowest_level_not_below(levels):
    for level in range(levels):  # a level is itself, however it was rounded
        exact = level / (levels - 1)
        assert lowest_level_not_below(np.array([exact, np.float32(exact)]), levels).tolist() == [level] * 2
    values = np.random.default_rng(0).random(1000)
    chosen = lowest_level_not_below(values, levels)
    assert (chosen / (levels - 1) >= values - 1e-6).all()
    assert ((chosen - 1) / (levels - 1) < values).all()


@pytest.mark.parametrize("levels", [None, 5])
def test_random_capacities_are_uniform_and_their_seed_fixes_them(levels):
    simulator, _ = fresh(small_config(discrete_actions=levels))
    observations = np.zeros((4000, *simulator.observation_space.shape), dtype=np.float32)
    drawn = RandomCapacity(simulator, seed=1).predict(observations)[0]
    assert (drawn == RandomCapacity(simulator, seed=1).predict(observations)[0]).all()
    assert (drawn != RandomCapacity(simulator, seed=2).predict(observations)[0]).any()
    shares = np.bincount(drawn, minlength=5) if levels else np.histogram(drawn, 5, (0, 1))[0]
    assert (np.abs(shares - 800) < 120).all()  # five standard deviations


def test_threshold_compares_this_hour_with_the_quantile_of_24():
    simulator, _ = fresh(small_config())
    policy = MoerThreshold(simulator, quantile=0.5, low=0.25, high=0.75)
    observations = np.zeros((4, *simulator.observation_space.shape), dtype=np.float32)
    observations[:, FORECAST] = np.arange(24)
    observations[:, 3] = [11, 12, 13, 30]  # medians 11.5, 12, 12.5, 12.5
    assert policy.predict(observations)[0][:, 0].tolist() == [0.75, 0.75, 0.25, 0.25]


def test_threshold_takes_flat_emissions_for_clean():
    simulator, observations = fresh(small_config(moer=series_of(np.full(1000, 0.2))))
    assert (play(MoerThreshold(simulator, 0.0, 0.3, 0.9), observations) == np.float32(0.9)).all()


def test_always_on_is_the_no_delay_schedule():
    simulator, observations = fresh(small_config(target_load=0.2))
    play(AlwaysOn(simulator), observations)
    metrics = simulator.episode_metrics(0)
    assert metrics["mean_delay"] == 0
    assert metrics["carbon_kg"] == pytest.approx(metrics["carbon_no_delay_kg"])


@pytest.mark.parametrize("policy_class", ALL)
def test_a_batch_acts_as_single_environments_do(policy_class):
    simulator, observations = fresh(small_config(), num_envs=3, seed=5)
    batched = play(policy_class(simulator), observations)
    for i in range(3):
        simulator, observations = fresh(small_config(), seed=5 + i)
        policy = policy_class(simulator)
        for hour in range(simulator.hours):
            action, _ = policy.predict(observations[0])  # one observation, not a batch of one
            assert action.shape == simulator.action_space.shape
            np.testing.assert_array_equal(action, batched[hour, i])
            simulator.step(action[None], observations)


@pytest.mark.parametrize("policy_class", ALL)
def test_pickled_policies_go_on_the_same(policy_class):
    simulator, observations = fresh(small_config(), num_envs=2)
    policy = policy_class(simulator)
    for _ in range(30):
        simulator.step(policy.predict(observations)[0], observations)
    copy = pickle.loads(pickle.dumps(policy))
    copied = observations.copy()
    for _ in range(18):
        actions = policy.predict(observations)[0]
        np.testing.assert_array_equal(copy.predict(copied)[0], actions)
        simulator.step(actions, observations)
        copy.simulator.step(actions, copied)


@pytest.mark.parametrize("policy_class", ALL)
def test_a_second_episode_is_played_like_a_first(policy_class):
    simulator, observations = fresh(small_config())
    policy = policy_class(simulator)
    play(policy, observations)
    simulator.reset_env(0, np.random.default_rng(9))
    simulator.observe(observations)
    again = play(policy, observations)
    other, observations = fresh(small_config(), seed=9)
    np.testing.assert_array_equal(again, play(policy_class(other), observations))


@pytest.mark.parametrize("policy_class", ALL)
def test_nobody_sees_the_future_under_an_honest_forecast(policy_class):
    """Emissions from hour 30 on are replaced; up to then, the actions are the same."""
    cut = 48 + 30
    base = np.random.default_rng(1).random(1000)
    changed = base.copy()
    changed[cut:] = np.random.default_rng(2).random(1000 - cut)
    played = []
    for moer in (base, changed):
        series = series_of(moer)
        forecast = series.forecast.copy()
        forecast[:] = 0.5  # the archive's forecast knows nothing of either
        series = type(series)("test", series.start, moer, forecast)
        simulator, observations = fresh(small_config(moer=series, forecast="sgip"))
        played.append(play(policy_class(simulator), observations))
    np.testing.assert_array_equal(played[0][:31], played[1][:31])


def test_observations_of_another_shape_are_refused():
    simulator, observations = fresh(small_config(), num_envs=2)
    with pytest.raises(ValueError, match=r"observation of shape \(2, 42\)"):
        AlwaysOn(simulator).predict(observations[:, 1:])
    for policy_class in (DayAhead, Rolling, BestKnown):
        with pytest.raises(ValueError, match="must be one row for each"):
            policy_class(simulator).predict(observations[:1])
        with pytest.raises(ValueError, match="must be one row for each"):
            policy_class(simulator).predict(observations[0])
    assert len(AlwaysOn(simulator).predict(observations[:1])[0]) == 1


def test_state_is_handed_back():
    simulator, observations = fresh(small_config())
    state = (np.zeros(3),)
    assert Constant(simulator).predict(observations, state, np.array([True]))[1] is state
