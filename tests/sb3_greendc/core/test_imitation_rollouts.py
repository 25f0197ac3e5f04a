"""Baselines of every family in imitation's own ``rollout.rollout``, on batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from greendc.baselines import make_policy
from sb3_greendc import make_vec_env
from sb3_greendc.datasets import from_trajectories

rollout: Any = pytest.importorskip("imitation.data.rollout")

KEEP = {"unwrap": False, "exclude_infos": False}
"""No wrapper of imitation's is there to be undone; the infos say how episodes ended."""
CASES = [
    ("ResourcePool-10-v0", "hvf", {"episode_steps": 6}, {}),
    ("ResourcePool-10-v0", "plan", {"episode_steps": 4}, {"futures": 1, "depth": 8}),
    ("VCC-2019-v1", "rolling", {"days": 1}, {}),
    ("DiscreteVCC-2019-v1", "always_on", {"days": 1}, {}),
]


@pytest.mark.parametrize(("env_id", "name", "options", "settings"), CASES)
def test_rollouts(env_id: str, name: str, options: dict[str, Any], settings: dict[str, Any]) -> None:
    env = make_vec_env(env_id, 3, seed=0, **options)
    policy = make_policy(name, env, **settings)
    enough = rollout.make_sample_until(min_episodes=3)
    trajectories = rollout.rollout(policy, env, enough, rng=np.random.default_rng(0), **KEEP)
    assert len(trajectories) >= 3 and all(trajectory.terminal for trajectory in trajectories)
    data = from_trajectories(trajectories, env.observation_space, env.action_space)  # checks the masks, too
    again = make_vec_env(env_id, 3, seed=0, **options)
    first = make_policy(name, again, **settings).predict(again.reset())[0]
    starts = data.actions[[int(rows[0]) for rows in _episodes(data)]]
    assert {tuple(np.ravel(action)) for action in first} <= {tuple(np.ravel(action)) for action in starts}


def _episodes(data: Any) -> list[Any]:
    return [np.flatnonzero(data.episode_id == one) for one in np.unique(data.episode_id)]


def test_a_call_is_predict() -> None:
    env = make_vec_env("ResourcePool-10-v0", 3, seed=0)
    policy = make_policy("hvf", env)
    observations = env.reset()
    state = (np.ones(3),)
    actions, kept = policy(observations, state, np.ones(3, bool))
    np.testing.assert_array_equal(actions, policy.predict(observations)[0])
    assert kept is state
