"""Write a heuristic and judge it beside the ones that ship, on the same jobs.

A policy is anything with `predict`. This one starts, of the jobs that can start now and finish on time, the
one of greatest value for the units and time that it takes. Prints the share of the jobs' value that each
earns, with the difference from `hvf` episode by episode. Seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from greendc.resource_pool import observation as column
from sb3_greendc import evaluate


class ValuePerArea:
    """Highest value for each unit and step, and never a job that would be late."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[np.ndarray, Any]:
        """Choose an action for each row of a batch of observations."""
        jobs = observation["jobs"]  # (n, slots, features), each by name in greendc.resource_pool.observation
        possible = (jobs[..., column.STARTS_NOW] == 1) & (jobs[..., column.ON_TIME] == 1)
        value = jobs[..., column.VALUE] / (1 - jobs[..., column.VALUE] + 1e-9)  # over the mean job's
        area = jobs[..., column.REMAINING] * jobs[..., column.UNITS :].max(axis=-1)
        score = np.where(possible, value / np.maximum(area, 1e-9), -np.inf)
        no_op = jobs.shape[1] + 1
        return np.where(possible.any(axis=1), score.argmax(axis=1), no_op), state


def main(episodes: int = 50) -> None:
    """Judge in so many episodes."""
    policies = {"value_per_area": ValuePerArea(), "hvf": "hvf", "deadline_never": "deadline_never"}
    results = evaluate(policies, "ResourcePool-10", episodes, seed=0)
    share = results.pivot(index="episode", columns="policy", values="total_job_value_ratio")
    for name in policies:
        gain = share[name] - share["hvf"]
        print(f"{name:15s} {share[name].mean():.3f}  over hvf {gain.mean():+.3f} ± {gain.sem():.3f}")


if __name__ == "__main__":
    main()
