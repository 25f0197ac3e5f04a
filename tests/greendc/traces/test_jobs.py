"""Job traces: the classes of priorities, the load by hand, and what the constructor refuses."""

from typing import Any

import numpy as np
import pytest

from greendc.traces import JobTrace
from greendc.traces.jobs import HOUR_US, priority_class


def trace(**changes: Any) -> JobTrace:
    fields: dict[str, Any] = {
        "submit_hour": [0, 5, 5, 47],
        "duration": [1, 3, 100, 2],
        "cpu": [500_000, 1, 1_000_000, 250_000],
        "priority": [0, 103, 200, 450],
        "days": 2,
    }
    fields.update(changes)
    days = fields.pop("days")
    arrays: dict[str, Any] = {name: np.array(values) for name, values in fields.items()}
    return JobTrace(**arrays, days=days)


def test_classes_begin_at_their_floors() -> None:
    floors = np.array([0, 25, 99, 100, 109, 115, 116, 119, 120, 359, 360, 450])
    assert priority_class(floors).tolist() == [4, 4, 4, 3, 3, 3, 2, 2, 1, 1, 0, 0]
    assert trace().job_class.tolist() == [4, 3, 1, 0]
    assert trace().inflexible.tolist() == [False, False, True, True]


def test_mean_load_counts_the_hours_within_the_trace() -> None:
    # 0.5 for 1 h, a millionth for 3 h, 1.0 for the 43 h that are left, 0.25 for the one.
    assert trace().mean_load == (500_000 + 3 + 43_000_000 + 250_000) / 1e6 / 48
    # Unchanged by how far beyond the end a job runs, and by jobs in another order within an hour.
    assert trace(duration=[1, 3, 43, 1]).mean_load == trace().mean_load


def test_day_offsets_cut_the_jobs_into_days() -> None:
    jobs = trace(submit_hour=[0, 23, 24, 71], days=4)
    assert jobs.day_offsets.tolist() == [0, 2, 3, 4, 4]
    assert jobs.day_offsets.dtype == np.int64
    for day in range(4):
        part = jobs.submit_hour[jobs.day_offsets[day] : jobs.day_offsets[day + 1]]
        assert np.array_equal(part, jobs.submit_hour[jobs.submit_hour // 24 == day])


def test_types_and_read_only() -> None:
    jobs = trace()
    assert [array.dtype for array in (jobs.submit_hour, jobs.duration, jobs.cpu, jobs.priority)] == [
        np.int32,
        np.int32,
        np.int64,
        np.int16,
    ]
    with pytest.raises(ValueError, match="read-only"):
        jobs.cpu[0] = 1
    assert len(jobs) == 4
    assert jobs.hours == 48


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"days": 0}, "days=0: must be at least 1"),
        ({"submit_hour": []}, "submit_hour.*at least one job"),
        ({"submit_hour": [0, 5, 4, 47]}, "submit_hour='unsorted': must be in order of time"),
        ({"submit_hour": [-1, 5, 5, 47]}, r"submit_hour=\[-1\]: must be from 0 to 47"),
        ({"submit_hour": [0, 5, 5, 48]}, r"submit_hour=\[48\]"),
        ({"duration": [1, 0, 1, 1]}, r"duration=\[0\]: must be from 1"),
        ({"duration": [1, 1, 1]}, r"duration\.shape=\(3,\): must be \(4,\)"),
        ({"cpu": [1, 1, 0, 1]}, r"cpu=\[0\]: must be from 1 to 1000000"),
        ({"cpu": [1, 1, 1_000_001, 1]}, r"cpu=\[1000001\]"),
        ({"cpu": [1.0, 1.0, 1.0, 1.0]}, r"cpu\.dtype=.*float64.*: must be an integer type"),
        ({"priority": [0, 0, -1, 0]}, r"priority=\[-1\]"),
        ({"priority": [0, 0, 70_000, 0]}, r"priority=\[70000\]"),
    ],
)
def test_constructor_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trace(**changes)


def test_events_are_sorted_rounded_and_counted() -> None:
    day = 24 * HOUR_US
    events = np.array(
        [
            # time, duration, cpu, priority
            (day + 1, HOUR_US + 1, 0.5, 1),  # rounded up to 2 h
            (2 * HOUR_US - 1, HOUR_US, 1.0, 2),  # exactly 1 h, a whole machine
            (5, 1, 1e-9, 3),  # at least a millionth
            (-1, 1, 0.1, 4),  # before the start
            (day, 0, 0.1, 5),  # no duration
            (day, 0, 0.0, 6),  # counted once, as without duration
            (day, 1, 0.0, 7),  # no CPU
            (day, 1, 1.000001, 8),  # larger than a machine
            (2 * HOUR_US - 1, 1, 0.2500004, 9),  # the same instant as job 2, later in the input
        ],
    )
    time, duration, priority = (events[:, column].astype(np.int64) for column in (0, 1, 3))
    jobs = JobTrace.from_events(time, duration, events[:, 2], priority)
    assert jobs.priority.tolist() == [3, 2, 9, 1]
    assert jobs.submit_hour.tolist() == [0, 1, 1, 24]
    assert jobs.duration.tolist() == [1, 1, 1, 2]
    assert jobs.cpu.tolist() == [1, 1_000_000, 250_000, 500_000]
    assert jobs.days == 2
    assert jobs.counts == {
        "read": 9,
        "before_start": 1,
        "after_end": 0,
        "zero_duration": 2,
        "zero_cpu": 1,
        "too_large": 1,
        "kept": 4,
    }
    first_day = JobTrace.from_events(time, duration, events[:, 2], priority, days=1)
    assert first_day.priority.tolist() == [3, 2, 9]
    assert first_day.counts["after_end"] == 5
    assert sum(first_day.counts.values()) == 2 * first_day.counts["read"]


@pytest.mark.parametrize("dropped", [(0, 0.5), (HOUR_US, 0.0), (HOUR_US, 1.5)])
def test_rows_that_are_dropped_do_not_lengthen_the_trace(dropped: tuple[int, float]) -> None:
    duration, cpu = dropped
    time = 24 * HOUR_US * np.array([0, 9, 200])
    durations, cpus = np.array([HOUR_US, HOUR_US, duration]), np.array([0.5, 0.5, cpu])
    jobs = JobTrace.from_events(time, durations, cpus, np.full(3, 100))
    alone = JobTrace.from_events(time[:2], durations[:2], cpus[:2], np.full(2, 100))
    assert jobs.days == 10
    assert jobs.mean_load == alone.mean_load
