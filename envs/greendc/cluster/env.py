"""The cluster environments: one cluster, and a batch of them."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from greendc.cluster.config import ClusterConfig
from greendc.cluster.rendering import WINDOW, draw, show, summarize
from greendc.cluster.simulator import ClusterSimulator
from greendc.config import from_mapping
from greendc.environments import SimulatorEnv, SimulatorVectorEnv
from greendc.simulator import Observation
from greendc.unmasked import warn_of_missing_masks


def make_config(config: ClusterConfig | None, options: dict[str, Any]) -> ClusterConfig:
    """Return ``config`` (default: all defaults) with ``options`` laid over it."""
    if config is None:
        return from_mapping(ClusterConfig, options, owner="cluster environment")
    if not isinstance(config, ClusterConfig):
        raise TypeError(f"config: must be a ClusterConfig, not {type(config).__name__}")
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return from_mapping(ClusterConfig, {**fields, **options}, owner="cluster environment")


class ClusterEnv(SimulatorEnv):
    """A cluster of equal processors that runs the jobs of a log, one decision at a time, in event time.

    Rigid jobs arrive with a number of processors and a requested run time; the agent says which waiting job
    is next. An episode is ``episode_jobs`` consecutive jobs of the log, from a row drawn by the seed or given
    as ``reset(options={"start": row})``. The cluster starts empty.

    Ids: ``Cluster-v0`` (any log: ``workload="log.swf.gz"``; by default jobs of the Lublin-Feitelson model),
    ``Cluster-Lublin-v0`` (that model under the rules of RLScheduler) and ``ClusterGreen-v0`` (sun and wind,
    padded requests, deadlines). All take the fields of :class:`~greendc.cluster.config.ClusterConfig` as
    keyword arguments.

    ### Action space

    ``Discrete(K + 1)`` with ``K = visible_jobs``; ``Discrete(K)`` in the profile ``rlscheduler``:

    - ``0 ... K-1``: take that visible job. If it may start, it does, and no time passes. If not, it is next:
      others may overtake it as ``backfill`` says, and time goes on to the next decision.
    - ``K``: wait for the next decision, without starting anything.

    An invalid action takes the job in row 0 and is counted. ``action_masks()`` and ``action_mask`` tell which
    actions are valid. Without backfilling only jobs that may start are: taking another one is to wait.

    ### Observation space

    ``Dict`` of float32, and int8 for the mask; the columns are named in :mod:`greendc.cluster.columns`:

    - ``jobs`` ``(K, 12)``: all waiting jobs in order of arrival, or, if there are more than K, the oldest
      K / 2 and of the others those that are first by ``wspt``; zero in an empty row.
    - ``cluster`` ``(16,)``: use, queue, time of day by the log's clock, and how many processors will be free
      in ``900 * 2 ** k`` seconds by the requests of what runs and the forecast.
    - ``capacity`` ``(14,)``: the forecast capacity at those times, and its least over 1, 4, 12 and 24 h.
    - ``action_mask``.

    Nothing in an observation depends on the run time of a job that is not done.

    ### The profile ``easy``

    A decision is asked for whenever some waiting job may start: it fits (``admission="now"``), or fits under
    the forecast for as long as it requests (``admission="forecast"``; a job that no time within the forecast
    has room for starts as soon as it fits). At one instant jobs end first, then the capacity changes, then
    running jobs give way, then jobs arrive, then jobs start. Jobs are killed at the time that they requested.

    ``backfill="easy"``: others, in order of arrival, overtake the job taken if they end, by request, by the
    time at which it has room (its shadow time) or leave it room then (the spare processors); under
    ``admission="forecast"``, room for as long as it requests.
    ``"conservative"``: every waiting job in order of arrival is promised its earliest start, after the job
    taken; those whose promise is now start. Promises are made again each time.

    ### Power

    ``power`` is how many processors have power; ``forecast`` is what agents and plans know of its future.
    When it falls below what runs, ``on_drop`` says what happens: ``"admit_only"`` lets jobs run on and counts
    the excess, ``"kill_requeue"`` loses their work, ``"suspend"`` keeps it, ``"checkpoint"`` keeps it at a
    cost of ``checkpoint_seconds`` when they go on. The latest started give way first and wait in their place.
    Power and carbon are read at the date and time of day of the log
    (:class:`~greendc.cluster.clocks.Clocks`).

    ### The profile ``rlscheduler``

    The rules of that scheduler's simulator, frozen: the job taken is committed. Until it fits, one event
    happens at a time, an arrival before an end of the same instant; with ``backfill="easy"``, before each of
    them, jobs that fit and by request end strictly before the shadow time, computed once, start in order of
    arrival. Decisions follow at the same instant until no job waits. Jobs are not killed at their limit.

    ### Reward

    ``"slowdown"``: minus the bounded slowdown, ``max(1, (wait + run) / max(run, 10 s))``, of the jobs that
    start, over the number of jobs of the episode; a job that starts again pays the difference. The return is
    minus the mean bounded slowdown. ``"wait"`` is the same of waits in hours, ``"value"`` the value of the
    jobs that are done on time (a job that is killed at its limit is done) over the mean value, ``"carbon"``
    minus kg CO2. The first step pays also for what was before the first decision. Where ``limit_days`` cuts
    an episode before all jobs have come, the metrics are of those that have.

    ### Start and end

    The episode is truncated when all its jobs are done, or after ``limit_days``; jobs that wait then pay as
    if they started.

    ### Info

    ``cost`` (processor-hours that the step lost to preemptions or ran beyond the capacity), ``seconds`` since
    the decision, ``started`` jobs. The last step adds ``episode_metrics``
    (:func:`greendc.cluster.metrics.episode_metrics`).

    ### References

    Zhang, Dai, He, Bao and Xie, "RLScheduler: An Automated HPC Batch Job Scheduler Using Reinforcement
    Learning", SC 2020; Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime
    Estimates in Scheduling the IBM SP2 with Backfilling", IEEE TPDS 2001; Lublin and Feitelson, JPDC 2003.

    :param config: a configuration; keyword arguments are laid over it
    :param render_mode: ``"rgb_array"`` (a Gantt chart of the last three days under the capacity),
        ``"human"`` or ``"ansi"``
    """

    window = WINDOW
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array", "human", "ansi"], "render_fps": 4}  # type: ignore[misc]
    simulator: ClusterSimulator

    def __init__(
        self, config: ClusterConfig | None = None, render_mode: str | None = None, **options: Any
    ) -> None:
        super().__init__(ClusterSimulator(make_config(config, options)), render_mode)

    @property
    def config(self) -> ClusterConfig:
        """The configuration."""
        return self.simulator.config

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision; the constraint cost is ``info["cost"]``."""
        observation, reward, truncated, info = self.simulator.step_one(action)
        if truncated:
            info["episode_metrics"] = self.simulator.episode_metrics(0)
            warn_of_missing_masks(info["episode_metrics"], self.simulator.instead_of_invalid)
        if self.render_mode == "human":
            self.render()
        return observation, reward, False, truncated, info

    def render(self) -> NDArray[np.uint8] | str | None:  # type: ignore[override]
        """Draw the Gantt chart of the last three days, the capacity, and the queue."""
        if self.render_mode == "ansi":
            return summarize(self.simulator, 0)
        if self.render_mode == "rgb_array":
            return draw(self.simulator, 0)
        if self.render_mode == "human":
            show(self.simulator, 0)
        return None

    def action_masks(self) -> NDArray[np.bool_]:
        """Return ``(n_actions,)``, true where an action does what it says (sb3-contrib's name)."""
        mask: NDArray[np.bool_] = self.simulator.action_masks()[0]
        return mask


class ClusterVectorEnv(SimulatorVectorEnv):
    """A batch of :class:`ClusterEnv` in flat arrays, stepped by one compiled call.

    :param num_envs: number of environments
    :param config: a configuration; keyword arguments are laid over it
    :param threads: that the batch is split among; the numbers are the same
    """

    simulator: ClusterSimulator

    def __init__(
        self, num_envs: int = 1, config: ClusterConfig | None = None, threads: int = 1, **options: Any
    ) -> None:
        super().__init__(ClusterSimulator(make_config(config, options), num_envs, threads))
