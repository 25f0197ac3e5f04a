"""The Lublin-Feitelson model: its published distributions, and a log that its authors' program made."""

import numpy as np
import pytest
from scipy.stats import gamma, ks_2samp

from greendc.traces import read_swf
from greendc.traces.lublin import DAY_SECONDS, LublinModel, generate_log

COUNT = 100_000


def close(share: float, expected: float, count: int = COUNT) -> bool:
    """Whether a share is within five standard errors."""
    return abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / count)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def test_sizes_follow_the_two_stages(rng):
    # Nothing is rounded to a power of two, so that the stages themselves can be seen.
    model = LublinModel(nodes=128, serial_share=0.244, power_of_two_share=0.0)
    sizes = model.sample_sizes(rng, COUNT)
    assert sizes.min() == 1
    assert sizes.max() == 128
    parallel = 1 - 0.244
    # 2 ** 0.8 rounds to 2, so only serial jobs have one node; sizes round at 22.5 and 90.5.
    assert close((sizes == 1).mean(), 0.244)
    lower = 0.86 * (np.log2(22.5) - 0.8) / (4.5 - 0.8)
    assert close((sizes <= 22).mean(), 0.244 + parallel * lower)
    upper = 0.14 * (7 - np.log2(90.5)) / 2.5
    assert close((sizes > 90).mean(), parallel * upper)


def test_most_parallel_sizes_are_powers_of_two(rng):
    sizes = LublinModel(s_low_share=1.0).sample_sizes(rng, COUNT)
    # 0.8 .. 4.5 rounds to 1 (0.7 wide), 2, 3, 4 (1 wide each).
    powers = {2: 0.7, 4: 1.0, 8: 1.0, 16: 1.0}
    for size, width in powers.items():
        other = 0.18 * (np.log2(size + 0.5) - max(0.8, np.log2(size - 0.5))) / 3.7
        assert close((sizes == size).mean(), 0.576 * width / 3.7 + other)


@pytest.mark.parametrize(("size", "short"), [(1, 0.7746), (64, 0.4344), (128, 0.0888), (256, 0.0)])
def test_wide_jobs_run_longer(rng, size, short):
    run = LublinModel().sample_run_times(rng, np.full(COUNT, size))
    assert run.max() <= np.exp(12.0)
    np.testing.assert_array_equal(run, np.floor(run))
    for seconds in (10, 100, 1000, 10_000, 30_000):
        below = [
            gamma.cdf(np.log(s), shape, scale=scale)
            for s, shape, scale in (
                (seconds, 4.2, 0.94),
                (np.exp(12.0), 4.2, 0.94),
                (seconds, 312, 0.03),
                (np.exp(12.0), 312, 0.03),
            )
        ]
        expected = (short * below[0] + (1 - short) * below[2]) / (short * below[1] + (1 - short) * below[3])
        assert close((run < seconds).mean(), expected)


def test_gaps_are_exponentials_of_a_gamma(rng):
    gaps = LublinModel().sample_gaps(rng, COUNT)
    assert gaps.max() <= np.exp(13.0)
    for seconds in (20, 100, 500, 5000):
        expected = gamma.cdf(np.log(seconds), 10.2303 * 1.0225, scale=0.4871)
        assert close((gaps < seconds).mean(), expected)


def test_the_arrival_clock_agrees_at_midnight_and_is_fast_by_day():
    model = LublinModel()
    midnights = np.arange(5) * DAY_SECONDS
    np.testing.assert_array_equal(model.clock_time(midnights), midnights)
    cycle = np.linspace(0.0, 2 * DAY_SECONDS, 200_001)
    clock = model.clock_time(cycle)
    assert (np.diff(clock) > 0).all()
    np.testing.assert_allclose(model.clock_time(cycle + DAY_SECONDS), clock + DAY_SECONDS, rtol=1e-12)
    # Arrivals even on the arrival clock are most frequent where the third gamma has its mode, 14:12.
    hours = np.histogram(clock[:-1] / 3600 % 24, bins=48, range=(0, 24))[0]
    assert np.argmax(hours) / 2 == pytest.approx(14, abs=0.5)
    assert hours.max() > 8 * hours.min()
    day = np.diff(gamma.cdf([10.5, 58.5], 8.1737, scale=3.9631))[0]
    for half_hour in (12, 27, 40):  # counted from 1 in the paper's formula
        share = np.diff(gamma.cdf([half_hour + 0.5, half_hour + 1.5], 8.1737, scale=3.9631))[0]
        assert hours[half_hour] / hours.sum() == pytest.approx(share / day, rel=0.02)


def test_the_same_arguments_give_the_same_log():
    log = generate_log(3, 1000)
    np.testing.assert_array_equal(log.table, generate_log(3, 1000).table)
    assert not np.array_equal(log.table, generate_log(4, 1000).table, equal_nan=True)
    assert log.machine_processors == 128
    assert (np.diff(log.column("submit_time")) >= 0).all()


def test_statistics_match_the_log_of_the_authors_program(shared_file):
    """10,000 jobs for 256 nodes; the two logs are drawn independently, so differences are noise."""
    theirs = read_swf(shared_file("swf/lublin_256.swf.gz"))
    ours = generate_log(0, 50_000, LublinModel(nodes=256))
    for quantity in (
        lambda log: log.column("run_time"),
        lambda log: log.processors,
        lambda log: np.diff(log.column("submit_time")),
    ):
        assert ks_2samp(quantity(theirs), quantity(ours)).statistic < 0.02
    both = [
        np.histogram(log.column("submit_time") % DAY_SECONDS, bins=24)[0] / len(log) for log in (theirs, ours)
    ]
    assert np.abs(both[0] - both[1]).max() < 0.03
    correlation = [
        np.corrcoef(np.log(log.column("run_time")), np.log(log.processors))[0, 1] for log in (theirs, ours)
    ]
    assert correlation[0] == pytest.approx(correlation[1], abs=0.03)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LublinModel(nodes=8), "nodes=8: must be at least 16"),
        (lambda: generate_log(0, 0), "jobs=0: must be at least 1"),
    ],
)
def test_wrong_values_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
