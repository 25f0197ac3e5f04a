"""What can decide for a resource pool, by name: heuristics and planners, shipped networks, trained runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

from greendc.baselines.registry import make_policy
from greendc.baselines.resource_pool import BASELINES
from greendc.config import nearest, require_kinds
from greendc.live.guards import require_options
from greendc.live.trained import names_a_run, trained_models
from greendc.registration import family_of, resolve_env_id
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator
from greendc.shipped.policy import ShippedPolicy, load_policy
from greendc.shipped.release import release_for, releases

RULES = tuple(name for name in BASELINES.policies if name not in BASELINES.hindsight)
"""Heuristics and planners; those that search with the true future cannot advise anybody."""

_SEEN = {
    name: getattr(ResourcePoolConfig, name)
    for name in (
        *("mask", "queue_order", "lookahead", "fragmentation"),
        *("observation", "image_dtype", "context_rows"),
    )
}
"""What shipped networks see where their settings say nothing."""


class PoolPolicy(Protocol):
    """Something that can decide for a pool."""

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """Fields of the configuration of the pools that it was made for."""

    @property
    def choice(self) -> Mapping[str, Any]:
        """Fields of the configuration that say what it chooses from, and sees."""

    @property
    def remembers(self) -> bool:
        """Whether what acts may keep something from one decision to the next."""

    def bind(self, simulator: ResourcePoolSimulator) -> Any:
        """Return an object with SB3's ``predict`` that acts in a simulator of one environment.

        :raises ValueError: if the simulator does not fit, or for a wrong value of an option
        """


@dataclass(frozen=True)
class NamedRule:
    """A heuristic or a planner.

    :param name: one of :data:`RULES`
    :param options: of its class
    :raises ValueError: for an option that it does not have, or a value of another type
    """

    name: str
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        parameters = dict(list(inspect.signature(BASELINES.policies[self.name]).parameters.items())[1:])
        require_options(self.name, self.options, list(parameters))
        annotations = {name: str(parameter.annotation) for name, parameter in parameters.items()}
        require_kinds(annotations, self.options, f"{self.name}: ")

    @property
    def env_kwargs(self) -> Mapping[str, Any]:
        """None: it acts in any pool."""
        return {}

    @property
    def choice(self) -> Mapping[str, Any]:
        """None: it takes what the pool has."""
        return {}

    @property
    def remembers(self) -> bool:
        """All might, but for rollouts, whose futures follow from the state."""
        return self.name != "rollout"

    def bind(self, simulator: ResourcePoolSimulator) -> Any:
        """See :class:`PoolPolicy`."""
        return make_policy(self.name, SimpleNamespace(simulator=simulator), **self.options)


class ShippedNetwork:
    """A trained policy that ships with the package, in NumPy.

    :param name: of a release, or of an environment that one serves
    :raises ValueError: if there is none for resource pools, or its files are damaged
    """

    remembers = False

    def __init__(self, name: str) -> None:
        release = release_for(name)
        family = family_of(release.env_id)
        if family is None or family.name != "resource_pool":
            raise ValueError(f"policy={name!r}: must be for resource pools, not for {release.env_id}")
        asked = name != release.name and release.serves_id(name)
        env_id = resolve_env_id(name if asked else release.env_id)
        self.env_kwargs: Mapping[str, Any] = {**family.presets[env_id], **release.env_kwargs}
        if asked:
            self.env_kwargs = {**family.presets[env_id], **release.choice}
        self.choice: Mapping[str, Any] = {**_SEEN, **release.choice}
        self._policy: ShippedPolicy = load_policy(name)

    def bind(self, simulator: ResourcePoolSimulator) -> ShippedPolicy:
        """See :class:`PoolPolicy`."""
        return self._policy.resized(simulator.observation_space, simulator.action_space)


def pool_policy(name: str, options: Mapping[str, Any]) -> PoolPolicy:
    """Return what decides.

    :param name: one of :data:`RULES`, a release or an environment that one serves (``"ResourcePool-10"``), or
        the folder of a trained run or its ``model.zip``. A rule's name wins over a folder's: ``./NAME`` is
        the folder
    :param options: of rules
    :raises ValueError: for an unknown name or option
    """
    if not isinstance(name, str):
        raise ValueError(f"policy={name!r}: must be text, not {type(name).__name__}")
    if name in RULES:
        prior = options.get("prior")
        if name == "rollout" and isinstance(prior, str):
            NamedRule(name, {key: value for key, value in options.items() if key != "prior"})
            loaded: PoolPolicy = trained_models(prior).RolloutWithPrior(options)
            return loaded
        return NamedRule(name, options)
    if names_a_run(name):
        loaded = trained_models(name).TrainedPolicy(name, "resource_pool")
    else:
        try:
            loaded = ShippedNetwork(name)
        except ValueError as error:
            if not str(error).startswith(f"pretrained {name!r}:"):
                raise
            served = sorted({one for known in releases().values() for one in known.serves})
            served = [one for one in served if one.startswith("ResourcePool")]
            allowed = f"one of {', '.join(RULES)}; {', '.join(served)}; or the folder of a trained run"
            hint = nearest(name, [*RULES, *served])
            raise ValueError(f"policy={name!r}: must be {allowed}{hint}") from None
    require_options(name, options, ())
    return loaded
