"""The stack of running flexible jobs, when it is full."""

from __future__ import annotations

import numba
import numpy as np

from greendc.vcc import layout
from greendc.vcc.kernel_cluster import push


@numba.njit
def start(stack, cluster, job):
    push(stack, cluster, job)


def test_a_full_stack_drops_the_jobs_that_run_no_more():
    finish = np.array([7, 3, 9, 0, 4, 12])  # 0: evicted by an inflexible job
    stack = np.zeros(6, layout.RUNNING_JOB)
    stack["finish"], stack["id"] = finish, range(6)
    started, cluster = np.zeros(1, layout.RUNNING_JOB), np.zeros(1, layout.CLUSTER)
    started["finish"], started["id"] = 8, 6
    cluster["now"], cluster["stack_top"] = 4, 6
    start(stack, cluster[0], started[0])
    assert cluster["stack_top"] == [4]
    assert stack["id"][:4].tolist() == [0, 2, 5, 6]
    assert stack["finish"][:4].tolist() == [7, 9, 12, 8]
