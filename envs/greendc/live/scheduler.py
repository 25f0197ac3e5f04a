"""One way to a decision for every kind of snapshot."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, overload

from greendc import json_records
from greendc.live.cluster_policies import OF_TRACES, POLICIES
from greendc.live.cluster_scheduler import ClusterScheduler
from greendc.live.decision import Decision, PoolDecision
from greendc.live.pool_policies import RULES
from greendc.live.pool_scheduler import PoolScheduler
from greendc.live.snapshot import Snapshot
from greendc.live.trained import OtherFamilyError
from greendc.resource_pool.snapshot import PoolSnapshot

_POOL_FIELDS = ("jobs", "power")
"""What every snapshot of a pool has, and none of a cluster."""


def read_snapshot(snapshot: str | bytes | Mapping[str, Any]) -> Snapshot | PoolSnapshot:
    """Return a snapshot of the kind that its fields say: ``jobs`` or ``power`` are those of a resource pool.

    :param snapshot: its JSON text, or the object in it
    :raises SnapshotError: names the field that is wrong, unknown or missing
    """
    data = json_records.parse(snapshot) if isinstance(snapshot, str | bytes) else snapshot
    is_pool = isinstance(data, Mapping) and any(name in data for name in _POOL_FIELDS)
    if is_pool:
        return json_records.from_data(PoolSnapshot, data)
    return json_records.from_data(Snapshot, data)


class Scheduler:
    """Says which waiting jobs should start now, of a cluster or of a resource pool. It keeps nothing.

    A policy is for the kinds of snapshots that have one of its name; settings are those of
    :class:`ClusterScheduler` and :class:`PoolScheduler`, which this class chooses between.

    :param policy: its name, or the folder of a trained run; ``None``: the default of the kind of snapshot
    :param settings: of the scheduler, and options of the policy
    :raises ValueError: for a policy or a setting that is right for no kind of snapshot; names it
    """

    def __init__(self, policy: str | None = None, **settings: Any) -> None:
        self.policy, self.settings = policy, settings
        given = settings if policy is None else {"policy": policy, **settings}
        self._schedulers: dict[type, ClusterScheduler | PoolScheduler] = {}
        self._refusals: dict[type, ValueError] = {}
        self._try(Snapshot, ClusterScheduler, given)
        if self._schedulers and policy is not None and policy not in RULES:
            allowed = f"one of {', '.join(RULES)}, a shipped network, or a run that was trained in one"
            self._refusals[PoolSnapshot] = ValueError(f"policy={policy!r}: must be {allowed}")
        else:
            self._try(PoolSnapshot, PoolScheduler, given)
        if not self._schedulers:
            raise ValueError(self._refusal())

    def _try(self, kind: type, scheduler: Any, given: Mapping[str, Any]) -> None:
        try:
            self._schedulers[kind] = scheduler(**given)
        except ValueError as error:
            self._refusals[kind] = error

    def _refusal(self) -> str:
        """Return what is wrong with the settings for every kind of snapshot."""
        of_cluster, of_pool = self._refusals[Snapshot], self._refusals[PoolSnapshot]
        meant_cluster, meant_pool = (_own(one, self.settings) for one in (ClusterScheduler, PoolScheduler))
        if meant_cluster and meant_pool:
            whose = f"an option of resource pools, {' and '.join(meant_cluster)} of clusters"
            return f"{' and '.join(meant_pool)} is {whose}: must not be given together"
        if isinstance(of_pool, OtherFamilyError) and not isinstance(of_cluster, OtherFamilyError):
            return str(of_cluster)
        in_cluster = self.policy in (*POLICIES, *OF_TRACES)
        if meant_cluster or meant_pool:  # a setting that only one kind has says which is meant
            return str(of_cluster if meant_cluster else of_pool)
        unknown = all(
            str(one).startswith(f"policy={self.policy!r}: must be") for one in (of_cluster, of_pool)
        )
        if self.policy is None or unknown or (in_cluster and self.policy in RULES):
            same = str(of_cluster) == str(of_pool)
            return str(of_cluster) if same else f"{of_cluster}; of a pool: {of_pool}"
        return str(of_cluster if in_cluster else of_pool)

    @classmethod
    def load(cls, path_or_name: str | Path, **settings: Any) -> Scheduler:
        """Return the scheduler of a policy, or of a JSON file with this class's arguments.

        :param path_or_name: the name of a heuristic, a planner or a shipped network, the folder of a trained
            run, or a path that ends in ``.json``
        :param settings: take the place of those of the file
        :raises ValueError: for an unknown name, or a file with a wrong setting
        """
        if not str(path_or_name).endswith(".json"):
            return cls(str(path_or_name), **settings)
        path = Path(path_or_name)
        try:
            data = json.loads(path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise ValueError(f"{path}: there is no such file") from None
        except ValueError as error:
            raise ValueError(f"{path}: no JSON ({error})") from None
        if not isinstance(data, dict):
            raise ValueError(f"{path}: must hold an object, not {type(data).__name__}")
        try:
            return cls(**{**data, **settings})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None

    def notes(self, snapshot: Snapshot, decision: Decision) -> tuple[str, ...]:
        """Return what the forecast of a cluster does not say of the jobs that start.

        :param decision: what :meth:`decide` returned for this snapshot
        """
        scheduler = self._schedulers[Snapshot]
        return scheduler.notes(snapshot, decision) if isinstance(scheduler, ClusterScheduler) else ()

    @overload
    def decide(self, snapshot: Snapshot, now: datetime | None = None) -> Decision: ...

    @overload
    def decide(self, snapshot: PoolSnapshot, now: datetime | None = None) -> PoolDecision: ...

    @overload
    def decide(self, snapshot: Mapping[str, Any], now: datetime | None = None) -> Decision | PoolDecision: ...

    def decide(
        self, snapshot: Snapshot | PoolSnapshot | Mapping[str, Any], now: datetime | None = None
    ) -> Decision | PoolDecision:
        """Return which jobs should start now, and why the others wait.

        :param snapshot: of a cluster or a pool, or the object of its JSON form
        :param now: the time, for the age of the snapshot; default: the clock's
        :raises SnapshotError: for a snapshot that is stale or contradicts itself
        :raises ValueError: if the policy is for the other kind of snapshot
        """
        if not isinstance(snapshot, Snapshot | PoolSnapshot):
            snapshot = read_snapshot(snapshot)
        kind = type(snapshot)
        if kind in self._refusals:
            known = "cluster" if kind is Snapshot else "resource pool"
            raise ValueError(f"the snapshot is of a {known}: {self._refusals[kind]}")
        scheduler: Any = self._schedulers[kind]
        decision: Decision | PoolDecision = scheduler.decide(snapshot, now)
        return decision


def _own(scheduler: type, settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that schedulers of this kind have, and those of the other lack."""
    others = {ClusterScheduler, PoolScheduler} - {scheduler}
    names = [set(inspect.signature(one).parameters) for one in (scheduler, *others)]
    return [name for name in settings if name in names[0] - names[1]]
