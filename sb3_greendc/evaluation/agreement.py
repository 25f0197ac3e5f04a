"""How far policies agree with heuristics on fresh episodes in which the heuristic drives (RARE, table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

import greendc
from greendc.baselines import BaselinePolicy
from greendc.config import require
from sb3_greendc.bc.scores import JOBS, state_scores, tie_sets
from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.core.progress import progress_over
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.policy_sources import Policy, PolicySource, policy_sources, takes_masks

FRESH_SEED = 1_000_000
"""Far from the seeds of training data."""
_RATIOS = {  # measure: column of the numerator, of the denominator, in `state_scores`
    "agreement": (0, 6),
    "agreement_free": (1, 7),
    "agreement_tie": (2, 6),
    "agreement_tie_free": (3, 7),
    "chance": (4, 6),
    "chance_free": (5, 7),
}
MEASURES = tuple(_RATIOS)
"""What is measured; :class:`~sb3_greendc.bc.scores.AgreementScores` explains each."""


def agreement(
    policies: Mapping[str, Policy] | Sequence[Policy],
    heuristics: Mapping[str, Policy] | Sequence[Policy],
    env_id: str,
    n_episodes: int = 20,
    seed: int = FRESH_SEED,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    confidence: float = 0.95,
    progress: bool = False,
) -> pd.DataFrame:
    """Let each heuristic drive through fresh episodes, and ask the policies what they would have done.

    Policies are asked for their most likely action. Heuristics among the policies give the matrix of
    heuristics against heuristics, which tells what an agreement is worth. Ties are those of
    :func:`~sb3_greendc.bc.tie_sets` for heuristics that decide by ``Dict`` observations of the resource pool;
    of others only the action itself counts.

    :param policies: what is compared, as :func:`~sb3_greendc.evaluation.paired.evaluate` takes it
    :param heuristics: what drives, in the same forms
    :param env_id: an environment with ``Discrete`` actions
    :param n_episodes: episodes of each heuristic
    :param seed: episode ``k`` is seeded ``seed + k``; keep away from the seeds of the training data
    :param env_kwargs: keyword arguments of the environment
    :param confidence: coverage of the intervals, which are bootstrapped over episodes
    :param progress: show a progress bar
    :return: columns ``heuristic``, ``policy``, ``measure`` (:data:`MEASURES`), ``estimate``, ``low``,
        ``high``, ``n_states`` and ``n_free``
    :raises ValueError: for unknown names, a model of other spaces, ``Box`` actions, or a heuristic that
        places jobs itself (``scope="queue"``)
    """
    require(n_episodes >= 1, "n_episodes", n_episodes, "1 or more")
    require(0 < confidence < 1, "confidence", confidence, "between 0 and 1")
    env_id = greendc.resolve_env_id(env_id)
    kwargs = dict(env_kwargs or {})
    actors = {_label(actor): actor for actor in policy_sources(policies, env_id)}
    rows: list[dict[str, Any]] = []
    drivers = policy_sources(heuristics, env_id)
    for driver in progress_over(drivers, len(drivers), "heuristic", disable=not progress):
        env = make_vec_env(env_id, n_episodes, **kwargs)
        try:
            by_policy = _drive(driver, actors, env, seed)
        finally:
            env.close()
        for name, sums in by_policy.items():
            rows += _rows(_label(driver), name, sums, confidence)
    return pd.DataFrame(rows)


def _drive(
    driver: PolicySource, actors: Mapping[str, PolicySource], env: VecEnv, seed: int
) -> dict[str, NDArray[np.float64]]:
    """Run one episode in each environment; return for each policy ``(n_episodes, 8)`` sums of scores."""
    if not isinstance(env.action_space, spaces.Discrete):
        raise ValueError(f"agreement is a matter of Discrete actions, not of {env.action_space}")
    drives = _Actor(driver, env)
    asked = {name: _Actor(actor, env) for name, actor in actors.items()}
    sums = {name: np.zeros((env.num_envs, 8)) for name in actors}
    env.seed(seed)
    observations: Any = env.reset()
    starts = np.ones(env.num_envs, dtype=np.bool_)
    running = np.ones(env.num_envs, dtype=np.bool_)
    while running.any():
        masks = _masks(env, observations)
        actions = drives.act(observations, starts, masks)
        ties = drives.ties(observations)
        for name, actor in asked.items():
            theirs = actor.act(observations, starts, masks)
            sums[name][running] += state_scores(theirs, actions, masks, ties)[running]
        observations, _, starts, _ = env.step(actions)
        running &= ~starts
    return sums


class _Actor:
    """A policy in a batch of environments: what it sees, and its memory."""

    def __init__(self, source: PolicySource, env: VecEnv) -> None:
        seen = source.prepare_env(env)
        self.policy: Any = source.policy_for(seen)
        if getattr(self.policy, "scope", None) == "queue":
            raise ValueError(f"policy {source.name!r} places jobs itself: its actions say nothing")
        self._normalizer = seen if isinstance(seen, VecNormalize) else None
        self._takes_masks = takes_masks(self.policy)
        self._state: Any = None

    def act(self, observations: Any, starts: NDArray[np.bool_], masks: NDArray[Any]) -> NDArray[Any]:
        shown = observations if self._normalizer is None else self._normalizer.normalize_obs(observations)
        extra = {"action_masks": masks != 0} if self._takes_masks else {}
        actions, self._state = self.policy.predict(
            shown, state=self._state, episode_start=starts, deterministic=True, **extra
        )
        chosen: NDArray[Any] = np.asarray(actions)
        return chosen

    def ties(self, observations: Any) -> NDArray[np.bool_] | None:
        """Return what ranks with its action, ``None`` where that cannot be told."""
        policy = self.policy
        if not isinstance(policy, BaselinePolicy) or policy.reads_state:
            return None
        if not isinstance(observations, dict) or not {JOBS, ACTION_MASK} <= observations.keys():
            return None
        return tie_sets(policy.act, observations)


def _masks(env: VecEnv, observations: Any) -> NDArray[Any]:
    if isinstance(observations, dict) and ACTION_MASK in observations:
        masks: NDArray[Any] = observations[ACTION_MASK].copy()
        return masks
    if is_masking_supported(env):
        return get_action_masks(env)
    assert isinstance(env.action_space, spaces.Discrete)
    return np.ones((env.num_envs, int(env.action_space.n)), dtype=np.bool_)


def _rows(heuristic: str, policy: str, sums: NDArray[np.float64], confidence: float) -> list[dict[str, Any]]:
    """Turn the sums of each episode into measures with intervals: ratios, resampled by episodes."""
    n = len(sums)
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=10_000)
    resampled = drawn @ sums
    total = sums.sum(axis=0)
    tail = (1.0 - confidence) / 2.0
    rows = []
    for measure, (numerator, denominator) in _RATIOS.items():
        with np.errstate(invalid="ignore"):
            ratios = resampled[:, numerator] / resampled[:, denominator]
            estimate = total[numerator] / total[denominator]
        low, high = np.nanquantile(ratios, [tail, 1.0 - tail]) if total[denominator] else (np.nan, np.nan)
        row = {"heuristic": heuristic, "policy": policy, "measure": measure, "estimate": float(estimate)}
        counts = {"n_states": int(total[6]), "n_free": int(total[7])}
        rows.append({**row, "low": float(low), "high": float(high), **counts})
    return rows


def _label(actor: PolicySource) -> str:
    return actor.name if actor.run == 0 else f"{actor.name} ({actor.run})"
