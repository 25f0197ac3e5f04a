"""Policies of any kind judged on the same episodes, as a tidy table: a row per policy and episode."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch as th
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.vec_env import VecEnv
from tqdm.auto import tqdm

import greendc
from greendc.config import require
from sb3_greendc.common.contestants import (
    Contestant,
    Policy,
    Predictor,
    contestants,
    needs_masks,
    takes_masks,
)
from sb3_greendc.common.vec_env import make_vec_env


def evaluate(
    policies: Mapping[str, Policy] | Sequence[Policy],
    env_id: str,
    n_episodes: int = 10,
    seed: int = 0,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    deterministic: bool = True,
    batch_size: int = 128,
    progress: bool = False,
) -> pd.DataFrame:
    """Run every policy on the same episodes.

    Episode ``k`` of every policy is the first one of an environment seeded ``seed + k``, so that
    policies are compared pair by pair. The episodes of a policy run as one batch. Returns are those of
    the environment itself, also for models trained under ``VecNormalize``, whose normaliser is applied
    to what they observe. Policies that take action masks get them.

    :param policies: policies, or a mapping that gives each its name in the table
    :param env_id: an environment id, with or without a version
    :param n_episodes: episodes of each policy
    :param seed: seed of the first episode
    :param env_kwargs: keyword arguments of the environment
    :param deterministic: ask policies for their most likely action; otherwise sampling is seeded too
    :param batch_size: episodes that run side by side at most
    :param progress: show a progress bar
    :return: columns ``policy``, ``env_id``, ``episode``, ``seed``, ``return``, ``length``, ``cost`` (the
        sum of ``info["cost"]``, NaN where an environment has none), and every episode metric
    :raises ValueError: for an unknown id, policy or keyword value, a model of other spaces, a policy
        that needs masks where there are none, or two policies of one name
    :raises TypeError: for an unknown keyword argument of the environment
    """
    checked = Evaluation(policies, env_id, n_episodes, seed, env_kwargs, deterministic, batch_size)
    return checked.run(progress)


class Evaluation:
    """What :func:`evaluate` is asked for, checked when built, so that nothing runs before all of it fits.

    The parameters are those of :func:`evaluate`.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy] | Sequence[Policy],
        env_id: str,
        n_episodes: int = 10,
        seed: int = 0,
        env_kwargs: Mapping[str, Any] | None = None,
        deterministic: bool = True,
        batch_size: int = 128,
    ) -> None:
        require(n_episodes >= 1, "n_episodes", n_episodes, "1 or more")
        require(seed >= 0, "seed", seed, "0 or more")
        require(batch_size >= 1, "batch_size", batch_size, "1 or more")
        self.env_id = greendc.resolve_env_id(env_id)
        self.env_kwargs = dict(env_kwargs or {})
        self.n_episodes, self.seed, self.batch_size = n_episodes, seed, batch_size
        self.deterministic = deterministic
        self.contestants = contestants(policies, self.env_id)
        env = self._make_env(1)
        for contestant in self.contestants:
            contestant.enter(env)
        env.close()

    def run(self, progress: bool = False) -> pd.DataFrame:
        """Run every episode of every policy and return the table of :func:`evaluate`."""
        rows: list[dict[str, Any]] = []
        total = len(self.contestants) * self.n_episodes
        with tqdm(total=total, disable=not progress, unit="episode") as bar:
            for contestant in self.contestants:
                bar.set_description(contestant.name)
                for first in range(0, self.n_episodes, self.batch_size):
                    results = self._run_batch(contestant, first, bar)
                    for k, result in enumerate(results, first):
                        head = {"policy": contestant.name, "env_id": self.env_id, "episode": k}
                        rows.append({**head, "seed": self.seed + k, **result})
                    bar.update(len(results))
        return pd.DataFrame(rows)

    def _run_batch(self, contestant: Contestant, first: int, bar: tqdm[Any]) -> list[dict[str, float]]:
        seed = self.seed + first
        env = contestant.enter(self._make_env(min(self.batch_size, self.n_episodes - first)))
        try:
            with _seeded_sampling(None if self.deterministic else seed):
                policy = contestant.policy_for(env)
                return run_episodes(policy, env, seed, self.deterministic, _show_steps(bar))
        finally:
            env.close()

    def _make_env(self, n_envs: int) -> VecEnv:
        return make_vec_env(self.env_id, n_envs, **self.env_kwargs)


def run_episodes(
    policy: Predictor,
    env: VecEnv,
    seed: int,
    deterministic: bool = True,
    on_step: Callable[[int], None] | None = None,
) -> list[dict[str, float]]:
    """Run one episode in each environment of a batch, and return each one's results.

    :param policy: what acts; recurrent states are carried along, masks are passed where it takes them
    :param env: monitored environments; environment ``i`` is seeded ``seed + i``
    :param seed: seed of environment 0
    :param deterministic: ask for the most likely action
    :param on_step: called after each step of the batch with the number of steps so far
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
    steps = 0
    while any(result is None for result in results):
        masks = {"action_masks": get_action_masks(env)} if masked else {}
        actions, state = policy.predict(
            observations, state=state, episode_start=starts, deterministic=deterministic, **masks
        )
        observations, _, starts, infos = env.step(actions)
        steps += 1
        costs += [info.get("cost", math.nan) for info in infos]
        for i in np.flatnonzero(starts):
            if results[i] is None:
                results[i] = _result(infos[i], float(costs[i]))
        if on_step is not None:
            on_step(steps)
    return [result for result in results if result is not None]


def _result(info: Mapping[str, Any], cost: float) -> dict[str, float]:
    episode = info["episode"]
    own = {"return": float(episode["r"]), "length": int(episode["l"]), "cost": cost}
    return {**own, **{key: value for key, value in info.get("episode_metrics", {}).items() if key not in own}}


@contextlib.contextmanager
def _seeded_sampling(seed: int | None) -> Iterator[None]:
    """Seed torch's generator inside the block and leave it as it was; ``None`` does nothing."""
    if seed is None:
        yield
        return
    with th.random.fork_rng(devices=[]):
        th.manual_seed(seed)
        yield


def _show_steps(bar: tqdm[Any]) -> Callable[[int], None]:
    def show(steps: int) -> None:
        if steps % 24 == 0:
            bar.set_postfix(step=steps, refresh=False)
            bar.update(0)

    return show
