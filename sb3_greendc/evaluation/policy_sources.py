"""Policies of every kind brought to one form: baselines, saved models, models, anything with ``predict``."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.maskable.utils import is_masking_supported
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

import greendc
from greendc import baselines
from greendc.baselines import BaselinePolicy
from greendc.baselines.registry import find_simulator
from greendc.baselines.resource_pool import WorkConserving
from greendc.config import nearest
from greendc.shipped.release import release_for
from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.core.spaces import same_kind
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.datasets.images import channels_first_space
from sb3_greendc.evaluation.policy_specs import (
    PRETRAINED,
    RANDOM,
    WORK_CONSERVING,
    BaselineSpec,
    PretrainedSpec,
    parse_source,
    split_name,
)
from sb3_greendc.evaluation.prior import read_prior
from sb3_greendc.evaluation.uniform import Uniform
from sb3_greendc.runs.models import SavedModel, attach, load_model
from sb3_greendc.runs.portable import read_environment
from sb3_greendc.runs.pretrained import load_pretrained


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


@runtime_checkable
class ReadsOthers(Protocol):
    """A policy that wants to know what the others did in its episodes, such as ``best_known``."""

    def consider(self, actions: Sequence[NDArray[Any]]) -> None:
        """Take what another policy did: its actions in each environment, ``(steps, *action_space.shape)``."""


Policy: TypeAlias = str | Path | Predictor
"""A baseline (``"hvf"``, ``"hvf:dispatch=easy"``), the path of a saved model (zip or run folder, or a pattern
that several runs fit), ``"pretrained"``, or an object with ``predict``. ``"work_conserving:"`` before a text
guards the policy (:class:`~greendc.baselines.resource_pool.WorkConserving`)."""


@dataclass(frozen=True)
class PolicySource(abc.ABC):
    """A policy, or one run of it, with a name.

    :param name: what tables call it
    :param run: number of the run among those of this name
    """

    name: str
    run: int

    @property
    def choice(self) -> Mapping[str, Any]:
        """Keyword arguments of the environment that say what this policy chooses from, and sees."""
        return {}

    def prepare_env(self, env: VecEnv) -> VecEnv:
        """Return the environment as this policy sees it.

        :raises ValueError: if its spaces are others than the policy's, or it lacks the masks that the
            policy needs
        """
        return env

    @abc.abstractmethod
    def policy_for(self, env: VecEnv) -> Predictor:
        """Return what acts in a batch of environments."""

    @property
    @abc.abstractmethod
    def source(self) -> str:
        """Where it comes from, for records."""


@dataclass(frozen=True)
class BaselineSource(PolicySource):
    """A baseline; a new one is made for each batch.

    :param spec: which, with its options
    """

    spec: BaselineSpec

    def policy_for(self, env: VecEnv) -> Predictor:
        """Make the baseline; the ``prior`` of rollouts may be a model's path, or ``pretrained``.

        :raises ValueError: for a wrong value of an option
        :raises TypeError: for an option that it does not have
        """
        options = dict(self.spec.options)
        if self.spec.name == "rollout" and isinstance(options.get("prior"), str):
            options["prior"] = read_prior(options["prior"], find_simulator(env))
        return baselines.make_policy(self.spec.name, env, **options)

    @property
    def source(self) -> str:
        """The baseline and its options."""
        options = ",".join(f"{key}={value}" for key, value in self.spec.options.items())
        return f"{self.spec.name}:{options}" if options else self.spec.name


@dataclass(frozen=True)
class UniformSource(PolicySource):
    """Chance, where the environment's family has no baseline of that name.

    :param options: ``seed``, at most
    """

    options: Mapping[str, Any]

    def policy_for(self, env: VecEnv) -> Predictor:
        """Make it.

        :raises ValueError: for a wrong seed
        :raises TypeError: for another option
        """
        for option in set(self.options) - {"seed"}:
            raise TypeError(f"{RANDOM}: unknown option {option!r}{nearest(option, ['seed'])} (known: seed)")
        return Uniform(env.action_space, **self.options)

    @property
    def source(self) -> str:
        """Its name."""
        return RANDOM


@dataclass(frozen=True)
class ObjectSource(PolicySource):
    """An object with ``predict``, such as a model in memory.

    :param policy: the object
    """

    policy: Predictor

    def prepare_env(self, env: VecEnv) -> VecEnv:
        """Check spaces and masks, and normalise observations as in the model's training."""
        _check(self.name, self.policy, env, needs_masks(self.policy))
        normalizer = self.policy.get_vec_normalize_env() if isinstance(self.policy, BaseAlgorithm) else None
        return env if normalizer is None else attach(normalizer, env)

    def policy_for(self, env: VecEnv) -> Predictor:
        """Return the object.

        :raises ValueError: if it reads the state of other environments than these
        """
        policy = self.policy
        if _reads_state(policy) and policy.simulator is not find_simulator(env):  # type: ignore[attr-defined]
            raise ValueError(
                f"policy {self.name!r} reads the state of the environment that it was made for, and would "
                "act in another: give its name in its place, such as 'rollout:futures=4'"
            )
        return policy

    @property
    def source(self) -> str:
        """Its class."""
        return type(self.policy).__name__


