"""The stack of running flexible jobs, when it is full."""

from __future__ import annotations

import numpy as np

from greendc.vcc import layout
from greendc.vcc.kernel_cluster import push


def test_a_full_stack_drops_the_jobs_that_run_no_more():
    finish = np.array([7, 3, 9, 0, 4, 12])  # 0: evicted by an inflexible job
    stack = np.zeros((6, layout.RUNNING_FIELDS), dtype=np.int32)
    stack[:, layout.FINISH] = finish
    stack[:, layout.RUNNING_ID] = range(6)
    started = np.zeros((layout.FLEXIBLE_GROUPS, 2, layout.RUNNING_FIELDS), dtype=np.int32)
    started[layout.BATCH, 1, [layout.FINISH, layout.RUNNING_ID]] = 8, 6
    counters = np.zeros(layout.COUNTERS, dtype=np.int64)
    counters[layout.HOUR] = 4
    counters[layout.STACK_TOP] = 6
    push(layout.BATCH, 1, started, stack, counters)
    assert counters[layout.STACK_TOP] == 4
    assert stack[:4, layout.RUNNING_ID].tolist() == [0, 2, 5, 6]
    assert stack[:4, layout.FINISH].tolist() == [7, 9, 12, 8]
