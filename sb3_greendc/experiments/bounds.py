"""What no policy can exceed in an experiment's episodes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pandas as pd

from greendc.baselines.linear import NoBoundError
from greendc.baselines.resource_pool.instance import recorded_instance
from greendc.baselines.resource_pool.lp_bound import lp_bound
from greendc.resource_pool import ResourcePoolSimulator
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.experiments.episodes import TEST_SEED
from sb3_greendc.experiments.tasks import Outcome, Scenario, Task

BOUND = "bound"
"""Its name in tables; it is no policy."""


@dataclass(frozen=True)
class Bounds(Task):
    """The linear programme's bound on the value of the first test episodes.

    :param scenario: of the resource pool
    :param episodes: number of episodes
    """

    scenario: Scenario
    episodes: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"bounds {self.scenario.env_id}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        each = 1.2e-3 if self.scenario.settings.get("suspend") else 2e-4  # a step of jobs that may be cut
        return 1.0 + each * self.scenario.episode_steps * self.episodes

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        env = make_vec_env(self.scenario.env_id, self.episodes, TEST_SEED, **self.scenario.env_kwargs)
        env.reset()
        assert isinstance(env, SimulatorVecEnv)
        assert isinstance(env.simulator, ResourcePoolSimulator)
        rows = []
        for k in range(self.episodes):
            with contextlib.suppress(NoBoundError):  # of an episode that is too large for the solver
                value = lp_bound(recorded_instance(env.simulator, k)).value
                rows.append({"policy": BOUND, "baseline": BOUND, "episode": k, "total_job_value": value})
        env.close()
        return Outcome({"episodes": pd.DataFrame(rows)})
