"""RLScheduler's published table: all thirty figures of its heuristics, from its own traces.

The traces have no licence and are no part of this package. Get them (plain or gzipped) with::

    python scripts/fetch_traces.py jobs --url https://raw.githubusercontent.com/DIR-LAB/\\
        deep-batch-scheduler/master/data/lublin_256.swf

and likewise ``lublin_256_new2.swf`` and ``HPC2N-2002-2.2-cln.swf``, into the folder ``swf`` of what
``GREENDC_SHARED_DATA`` names.
"""

from __future__ import annotations

import numpy as np
import pytest

from greendc.cluster import rlscheduler

FIGURES = [(log, backfill) for log in rlscheduler.TRACES for backfill in ("none", "easy")]


@pytest.mark.parametrize(("log", "backfill"), FIGURES)
def test_figures_are_those_printed(log, backfill, shared_file):
    jobs = rlscheduler.read_trace(shared_file(f"swf/{rlscheduler.TRACES[log]}.gz"))
    printed = rlscheduler.PRINTED[log, backfill]
    found = rlscheduler.judge(jobs, backfill, {name: rlscheduler.AS_PRINTED[name] for name in printed})
    for name, figure in printed.items():
        assert np.mean(found[name]) == pytest.approx(figure, abs=0.01), name


def test_starts_are_those_of_its_code():
    starts = [1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085]
    assert rlscheduler.window_starts(1).tolist() == starts
    assert rlscheduler.window_starts(2).tolist() != starts
