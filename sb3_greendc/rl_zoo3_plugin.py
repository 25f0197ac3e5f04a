"""This project inside rl-zoo3: its ``train`` and ``enjoy`` know our environments, algorithms and settings.

What rl-zoo3 reads differs from our hyperparameter files in three ways, which are bridged here: it takes the
block of the exact id or ``default``, never a pattern; numbers by the rules of YAML 1.1 (``3e-4`` is a string
there); and classes only as ``dict(...)`` strings that it evaluates.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback

import greendc
from sb3_greendc.core.algorithms import ALGORITHMS, algorithm_class
from sb3_greendc.evaluation.masked_evaluation import MaskedEvalCallback
from sb3_greendc.evaluation.policy_sources import takes_masks
from sb3_greendc.runs.hyperparameters import CALLBACKS, learns_from_data, load_hyperparameters, policy_for

_SCHEDULES = ("learning_rate", "clip_range", "clip_range_vf", "delta_std")
"""Keys whose strings rl-zoo3 turns into schedules itself; it rejects finished schedules there."""


def register() -> None:
    """Add environments, algorithms and hyperparameters to the installed rl-zoo3; twice does no harm.

    :raises ImportError: if rl-zoo3 is not installed
    """
    try:
        utils = importlib.import_module("rl_zoo3.utils")
    except ImportError as error:
        raise ImportError("rl-zoo3 is missing: pip install rl_zoo3") from error
    for name in ALGORITHMS:
        if not learns_from_data(name):
            utils.ALGOS.setdefault(name, algorithm_class(name))
    parent = importlib.import_module("rl_zoo3.exp_manager").ExperimentManager
    train = importlib.import_module("rl_zoo3.train")
    train.ExperimentManager = _manager(parent, utils.ALGOS)  # type: ignore[attr-defined]


def block_for_rl_zoo3(algorithm: str, env_id: str, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of an algorithm for one of our ids, as rl-zoo3 takes them.

    :param algorithm: name of the algorithm
    :param env_id: an environment id with its version
    :param env_kwargs: keyword arguments of the environment; the training split is added to them, unless
        they say which split or month to use
    :raises ValueError: for malformed hyperparameters
    """
    chosen = load_hyperparameters(algorithm, env_id)
    env_kwargs = {**_split(env_id, env_kwargs), **env_kwargs}
    observation_space = gym.make(env_id, **env_kwargs).observation_space
    policy = policy_for(chosen.policy, isinstance(observation_space, spaces.Dict))
    block: dict[str, Any] = dict(chosen.arguments)
    block.update({key: value for key, value in chosen.settings.items() if key in _SCHEDULES})
    block["policy"] = policy if isinstance(policy, str) else f"{policy.__module__}.{policy.__qualname__}"
    block["n_envs"] = chosen.n_envs
    block["n_timesteps"] = chosen.n_timesteps
    block["env_kwargs"] = env_kwargs
    if chosen.normalize is not None:
        block["normalize"] = dict(chosen.normalize)
    if chosen.noise is not None:
        block["noise_type"], block["noise_std"] = chosen.noise
    if chosen.callbacks:
        block["callback"] = [f"{CALLBACKS[name].__module__}.{name}" for name in chosen.callbacks]
    return block


def _split(env_id: str, env_kwargs: Mapping[str, Any], split: str | None = None) -> dict[str, Any]:
    """Return the keywords of the training split, or of another one, where months are kept apart."""
    if "split" in env_kwargs or "month" in env_kwargs:
        return {}
    kwargs = greendc.training_kwargs(env_id)
    return {"split": split, "month": None} if split is not None and "split" in kwargs else kwargs


def _manager(parent: Any, algorithms: Mapping[str, Any]) -> Any:
    """Return rl-zoo3's experiment manager, which knows our environments; rl-zoo3 is not typed."""

    class GreendcManager(parent):  # type: ignore[misc]
        """Uses our hyperparameters for our ids, unless ``--conf-file`` names others."""

        env_kwargs: dict[str, Any]
        callbacks: list[BaseCallback]
        _eval_env_kwargs_args: dict[str, Any] | None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.env_id: str = self.env_name.gym_id
            self.ours = greendc.family(self.env_id) is not None
            if self.ours and self._eval_env_kwargs_args is None:
                # The best model is chosen on these episodes: not those of training, nor of the test split.
                split = _split(self.env_id, self.env_kwargs, "validation")
                self.eval_env_kwargs = self._eval_env_kwargs_args = {**split, **self.env_kwargs}

        def read_hyperparameters(self) -> Any:
            if self.ours and self.args.conf_file is None:
                block = block_for_rl_zoo3(self.algo, self.env_id, self.env_kwargs)
                self.env_kwargs = block["env_kwargs"]
                # rl-zoo3 takes hyperparameters from a file or from a module that can be imported.
                self.config = f"sb3_greendc.zoo_hparams.{self.algo}"
                module = ModuleType(self.config)
                module.hyperparams = {self.env_id: block}  # type: ignore[attr-defined]
                sys.modules[self.config] = module
            return super().read_hyperparameters()

        def create_callbacks(self) -> None:
            super().create_callbacks()
            if takes_masks(algorithms[self.algo]):
                self.callbacks = [_masked(callback) for callback in self.callbacks]

    return GreendcManager


def _masked(callback: BaseCallback) -> BaseCallback:
    """Return a callback that evaluates with action masks in place of one that would leave them out."""
    if not isinstance(callback, EvalCallback):
        return callback
    return MaskedEvalCallback(
        callback.eval_env,
        callback_on_new_best=callback.callback_on_new_best,
        callback_after_eval=callback.callback,
        n_eval_episodes=callback.n_eval_episodes,
        eval_freq=callback.eval_freq,
        log_path=callback.log_path and str(Path(callback.log_path).parent),
        best_model_save_path=callback.best_model_save_path,
        deterministic=callback.deterministic,
        render=callback.render,
        verbose=callback.verbose,
        warn=callback.warn,
    )
