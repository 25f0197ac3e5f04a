"""The algorithms that commands know by name, imported when they are asked for."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

from greendc.config import nearest

ALGORITHMS: dict[str, str] = {
    "a2c": "stable_baselines3:A2C",
    "ars": "sb3_contrib:ARS",
    "crossq": "sb3_contrib:CrossQ",
    "crr": "sb3_greendc.crr:CRR",
    "ddpg": "stable_baselines3:DDPG",
    "discrete_sac": "sb3_greendc.discrete_sac:DiscreteSAC",
    "dqn": "stable_baselines3:DQN",
    "maskable_ppo": "sb3_contrib:MaskablePPO",
    "pid_ppo": "sb3_greendc.pid_ppo:PIDLagrangianPPO",
    "ppo": "stable_baselines3:PPO",
    "qrdqn": "sb3_contrib:QRDQN",
    "recurrent_pid_ppo": "sb3_greendc.recurrent_pid_ppo:RecurrentPIDLagrangianPPO",
    "recurrent_ppo": "sb3_contrib:RecurrentPPO",
    "sac": "stable_baselines3:SAC",
    "td3": "stable_baselines3:TD3",
    "tqc": "sb3_contrib:TQC",
    "trpo": "sb3_contrib:TRPO",
}
"""Module and class of each algorithm."""

_ALSO_TAKES = {
    "pid_ppo": "sb3_greendc.pid_ppo:PIDController",
    "recurrent_pid_ppo": "sb3_greendc.pid_ppo:PIDController",
}
"""Classes whose parameters an algorithm takes as further keywords."""

MISFITS = (ArithmeticError, AssertionError, AttributeError, RuntimeError, TypeError, ValueError)
"""What constructors of models raise where options, spaces and networks do not fit each other."""


def algorithm_class(name: str) -> type[BaseAlgorithm]:
    """Return the class of an algorithm.

    :param name: one of :data:`ALGORITHMS`
    :raises ValueError: for an unknown name; the message names the nearest known one
    """
    if name not in ALGORITHMS:
        raise ValueError(
            f"unknown algorithm {name!r}{nearest(name, ALGORITHMS)} (known: {', '.join(ALGORITHMS)})"
        )
    cls: type[BaseAlgorithm] = _load(ALGORITHMS[name])
    return cls


def hyperparameters_of(name: str) -> list[str]:
    """Return the hyperparameters of an algorithm: what its constructor takes by keyword.

    Those of parents behind ``**kwargs`` are among them.

    :param name: one of :data:`ALGORITHMS`
    :raises ValueError: for an unknown name
    """
    names = keywords_of(algorithm_class(name))
    if name in _ALSO_TAKES:
        names += keywords_of(_load(_ALSO_TAKES[name]))
    not_hyperparameters = {"policy", "env", "verbose", "seed", "device", "tensorboard_log"}
    not_hyperparameters |= {"dataset", "observation_space", "action_space"}
    return [name for name in dict.fromkeys(names) if name not in not_hyperparameters and name[0] != "_"]


def keywords_of(cls: type) -> list[str]:
    """Return the names of a constructor's parameters, with those of parents behind ``**kwargs``."""
    names: list[str] = []
    for parent in cls.__mro__:
        if "__init__" not in vars(parent):
            continue
        parameters = list(inspect.signature(vars(parent)["__init__"]).parameters.values())[1:]
        names += [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            break
    return names


def _load(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)
