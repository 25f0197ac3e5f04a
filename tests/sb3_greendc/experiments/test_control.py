from __future__ import annotations

import dataclasses

import pandas as pd
import pytest

from sb3_greendc.experiments.cocorl.control import STEPS, ends


@dataclasses.dataclass(frozen=True)
class Fixed:
    """The logged progress of two seeds, whose cost settles at 50 and 60, and four test episodes."""

    def table(self, name: str = "episodes") -> pd.DataFrame:
        run = {"series": "load 1", "x": "P alone"}
        if name == "progress":
            rows = [
                {
                    **run,
                    **{"train_seed": seed, STEPS: 100 * k, "train/lagrange_multiplier": 2.0 + seed},
                    "rollout/ep_cost_mean": end if k >= 8 else 500.0,
                }
                for seed, end in enumerate((50.0, 60.0))
                for k in range(1, 11)
            ]
            return pd.DataFrame(rows)
        tests = [(0, 40.0, 0.3), (0, 50.0, 0.4), (1, 60.0, 0.5), (1, 70.0, 0.6)]
        found = [
            {**run, "train_seed": seed, "accrued_cost": cost, "total_job_value_ratio": value}
            for seed, cost, value in tests
        ]
        other = {"series": "load 1", "x": "I alone", "accrued_cost": 900.0, "total_job_value_ratio": 0.0}
        return pd.DataFrame([*found, other])


def test_the_end_of_training_is_its_last_fifth_and_tests_are_the_learners_own():
    (row,) = ends(Fixed()).to_dict("records")
    assert (row["series"], row["x"], row["seeds"]) == ("load 1", "P alone", 2)
    assert (row["training_cost"], row["training_cost_min"], row["training_cost_max"]) == (55.0, 50.0, 60.0)
    assert row["multiplier"] == 2.5
    assert (row["test_cost"], row["value_ratio"]) == pytest.approx((55.0, 0.45))
