"""A batch of clusters in event time, in flat arrays, stepped by one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import index as as_index
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from greendc.cluster import kernel, layout
from greendc.cluster.columns import CAPACITY_FEATURES, CLUSTER_FEATURES, JOB_FEATURES, MOST_LOG
from greendc.cluster.config import ClusterConfig
from greendc.cluster.evolved import NO_WEIGHTS, evolved_weights, require_weights, shipped_weights
from greendc.cluster.metrics import episode_metrics
from greendc.cluster.rules import EVOLVED, RULES
from greendc.cluster.world import build_world, load_jobs
from greendc.compiled import entry_point
from greendc.config import require, require_kinds, require_one_of
from greendc.records import Records
from greendc.simulator import Observation, Simulator, reset_options
from greendc.threads import Threads, rows

PARTS = {"jobs": np.float32, "cluster": np.float32, "capacity": np.float32, "action_mask": np.int8}
"""The parts of an observation in the order in which the kernel takes them, and their types."""
WORKING_SPACE = ("points", "minima", "rank")
"""What a step writes over in the world that the environments share."""


class ClusterSimulator(Simulator):
    """``num_envs`` clusters of one :class:`~greendc.cluster.config.ClusterConfig`.

    Beyond the contract, :meth:`play` plays an episode to its end by a rule, without observations,
    ``clocks.describe()`` says what the log's clock is and how power and carbon were laid onto it, and
    ``state`` and ``world`` (:mod:`greendc.cluster.layout`) hold everything there is to know.

    :param config: the configuration
    :param num_envs: number of environments
    :param threads: that :meth:`step` splits the batch among; the numbers are the same
    :raises ValueError: if the jobs or the power do not fit the configuration

    What a method is given is checked before anything is changed: ``RuntimeError`` for an environment in which
    no episode has begun or goes on, ``ValueError`` for a number of an environment that there is not, or an
    array of the wrong shape or dtype. The compiled code does not check.
    """

    instead_of_invalid = "took the job in row 0"

    def __init__(self, config: ClusterConfig, num_envs: int = 1, threads: int = 1) -> None:
        require_kinds({"num_envs": "int"}, {"num_envs": num_envs})
        require(num_envs >= 1, "num_envs", num_envs, "at least 1")
        self.config = config
        self.num_envs = num_envs
        self._threads = Threads(threads, num_envs)
        self.jobs = load_jobs(config)
        self.world, self.clocks = build_world(config, self.jobs)
        self._build_spaces()
        self._build_state()
        self._bind()

    # --- building ----------------------------------------------------------------------------------

    def _build_spaces(self) -> None:
        config = self.config
        actions = config.visible_jobs + (config.profile != "rlscheduler")
        high = float(max(1.0, self.world.settings["greatest"][0] / self.world.settings["processors"][0]))
        self.action_space = spaces.Discrete(actions)
        self.observation_space = spaces.Dict(
            {
                "jobs": spaces.Box(0.0, MOST_LOG, (config.visible_jobs, len(JOB_FEATURES)), np.float32),
                "cluster": spaces.Box(-1.0, high, (len(CLUSTER_FEATURES),), np.float32),
                "capacity": spaces.Box(0.0, high, (len(CAPACITY_FEATURES),), np.float32),
                "action_mask": spaces.Box(0, 1, (actions,), np.int8),
            }
        )
        self._shapes = {key: (self.num_envs, *(self.observation_space[key].shape or ())) for key in PARTS}

    def _build_state(self) -> None:
        n, config = self.num_envs, self.config
        jobs = config.episode_jobs
        # A running job has a processor of its own; one more is room to move them.
        running = min(jobs, int(self.world.settings["processors"][0])) + 1
        self.state = layout.State(
            cluster=np.zeros(n, layout.CLUSTER),
            jobs=np.zeros((n, jobs), layout.JOB_STATE),
            queue=np.zeros((n, jobs), np.int32),
            light=np.zeros((n, jobs), np.int32),
            running=np.zeros((n, running), layout.RUNNING_JOB),
            endings=np.zeros((n, running), layout.ENDING),
            visible=np.zeros((n, config.visible_jobs), np.int32),
            groups=np.zeros((n, len(self.world.wider)), layout.GROUP),
            pieces=np.zeros((n, config.record_pieces), layout.PIECE),
        )
        self.state.cluster["over"] = True  # until the first reset
        self._begun = np.zeros(n, np.bool_)
        self.report = layout.Report(
            rewards=np.zeros(n),
            truncated=np.zeros(n, np.bool_),
            cost=np.zeros(n),
            seconds=np.zeros(n),
            started=np.zeros(n, np.int64),
        )

    def _bind(self) -> None:
        """Show the report's arrays under the names that wrappers read."""
        report = self.report
        self.rewards, self.truncated = report.rewards, report.truncated
        self.step_info = {"cost": report.cost, "seconds": report.seconds, "started": report.started}

    # What Python calls is called without type checks: its arguments are checked before.

    @cached_property
    def _step(self) -> Callable[..., int]:
        out = self._seen(self.empty_observations())
        return entry_point(kernel.step_batch, np.zeros(1, np.int64), *self._arrays, self.report, out)

    @cached_property
    def _observe(self) -> Callable[..., None]:
        return entry_point(kernel.observe_one, 0, *self._arrays, self._seen(self.empty_observations()))

    @cached_property
    def _begin(self) -> Callable[..., None]:
        return entry_point(kernel.begin, 0, 0, 0, 0, *self._arrays)

    @cached_property
    def _play(self) -> Callable[..., None]:
        return entry_point(kernel.play, 0, self.rule("fcfs"), *self._arrays)

    @cached_property
    def _take(self) -> Callable[..., None]:
        return entry_point(kernel.take_one, 0, 0, *self._arrays)

    @cached_property
    def _first(self) -> Callable[..., int]:
        return entry_point(kernel.first_by_rule, 0, self.rule("fcfs"), *self._arrays)

    @property
    def _arrays(self) -> tuple[layout.World, layout.State]:
        return self.world, self.state

    def __getstate__(self) -> dict[str, Any]:
        """Leave out compiled code, and views: copies of them would not show what the kernel writes."""
        made = {
            "rewards",
            "truncated",
            "step_info",
            "_step",
            "_observe",
            "_begin",
            "_play",
            "_take",
            "_first",
        }
        return {key: value for key, value in vars(self).items() if key not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the arrays and make new views of them."""
        vars(self).update(state)
        self._bind()

    # --- running -----------------------------------------------------------------------------------

    def reset_env(self, index: int, rng: np.random.Generator, options: dict[str, Any] | None = None) -> None:
        """Start a new episode: its first job, and the day of the power series, from ``rng``.

        :param options: ``{"start": row}`` picks the row of the log with which it begins
        :raises TypeError: for options that are no mapping
        :raises ValueError: for an index that is out of range, an unknown option, or a row that is not between
            the configuration's ``first_job`` and ``last_job - episode_jobs``
        """
        index = self.in_range(index)
        options = dict(reset_options(options, "start"))
        start = self._pick_start(rng, options)
        shifts = self.clocks.shifts(int(self.jobs.submit[start]), rng)
        self._begin(index, start, *shifts, *self._arrays)
        self.report.truncated[index] = False
        self._begun[index] = True

    def _pick_start(self, rng: np.random.Generator, options: dict[str, Any]) -> int:
        config = self.config
        last = (len(self.jobs) if config.last_job is None else config.last_job) - config.episode_jobs
        if "start" not in options:
            return int(rng.integers(config.first_job, last + 1))
        start = options["start"]
        whole = isinstance(start, int | np.integer) and not isinstance(start, bool)
        allowed = f"a row of the log from {config.first_job} to {last}"
        require(whole and config.first_job <= start <= last, "reset option start", start, allowed)
        return int(start)

    def step(self, actions: NDArray[Any], out: Observation) -> None:
        """Take a decision in every environment, or in none if it raises.

        :param actions: ``(num_envs,)`` whole numbers
        :param out: a batch of observations as made by :meth:`empty_observations`, overwritten
        :raises ValueError: if an action has the wrong shape or is not in the action space, or if ``out``
            is no such batch
        :raises RuntimeError: if an environment's episode is over or not begun
        """
        checked, seen = self._checked(actions), self._seen(out)
        if self._threads.several and self._all_can_step(checked):
            self._step_shares(checked, seen)
            return
        self._refuse(actions, self._step(checked, *self._arrays, self.report, seen))

    def step_one(self, action: Any) -> tuple[Observation, float, bool, dict[str, Any]]:
        """Step a batch of one, with less around it than :meth:`step`.

        :return: a new observation, reward, whether the episode is over, and ``info``
        :raises: as :meth:`step`
        """
        actions, report = np.asarray(action)[None], self.report
        parts = self._empty_parts()
        seen = layout.Seen(*parts.values())
        self._refuse(actions, self._step(self._checked(actions), self.world, self.state, report, seen))
        observation = {name: part[0] for name, part in parts.items()}
        info = {name: values.item() for name, values in self.step_info.items()}
        return observation, report.rewards.item(), report.truncated.item(), info

    def _refuse(self, actions: NDArray[Any], status: int) -> None:
        """Raise the error that the kernel's answer stands for, if any."""
        if status > 0:
            action = actions[status - 1]
            raise ValueError(f"action[{status - 1}]={action}: must be {self._allowed_actions()}")
        if status < 0:
            raise RuntimeError(f"environment {-status - 1}: the episode is over or not begun, call reset()")

    def _all_can_step(self, actions: NDArray[np.int64]) -> bool:
        """Return whether all environments can be stepped: where one cannot, none is."""
        valid = (actions >= 0) & (actions < int(self.action_space.n))  # type: ignore[attr-defined]
        return bool((valid & (self.state.cluster["over"] == 0)).all())

    def _step_shares(self, actions: NDArray[np.int64], seen: layout.Seen) -> None:
        """Step all environments, which can be stepped, in several threads."""
        calls = []
        for share in self._threads.shares:
            working_space = {name: np.empty_like(getattr(self.world, name)) for name in WORKING_SPACE}
            parts = (rows(batch, share) for batch in (self.state, self.report, seen))
            calls.append((actions[share], self.world._replace(**working_space), *parts))
        self._threads.run(self._step, calls)

    def _checked(self, actions: object) -> NDArray[np.int64]:
        if isinstance(actions, np.ndarray):
            if actions.shape == (self.num_envs,) and actions.dtype.kind in "iu":
                if actions.dtype == np.uint64:
                    actions = np.minimum(actions, 2**62)
                return np.ascontiguousarray(actions, np.int64)
            found = f"of shape {actions.shape} and dtype {actions.dtype}"
        else:
            found = f"of type {type(actions).__name__}"
        raise ValueError(
            f"actions {found} for {self.num_envs} environment(s): each must be {self._allowed_actions()}"
        )

    def _allowed_actions(self) -> str:
        return f"an integer from 0 to {int(self.action_space.n) - 1}"  # type: ignore[attr-defined]

    def _seen(self, out: object) -> layout.Seen:
        """Return a batch of observations, checked: the kernel, which writes into it, does not look."""
        if not isinstance(out, dict) or out.keys() != PARTS.keys():
            found = sorted(out) if isinstance(out, dict) else type(out).__name__
            raise ValueError(f"out is {found}: must be a dict of {', '.join(PARTS)}")
        for key, dtype in PARTS.items():
            part = out[key]
            whole = isinstance(part, np.ndarray) and part.shape == self._shapes[key] and part.dtype == dtype
            if not whole or not part.flags.carray:
                found = f"{part.shape} {part.dtype}" if isinstance(part, np.ndarray) else type(part).__name__
                raise ValueError(
                    f"out[{key!r}] is {found}: must be {self._shapes[key]} {np.dtype(dtype)}, C-contiguous, "
                    "aligned and writable"
                )
        return layout.Seen(out["jobs"], out["cluster"], out["capacity"], out["action_mask"])

    def empty_observations(self) -> Observation:
        """Allocate a batch of observations; see :class:`~greendc.simulator.Simulator`."""
        return self._empty_parts()

    def _empty_parts(self) -> dict[str, NDArray[Any]]:
        return {key: np.empty(self._shapes[key], dtype) for key, dtype in PARTS.items()}

    def observe(self, out: Observation, index: int | None = None) -> None:
        """Write present observations; see :class:`~greendc.simulator.Simulator`.

        :raises ValueError: if the index is out of range, or ``out`` is not such a batch
        :raises RuntimeError: if no episode has begun
        """
        seen = self._seen(out)
        for i in map(self.in_episode, range(self.num_envs) if index is None else (index,)):
            self._observe(i, *self._arrays, seen)

    def reset_info(self, index: int) -> dict[str, Any]:
        """Return the row of the log with which the episode begins."""
        return {"start": int(self.state.cluster[self.in_episode(index)]["first"])}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return ``(num_envs, n_actions)``, true where an action does what it says; none in what is over."""
        out = self.empty_observations()
        self.observe(out)
        assert isinstance(out, dict)
        masks: NDArray[np.bool_] = out["action_mask"].astype(np.bool_)
        return masks

    # --- beyond the contract -----------------------------------------------------------------------

    def rule(
        self, name: str, fitting: bool = False, predicted: bool = False, weights: ArrayLike | None = None
    ) -> layout.Rule:
        """Return a rule as compiled code takes it.

        :param name: one of :data:`greendc.cluster.rules.RULES`
        :param fitting: whether jobs that can start now come first
        :param predicted: whether run times are expected from the user's jobs so far
            (:mod:`greendc.cluster.kernel_groups`), not requested ones
        :param weights: of ``"evolved"`` (:mod:`greendc.cluster.evolved`); ``None``: those that ship for this
            kind of backfilling
        :raises ValueError: for an unknown rule, for weights that do not fit or that it does not have, and for
            ``fitting`` or ``predicted`` that is neither true nor false
        """
        require_one_of("rule", name, RULES)
        asked = {"fitting": fitting, "predicted": predicted}
        require_kinds(dict.fromkeys(asked, "bool"), asked)
        require_weights(name, weights)
        kind = RULES.index(name)
        if kind != EVOLVED:
            return layout.Rule(kind, int(fitting), int(predicted), NO_WEIGHTS)
        backfill = self.config.backfill
        chosen = shipped_weights(backfill) if weights is None else evolved_weights(weights)
        return layout.Rule(kind, int(fitting), int(predicted), chosen)

    def play(
        self,
        index: int,
        rule: str,
        fitting: bool = False,
        predicted: bool = False,
        weights: ArrayLike | None = None,
    ) -> None:
        """Play environment ``index`` to the end of its episode by a rule that looks at the whole queue.

        The other arguments are those of :meth:`rule`.

        :raises ValueError: for an unknown rule or wrong weights
        :raises RuntimeError: if no episode has begun
        """
        chosen = self.rule(rule, fitting, predicted, weights)
        self._play(self.in_episode(index), chosen, *self._arrays)

    def first(
        self,
        index: int,
        rule: str,
        fitting: bool = False,
        predicted: bool = False,
        weights: ArrayLike | None = None,
    ) -> int | None:
        """Return the waiting job of environment ``index`` that is first by a rule, of the whole queue.

        The other arguments are those of :meth:`rule`.

        :return: its number in the episode, from 0; ``None`` if no job waits
        :raises ValueError: for an unknown rule or wrong weights
        :raises RuntimeError: if no episode has begun
        """
        chosen = self.rule(rule, fitting, predicted, weights)
        job = int(self._first(self.in_episode(index), chosen, *self._arrays))
        return None if job < 0 else job

    def take(self, index: int, job: int | None) -> None:
        """Take any waiting job in environment ``index``, without observations.

        :param job: its number in the episode, from 0; ``None`` to wait
        :raises ValueError: if it does not wait, or nothing would ever come of waiting
        :raises RuntimeError: if no episode has begun, or it is over
        """
        index = self.in_episode(index)
        cluster = self.state.cluster[index]
        if cluster["over"]:
            raise RuntimeError(f"environment {index}: the episode is over, call reset()")
        if job is None:
            idle = cluster["running"] == 0 and cluster["arrived"] == self.config.episode_jobs
            stuck = self.config.profile == "rlscheduler" or (idle and cluster["next_change"] == layout.NEVER)
            require(not stuck, "job", job, "a waiting job: nothing would happen by itself")
        else:
            waiting = self.state.queue[index, : cluster["waiting"]]
            require(job in waiting, "job", job, f"one of those that wait: {waiting[:10].tolist()}")
        self._take(index, -1 if job is None else as_index(job), *self._arrays)

    def episode_jobs(self, index: int) -> Records:
        """Return the rows of the log that environment ``index`` runs, :class:`~.layout.LogJob` records."""
        first = int(self.state.cluster[self.in_episode(index)]["first"])
        return self.world.log[first : first + self.config.episode_jobs]

    def episode_metrics(self, index: int) -> dict[str, float]:
        """Return the metrics of :func:`greendc.cluster.metrics.episode_metrics`."""
        index = self.in_episode(index)
        cluster, jobs = self.state.cluster[index], self.state.jobs[index]
        deadlines = self.jobs.deadline is not None
        return episode_metrics(self.world.settings[0], self.episode_jobs(index), cluster, jobs, deadlines)
