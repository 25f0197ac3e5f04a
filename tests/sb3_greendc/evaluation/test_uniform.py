"""Chance stands in every comparison: in environments of all kinds, under their masks."""

import numpy as np
import pytest
from gymnasium import spaces

from sb3_greendc.evaluation.collection import collect
from sb3_greendc.evaluation.episodes import Batch, run_batch
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.evaluation.policy_sources import policy_sources
from sb3_greendc.evaluation.uniform import Uniform

ROWS = 9000


def test_an_environment_that_is_none_of_ours() -> None:
    returns = (
        evaluate(["random", "other=random:seed=7"], "CartPole-v1", 64).groupby("policy")["return"].mean()
    )
    assert returns["random"] == pytest.approx(22, abs=5)
    assert returns["other"] == pytest.approx(22, abs=5)
    assert returns["other"] != returns["random"]


def test_a_cluster() -> None:
    rows = evaluate(["random", "sjf"], "Cluster-Lublin-v0", 4, env_kwargs={"episode_jobs": 64})
    slowdown = rows.groupby("policy")["mean_bounded_slowdown"].mean()
    assert slowdown["random"] > slowdown["sjf"]


def test_data_of_chance() -> None:
    data = collect(["random"], "CartPole-v1", 400)
    assert np.bincount(data.actions.ravel()) / len(data) == pytest.approx([0.5, 0.5], abs=0.1)


def test_masks_given_apart_or_in_observations() -> None:
    masks = np.tile([1, 0, 1, 1], (ROWS, 1))
    apart, _ = Uniform(spaces.Discrete(4)).predict(np.zeros((ROWS, 2)), action_masks=masks)
    inside, _ = Uniform(spaces.Discrete(4)).predict({"action_mask": masks})
    assert apart.tolist() == inside.tolist()
    assert np.bincount(apart, minlength=4) / ROWS == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3], abs=0.02)


def test_masks_of_several_choices() -> None:
    space = spaces.MultiDiscrete([2, 3])
    masks = np.tile([0, 1, 1, 0, 1], (ROWS, 1))
    actions, _ = Uniform(space).predict(np.zeros((ROWS, 2)), action_masks=masks)
    assert actions.shape == (ROWS, 2)
    assert set(map(tuple, actions)) == {(1, 0), (1, 2)}
    assert actions.mean(axis=0) == pytest.approx([1, 1], abs=0.05)
    bits, _ = Uniform(spaces.MultiBinary(3)).predict(np.zeros((ROWS, 2)))
    assert bits.mean(axis=0) == pytest.approx([0.5] * 3, abs=0.02)


def test_a_box_without_bounds_is_sampled_as_gymnasium_does() -> None:
    space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    actions, _ = Uniform(space, seed=1).predict(np.zeros((ROWS, 2)))
    assert np.std(actions) == pytest.approx(1, abs=0.05)
    assert actions.tolist() == Uniform(space, seed=1).predict(np.zeros((ROWS, 2)))[0].tolist()


def test_the_first_number_of_a_discrete_space() -> None:
    actions, _ = Uniform(spaces.Discrete(2, start=5)).predict(np.zeros((ROWS, 2)))
    assert set(actions) == {5, 6}


def test_wrong_options_are_named() -> None:
    with pytest.raises(TypeError, match="random: unknown option 'speed'; did you mean 'seed'"):
        evaluate(["random:speed=3"], "CartPole-v1", 1)
    with pytest.raises(ValueError, match="seed=-1: must be a whole number from 0"):
        evaluate(["random:seed=-1"], "CartPole-v1", 1)


CHANCE = [
    ("VCC-2021-v1", "random", {"days": 1}),
    ("ResourcePool-10-v0", "random", {"episode_steps": 50}),
    ("ResourcePool-10-v0", "work_conserving:random", {"episode_steps": 50}),
    ("ResourcePoolCarbon-10-v0", "random_actions", {"episode_steps": 50}),
    ("Cluster-Lublin-v0", "random", {"episode_jobs": 16}),
    ("CartPole-v1", "random", {}),
]


@pytest.mark.parametrize(("env_id", "policy", "env_kwargs"), CHANCE)
def test_chance_draws_anew_for_each_batch_of_episodes(env_id, policy, env_kwargs):
    """Else episodes were no independent draws: the policy is made for each batch, with the same seed."""
    guarded = policy.startswith("work_conserving:")
    name = policy.removeprefix("work_conserving:")
    (source,) = policy_sources([name], env_id, work_conserving=guarded)

    def actions(first):
        batch = Batch(source, env_id, first, 2, 5, env_kwargs, record=True)
        return [one.tolist() for one in run_batch(batch).actions]

    begun = actions(0)
    assert actions(0) == begun != actions(2) != actions(4)
    assert actions(2) == actions(2)
