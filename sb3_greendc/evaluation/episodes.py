"""Episodes of one policy run side by side: the unit of work of an evaluation."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.vec_env import VecEnv

from greendc.baselines import BaselinePolicy
from greendc.baselines.resource_pool import WorkConserving
from greendc.shipped.policy import ShippedPolicy
from sb3_greendc.core.generators import generators_kept
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.policy_sources import (
    PolicySource,
    Predictor,
    ReadsOthers,
    needs_masks,
    takes_masks,
)
from sb3_greendc.evaluation.uniform import Uniform

Recording: TypeAlias = "list[NDArray[Any]]"
"""What a policy did: for each environment of a batch its actions, ``(steps, *action_space.shape)``."""


@dataclass(frozen=True)
class Batch:
    """Episodes of one run of a policy, as other processes can be sent them.

    :param source: the policy
    :param env_id: the environment, with its version
    :param first: number of the first episode
    :param n_episodes: how many, side by side
    :param seed: seed of the first episode; the next one has the next seed
    :param env_kwargs: keyword arguments of the environment
    :param deterministic: ask for the most likely action; otherwise sampling is seeded too
    :param record: keep the actions
    :param recordings: what others did in these episodes, for a policy that considers it
    """

    source: PolicySource
    env_id: str
    first: int
    n_episodes: int
    seed: int
    env_kwargs: Mapping[str, Any]
    deterministic: bool = True
    record: bool = False
    recordings: tuple[Recording, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class BatchResult:
    """What a batch gives: each episode's results, and its actions if they were recorded."""

    episodes: list[dict[str, float]]
    actions: Recording | None


def run_batch(batch: Batch, on_step: Callable[[int], None] | None = None) -> BatchResult:
    """Run the episodes of a batch.

    :param batch: what to run
    :param on_step: called after each step with the number of steps so far
    """
    env_kwargs = {**batch.env_kwargs, **batch.source.choice}
    env = batch.source.prepare_env(make_vec_env(batch.env_id, batch.n_episodes, batch.seed, **env_kwargs))
    actions: Recording | None = [] if batch.record else None
    try:
        policy = batch.source.policy_for(env)
        acting = policy.policy if isinstance(policy, WorkConserving) else policy
        if isinstance(acting, BaselinePolicy | Uniform):
            acting.begin_at(batch.first)
        seeded = (
            contextlib.nullcontext()
            if batch.deterministic
            else seeded_sampling(policy, batch.seed, batch.n_episodes)
        )
        with seeded:
            if isinstance(policy, ReadsOthers):
                for recording in batch.recordings:
                    policy.consider(recording)
            episodes = run_episodes(policy, env, batch.seed, batch.deterministic, on_step, actions)
    finally:
        env.close()
    return BatchResult(episodes, actions)


def run_episodes(
    policy: Predictor,
    env: VecEnv,
    seed: int,
    deterministic: bool = True,
    on_step: Callable[[int], None] | None = None,
    recording: Recording | None = None,
) -> list[dict[str, float]]:
    """Run one episode in each environment of a batch, and return each one's results.

    :param policy: what acts; recurrent states are carried along, masks are passed where it takes them
    :param env: monitored environments; environment ``i`` is seeded ``seed + i``
    :param seed: seed of environment 0
    :param deterministic: ask for the most likely action
    :param on_step: called after each step of the batch with the number of steps so far
    :param recording: an empty list that the actions of each environment's episode are put in
    :return: for each environment ``return``, ``length``, ``cost`` and the episode's metrics
    :raises ValueError: if the policy needs action masks and the environment has none
    """
    has_masks = is_masking_supported(env)
    if needs_masks(policy) and not has_masks:
        raise ValueError("the policy needs action masks, and the environment has no action_masks()")
    masked = has_masks and takes_masks(policy)
    env.seed(seed)
    observations = env.reset()
    state = None
    starts = np.ones(env.num_envs, dtype=np.bool_)
    costs = np.zeros(env.num_envs)
    results: list[dict[str, float] | None] = [None] * env.num_envs
    taken: list[NDArray[Any]] = []
    steps = 0
    while any(result is None for result in results):
        masks = {"action_masks": get_action_masks(env)} if masked else {}
        actions, state = policy.predict(
            observations, state=state, episode_start=starts, deterministic=deterministic, **masks
        )
        if recording is not None:
            taken.append(np.array(actions))
        observations, _, starts, infos = env.step(actions)
        steps += 1
        costs += [info.get("cost", math.nan) for info in infos]
        for i in np.flatnonzero(starts):
            if results[i] is None:
                results[i] = _result(infos[i], float(costs[i]))
        if on_step is not None:
            on_step(steps)
    finished = [result for result in results if result is not None]
    if recording is not None:
        everything = np.stack(taken)
        recording += [everything[: int(result["length"]), i] for i, result in enumerate(finished)]
    return finished


def _result(info: Mapping[str, Any], cost: float) -> dict[str, float]:
    episode = info["episode"]
    own = {"return": float(episode["r"]), "length": int(episode["l"]), "cost": cost}
    return {**own, **{key: value for key, value in info.get("episode_metrics", {}).items() if key not in own}}


@contextlib.contextmanager
def seeded_sampling(policy: Predictor, seed: int, n_envs: int = 1) -> Iterator[None]:
    """Seed all that a policy may draw actions from inside the block: torch, NumPy, its action space, its own.

    The generators that it shares with others are left as they were.

    The noise of a policy with state-dependent exploration (gSDE) is drawn anew, and put back as it was.

    :param policy: what acts; the generator of a shipped policy is its own, and stays seeded
    :param seed: of all of them
    :param n_envs: environments side by side: with gSDE, each has noise of its own
    """
    inner: Any = policy.policy if isinstance(policy, WorkConserving) else policy
    if isinstance(inner, ShippedPolicy):
        inner.reseed(seed)
    space = getattr(inner, "action_space", None)
    generator = space.np_random if isinstance(space, spaces.Space) else np.random.default_rng()
    of_space = generator.bit_generator.state
    with generators_kept():
        th.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 (DQN explores with it, and with its action space)
        generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state
        try:
            with _new_noise(inner, n_envs):
                yield
        finally:
            generator.bit_generator.state = of_space


@contextlib.contextmanager
def _new_noise(policy: Any, n_envs: int) -> Iterator[None]:
    """Draw the noise of a policy with gSDE, which SB3 draws when a model is built, and put it back."""
    policy = policy.policy if isinstance(policy, BaseAlgorithm) else policy
    noise = getattr(getattr(policy, "actor", policy), "action_dist", None)
    if not isinstance(noise, StateDependentNoiseDistribution):
        yield
        return
    before = dict(vars(noise))
    policy.reset_noise(n_envs)
    try:
        yield
    finally:
        vars(noise).update(before)
