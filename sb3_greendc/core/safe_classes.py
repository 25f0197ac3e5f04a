"""The classes that saved models may name. A file that names another is refused, and nothing is imported."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import torch as th
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.policies import BasePolicy

_MODULES = (
    "sb3_contrib.ars.policies",
    "sb3_contrib.common.maskable.buffers",
    "sb3_contrib.common.maskable.policies",
    "sb3_contrib.common.recurrent.buffers",
    "sb3_contrib.common.recurrent.policies",
    "sb3_contrib.common.torch_layers",
    "sb3_contrib.crossq.policies",
    "sb3_contrib.qrdqn.policies",
    "sb3_contrib.tqc.policies",
    "sb3_greendc.crr.box_policies",
    "sb3_greendc.crr.networks",
    "sb3_greendc.crr.policies",
    "sb3_greendc.discrete_sac.buffers",
    "sb3_greendc.discrete_sac.policies",
    "sb3_greendc.extractors.combined",
    "sb3_greendc.extractors.forecast",
    "sb3_greendc.extractors.heads",
    "sb3_greendc.extractors.job_matrix",
    "sb3_greendc.extractors.job_set",
    "sb3_greendc.extractors.policies",
    "sb3_greendc.extractors.resource_image",
    "sb3_greendc.extractors.resource_rows",
    "sb3_greendc.pid_ppo.buffers",
    "sb3_greendc.pid_ppo.job_set",
    "sb3_greendc.pid_ppo.policies",
    "sb3_greendc.recurrent_pid_ppo.buffers",
    "sb3_greendc.recurrent_pid_ppo.policies",
    "stable_baselines3.common.buffers",
    "stable_baselines3.common.policies",
    "stable_baselines3.common.sb2_compat.rmsprop_tf_like",
    "stable_baselines3.common.torch_layers",
    "stable_baselines3.dqn.policies",
    "stable_baselines3.sac.policies",
    "stable_baselines3.td3.policies",
    "torch.nn.modules.activation",
    *(
        f"torch.optim.{module.name}"
        for module in pkgutil.iter_modules(th.optim.__path__)
        if module.name[0] != "_"
    ),
)
"""Where policies, networks, optimizers and buffers are: every class there may be named."""

_KINDS = (BasePolicy, th.nn.Module, th.optim.Optimizer, BaseBuffer)

_RECORDS = frozenset(
    {
        "sb3_contrib.common.recurrent.type_aliases:RNNStates",
        "sb3_greendc.core.costs:EpisodeCosts",
        "stable_baselines3.common.noise:NormalActionNoise",
        "stable_baselines3.common.noise:OrnsteinUhlenbeckActionNoise",
        "stable_baselines3.common.noise:VectorizedActionNoise",
        "stable_baselines3.common.running_mean_std:RunningMeanStd",
        "stable_baselines3.common.type_aliases:TrainFreq",
        "stable_baselines3.common.type_aliases:TrainFrequencyUnit",
        "stable_baselines3.common.utils:ConstantSchedule",
        "stable_baselines3.common.utils:FloatSchedule",
        "stable_baselines3.common.utils:LinearSchedule",
    }
)
"""Classes whose objects are kept by their attributes: numbers, arrays, and each other."""

_registered: dict[str, type] = {}


def register_class(cls: type) -> None:
    """Let saved models name a class of one's own: a policy, a network, an optimizer or a buffer.

    The program that loads the model must register it, too.

    :param cls: the class
    :raises ValueError: if it is none of these
    """
    if not issubclass(cls, _KINDS):
        raise ValueError(f"{cls.__qualname__}: must be a policy, a torch module, an optimizer or a buffer")
    _registered[_name(cls)] = cls


def class_name(cls: type) -> str | None:
    """Return the name by which saved models know a class, ``None`` if they do not."""
    name = _name(cls)
    return name if _find(name) is cls else None


def class_named(name: Any) -> type:
    """Return the class that a saved model names.

    :raises ValueError: if it is none that saved models may name
    """
    cls = _find(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(f"class {str(name)[:80]!r}: none that a saved model may name")
    return cls


def is_record(cls: type) -> bool:
    """Tell whether objects of a class are kept by their attributes."""
    return _name(cls) in _RECORDS and class_name(cls) is not None


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _find(name: str) -> type | None:
    if name in _registered:
        return _registered[name]
    module, _, attribute = name.partition(":")
    if name not in _RECORDS and module not in _MODULES:
        return None
    found = vars(importlib.import_module(module)).get(attribute)
    if not isinstance(found, type) or found.__module__ != module:
        return None
    return found if name in _RECORDS or issubclass(found, _KINDS) else None
