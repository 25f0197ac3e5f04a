"""What can decide for a cluster, by name: rules, guarded rollouts, trained runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from greendc.baselines.cluster import GuardedRollout
from greendc.baselines.cluster.rollout import require_rollout_options
from greendc.cluster import ClusterConfig, ClusterSimulator
from greendc.cluster.evolved import require_weights
from greendc.cluster.rules import RULES
from greendc.config import nearest, require_kinds
from greendc.live.guards import require_options
from greendc.live.trained import names_a_run, trained_models

OF_TRACES = ("f1", "f2", "f3", "f4", "wfp3_printed", "unicep_printed")
"""Rules that count submit times from the start of a trace: a live cluster has none."""
LIVE_RULES = tuple(name for name in RULES if name not in OF_TRACES)
POLICIES = (*LIVE_RULES, "rollout")

_OWN = ("self", "simulator", "index", "rule")
"""Parameters of what a policy calls that are no options of it."""
_SEEN = ("profile", "backfill", "admission", "forecast_hours", "visible_jobs")
"""Fields of a cluster's configuration that a trained run decides by."""

Choose = Callable[[], int | None]
"""Names the job to take next in a simulator of one cluster; ``None``: let time go on."""


class ClusterPolicy(Protocol):
    """Something that can decide for a cluster."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What clusters are like for it where a scheduler says nothing; see :class:`ClusterScheduler`."""

    @property
    def visible_jobs(self) -> int | None:
        """How many waiting jobs it sees; ``None``: it looks at the state itself, not at observations."""

    def bind(self, simulator: ClusterSimulator) -> Choose:
        """Return what decides in a simulator of one cluster.

        :raises ValueError: if the simulator does not fit
        """


class NamedRule:
    """A rule, or guarded rollouts.

    :param name: one of :data:`POLICIES`
    :param options: of it
    :raises ValueError: for an option that it does not have, or a wrong value of one
    """

    settings: Mapping[str, Any] = {"backfill": "easy", "admission": "now", "horizon_hours": 24}
    visible_jobs = None

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self._name, self._options = name, dict(options)
        call = GuardedRollout.__init__ if name == "rollout" else ClusterSimulator.first
        parameters = inspect.signature(call).parameters
        require_options(name, options, [one for one in parameters if one not in _OWN])
        _refuse_rules_of_traces("base", options.get("base"))
        if name == "rollout":
            require_rollout_options(**options)
        else:
            require_kinds({one: str(parameters[one].annotation) for one in options}, options)
            require_weights(name, options.get("weights"))

    def bind(self, simulator: ClusterSimulator) -> Choose:
        """See :class:`ClusterPolicy`."""
        if self._name == "rollout":
            planner = GuardedRollout(simulator, **self._options)
            return lambda: planner.decide(0)
        return lambda: simulator.first(0, self._name, **self._options)


class TrainedNetwork:
    """A trained run.

    :param path: of its folder or its ``model.zip``
    :raises ValueError: if it cannot be read, or decides for other environments
    """

    def __init__(self, path: str) -> None:
        self._policy = trained_models(path).TrainedPolicy(path, "cluster")
        config = {name: getattr(ClusterConfig, name) for name in _SEEN} | dict(self._policy.env_kwargs)
        if config["profile"] == "rlscheduler":
            raise ValueError(
                f"policy {path}: was trained in profile='rlscheduler', where no action waits; "
                "live clusters are of profile='easy'"
            )
        self.settings: Mapping[str, Any] = {
            "backfill": config["backfill"],
            "admission": config["admission"],
            "horizon_hours": config["forecast_hours"],
        }
        self.visible_jobs: int = config["visible_jobs"]

    def bind(self, simulator: ClusterSimulator) -> Choose:
        """See :class:`ClusterPolicy`; an invalid action takes the job seen first, as in the environment."""
        policy = self._policy.bind(simulator)
        observation = simulator.empty_observations()
        cluster, visible = simulator.state.cluster[0], simulator.state.visible[0]

        def choose() -> int | None:
            simulator.observe(observation)
            action = int(policy.predict(observation, deterministic=True)[0][0])
            if action == self.visible_jobs:
                return None
            return int(visible[action if action < cluster["visible"] else 0])

        return choose


def _refuse_rules_of_traces(field: str, name: object) -> None:
    if name in OF_TRACES:
        why = "counts submit times from the start of a trace, and a live cluster has none"
        raise ValueError(f"{field}={name!r}: {why}; must be one of {', '.join(LIVE_RULES)}")


def cluster_policy(name: str, options: Mapping[str, Any]) -> ClusterPolicy:
    """Return what decides.

    :param name: one of :data:`POLICIES`, or the folder of a trained run or its ``model.zip``. A rule's name
        wins over a folder's: ``./NAME`` is the folder
    :param options: of rules and rollouts
    :raises ValueError: for an unknown name or option, and for rules of traces
    """
    _refuse_rules_of_traces("policy", name)
    if name in POLICIES:
        return NamedRule(name, options)
    if not isinstance(name, str) or not names_a_run(name):
        hint = nearest(name, POLICIES) if isinstance(name, str) else ""
        allowed = f"one of {', '.join(POLICIES)}, or the folder of a trained run"
        raise ValueError(f"policy={name!r}: must be {allowed}{hint}")
    require_options(name, options, ())
    return TrainedNetwork(name)
