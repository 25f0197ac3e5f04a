"""From what a user asks for to an objective that is known to make sense."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gymnasium import spaces
from sb3_contrib.common.maskable.utils import is_masking_supported

import greendc
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.datasets.npz import checksum
from sb3_greendc.runs.hyperparameters import learns_from_data, load_hyperparameters
from sb3_greendc.runs.training import warn_of_no_update
from sb3_greendc.tuning.models import require_fit
from sb3_greendc.tuning.objective import Objective, validation_carbon


def make_objective(
    env_id: str,
    algorithm: str | None = None,
    timesteps: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    pruner: str | None = None,
    data: str | Path | None = None,
    **options: Any,
) -> Objective:
    """Check what a search is asked for, and build its environment and first model to see that they fit.

    :param env_id: an environment id, with or without a version
    :param algorithm: name of the algorithm, default: :func:`default_algorithm`
    :param timesteps: environment steps of a trial, default: a quarter of what the hyperparameter file
        trains for
    :param env_kwargs: keyword arguments of the environment
    :param fixed: hyperparameters that are not searched
    :param pruner: one of :data:`PRUNERS`, default: ``"median"``, but ``"none"`` under a cost limit
    :param data: file of a data set, for an algorithm that learns from one
    :param options: further fields of :class:`Objective`
    :raises ValueError: for unknown names, wrong values, an algorithm without a search space, or one that
        does not fit the environment or the data
    :raises OSError: if there is no such file of data
    :raises TypeError: for an unknown keyword argument of the environment
    """
    env_id = greendc.resolve_env_id(env_id)
    env_kwargs, fixed = dict(env_kwargs or {}), dict(fixed or {})
    algorithm = algorithm or ("crr" if data is not None else default_algorithm(env_id, env_kwargs))
    if learns_from_data(algorithm) != (data is not None):
        source = "data: --data FILE" if data is None else "an environment, not from data"
        raise ValueError(f"{algorithm} learns from {source}")
    chosen = load_hyperparameters(algorithm, env_id, fixed)
    if timesteps is None:
        if chosen.n_timesteps is None:
            raise ValueError(f"timesteps: {algorithm} has no n_timesteps for {env_id}; say --timesteps")
        timesteps = max(1, chosen.n_timesteps // 4)
    base = dict(chosen.settings)
    pruner = pruner or ("none" if "cost_limit" in base else "median")
    if data is not None:
        options |= {"data": str(Path(data).absolute()), "data_checksum": checksum(Path(data))}
    options |= {"validation_carbon": validation_carbon(env_id, env_kwargs)}
    objective = Objective(algorithm, env_id, timesteps, env_kwargs, fixed, base, pruner=pruner, **options)
    if not objective.space:
        raise ValueError(f"nothing to search: every parameter of {algorithm} is fixed")
    require_fit(objective, chosen)
    if data is None:
        first, every = (
            chosen.arguments.get(name, least) for name, least in (("learning_starts", 0), ("train_freq", 1))
        )
        warn_of_no_update(first, timesteps, chosen.n_envs, every)
    return objective


def default_algorithm(env_id: str, env_kwargs: Mapping[str, Any]) -> str:
    """Return the algorithm for an environment's action space.

    :raises ValueError: for an action space that none of the algorithms takes
    """
    env = make_vec_env(env_id, 1, **env_kwargs)
    try:
        masked = is_masking_supported(env)
        action_space: spaces.Space[Any] = env.action_space
    finally:
        env.close()
    if isinstance(action_space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return "maskable_ppo" if masked else "ppo"
    if isinstance(action_space, spaces.Box):
        return "ppo"
    raise ValueError(f"{env_id}: no algorithm for actions {action_space}")
