"""Policies of every kind brought to one form: baselines, saved models, models, anything with ``predict``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from gymnasium import spaces
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.maskable.utils import is_masking_supported
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

import greendc
from greendc import baselines
from greendc.config import nearest
from sb3_greendc.common.models import attach, load_model


@runtime_checkable
class Predictor(Protocol):
    """SB3's signature of anything that acts: models, policies, baselines."""

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """Return actions for a batch of observations, and the state to pass in with the next ones."""


Policy: TypeAlias = str | Path | Predictor
"""A baseline's name, the path of a saved model (zip or run folder), or an object with ``predict``."""


@dataclass(frozen=True)
class Contestant:
    """A policy with a name.

    :param name: what tables call it
    :param policy: what acts, or the name of a baseline, which is made anew for each batch
    :param normalizer: the ``VecNormalize`` through which it sees observations
    """

    name: str
    policy: Predictor | str
    normalizer: VecNormalize | None = None

    def enter(self, env: VecEnv) -> VecEnv:
        """Return the environment as this policy sees it.

        :raises ValueError: if its spaces are others than the policy's, or it lacks the masks that the
            policy needs
        """
        if not isinstance(self.policy, str):
            if needs_masks(self.policy) and not is_masking_supported(env):
                raise ValueError(f"policy {self.name!r} needs action masks, and the environment has none")
            _check_spaces(self.name, self.policy, env)
        return env if self.normalizer is None else attach(self.normalizer, env)

    def policy_for(self, env: VecEnv) -> Predictor:
        """Return what acts in a batch of environments."""
        if not isinstance(self.policy, str):
            return self.policy
        return baselines.make_policy(self.policy, env)


def contestants(policies: Mapping[str, Policy] | Sequence[Policy], env_id: str) -> list[Contestant]:
    """Return each policy with its name: its key in a mapping, else as it was given, or its class.

    :param policies: policies, or a mapping that names them
    :param env_id: the environment they are for, with its version
    :raises ValueError: for an unknown policy, a model that cannot be read, or a name given twice
    """
    if isinstance(policies, Mapping):
        return [_contestant(name, policy, env_id) for name, policy in policies.items()]
    if isinstance(policies, str | Path) or not isinstance(policies, Sequence):
        raise ValueError(f"policies={policies!r}: must be a list of policies, or a mapping of names to them")
    names = [str(policy) if isinstance(policy, str | Path) else type(policy).__name__ for policy in policies]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"policies: {', '.join(map(repr, twice))} given twice; a mapping names them apart")
    return [_contestant(name, policy, env_id) for name, policy in zip(names, policies, strict=True)]


def takes_masks(policy: Predictor) -> bool:
    """Tell whether ``predict`` has a parameter ``action_masks``; it is then given the environment's masks."""
    return "action_masks" in inspect.signature(policy.predict).parameters


def needs_masks(policy: Predictor) -> bool:
    """Tell whether a policy always had masks in training: without them it acts as it never learned to."""
    return isinstance(policy, MaskablePPO | MaskableActorCriticPolicy)


def same_kind(a: spaces.Space[Any], b: spaces.Space[Any]) -> bool:
    """Tell whether two spaces are of one kind, shape and dtype, whatever their bounds."""
    if isinstance(a, spaces.Dict) and isinstance(b, spaces.Dict):
        return a.keys() == b.keys() and all(same_kind(a[key], b[key]) for key in a)
    if isinstance(a, spaces.Box) and isinstance(b, spaces.Box):
        return a.shape == b.shape and a.dtype == b.dtype
    return bool(a == b)


def _contestant(name: str, policy: Policy, env_id: str) -> Contestant:
    if isinstance(policy, str):
        family = greendc.family(env_id)
        known = baselines.names(family, hindsight=True) if family is not None else ()
        if policy in known:
            return Contestant(name, policy)
        if not _looks_like_a_file(policy):
            allowed = ", ".join(map(repr, known)) or f"nothing else: {env_id} has no baselines"
            hint = nearest(policy, known)
            raise ValueError(f"unknown policy {policy!r}{hint} (a saved model's path, or {allowed})")
    if isinstance(policy, str | Path):
        saved = load_model(policy)
        return Contestant(name, saved.model, saved.normalizer)
    if not isinstance(policy, Predictor):
        raise ValueError(f"policy {name!r} of {type(policy).__name__} has no predict method")
    normalizer = policy.get_vec_normalize_env() if isinstance(policy, BaseAlgorithm) else None
    return Contestant(name, policy, normalizer)


def _looks_like_a_file(policy: str) -> bool:
    return policy.endswith(".zip") or "/" in policy or "\\" in policy or Path(policy).exists()


def _check_spaces(name: str, policy: Predictor, env: VecEnv) -> None:
    """Compare a model's spaces with the environment's.

    Bounds of observations may differ: they can depend on the jobs and the month.
    """
    wanted, found = getattr(policy, "observation_space", None), env.observation_space
    if isinstance(wanted, spaces.Space) and not same_kind(wanted, found):
        raise ValueError(
            f"policy {name!r} was made for observations {_brief(wanted)}, the environment has {_brief(found)}"
        )
    wanted, found = getattr(policy, "action_space", None), env.action_space
    if isinstance(wanted, spaces.Space) and wanted != found:
        raise ValueError(
            f"policy {name!r} was made for actions {_brief(wanted)}, the environment has {_brief(found)}"
        )


def _brief(space: spaces.Space[Any]) -> str:
    """Describe a space in a few words; the bounds of a long ``Box`` would fill a screen."""
    if isinstance(space, spaces.Dict):
        return "Dict(" + ", ".join(f"{key}: {_brief(space[key])}" for key in space) + ")"
    if isinstance(space, spaces.Box) and space.shape != (1,):
        return f"Box{space.shape} {space.dtype}"
    return str(space)
