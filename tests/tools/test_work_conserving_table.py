"""The table of what the guard against idle pools changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import work_conserving
from work_conserving import compare, markdown


def test_a_policy_that_never_idles_by_itself_is_not_changed() -> None:
    plain, guarded = compare("sjf", "ResourcePool-10", 0.5, 2)
    assert plain["idle_steps"] == guarded["idle_steps"] == 0
    assert plain["value"] == guarded["value"] > 0 and guarded["value_d"] == 0.0
    assert plain["wait_0"] == guarded["wait_0"] > 0


def test_the_guard_ends_idling() -> None:
    """Rollouts wait for better jobs; guarded ones do not."""
    plain, guarded = compare("rollout:futures=2,depth=8", "ResourcePool-10", 0.5, 2)
    assert plain["idle_steps"] > 0 and plain["longest_idle"] > 0 and plain["idle_episodes"] > 0
    assert guarded["idle_steps"] == guarded["longest_idle"] == 0
    rows = pd.DataFrame([plain, guarded])
    text = markdown(rows).splitlines()
    assert len(text) == 3
    assert text[2].startswith(f"| `rollout:futures=2,depth=8` | 0.5 | {plain['idle_episodes']} of 2 | ")


def test_waits_end_where_a_job_starts_or_can_no_longer_be_on_time() -> None:
    class View:
        now = 50

        def job_table(self) -> dict[str, np.ndarray]:
            return {
                "arrival": np.array([0, 5, 40]),
                "duration": np.array([4, 4, 5]),
                "latest_finish": np.array([40, 16, 90]),
                "first_start": np.array([30, -1, -1]),
                "qos": np.array([0.2, 0.3, 0.3]),
            }

    assert work_conserving._longest_waits(View()).tolist() == [30.0, 10.0, 0.0, 0.0]
