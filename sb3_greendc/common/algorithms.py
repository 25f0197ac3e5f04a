"""The algorithms that commands know by name, imported when they are asked for."""

from __future__ import annotations

import importlib
import inspect

from stable_baselines3.common.base_class import BaseAlgorithm

from greendc.config import nearest

ALGORITHMS: dict[str, str] = {
    "a2c": "stable_baselines3:A2C",
    "ars": "sb3_contrib:ARS",
    "crossq": "sb3_contrib:CrossQ",
    "ddpg": "stable_baselines3:DDPG",
    "dqn": "stable_baselines3:DQN",
    "maskable_ppo": "sb3_contrib:MaskablePPO",
    "ppo": "stable_baselines3:PPO",
    "qrdqn": "sb3_contrib:QRDQN",
    "recurrent_ppo": "sb3_contrib:RecurrentPPO",
    "sac": "stable_baselines3:SAC",
    "td3": "stable_baselines3:TD3",
    "tqc": "sb3_contrib:TQC",
    "trpo": "sb3_contrib:TRPO",
}
"""Module and class of each algorithm."""


def algorithm_class(name: str) -> type[BaseAlgorithm]:
    """Return the class of an algorithm.

    :param name: one of :data:`ALGORITHMS`
    :raises ValueError: for an unknown name; the message names the nearest known one
    """
    if name not in ALGORITHMS:
        raise ValueError(
            f"unknown algorithm {name!r}{nearest(name, ALGORITHMS)} (known: {', '.join(ALGORITHMS)})"
        )
    module, _, attribute = ALGORITHMS[name].partition(":")
    cls: type[BaseAlgorithm] = getattr(importlib.import_module(module), attribute)
    return cls


def hyperparameters_of(cls: type[BaseAlgorithm]) -> list[str]:
    """Return the names of the constructor's hyperparameters, with those of parents behind ``**kwargs``."""
    not_hyperparameters = {"self", "policy", "env", "verbose", "seed", "device", "tensorboard_log"}
    names: list[str] = []
    for parent in cls.__mro__:
        if "__init__" not in vars(parent):
            continue
        parameters = inspect.signature(vars(parent)["__init__"]).parameters.values()
        names += [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            break
    return [name for name in dict.fromkeys(names) if name not in not_hyperparameters and name[0] != "_"]
