"""Heuristics of the resource pool: an order of the waiting jobs, and a way to dispatch them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from greendc.baselines.policy import BaselinePolicy
from greendc.baselines.resource_pool import kernel
from greendc.baselines.resource_pool.kernel_order import ROW, Rules, Scratch
from greendc.baselines.resource_pool.kernel_suspend import choose_suspensions
from greendc.compiled import EntryPoint
from greendc.config import require, require_one_of
from greendc.resource_pool import ResourcePoolSimulator, orders
from greendc.resource_pool.observation import dict_space
from greendc.simulator import Observation

SCOPES = ("ready", "queue")
CELLS = {np.dtype(np.uint8): 1.0, np.dtype(np.float32): 1.0 / 255.0}
"""What a cell of the image counts for, by the dtype of the image."""
NO_DRAWS = np.zeros((0, 0))


def require_pool(simulator: object) -> ResourcePoolSimulator:
    """Return the simulator if it is one of this family.

    :raises TypeError: for anything else
    """
    if not isinstance(simulator, ResourcePoolSimulator):
        raise TypeError(f"simulator: must be a ResourcePoolSimulator, not {type(simulator).__name__}")
    return simulator


def require_no_commands(simulator: object) -> ResourcePoolSimulator:
    """Return the simulator if it is of a pool without commands of power and pauses: planners know neither.

    :raises TypeError: for anything but a resource pool
    :raises ValueError: for a pool with either; names the field
    """
    pool = require_pool(simulator)
    levels = pool.config.power_levels
    require(levels is None, "power_levels", levels, "None for this planner; power_plan commands power")
    require(not pool.config.pausing, "pausing", True, "False for this planner")
    return pool


class Heuristic(BaselinePolicy[ResourcePoolSimulator]):
    """Takes waiting jobs in some order. Subclasses say in which; ties go to the lower slot.

    ``dispatch`` says what happens when the first job cannot start now, within the action mask:

    - ``"skip"``: the next one that can start now does. When none can, ``no_op``.
    - ``"block"``: nothing overtakes the first job.
    - ``"reserve"``: each job is placed at its earliest start within the horizon, in its turn, now or in the
      future. (Where ``mask`` or ``placement`` of the configuration allow no reservations, as ``"skip"``.)
    - ``"easy"``: EASY backfilling (Lifka, 1995). Other jobs overtake the first one if that does not delay the
      earliest start that it could now be promised. The promise is not a reservation in the environment,
      which the agent could not cancel, but is made again at each decision. Beyond the horizon, where nothing
      is planned, the last row's power is taken to last.

    ``scope`` says which jobs:

    - ``"ready"``: those in the ready pool. Such a policy decides by observations alone.
    - ``"queue"``: all that wait, as RARE (section 5.4.4) lets its heuristics do. No action places a job
      outside the ready pool, so such a policy reads the simulator's queue and places jobs itself, when it
      is asked for an action; its action is always ``no_op``. Ask once for each step, and use it to compare
      with, not to record demonstrations.

    With ``suspend``, when no job starts, the action ``suspend`` is taken as long as the ready job that it
    starts will be on time and is worth more per remaining unit-step than the running one that gives way.
    Observations do not say which one that is: such a policy reads the simulator's state, too.

    Where power is commanded, ``no_op`` orders every unit and leaves the battery to itself.

    :param simulator: the simulator to act on
    :param dispatch: ``"skip"``, ``"block"``, ``"reserve"`` or ``"easy"``
    :param scope: ``"ready"`` or ``"queue"``
    :param suspend: whether running jobs give way to ready ones that are worth more
    :raises ValueError: for another dispatch or scope, for ``scope="queue"`` where ``skip_forced`` passes
        over steps in which only jobs outside the ready pool could start, or for ``suspend`` where jobs
        cannot be suspended
    :raises TypeError: for the simulator of another family
    """

    order: ClassVar[int]
    late_rule: ClassVar[int] = orders.LATE_ALIKE

    def __init__(
        self,
        simulator: ResourcePoolSimulator,
        dispatch: str = "skip",
        scope: str = "ready",
        suspend: bool = False,
    ) -> None:
        super().__init__(require_pool(simulator))
        require_one_of("dispatch", dispatch, orders.DISPATCHES)
        require_one_of("scope", scope, SCOPES)
        config = simulator.config
        if scope == "queue" and config.skip_forced:
            raise ValueError('skip_forced=True: must be False with scope="queue", which it would pass over')
        if suspend and not config.suspend:
            raise ValueError("suspend=True: jobs can be suspended only with suspend=True in the environment")
        self.dispatch, self.scope, self.suspend = dispatch, scope, suspend
        self.reads_state = scope == "queue" or suspend
        self._rules = Rules(self.order, self.late_rule, orders.DISPATCHES.index(dispatch))
        parts = dict_space(config)
        self._shapes = tuple(parts["resources"].shape or ()), tuple(parts["jobs"].shape or ())
        brown = config.power == "trace" and config.site_config.grid == "qos_above"
        self._scratch = Scratch(
            *self._room(config.ready_pool_size),
            widest=np.zeros((1 + brown, config.resource_types, config.horizon), np.int64),
            runs=np.zeros((1 + brown, config.horizon, config.resource_types * config.units), np.int64),
        )
        self._choose_ready = {dtype: EntryPoint(kernel.choose_ready) for dtype in CELLS}
        self._dispatch_queue = EntryPoint(kernel.dispatch_queue)
        self._choose_suspensions = EntryPoint(choose_suspensions)

    def _room(self, jobs: int) -> tuple[NDArray[np.int64], NDArray[np.void], NDArray[np.int64]]:
        """Return memory for so many jobs: their ids, the table and their needs."""
        types = self.simulator.config.resource_types
        return np.zeros(jobs, np.int64), np.zeros(jobs, ROW), np.zeros((jobs, types), np.int64)

    def act(self, observations: Observation) -> NDArray[Any]:
        """Return the actions for a batch; see :class:`~greendc.baselines.policy.BaselinePolicy`.

        :raises ValueError: if the observations are not those of the simulator's configuration
        :raises RuntimeError: if it reads the simulator's state, and an episode has not begun
        """
        if self.reads_state:
            self.simulator.require_begun()
        actions = self._start_jobs(observations)
        if self.suspend:
            self._choose_suspensions(actions, self.simulator.state)
        config = self.simulator.config
        actions[actions == config.ready_pool_size + 1] = config.no_op
        return actions

    def _start_jobs(self, observations: Observation) -> NDArray[np.int64]:
        """Return which job starts in each environment, ``no_op`` where none does."""
        rows = len(next(iter(observations.values())) if isinstance(observations, dict) else observations)
        if self.scope == "queue":
            self._place_jobs()
            return np.full(rows, self.simulator.config.ready_pool_size + 1, np.int64)
        image, jobs, scale = self._read(observations, rows)
        actions = np.empty(rows, np.int64)
        self._choose_ready[image.dtype](
            actions,
            self._rules,
            self.simulator.state.config,
            scale,
            image,
            jobs,
            self._draws(rows, jobs.shape[1]) if self.order == orders.RANDOM else NO_DRAWS,
            self._scratch,
        )
        return actions

    def _read(self, observations: Observation, rows: int) -> tuple[NDArray[Any], NDArray[np.float32], float]:
        """Return images, job tables, and what a cell counts for, checked: the kernel does not check.

        :param observations: as dicts or flat
        """
        if isinstance(observations, dict):
            image, jobs = observations["resources"], observations["jobs"]
        else:
            cells, features = (int(np.prod(shape)) for shape in self._shapes)
            if observations.ndim != 2 or observations.shape[1] < cells + features:
                raise ValueError(
                    f"observations of shape {observations.shape}: must be {rows} rows of at least "
                    f"{cells + features} numbers"
                )
            image = observations[:, :cells].reshape(rows, *self._shapes[0])
            jobs = observations[:, cells : cells + features].reshape(rows, *self._shapes[1])
        if (image.shape, jobs.shape) != ((rows, *self._shapes[0]), (rows, *self._shapes[1])):
            raise ValueError(
                f"observations: resources {image.shape}, jobs {jobs.shape}: must be {rows} of {self._shapes}"
            )
        scale = CELLS.get(image.dtype)
        if scale is None or jobs.dtype != np.float32:
            raise ValueError(
                f"observations: resources {image.dtype}, jobs {jobs.dtype}: must be uint8 or float32, "
                "and float32"
            )
        if not (image.flags.c_contiguous and jobs.flags.c_contiguous):
            return np.ascontiguousarray(image), np.ascontiguousarray(jobs), scale
        return image, jobs, scale

    def _place_jobs(self) -> None:
        """Do all placements of this step."""
        state = self.simulator.state
        most = state.jobs.shape[1]  # that can wait
        if most > len(self._scratch.ids):
            ids, table, needs = self._room(most)
            self._scratch = self._scratch._replace(ids=ids, table=table, needs=needs)
        draws = NO_DRAWS
        if self.order == orders.RANDOM:
            draws = self._draws(len(state.env), int((state.env["n_queue"] + state.env["n_late"]).max()))
        self._dispatch_queue(state, self._rules, draws, self._scratch)

    def _draws(self, rows: int, jobs: int) -> NDArray[np.float64]:
        """Return the random numbers that the order needs: most need none."""
        return NO_DRAWS
