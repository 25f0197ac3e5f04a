"""SB3's ``evaluate_policy`` for models that may need action masks."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from sb3_contrib.common.maskable.evaluation import evaluate_policy as with_masks
from sb3_contrib.common.maskable.utils import is_masking_supported
from stable_baselines3.common.evaluation import evaluate_policy as without_masks
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sb3_greendc.evaluation.policy_sources import takes_masks


def evaluate_policy(
    model: Any, env: gym.Env[Any, Any] | VecEnv, n_eval_episodes: int = 10, **options: Any
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """Return mean and standard deviation of an episode's return, as SB3's function of this name does.

    SB3's own gives no action masks, and a model that was trained with them then chooses invalid actions.
    Here a model whose ``predict`` takes masks gets those of the environment, if it has any.

    :param model: a model, or anything with ``predict``
    :param env: an environment or a batch of them
    :param n_eval_episodes: number of episodes
    :param options: SB3's: ``deterministic``, ``render``, ``callback``, ``reward_threshold``,
        ``return_episode_rewards``, ``warn``
    :return: mean and standard deviation; with ``return_episode_rewards`` the return and the length of each
        episode
    """
    batch: VecEnv = env if isinstance(env, VecEnv) else DummyVecEnv([lambda: env])
    if takes_masks(model) and is_masking_supported(batch):
        return with_masks(model, batch, n_eval_episodes, **options)  # type: ignore[no-any-return,unused-ignore]
    return without_masks(model, batch, n_eval_episodes, **options)
