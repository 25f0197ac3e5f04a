"""Generated jobs have the statistics of the real ones; so have, where they are at hand, the real ones."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from greendc.traces import JobTrace
from greendc.traces.google import OFFSET_US, read_google_jobs
from greendc.traces.google_like import Events, generate, sample_events
from greendc.traces.google_like_streams import DEVIATES, STREAMS
from greendc.traces.jobs import HOUR_US, priority_class

SEEDS = range(8)

# What ENVIRONMENTS says of the sample, and how far (relatively) a month may be from it. CPU-hours count
# durations rounded up to hours, as the simulator does; their shares hang on a few hundred long jobs.
STATED = {
    "jobs_per_hour_mean": (66, 0.08),
    "jobs_per_hour_median": (56, 0.15),
    "jobs_per_hour_p99": (191, 0.25),
    "cpu_p50": (0.0056, 0.08),
    "cpu_p95": (0.034, 0.10),
    "cpu_p99": (0.047, 0.08),
    "duration_p50": (0.08, 0.08),
    "duration_p90": (2.8, 0.25),
    "duration_p99": (74, 0.35),
    "flexible_share_of_jobs": (0.86, 0.02),
    "flexible_share_of_cpu_hours": (0.60, 0.20),
    "long_share_of_flexible_cpu_hours": (0.38, 0.15),
}
# Measured on the sample: rhythm, and how things hang together.
MEASURED = {
    "night_to_day": (3.4, 0.15),
    "monday_to_thursday": (1.56, 0.25),
    "autocorrelation_1h": (0.67, 0.20),
    "autocorrelation_12h": (-0.33, 0.45),
    "autocorrelation_24h": (0.61, 0.35),
    "duration_with_cpu": (0.29, 0.25),
    "work_per_hour": (3.02, 0.15),
}


def statistics(events: Events) -> dict[str, float]:
    """All of them, of thirty days that begin on a Wednesday."""
    per_hour = np.bincount(events.time // HOUR_US, minlength=720)
    hours = events.duration / HOUR_US
    work = events.cpu * np.ceil(hours)
    flexible = events.priority < 120
    daily = per_hour.reshape(30, 24)
    centered = per_hour - per_hour.mean()

    def autocorrelation(lag: int) -> float:
        return float((centered[lag:] * centered[:-lag]).mean() / (centered**2).mean())

    def of_weekday(days_after_wednesday: int) -> float:
        return float(daily[days_after_wednesday::7].mean())

    return {
        "jobs_per_hour_mean": per_hour.mean(),
        "jobs_per_hour_median": np.median(per_hour),
        "jobs_per_hour_p99": np.percentile(per_hour, 99),
        **{f"cpu_p{q}": np.percentile(events.cpu, q) for q in (50, 95, 99)},
        **{f"duration_p{q}": np.percentile(hours, q) for q in (50, 90, 99)},
        "flexible_share_of_jobs": flexible.mean(),
        "flexible_share_of_cpu_hours": work[flexible].sum() / work.sum(),
        "long_share_of_flexible_cpu_hours": work[flexible & (hours > 24)].sum() / work[flexible].sum(),
        "night_to_day": daily[:, :8].mean() / daily[:, 8:18].mean(),
        "monday_to_thursday": of_weekday(5) / of_weekday(1),
        "autocorrelation_1h": autocorrelation(1),
        "autocorrelation_12h": autocorrelation(12),
        "autocorrelation_24h": autocorrelation(24),
        "duration_with_cpu": pd.Series(events.duration).corr(pd.Series(events.cpu), "spearman"),
        "work_per_hour": work.sum() / 720,
    }


@pytest.fixture(scope="module")
def generated() -> pd.DataFrame:
    return pd.DataFrame([statistics(sample_events(np.random.default_rng(seed), days=30)) for seed in SEEDS])


@pytest.fixture(scope="module")
def real(google_folder: Path) -> Events:
    table = pd.concat([pd.read_csv(path) for path in sorted(google_folder.glob("*.csv.gz"))])
    table = table[(table["duration"] > 0) & (table["cpu"] > 0)]
    time_, duration, priority = (table[name].to_numpy(np.int64) for name in ("time", "duration", "priority"))
    return Events(time_ - OFFSET_US, duration, table["cpu"].to_numpy(), priority)


@pytest.mark.parametrize("name", [*STATED, *MEASURED])
def test_generated_jobs_have_the_statistics(generated: pd.DataFrame, name: str) -> None:
    value, tolerance = {**STATED, **MEASURED}[name]
    assert generated[name].to_numpy() == pytest.approx(value, rel=tolerance)
    assert generated[name].mean() == pytest.approx(value, rel=max(0.06, tolerance / 2))


@pytest.mark.parametrize("name", [*STATED, *MEASURED])
def test_real_jobs_have_the_statistics(real: Events, name: str) -> None:
    value, _ = {**STATED, **MEASURED}[name]
    assert statistics(real)[name] == pytest.approx(value, rel=0.03)


def test_each_class_has_its_share_of_jobs_and_work(real: Events) -> None:
    """Over many months: the work of a class hangs on few long jobs."""
    months = [sample_events(np.random.default_rng(seed), days=30) for seed in range(20)]

    def shares(events: list[Events]) -> tuple[np.ndarray, np.ndarray]:
        classes = np.concatenate([priority_class(part.priority) for part in events])
        work = np.concatenate([part.cpu * np.ceil(part.duration / HOUR_US) for part in events])
        jobs = np.bincount(classes, minlength=5) / (720 * len(events))
        return jobs, np.bincount(classes, weights=work, minlength=5) / (720 * len(events))

    drawn, true = shares(months), shares([real])
    np.testing.assert_allclose(drawn[0], true[0], rtol=0.06)
    np.testing.assert_allclose(drawn[1], true[1], rtol=0.3)
    np.testing.assert_allclose(drawn[1].sum(), true[1].sum(), rtol=0.05)


def test_the_load_is_about_that_of_the_real_jobs(google_folder: Path) -> None:
    true = read_google_jobs(google_folder).mean_load
    drawn = [generate(seed).mean_load for seed in SEEDS]
    # Long jobs run on beyond the end of a generated month, while the sample's were cut off there.
    assert np.mean(drawn) == pytest.approx(0.91 * true, rel=0.05)


def digest(trace: JobTrace) -> str:
    arrays = (trace.submit_hour, trace.duration, trace.cpu, trace.priority)
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def test_a_seed_means_the_same_jobs_everywhere() -> None:
    assert digest(generate(0)) == digest(generate(0)) != digest(generate(1))
    assert digest(generate(7, days=3)) == "faf93bdbeda30fec849df84567e7e2fe365138c07372d06841cdf47c852c5998"


def test_length_and_counts() -> None:
    trace = generate(3, days=9)
    assert trace.days == 9
    assert trace.counts["kept"] == trace.counts["read"] == len(trace)
    assert trace.submit_hour.max() < 9 * 24
    assert np.all(np.diff(trace.day_offsets) > 500)
    assert set(np.unique(trace.job_class)) == {0, 1, 2, 3, 4}


def test_refuses_what_makes_no_trace() -> None:
    with pytest.raises(ValueError, match="days=0: must be at least 1"):
        generate(0, days=0)
    with pytest.raises(ValueError, match="seed=-1: must be at least 0"):
        generate(-1)


def test_streams_are_well_formed() -> None:
    for stream in STREAMS.values():
        for quantiles in (stream.seconds, stream.micro_cpu):
            assert len(quantiles) == len(DEVIATES)
            assert list(quantiles) == sorted(quantiles)
            assert quantiles[0] > 0
        assert sum(share for _, share in stream.priorities) == pytest.approx(1.0)
        assert len({int(priority_class(np.array(priority))) for priority, _ in stream.priorities}) == 1
        assert np.mean(stream.hourly) == pytest.approx(1.0, abs=0.01)
        assert np.mean(stream.weekly) == pytest.approx(1.0, abs=0.02)


def test_a_month_is_drawn_quickly() -> None:
    generate(0)
    begin = time.perf_counter()
    generate(1)
    assert time.perf_counter() - begin < 0.2
