"""The resource-pool environments: one pool, and a batch of them."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from greendc.config import from_mapping
from greendc.environments import SimulatorEnv, SimulatorVectorEnv
from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.rendering import WINDOW, describe, draw_pool, show
from greendc.resource_pool.simulator import ResourcePoolSimulator
from greendc.simulator import Observation
from greendc.unmasked import warn_of_missing_masks


def make_config(config: ResourcePoolConfig | None, options: dict[str, Any]) -> ResourcePoolConfig:
    """Return ``config`` (default: all defaults) with ``options`` laid over it.

    :raises TypeError: for a ``config`` of another class, or an unknown option
    :raises ValueError: if an option makes no sense
    """
    if config is None:
        return from_mapping(ResourcePoolConfig, options, owner="resource-pool environment")
    if not isinstance(config, ResourcePoolConfig):
        raise TypeError(f"config: must be a ResourcePoolConfig, not {type(config).__name__}")
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return from_mapping(ResourcePoolConfig, {**fields, **options}, owner="resource-pool environment")


class ResourcePoolEnv(SimulatorEnv):
    """A pool of CPU and GPU units that runs jobs with deadlines under power that comes and goes.

    Time is discrete. Jobs arrive, wait, and are placed by the agent on contiguous units of each resource
    type, now or as a reservation within the horizon. A job pays its value if it finishes by its latest
    finish, ``arrival + floor(duration / qos + 1e-9)``; its value is ``duration * sum(price * units) * qos``,
    and its QoS value ``qos`` the share of wall-clock time that its user wants it to be running.

    Ids: ``ResourcePool-v0`` (10 units), ``ResourcePool-{10,20,50,100,300}-v0``, ``ResourcePoolGreen-10-v0``
    (sun, wind, battery), ``ResourcePoolHPC-10-v0`` (jobs like those of a supercomputer, green power),
    ``ResourcePoolSuspend-10-v0`` (SC20: dense reward, ``suspend`` allowed), ``ResourcePoolCarbon-10-v0``
    (power is commanded, and the grid's emissions count). All take the fields of
    :class:`~greendc.resource_pool.config.ResourcePoolConfig` as keyword arguments.

    ### Action space

    ``Discrete(n + 2)``, with ``n = ready_pool_size``:

    - ``0 ... n-1``: schedule the job in that ready slot, at the earliest start within the horizon (or only
      now, ``placement="now"``) at which a contiguous block of units of each type is free and powered for as
      long as the job needs; of each type the lowest block. No time passes.
    - ``n``: ``suspend``. The running job of least value per remaining unit-step (ties: the older job) gives
      way to the ready job of greatest such value (ties: the lower slot) that then fits at once (and, under
      ``mask="now_on_time"``, will be on time), whichever of the two is worth more. It keeps the work done and
      cannot be placed again in this step. No time passes.
    - ``n + 1``: ``no_op``. Time goes on by one step.

    With ``power_levels``, ``no_op`` becomes ``P = 3 * len(power_levels)`` actions: ``n + 1 + 3 * level +
    mode`` lets time go on, orders that level's units of each type for the next step, and tells the battery
    what to do in this one: 0, serve when sun and wind do not suffice; 1, hold; 2, hold and charge from the
    grid at full power. Sun and wind left over charge it in every mode. The grid serves what is left. Units
    that are ordered draw ``switch_hours`` of full draw as they start, and with ``switch_delay=1`` are on
    a step later; ordered off, they are off in the next step, and jobs on them are suspended. The episode
    begins with the units of the highest level on. Of an invalid command the units are ordered, and the
    battery is left to itself; other invalid actions keep the order. With ``pausing``, ``suspend`` pauses a
    job also where none could start in its place.

    An invalid action acts as ``no_op`` and is counted. ``action_masks()`` and ``action_mask`` tell exactly
    which actions are valid; ``mask`` and ``suspend`` in the configuration narrow them.

    ### Observation space

    ``Dict``, or with ``observation="flat"`` the first three as one float32 vector. Everything is seen from
    now; times and sizes are scaled by constants of the configuration.

    - ``resources`` ``(horizon, R * M)``: one row a step from now on, the types side by side. 0 is free, 255
      unavailable for lack of power (the highest units first), 64 to 191 occupied, each job by its own
      shade (shades return after 128 jobs). uint8, or float32 divided by 255.
    - ``jobs`` ``(n, 13 + R)``: the ready jobs; zero in an empty slot. The features are named in
      :data:`~greendc.resource_pool.observation.JOB_FEATURES`.
    - ``context``: the queue beyond the ready pool, the hour of day, the battery, and for each type the share
      and the largest block of free units in the next rows
      (:func:`~greendc.resource_pool.observation.context_features`).
    - ``action_mask`` ``(n + 2,)``, with commands ``(n + 1 + P,)``: 1 where an action is valid.

    Where power is commanded, ``context`` also tells the units on and on in the next step, and carbon, price
    and green share of the next 24 rows. Row 0 of the image has the units on, later rows those of the
    next step.

    With ``lookahead=24`` one more column of ``jobs`` says what starting the job now is worth, compared with
    ``no_op``, if no more jobs came in the next 24 steps and the others started by rule
    (:class:`~greendc.resource_pool.lookahead.Lookahead`). Where jobs may be suspended, further numbers of
    ``context`` say the same of ``suspend``, and which jobs it would exchange. The
    learner then only has to predict future arrivals.

    With ``fragmentation=True`` further columns of ``jobs`` say of each job that can start now how much
    smaller the two largest free blocks of the next steps would be
    (:class:`~greendc.resource_pool.fragmentation.Fragmentation`).

    uint8 is the smallest to store and the fastest to write. Stable-Baselines3 scales uint8 only in pictures
    of three axes, so a plain ``MultiInputPolicy`` or ``MlpPolicy`` wants ``image_dtype="float32"`` or
    ``observation="flat"``, and ``mask="now_on_time"`` (``docs/sb3.md`` has figures); this project's
    extractors scale the image themselves.

    ### Queue

    Waiting jobs stand in order of arrival, or by their latest start (``queue_order``); the ready pool is the
    first ``n``. A job that is suspended or whose reservation breaks returns to its place. ``late_jobs`` says
    what happens to a job that cannot be on time even if it started now: ``"demote"`` puts it behind all
    others, ``"leave"`` lets it go, ``"stay"`` changes nothing.

    ### When time goes on

    In this order: the image moves up a row; jobs that are finished leave and are paid; actual power and the
    new forecast; running jobs that row 0 does not carry are suspended, reservations that any row does not
    carry are broken; reservations for now begin; arrivals; the rule for late jobs; costs are counted. With
    an exact forecast nothing is ever suspended or broken by power. A reservation that power breaks in the
    step in which it would begin counts as broken, not as suspended.

    With ``start_delay`` and ``end_delay`` a placement occupies its units that much longer before and after
    the work, each time; the job is finished when all is over. Suspended before its work begins, it has
    done none.

    ### Reward

    By named weights (:class:`~greendc.resource_pool.rewards.RewardWeights`), divided by the mean job value.
    The default, ``"potential"``, pays the value of jobs that finish on time, shaped by the value of what is
    placed so that it will be on time. Discounts of at least 0.995 are recommended, since placements count
    as steps (at 0.99 a job of 30 steps is worth 0.74 or less), unless the algorithm discounts by time.

    Weights of energy charge what the grid delivers. At the end of the episode six tenths of what the battery
    lacks of its first charge are charged, too, at the mean emission and price.

    ### Start and end

    The pool starts empty and is truncated after ``episode_steps`` time steps; nothing terminates it.
    ``reset(options={"jobs": JobArrays})`` plays given jobs.

    ### Info

    ``cost`` (of the time steps that passed, 0 for a placement), ``time_advanced`` (how many passed: 0, 1, or
    more with ``skip_forced``), with ``info_jobs`` also ``ready_jobs``, the raw jobs in the columns of
    :data:`~greendc.resource_pool.view.READY_JOB_COLUMNS`. The last step adds ``episode_metrics``.

    ### References

    Venkataswamy, Grigsby, Grimshaw and Qi, "RARE: Renewable Energy Aware Resource Management in
    Datacenters", JSSPP 2022; Venkataswamy and Grimshaw, "Scheduling in a datacenter with deep reinforcement
    learning", MLCS workshop at SC 2020; Venkataswamy, "Job Scheduling in Datacenters using Constraint
    Controlled RL" (CoCoRL).

    :param config: a configuration; keyword arguments are laid over it
    :param render_mode: ``"rgb_array"`` (the resource image, the ready pool, power and battery), ``"human"``
        or ``"ansi"``; for the Gantt chart of an episode see :mod:`greendc.resource_pool.rendering`
    """

    window = WINDOW
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array", "human", "ansi"], "render_fps": 4}  # type: ignore[misc]
    simulator: ResourcePoolSimulator

    def __init__(
        self, config: ResourcePoolConfig | None = None, render_mode: str | None = None, **options: Any
    ) -> None:
        super().__init__(ResourcePoolSimulator(make_config(config, options)), render_mode)
        # With nothing to add to a step, it takes a shorter way, for speed.
        self._plain = self.config.observation == "dict" and not self.config.info_jobs and not render_mode

    @property
    def config(self) -> ResourcePoolConfig:
        """The configuration."""
        return self.simulator.config

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision; the constraint cost is ``info["cost"]``."""
        if not self._plain:
            return super().step(action)
        simulator = self.simulator
        observation, reward, cost, time_advanced, truncated = simulator.step_one(action)
        info: dict[str, Any] = {"cost": cost, "time_advanced": time_advanced}
        if truncated:
            info["episode_metrics"] = simulator.episode_metrics(0)
            warn_of_missing_masks(info["episode_metrics"], simulator.instead_of_invalid)
        return observation, reward, False, truncated, info

    def render(self) -> NDArray[np.uint8] | str | None:  # type: ignore[override]
        """Draw the resource image with the ready pool beside it, and power and battery below."""
        if self.render_mode == "ansi":
            return describe(self.simulator, 0)
        if self.render_mode == "rgb_array":
            return draw_pool(self.simulator, 0)
        if self.render_mode == "human":
            show(self.simulator, 0)
        return None

    def action_masks(self) -> NDArray[np.bool_]:
        """Return ``(n_actions,)``, true where an action does what it says (sb3-contrib's name)."""
        mask: NDArray[np.bool_] = self.simulator.action_masks()[0]
        return mask


class ResourcePoolVectorEnv(SimulatorVectorEnv):
    """A batch of :class:`ResourcePoolEnv` in flat arrays, stepped by one compiled call.

    :param num_envs: number of environments
    :param config: a configuration; keyword arguments are laid over it
    :param threads: that the batch is split among; the numbers are the same
    """

    simulator: ResourcePoolSimulator

    def __init__(
        self, num_envs: int = 1, config: ResourcePoolConfig | None = None, threads: int = 1, **options: Any
    ) -> None:
        super().__init__(ResourcePoolSimulator(make_config(config, options), num_envs, threads))