@dataclass(frozen=True)
class ModelSource(PolicySource):
    """A saved model. Other processes are sent its path, and load it themselves.

    :param path: of its zip file or its run's folder
    :param trust: load it although it holds pickled code
    """

    path: str
    trust: bool = False

    @cached_property
    def choice(self) -> Mapping[str, Any]:  # read once, then kept
        """What the model chooses from and sees, if its folder says so (:mod:`~sb3_greendc.runs.portable`)."""
        environment = read_environment(self.path)
        return {} if environment is None else environment.choice

    @cached_property
    def saved(self) -> SavedModel:
        """The model, loaded when first asked for.

        :raises ValueError: if it cannot be read
        """
        return load_model(self.path, trust=self.trust)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the loaded model behind."""
        return {key: value for key, value in vars(self).items() if key != "saved"}

    def prepare_env(self, env: VecEnv) -> VecEnv:
        """Check spaces and masks, and normalise observations as in the model's training."""
        saved = self.saved
        masked = needs_masks(saved.model) or (
            _obeys_given_masks(saved.model) and _trained_with_masks(saved.run)
        )
        _check(self.name, saved.model, env, masked, self.choice)
        return env if saved.normalizer is None else attach(saved.normalizer, env)

    def policy_for(self, env: VecEnv) -> Predictor:
        """Return the model."""
        return self.saved.model

    @property
    def source(self) -> str:
        """Its path."""
        return self.path


@dataclass(frozen=True)
class PretrainedSource(PolicySource):
    """A trained policy that ships with the package. It chooses from, and sees, what it did in training.

    :param release: its name, or an environment id that it serves
    """

    release: str

    @property
    def choice(self) -> Mapping[str, Any]:
        """What it chose from, and saw, in training."""
        return release_for(self.release).choice

    @cached_property
    def model(self) -> BaseAlgorithm:
        """The model, loaded when first asked for."""
        return load_pretrained(self.release)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the loaded model behind."""
        return {key: value for key, value in vars(self).items() if key != "model"}

    def prepare_env(self, env: VecEnv) -> VecEnv:
        """Check spaces and masks."""
        _check(self.name, self.model, env, needs_masks(self.model), self.choice)
        return env

    def policy_for(self, env: VecEnv) -> Predictor:
        """Return the model."""
        return self.model

    @property
    def source(self) -> str:
        """Its name."""
        return f"{PRETRAINED}:{self.release}"


@dataclass(frozen=True)
class WorkConservingContestant(PolicySource):
    """A policy with a guard: it does not leave an empty pool idle while a job could start and be on time.

    :param inner: the policy
    """

    inner: PolicySource

    @property
    def choice(self) -> Mapping[str, Any]:
        """What the policy chooses from, and sees."""
        return self.inner.choice

    def prepare_env(self, env: VecEnv) -> VecEnv:
        """Return the environment as the policy sees it."""
        return self.inner.prepare_env(env)

    def policy_for(self, env: VecEnv) -> Predictor:
        """Return the policy in its guard.

        :raises ValueError: if the environment is no resource pool
        """
        return WorkConserving(find_simulator(env), self.inner.policy_for(env))

    @property
    def source(self) -> str:
        """The policy's, and that it is guarded."""
        return f"{WORK_CONSERVING}:{self.inner.source}"


