"""A race of actions: who is left behind, and after how many futures, is as in a plain reference."""

from __future__ import annotations

import numpy as np
import pytest
from heuristic_cases import check_alone_as_in_a_batch

from greendc.baselines import make_policy
from greendc.resource_pool import ResourcePoolVectorEnv

ENVS = 4
OPTIONS = {"depth": 20, "dispatch": "easy"}


def raced(outcomes, handicaps, margin):
    """Return the means of the actions that are not left behind, NaN elsewhere.

    :param outcomes: of each action in each future, NaN for actions that are no candidates
    :param handicaps: added to the means where actions are compared
    """
    left = [a for a in range(len(outcomes)) if not np.isnan(outcomes[a, 0])]
    tried, futures = 0, outcomes.shape[1]
    while tried < futures and len(left) > 1:
        tried = min(max(16, 2 * tried), futures)
        means = {a: outcomes[a, :tried].mean() + handicaps[a] for a in left}
        best = max(left, key=means.__getitem__)
        errors = {
            a: (outcomes[best, :tried] - outcomes[a, :tried]).std(ddof=1) / np.sqrt(tried) for a in left
        }
        rounding = 1e-9 * abs(means[best])
        left = [a for a in left if means[best] - means[a] <= margin * errors[a] + rounding]
    means = np.full(len(outcomes), np.nan)
    means[left] = outcomes[left, :tried].mean(axis=1) + handicaps[left] if tried else 0.0
    return means, tried


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("env_kwargs", [{}, {"suspend": True, "power": "markov", "power_low": 0.5}])
def test_who_is_left_behind_is_as_in_the_reference(with_prior, env_kwargs):
    env = ResourcePoolVectorEnv(ENVS, offered_load=1.2, **env_kwargs)
    opinions = np.random.default_rng(0).normal(size=(ENVS, 12))
    prior = {"prior": lambda _: opinions, "trust": 24} if with_prior else {}
    policy = make_policy("rollout", env, futures=72, race=2.0, **OPTIONS, **prior)
    simulator = env.simulator
    handicaps = opinions * simulator.mean_value * 24 / 72 if with_prior else np.zeros((ENVS, 12))
    observations, _ = env.reset(seed=0)
    lengths = []
    for _ in range(60):
        candidates = policy._candidates()
        futures = policy._futures_of(candidates)
        outcomes = np.empty((72, ENVS, 12))
        for f in range(72):
            one = np.ascontiguousarray(futures[:, f : f + 1])
            policy._value_actions(outcomes[f], candidates, one, policy._memory, simulator.state, 0)
        found = policy._judge_by_race(candidates, observations)
        actions = policy.predict(observations)[0]
        for b in range(ENVS):
            expected, tried = raced(outcomes[:, b].T, handicaps[b], 2.0)
            if candidates[b].sum() > 1:
                np.testing.assert_allclose(found[b], expected, rtol=1e-9, atol=1e-9)
                lengths.append(tried)
            assert actions[b] == np.nanargmax(found[b])
        observations = env.step(actions)[0]
    assert {16, 32, 64, 72} <= set(lengths)


def test_a_race_without_losers_is_no_race():
    env = ResourcePoolVectorEnv(8, offered_load=1.2)
    plain = make_policy("rollout", env, futures=40, **OPTIONS)
    patient = make_policy("rollout", env, futures=40, race=1e9, **OPTIONS)
    observations, _ = env.reset(seed=1)
    compared = 0
    for _ in range(60):
        actions = plain.predict(observations)[0]
        np.testing.assert_array_equal(patient.predict(observations)[0], actions)
        np.testing.assert_array_equal(patient.advantages(observations), plain.advantages(observations))
        candidates = plain._candidates()
        found = patient._judge_by_race(candidates, observations)
        rows = (np.isfinite(found) == candidates).all(axis=1) & (candidates.sum(axis=1) > 1)
        compared += rows.sum()
        # Bit for bit, so that of actions of the same value the same one is taken.
        np.testing.assert_array_equal(found[rows], plain._values(candidates)[rows])
        observations = env.step(actions)[0]
    assert compared > 50


def test_it_decides_the_same_alone_as_in_a_batch():
    check_alone_as_in_a_batch("rollout", futures=48, race=1.5)


@pytest.mark.parametrize("race", [0, -1.0, float("nan")])
def test_a_margin_that_is_none_is_refused(race):
    with pytest.raises(ValueError, match=r"race=.*above 0 standard errors"):
        make_policy("rollout", ResourcePoolVectorEnv(1), race=race)
