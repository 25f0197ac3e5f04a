"""Baselines by family and name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from greendc.baselines.policy import BaselinePolicy
from greendc.config import nearest, require_class, require_kinds, require_one_of
from greendc.simulator import Simulator


@dataclass(frozen=True)
class BaselineFamily:
    """The baselines of one family of environments.

    :param name: the family, as in :mod:`greendc.registration`
    :param simulator: the simulator class that they act on
    :param policies: policy classes by name, in the order of reports; each takes the simulator and
        keyword options
    :param hindsight: those among them that search with the truth: slow, and no policy to compare with,
        but a mark of what is reachable
    :param commands: those that act only where the configuration lets them command power
    """

    name: str
    simulator: type[Simulator]
    policies: Mapping[str, type[BaselinePolicy[Any]]]
    hindsight: frozenset[str] = field(default_factory=frozenset)
    commands: frozenset[str] = field(default_factory=frozenset)


_FAMILIES: dict[str, BaselineFamily] = {}


def register(entry: BaselineFamily) -> None:
    """Make a family's baselines known; an entry of the same name is replaced."""
    _FAMILIES[entry.name] = entry


def names(family: str, hindsight: bool = False, commands: bool = False) -> tuple[str, ...]:
    """Return the names of a family's baselines.

    :param family: ``"vcc"``, ``"resource_pool"`` or ``"cluster"``
    :param hindsight: with those that search with the truth, such as ``best_known``
    :param commands: with those that need power to command
    :raises ValueError: for a family without baselines
    """
    require_one_of("family", family, _FAMILIES)
    entry = _FAMILIES[family]
    left_out = (frozenset() if hindsight else entry.hindsight) | (frozenset() if commands else entry.commands)
    return tuple(name for name in entry.policies if name not in left_out)


def make_policy(name: str, env: object, **options: Any) -> BaselinePolicy[Any]:
    """Make a baseline for an environment.

    :param name: one of :func:`names`
    :param env: a ``gym.Env`` (wrapped or not), a batch of environments, or anything else with an
        attribute ``simulator``, such as this project's SB3 ``VecEnv``
    :param options: of the policy
    :raises ValueError: for an unknown name (the nearest is named), a bad option, or an environment
        that is not of this package, or whose wrappers changed its actions
    :raises TypeError: for a name that is no text, or an option that the policy does not have
    """
    require_class("name", name, (str,), "the name of a baseline")
    simulator = find_simulator(env)
    _require_own_actions(env, simulator)
    entry = next((entry for entry in _FAMILIES.values() if isinstance(simulator, entry.simulator)), None)
    if entry is None:
        raise ValueError(f"there are no baselines for {type(simulator).__name__}")
    if name not in entry.policies:
        raise ValueError(
            f"unknown policy {name!r}{_hint(name, entry)} (of {entry.name}: {', '.join(entry.policies)})"
        )
    policy_class = entry.policies[name]
    parameters = inspect.signature(policy_class).parameters
    known = list(parameters)[1:]
    for option in options:
        if option not in known:
            raise TypeError(
                f"{name}: unknown option {option!r}{nearest(option, known)} "
                f"(known: {', '.join(known) or 'none'})"
            )
    require_kinds({option: str(parameters[option].annotation) for option in known}, options, f"{name}: ")
    return policy_class(simulator, **options)


def families_with(name: str) -> tuple[str, ...]:
    """Return the families that have a baseline of this name."""
    return tuple(family for family, entry in _FAMILIES.items() if name in entry.policies)


def _hint(name: str, entry: BaselineFamily) -> str:
    """Return what the unknown name may have been meant for: ``NAME:OPTION=VALUE`` is a command's form."""
    known, separator, _ = name.partition(":")
    if separator and known in entry.policies:
        return f": options are keywords here, as in make_policy({known!r}, env, option=value)"
    return nearest(name, entry.policies)


def _require_own_actions(env: object, simulator: Simulator) -> None:
    """Refuse an environment whose wrappers changed its actions: baselines choose those of the simulator."""
    several = isinstance(env, gym.vector.VectorEnv)
    space = getattr(env, "single_action_space" if several else "action_space", simulator.action_space)
    if space != simulator.action_space:
        raise ValueError(
            f"env: its wrappers take actions of {space}, but baselines choose from "
            f"{simulator.action_space}, the environment's own: give one without wrappers of actions"
        )


def find_simulator(env: object) -> Simulator:
    """Return the simulator of an environment or batch, looking through its wrappers.

    :raises ValueError: for anything that has none of this package
    """
    base = getattr(env, "unwrapped", env)
    simulator = getattr(base, "simulator", None)
    if not isinstance(simulator, Simulator):
        raise ValueError(f"env={env!r}: must be an environment of greendc, or a batch of such")
    return simulator