def policy_sources(
    policies: Mapping[str, Policy | Sequence[Policy]] | Sequence[Policy],
    env_id: str,
    trust: bool = False,
    work_conserving: bool = False,
) -> list[PolicySource]:
    """Return each policy with its name, and each run of those that have several.

    The name is the key in a mapping, what stands before ``=`` in ``NAME=SOURCE``, the text as it was given,
    or the class of an object.

    :param policies: policies, or a mapping that names them; a list in a mapping is several runs of one
        policy, and so is a pattern that several saved models fit
    :param env_id: the environment they are for, with its version
    :param trust: load saved models that hold pickled code, too, and run it
    :param work_conserving: guard every policy, as ``work_conserving:POLICY`` does one
    :raises ValueError: for an unknown policy, a name given twice, or no policy at all
    """
    named: Mapping[str, Policy | Sequence[Policy]]
    if isinstance(policies, Mapping):
        named = policies
        for name in named:
            if not isinstance(name, str):
                raise ValueError(f"policies: the name {name!r} must be a string")
    elif isinstance(policies, str | Path) or not isinstance(policies, Sequence):
        raise ValueError(f"policies={policies!r}: must be a list of policies, or a mapping of names to them")
    else:
        pairs = [_name(policy) for policy in policies]
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"policies: {', '.join(map(repr, twice))} given twice; NAME=POLICY names them apart"
            )
        named = dict(pairs)
    if not named:
        raise ValueError(f"policies={policies!r}: must name at least one policy")
    found = [one for name, policy in named.items() for one in _policy_sources(name, policy, env_id, trust)]
    return [_guarded(one) for one in found] if work_conserving else found


def _guarded(one: PolicySource) -> PolicySource:
    guarded = isinstance(one, WorkConservingContestant)
    return one if guarded else WorkConservingContestant(one.name, one.run, one)


def takes_masks(policy: Predictor) -> bool:
    """Tell whether ``predict`` has a parameter ``action_masks``; it is then given the environment's masks."""
    return "action_masks" in inspect.signature(policy.predict).parameters


def needs_masks(policy: Predictor) -> bool:
    """Tell whether a policy always had masks in training: without them it acts as it never learned to.

    So it is with ``MaskablePPO``, and with any model that takes masks, finds none in its observations, and
    whose training environments, if it still has them, offer some.
    """
    if isinstance(policy, MaskablePPO | MaskableActorCriticPolicy):
        return True
    env = policy.get_env() if isinstance(policy, BaseAlgorithm) else None
    return env is not None and _obeys_given_masks(policy) and is_masking_supported(env)


def _reads_state(policy: Predictor) -> bool:
    """Tell whether a policy decides by the state of its ``simulator``, not by observations alone."""
    return isinstance(policy, WorkConserving) or (isinstance(policy, BaselinePolicy) and policy.reads_state)


def _name(policy: Policy) -> tuple[str, Policy]:
    if isinstance(policy, str):
        return split_name(policy)
    return (str(policy) if isinstance(policy, Path) else type(policy).__name__), policy


def _policy_sources(
    name: str, policy: Policy | Sequence[Policy], env_id: str, trust: bool
) -> list[PolicySource]:
    """Return the runs of one policy, numbered from 0."""
    runs = list(policy) if isinstance(policy, list | tuple) else [policy]
    found: list[PolicySource] = []
    for one in runs:
        found += _runs(name, one, env_id, len(found), trust)
    if not found:
        raise ValueError(f"policy {name!r}: an empty list of runs")
    return found


