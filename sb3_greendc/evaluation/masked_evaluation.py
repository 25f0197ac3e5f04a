"""SB3's ``evaluate_policy`` and ``EvalCallback`` for models that may need action masks."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy as without_masks
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sb3_greendc.evaluation.policy_sources import takes_masks


def evaluate_policy(
    model: Any, env: gym.Env[Any, Any] | VecEnv, n_eval_episodes: int = 10, **options: Any
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """Return mean and standard deviation of an episode's return, as SB3's function of this name does.

    SB3's own gives no action masks, and a model that was trained with them then chooses invalid actions.
    Here a model whose ``predict`` takes masks gets those of the environment, if it has any. sb3-contrib's
    function gives them, too, but never the state of a recurrent policy.

    :param model: a model, or anything with ``predict``
    :param env: an environment or a batch of them
    :param n_eval_episodes: number of episodes
    :param options: SB3's: ``deterministic``, ``render``, ``callback``, ``reward_threshold``,
        ``return_episode_rewards``, ``warn``
    :return: mean and standard deviation; with ``return_episode_rewards`` the return and the length of each
        episode
    """
    batch: VecEnv = env if isinstance(env, VecEnv) else DummyVecEnv([lambda: env])
    return without_masks(_under_masks(model, batch), batch, n_eval_episodes, **options)


class MaskedEvalCallback(EvalCallback):
    """SB3's ``EvalCallback``, whose evaluations are those of :func:`evaluate_policy`.

    sb3-contrib's ``MaskableEvalCallback`` gives masks, but never the state of a recurrent policy.
    """

    def _on_step(self) -> bool:
        model = self.model
        self.model = _under_masks(model, self.eval_env)
        try:
            return super()._on_step()
        finally:
            self.model = model


def _under_masks(model: Any, env: VecEnv) -> Any:
    """Return a model that is given the environment's masks, if it takes them and there are some."""
    return _UnderMasks(model, env) if takes_masks(model) and is_masking_supported(env) else model


class _UnderMasks:
    """A model whose ``predict`` is given the masks of the environments at this moment; the rest is its own.

    :param model: takes ``action_masks`` in ``predict``
    :param env: has ``action_masks()``
    """

    def __init__(self, model: Any, env: VecEnv) -> None:
        self._model, self._env = model, env

    def predict(self, observation: Any, **options: Any) -> tuple[NDArray[np.integer], Any]:
        """Return actions and the next state; the options are those of the model's ``predict``."""
        masks = get_action_masks(self._env)
        actions: tuple[NDArray[np.integer], Any] = self._model.predict(
            observation, action_masks=masks, **options
        )
        return actions

    def __getattr__(self, name: str) -> Any:
        """Return what the model has under this name."""
        return getattr(self._model, name)
