"""Decides for a live resource pool with the heuristics, planners and networks of the simulator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from greendc.baselines.resource_pool import WorkConserving
from greendc.config import nearest, require, require_kinds
from greendc.json_records import SnapshotError
from greendc.json_records import require as require_field
from greendc.live.decision import PassedOver, Place, PoolDecision
from greendc.live.guards import require_fresh
from greendc.live.pool_policies import pool_policy
from greendc.registration import family_of, resolve_env_id
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator
from greendc.resource_pool import layout as at
from greendc.resource_pool.config import MODES
from greendc.resource_pool.restore import MEANS, plain
from greendc.resource_pool.shipped_years import is_shipped_year
from greendc.resource_pool.snapshot import PoolSnapshot
from greendc.resource_pool.workloads import WORKLOADS

BATTERY = ("auto", "hold", "charge")
"""Modes of the battery, by their codes."""
MOST_CELLS = 10**8
"""Of the image of a pool."""
MOST_ROWS = 10**5
"""Of the jobs that can be ready, of the steps that are looked ahead, and of a day."""
MOST_STEPS = 10**6
"""Of an episode, and its hours."""


class PoolScheduler:
    """Says which waiting jobs of a resource pool should start now. It keeps nothing of a snapshot.

    The pool is what the ``configuration`` of the snapshot says; where it says nothing, what ``env`` says, or
    else the environment that the policy is for, or the defaults of
    :class:`~greendc.resource_pool.ResourcePoolConfig`. What a network chooses from and sees (``mask``,
    ``lookahead``, ``fragmentation``, ``ready_pool_size``, ``queue_order``) is always as in its training.

    :param policy: a heuristic or planner of :mod:`greendc.baselines.resource_pool`, a shipped network
        (``"ResourcePool-10"``), or the folder of a trained run
    :param env: an environment id; or a configuration, where jobs or series are objects
    :param work_conserving: start a job rather than leave an empty pool idle
        (:class:`~greendc.baselines.resource_pool.WorkConserving`); off, the policy alone decides
    :param stale_seconds: a snapshot with a ``time`` that is older is refused
    :param options: of a heuristic or planner
    :raises ValueError: for a wrong setting; names it
    """

    def __init__(
        self,
        policy: str = "deadline_never",
        *,
        env: str | ResourcePoolConfig | None = None,
        work_conserving: bool = True,
        stale_seconds: float = 300.0,
        **options: Any,
    ) -> None:
        given = {"work_conserving": work_conserving, "stale_seconds": stale_seconds}
        require_kinds({"work_conserving": "bool", "stale_seconds": "float"}, given)
        require(stale_seconds > 0, "stale_seconds", stale_seconds, "above 0")
        self.policy, self.work_conserving, self.stale_seconds = policy, work_conserving, stale_seconds
        self._policy = pool_policy(policy, options)
        self._kept: tuple[ResourcePoolConfig, ResourcePoolSimulator, Any] | None = None
        self._base = env if isinstance(env, ResourcePoolConfig) else self._default(env)

    def _default(self, env: str | None) -> ResourcePoolConfig:
        """Return what a pool is where its snapshot says nothing."""
        if env is None:
            return ResourcePoolConfig(**self._policy.env_kwargs)
        require(isinstance(env, str), "env", env, "an environment id, or a configuration")
        family = family_of(env)
        require(family is not None and family.name == "resource_pool", "env", env, "a resource pool's id")
        assert family is not None
        return ResourcePoolConfig(**family.presets[resolve_env_id(env)])

    def decide(self, snapshot: PoolSnapshot, now: datetime | None = None) -> PoolDecision:
        """Return which jobs should start now, and why the others wait.

        The policy acts in a simulator that stands where the pool stands, until it lets time go on.

        :param snapshot: the pool
        :param now: the time, for the age of the snapshot; default: the clock's
        :raises SnapshotError: for a snapshot that is stale, contradicts itself, or is of a pool that the
            policy does not fit
        """
        require_fresh(snapshot.time, self.stale_seconds, now)
        simulator, policy = self._simulator(snapshot)
        played = _play(simulator, policy)
        return self._decision(snapshot, simulator, played)

    def _simulator(self, snapshot: PoolSnapshot) -> tuple[ResourcePoolSimulator, Any]:
        """Return a simulator in the state of the snapshot, and what decides in it."""
        fixed = {**self._policy.choice, "skip_forced": False, "info_jobs": False}
        config = _configured(self._base, snapshot.configuration, fixed)
        same = {name: value for name, value in snapshot.configuration.items() if name not in fixed}
        given = dataclasses.replace(snapshot, configuration=same)
        if self._kept is not None and self._kept[0] == config:  # what takes long is made once for each pool
            _, simulator, policy = self._kept
            simulator.load(given)
            return simulator, policy
        try:
            simulator = ResourcePoolSimulator(config)
        except (OSError, TypeError, ValueError) as error:
            raise SnapshotError(f"configuration: {error}") from None
        simulator.load(given)
        try:
            policy = self._policy.bind(simulator)
        except (TypeError, ValueError) as error:
            raise SnapshotError(f"policy={self.policy!r} does not fit the pool: {error}") from None
        policy = WorkConserving(simulator, policy) if self.work_conserving else policy
        if not self._policy.remembers:
            self._kept = config, simulator, policy
        return simulator, policy

    def _decision(
        self, snapshot: PoolSnapshot, simulator: ResourcePoolSimulator, played: _Played
    ) -> PoolDecision:
        """Return what has come of it, as changes between the snapshot and now."""
        config, jobs = simulator.config, simulator.state.jobs[0]
        name, now = snapshot.name_of, int(simulator.state.env[0]["now"])
        placed = [j for j in played.placed if jobs["status"][j] in (at.RESERVED, at.RUNNING)]
        blocks = simulator.state.units[0, at.BLOCKS].tolist()
        first, last = config.ready_pool_size + 1, played.actions[-1]
        units, battery = None, None
        if config.power_levels is not None:
            is_command, mode = last >= first, (last - first) % MODES
            units = config.power_levels[(last - first) // MODES] if is_command else snapshot.units_next
            battery = BATTERY[mode] if is_command and simulator.action_masks()[0, last] else BATTERY[0]
        return PoolDecision(
            start=tuple(name(j) for j in placed if jobs["start"][j] == now),
            places=tuple(Place(name(j), int(jobs["start"][j]) - now, tuple(blocks[j])) for j in placed),
            suspend=tuple(name(j) for j in played.suspended if j not in played.placed),
            passed_over=tuple(
                PassedOver(name(j), _reason(simulator, j)) for j in sorted(simulator.view().queue.tolist())
            ),
            units_ordered=units,
            battery=battery,
            valid_seconds=max(round(3600 * config.step_hours), 1),
            actions=tuple(played.actions),
            policy=self.policy,
        )


class _Played(NamedTuple):
    """What the policy did while the clock stood still."""

    actions: list[int]
    placed: list[int]
    """Jobs, in order."""
    suspended: list[int]


def _play(simulator: ResourcePoolSimulator, policy: Any) -> _Played:
    """Take the actions of a policy until one lets time go on; that one is named, but not taken."""
    played = _Played([], [], [])
    before = simulator.state.jobs[0]["status"].copy()

    def note() -> None:
        status = simulator.state.jobs[0]["status"]
        placed = (before == at.WAITING) & ((status == at.RESERVED) | (status == at.RUNNING))
        suspended = (before == at.RUNNING) & (status == at.WAITING)
        played.placed.extend(np.flatnonzero(placed).tolist())
        played.suspended.extend(np.flatnonzero(suspended).tolist())
        before[:] = status

    observation = simulator.empty_observations()
    simulator.observe(observation)
    while True:
        actions, _ = policy.predict(observation, deterministic=True)
        note()  # policies of the whole queue place jobs before they answer
        action = int(actions[0])
        played.actions.append(action)
        if action > simulator.config.ready_pool_size or not simulator.action_masks()[0, action]:
            return played
        simulator.step(np.array([action]), observation)
        note()


def _reason(simulator: ResourcePoolSimulator, job: int) -> str:
    """Return why a job waits."""
    config, view, state = simulator.config, simulator.view(), simulator.state
    row, now = state.jobs[0, job], view.now
    steps = config.start_delay + int(row["remaining"]) + config.end_delay
    if row["barred"] == now:
        return "gave way in this step"
    if job not in view.queue[: config.ready_pool_size]:
        return f"is not among the {config.ready_pool_size} ready jobs, or finds no room"
    if now + steps > row["latest"] and config.mask == "now_on_time":
        return "can no longer finish on time"
    if row["found_start"] < 0:
        return f"finds no room for its {steps} steps within the {config.horizon} that are planned"
    if row["found_start"] > now:
        return f"finds room in {int(row['found_start']) - now} steps at the earliest"
    return "the policy waits"


def _configured(
    base: ResourcePoolConfig, given: Mapping[str, Any], fixed: Mapping[str, Any]
) -> ResourcePoolConfig:
    """Return the configuration of a pool.

    :param base: what it is where the snapshot says nothing
    :param given: fields as JSON has them
    :param fixed: fields that are the policy's
    """
    known = {field.name for field in dataclasses.fields(ResourcePoolConfig)}
    for name in given:
        if name not in known and name not in MEANS:
            raise SnapshotError(f"configuration.{name}: unknown field{nearest(name, known)}")
    changed = {
        name: value
        for name, value in given.items()
        if name in known and name not in fixed and plain(getattr(base, name)) != value
    }
    _require_names(changed)
    try:
        config = dataclasses.replace(base, **{**changed, **fixed})
    except (TypeError, ValueError) as error:
        raise SnapshotError(f"configuration.{error}") from None
    _require_small(config)
    return config


def _require_names(changed: Mapping[str, Any]) -> None:
    """Refuse jobs and series that a snapshot only names: no file is read because a snapshot says so."""
    for name, value in changed.items():
        if name == "workload":
            allowed = f"what env has, or one of {', '.join(WORKLOADS)}"
            require_field(value in WORKLOADS, "configuration.workload", value, allowed)
        if name in ("trace", "carbon", "price"):
            right = name != "trace" and isinstance(value, int | float)
            right = right or (name == "carbon" and is_shipped_year(value))
            require_field(right, f"configuration.{name}", value, "what env has" + _OTHERS[name])


_OTHERS = {"trace": "", "carbon": ", a number, or a year that ships", "price": ", or a number"}


def _require_small(config: ResourcePoolConfig) -> None:
    """Refuse what no memory holds."""
    steps, hours = config.episode_steps, config.step_hours
    for name, size, most in (
        ("units", config.units * config.resource_types * config.horizon, MOST_CELLS),
        ("ready_pool_size", config.ready_pool_size, MOST_ROWS),
        ("lookahead", config.lookahead, MOST_ROWS),
        ("step_hours", 24 / hours, MOST_ROWS),
        ("episode_steps", max(steps, steps * hours), MOST_STEPS),
    ):
        allowed = f"such that the pool fits into memory: {size:,.0f} of at most {most:,}"
        require_field(size <= most, f"configuration.{name}", getattr(config, name), allowed)
