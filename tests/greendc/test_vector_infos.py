"""Infos of a batch are those of Gymnasium's own vector environment over the same single ones."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import greendc
from greendc.environments import FINAL_OBSERVATION

try:
    from gymnasium.vector import AutoresetMode

    SAME_STEP: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}
except ImportError:
    SAME_STEP = {}

N = 3
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "vcc": ("VCC-v1", {"days": 1, "split": "train"}),
    "vcc-v0": ("VCC-2019-v0", {"days": 1}),
    "pool": ("ResourcePool-10-v0", {"episode_steps": 9}),
    "pool, jobs": ("ResourcePool-10-v0", {"episode_steps": 9, "info_jobs": True, "skip_forced": True}),
    "pool, flat": ("ResourcePoolGreen-10-v0", {"episode_steps": 9, "observation": "flat"}),
    "cluster": ("ClusterGreen-v0", {"episode_jobs": 12, "workload_jobs": 200}),
}
gymnasiums_own = pytest.mark.skipif(
    gym.__version__.startswith("1.0"), reason="Gymnasium 1.0 resets in the step after the last only"
)


def both(case: str) -> tuple[Any, Any]:
    env_id, options = CASES[case]
    singles = [lambda: gym.make(env_id, disable_env_checker=True, **options) for _ in range(N)]
    return greendc.make_vec(env_id, N, **options), SyncVectorEnv(singles, **SAME_STEP)


def steps(env: Any, count: int = 60, seed: int = 0) -> Any:
    """Yield actions that are valid where actions are masked."""
    rng = np.random.default_rng(seed)
    discrete = isinstance(env.single_action_space, gym.spaces.Discrete)
    for _ in range(count):
        if discrete:
            masks = env.action_masks()
            yield (rng.random(masks.shape) * masks).argmax(axis=1)
        else:
            yield rng.random((N, 1), dtype=np.float32)


def assert_alike(ours: Any, theirs: Any, where: str = "infos") -> None:
    """Compare what is there of both: dicts of arrays and masks, and what stands in arrays of objects."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict) and ours.keys() == theirs.keys(), where
        for key, value in theirs.items():
            mask = theirs.get(f"_{key}")
            if isinstance(value, np.ndarray) and mask is not None:
                assert len(ours[key]) == len(value) == N
                for i in np.flatnonzero(mask):
                    assert_alike(ours[key][i], value[i], f"{where}[{key!r}][{i}]")
            else:
                assert_alike(ours[key], value, f"{where}[{key!r}]")
    else:
        assert type(ours) is type(theirs) or np.asarray(ours).dtype == np.asarray(theirs).dtype, where
        np.testing.assert_array_equal(ours, theirs, err_msg=where)


@gymnasiums_own
@pytest.mark.parametrize("case", sorted(CASES))
def test_infos_are_those_of_gymnasiums_own_vector_environment(case):
    batch, own = both(case)
    (observations, infos), (their_observations, their_infos) = batch.reset(seed=7), own.reset(seed=7)
    assert_alike(observations, their_observations, "observations")
    assert_alike(infos, their_infos)
    ended = np.zeros(N, dtype=np.int64)
    for actions in steps(batch):
        ours, theirs = batch.step(actions), own.step(actions)
        assert_alike(ours[0], theirs[0], "observations")
        for mine, other in zip(ours[1:4], theirs[1:4], strict=True):
            np.testing.assert_array_equal(mine, other)
        assert_alike(ours[4], theirs[4])
        ended += ours[3]
    assert (ended >= 2).all()


@pytest.mark.parametrize("case", sorted(CASES))
def test_infos_are_not_written_to_by_later_steps(case):
    batch, _ = both(case)
    batch.reset(seed=7)
    kept: list[tuple[Any, Any]] = []
    for actions in steps(batch):
        infos = batch.step(actions)[4]
        kept.append((infos, copy.deepcopy(infos)))
    assert any("final_info" in infos for infos, _ in kept)
    for infos, as_given in kept:
        assert_alike(infos, as_given)


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_last_info_of_one_environment_is_had_by_its_index(case):
    env_id, options = CASES[case]
    batch = greendc.make_vec(env_id, N, **options)
    singles = [gym.make(env_id, disable_env_checker=True, **options) for _ in range(N)]
    batch.reset(seed=7)
    for i, env in enumerate(singles):
        env.reset(seed=7 + i)
    some_went_on = ended = 0
    for actions in steps(batch):
        _, _, _, truncated, infos = batch.step(actions)
        for i, env in enumerate(singles):
            observation, _, _, over, info = env.step(actions[i])
            assert over == truncated[i]
            if over:
                ended += 1
                assert infos["final_info"][i].keys() == info.keys()
                assert infos["final_info"][np.int64(i)]["episode_metrics"] == info["episode_metrics"]
                for key, value in info.items():
                    np.testing.assert_array_equal(infos["final_info"][i][key], value)
                assert_alike(infos[FINAL_OBSERVATION][i], observation)
                _, first = env.reset()
                for key, value in first.items():
                    assert infos[f"_{key}"][i]
                    np.testing.assert_array_equal(infos[key][i], value)
                for key in info.keys() - first.keys() - {"episode_metrics"}:
                    assert not infos.get(f"_{key}", truncated & False)[i], key
            elif "final_info" in infos:
                some_went_on += 1
                assert infos["final_info"][i] is None and infos[FINAL_OBSERVATION][i] is None
            if not over:
                assert infos["cost"][i] == info["cost"] and infos["_cost"][i]
    assert ended > N
    assert some_went_on or case not in ("pool, jobs", "cluster")  # the others all end at once


def test_what_is_no_index_of_an_environment_is_no_key():
    batch, _ = both("pool")
    batch.reset(seed=0)
    infos = next(infos for actions in steps(batch) if "final_info" in (infos := batch.step(actions)[4]))
    with pytest.raises(IndexError):
        infos["final_info"][N]
    if isinstance(infos["final_info"], dict):
        with pytest.raises(KeyError, match="episode_metric"):
            infos["final_info"]["episode_metric"]