def _runs(name: str, policy: Any, env_id: str, first: int, trust: bool) -> list[PolicySource]:
    if isinstance(policy, Path):
        return [ModelSource(name, first, str(policy), trust)]
    if isinstance(policy, str) and policy.startswith(f"{WORK_CONSERVING}:"):
        plain = policy.partition(":")[2]
        return [_guarded(one) for one in _runs(name, plain, env_id, first, trust)]
    if isinstance(policy, str):
        family = greendc.family(env_id)
        known = () if family is None else baselines.names(family, hindsight=True, commands=True)
        spec = parse_source(policy, tuple(dict.fromkeys((*known, RANDOM))), env_id)
        if isinstance(spec, BaselineSpec) and spec.name not in known:
            return [UniformSource(name, first, spec.options)]
        if isinstance(spec, BaselineSpec):
            return [BaselineSource(name, first, spec)]
        if isinstance(spec, PretrainedSpec):
            return [PretrainedSource(name, first, _known_release(spec.name))]
        return [ModelSource(name, run, path, trust) for run, path in enumerate(spec.paths, first)]
    if not isinstance(policy, Predictor):
        raise ValueError(f"policy {name!r} of {type(policy).__name__} has no predict method")
    return [ObjectSource(name, first, policy)]


def _known_release(name: str) -> str:
    release_for(name)
    return name


def _obeys_given_masks(policy: Predictor) -> bool:
    """Tell whether the masks of a policy are those that ``predict`` is given, not those in observations."""
    space = getattr(policy, "observation_space", None)
    return takes_masks(policy) and not (isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces)


def _trained_with_masks(run: Mapping[str, Any]) -> bool:
    """Tell whether the environment that a run's record names offers masks; without a record, no."""
    try:
        env = make_vec_env(run["env_id"], 1, 0, **run.get("env_kwargs", {}))
    except (KeyError, TypeError, ValueError):  # no record, or of an environment that is not known here
        return False
    try:
        return is_masking_supported(env)
    finally:
        env.close()


def _check(
    name: str, policy: Predictor, env: VecEnv, masked: bool, choice: Mapping[str, Any] | None = None
) -> None:
    """Compare a model's spaces with the environment's, and see to it that it gets the masks it had.

    Bounds of observations may differ: they can depend on the jobs and the month.

    :param name: of the policy
    :param policy: the model
    :param env: the environment
    :param masked: whether it needs masks
    :param choice: keyword arguments of the environment that the model was trained with, as far as they say
        what it chooses from, and sees
    """
    if masked and not is_masking_supported(env):
        raise ValueError(f"policy {name!r} needs action masks, and the environment has none")
    wanted, found = getattr(policy, "observation_space", None), env.observation_space
    seen = (found, channels_first_space(found))  # models of images turn them by themselves
    if isinstance(wanted, spaces.Space) and not any(same_kind(wanted, space) for space in seen):
        raise ValueError(
            f"policy {name!r} was made for observations {_brief(wanted)}, the environment has {_brief(found)}"
            + _what_differs(choice or {}, env)
        )
    wanted, found = getattr(policy, "action_space", None), env.action_space
    if isinstance(wanted, spaces.Space) and wanted != found:
        raise ValueError(
            f"policy {name!r} was made for actions {_brief(wanted)}, the environment has {_brief(found)}"
            + _what_differs(choice or {}, env)
        )


def _what_differs(choice: Mapping[str, Any], env: VecEnv) -> str:
    """Say which keyword arguments make the environment one that a model chose from, and saw, in training."""
    config = getattr(getattr(env.unwrapped, "simulator", None), "config", None)
    other = [f"{key}={value!r}" for key, value in choice.items() if getattr(config, key, value) != value]
    return f"; it was trained with {', '.join(other)}: give that to the environment, too" if other else ""


def _brief(space: spaces.Space[Any]) -> str:
    """Describe a space in a few words; the bounds of a long ``Box`` would fill a screen."""
    if isinstance(space, spaces.Dict):
        return "Dict(" + ", ".join(f"{key}: {_brief(space[key])}" for key in space) + ")"
    if isinstance(space, spaces.Box) and space.shape != (1,):
        return f"Box{space.shape} {space.dtype}"
    return str(space)
