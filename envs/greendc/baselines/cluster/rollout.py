"""Guarded rollouts: of several candidates, one that a base rule would not take is taken for a reason only."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.cluster.kernel_policy import action_of
from greendc.baselines.cluster.kernel_rollout import WAIT, Options, Scratch, decide
from greendc.baselines.cluster.policy import require_cluster
from greendc.baselines.policy import BaselinePolicy
from greendc.cluster import layout
from greendc.cluster.rules import RULES
from greendc.cluster.simulator import ClusterSimulator
from greendc.compiled import EntryPoint
from greendc.config import require, require_kinds, require_one_of
from greendc.simulator import Observation

CANDIDATES = (
    ("wspt", 1),
    ("saf", 0),
    ("saf", 1),
    ("sjf", 0),
    ("sjf", 1),
    ("smallest", 1),
    ("fcfs", 0),
    ("f1", 0),
    ("f3", 1),
    ("wfp3", 1),
)
"""Rules that name candidates, and whether they look at jobs that can start now first."""

_LIMITS = {
    "futures": (1, 1000, "from 1 to 1000"),
    "horizon": (0, 10_000, "from 0 to 10,000 jobs"),
    "history": (0, 10**9, "0 or more jobs"),
    "daytime": (0, 12, "from 0 to 12 hours"),
    "first_round": (1, 1000, "from 1 to 1000"),
    "lightest": (0, 10_000, "from 0 to 10,000 jobs"),
    "guard": (0, 1e9, "0 or more standard errors"),
    "seed": (0, 2**63, "0 or more"),
}
"""Least and most of an option, in words, too."""


class GuardedRollout(BaselinePolicy[ClusterSimulator]):
    """Tries what several rules would take, and the lightest jobs; follows a base rule unless one is better.

    Each candidate is tried on the same futures: the waiting jobs, then a block of jobs that repeats a part of
    the past from about the same time of day, all by the base rule after the first decision. All play the
    first futures, the better half of them as many again, and so on. In the profile ``"easy"`` starting
    nothing is a candidate, too, but not where nothing runs and slowdown or waiting is paid. A candidate is
    taken if the mean difference in the environment's reward, plus ``guard`` standard errors, is in its favor.
    Plans know requested or expected run times, the forecast of power, jobs that have arrived, and run times
    of jobs that are done.

    Bertsekas, Tsitsiklis and Wu, "Rollout Algorithms for Combinatorial Optimization", J. Heuristics 1997;
    Karnin, Koren and Somekh, "Almost Optimal Exploration in Multi-Armed Bandits", ICML 2013.

    :param simulator: the simulator to act on
    :param base: the rule that is followed, one of :data:`greendc.cluster.rules.RULES`
    :param futures: how many, 1 or more
    :param horizon: jobs of a future; 0 for the waiting jobs alone
    :param history: jobs before the episode that futures may repeat
    :param daytime: hours by which the time of day of what a future repeats may differ from now; 12 for any.
        Any is taken, too, where fewer jobs than ``futures`` arrived at that time
    :param first_round: futures that all candidates play before the worse half drops out; from ``futures`` on
        none does
    :param guard: standard errors
    :param predicted: jobs are expected to run as their users' jobs did so far, not as requested; how long
        those that wait do is drawn for each future (:mod:`greendc.cluster.kernel_groups`)
    :param fitting: whether the base takes jobs that can start now first
    :param seed: of the futures
    :param lightest: how many of the waiting jobs of the least weight (WSPT by request) are candidates, too
    :raises TypeError: for the simulator of another family
    """

    reads_state = True

    def __init__(
        self,
        simulator: ClusterSimulator,
        base: str = "wspt",
        futures: int = 24,
        horizon: int = 24,
        history: int = 1024,
        daytime: float = 2.0,
        first_round: int = 6,
        guard: float = 1.0,
        predicted: bool = True,
        fitting: bool = False,
        seed: int = 0,
        lightest: int = 32,
    ) -> None:
        super().__init__(require_cluster(simulator))
        require_rollout_options(
            base=base,
            futures=futures,
            horizon=horizon,
            history=history,
            daytime=daytime,
            first_round=first_round,
            guard=guard,
            predicted=predicted,
            fitting=fitting,
            seed=seed,
            lightest=lightest,
        )
        rule = simulator.rule(base, fitting)
        seconds = round(3600 * daytime)
        self.options = Options(
            rule, futures, horizon, history, seconds, first_round, float(guard), lightest, int(predicted)
        )
        self._rng = np.random.default_rng(seed)
        self._build_plan()
        self._decide, self._action_of = EntryPoint(decide), EntryPoint(action_of)

    def _build_plan(self) -> None:
        simulator, options = self.simulator, self.options
        real = simulator.world
        jobs, running = simulator.config.episode_jobs, simulator.state.running.shape[1]
        size = jobs + options.horizon + running
        running = min(size, int(real.settings["processors"][0])) + 1
        settings = real.settings.copy()
        settings["power_period"] = real.settings["forecast_period"]
        self._plan_world = real._replace(
            settings=settings,
            log=np.zeros(options.futures * size, layout.LOG_JOB),
            power_times=real.forecast_times,
            power=real.forecast,
            points=np.zeros(len(real.points) + 3 * (size - jobs), layout.POINT),
            minima=np.zeros(len(real.minima), layout.POINT),
            rank=np.zeros(size, np.int32),
        )
        self._plan_state = layout.State(
            cluster=np.zeros(1, layout.CLUSTER),
            jobs=np.zeros((1, size), layout.JOB_STATE),
            queue=np.zeros((1, size), np.int32),
            light=np.zeros((1, size), np.int32),
            running=np.zeros((1, running), layout.RUNNING_JOB),
            endings=np.zeros((1, running), layout.ENDING),
            visible=np.zeros((1, simulator.config.visible_jobs), np.int32),
            groups=np.zeros((1, 0), layout.GROUP),
            pieces=np.zeros((1, 0), layout.PIECE),
        )
        rules = [(RULES.index(name), fitting, options.predicted) for name, fitting in CANDIDATES]
        room = len(rules) + options.lightest + 2
        self._scratch = Scratch(
            rules=np.array(rules, np.int64),
            candidates=np.zeros(room, np.int64),
            costs=np.zeros((room, options.futures)),
            totals=np.zeros(room),
            going_on=np.zeros(room, np.int64),
            light=np.zeros(size, np.int32),
        )

    def decide(self, index: int) -> int | None:
        """Return the job of the episode that environment ``index`` should take, of all that wait.

        :return: its number from 0, or ``None`` to wait
        :raises RuntimeError: if no episode has begun, or it is over
        """
        simulator = self.simulator
        if simulator.state.cluster[simulator.in_episode(index)]["over"]:
            raise RuntimeError(f"environment {index}: the episode is over, call reset()")
        return self._job(index, self.options)

    def _job(self, index: int, options: Options) -> int | None:
        plan = self._plan_world, self._plan_state
        world, state = self.simulator.world, self.simulator.state
        job = self._decide(index, world, state, *plan, options, self._rng.random(), self._scratch)
        return None if job == WAIT else int(job)

    def advantages(self, observations: Observation) -> NDArray[np.float32]:
        """Return how much less each valid action is expected to cost than what the base takes.

        Gains are less ``guard`` standard errors: a candidate that is not above the base is not taken. Jobs
        that are no candidates count as the worst candidate, or a bounded slowdown (second, kg, ...) below the
        base where it is the only one.

        :param observations: a batch, one row for each environment of the simulator; the state itself is read
        :return: ``(n, n_actions)`` in bounded slowdowns summed over the jobs of a future, or what else the
            reward is about; NaN for invalid actions
        :raises RuntimeError: if an episode has not begun
        """
        simulator = self.simulator
        masks = simulator.action_masks()
        found = np.full(masks.shape, np.nan, np.float32)
        for i in range(simulator.num_envs):
            cluster = simulator.state.cluster[simulator.in_episode(i)]
            if cluster["over"]:
                continue
            jobs, gains = self._gains(i)
            found[i, masks[i]] = gains.min() if len(gains) > 1 else -1.0
            visible = simulator.state.visible[i, : cluster["visible"]]
            for job, gain in zip(jobs, gains, strict=True):
                rows = [simulator.config.visible_jobs] if job == WAIT else np.flatnonzero(visible == job)
                for row in rows:
                    if masks[i, row]:
                        found[i, row] = gain
        return found

    def _gains(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the candidates, the base's first, and what each saves, less the guard's standard errors."""
        scratch, untried = self._scratch, WAIT - 1
        scratch.candidates[:] = untried
        self._job(index, self.options._replace(first_round=self.options.futures))
        jobs = scratch.candidates[scratch.candidates != untried]
        if len(jobs) == 1:  # the only candidate: nothing was tried
            return jobs, np.zeros(1)
        futures = self.options.futures if self.options.horizon > 0 else 1
        costs = scratch.costs[: len(jobs), :futures]
        saved = costs[:1] - costs
        errors = saved.std(axis=1, ddof=1) / np.sqrt(futures) if futures > 1 else np.zeros(len(jobs))
        return jobs, saved.mean(axis=1) - self.options.guard * errors

    def act(self, observations: Observation) -> NDArray[Any]:
        """Return the actions for a batch; of what is not visible, the first row instead.

        :raises RuntimeError: if an episode has not begun
        """
        simulator = self.simulator
        arrays = simulator.world, simulator.state
        actions = np.zeros(simulator.num_envs, np.int64)
        for i in range(simulator.num_envs):
            cluster = simulator.state.cluster[simulator.in_episode(i)]
            if cluster["over"]:
                continue
            job = self._job(i, self.options)
            is_wait = job is None
            actions[i] = simulator.config.visible_jobs if is_wait else self._action_of(i, job, *arrays)
        return actions

    def play(self, index: int) -> None:
        """Play environment ``index`` to the end of its episode, with a view of the whole queue.

        :raises RuntimeError: if no episode has begun
        """
        self.simulator.in_episode(index)
        cluster = self.simulator.state.cluster[index]
        while not cluster["over"]:
            job = self._job(index, self.options)
            self.simulator.take(index, job)


def require_rollout_options(**options: Any) -> None:
    """Raise a ``ValueError`` for a wrong value of an option of :class:`GuardedRollout`; names it.

    :param options: any of them
    """
    parameters = inspect.signature(GuardedRollout.__init__).parameters
    require_kinds({name: str(parameters[name].annotation) for name in options}, options)
    if "base" in options:
        require_one_of("base", options["base"], RULES)
    for name, (least, most, allowed) in _LIMITS.items():
        if name in options:
            require(least <= options[name] <= most, name, options[name], allowed)
