"""The generated site has the statistics of the real one, each over twenty years."""

from datetime import datetime

import numpy as np
import pytest

from greendc.traces import read_power
from greendc.traces.gleamm_like import generate

CRITICAL_KW, TOTAL_KW, STORAGE_KWH = 80.0, 240.0, 1000.0
JUNE = slice(151 * 24, 181 * 24)


def lulls(total):
    """Return the lengths in hours of the times below the critical load."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], total < CRITICAL_KW, [0]]).astype(int)))
    return edges[1::2] - edges[::2]


def served_share(total):
    """Return the share of hours that carry the critical load with a store, half full at first."""
    store, served = STORAGE_KWH / 2, 0
    for surplus in total - CRITICAL_KW:
        served += store + surplus >= 0
        store = min(max(store + surplus, 0.0), STORAGE_KWH)
    return served / len(total)


@pytest.fixture(scope="module")
def years():
    return [generate(seed) for seed in range(20)]


def mean(years, statistic):
    return np.mean([statistic(year) for year in years])


def test_solar_peaks_at_115_kw_in_june(years):
    for year in years:
        assert 110 <= year.solar_kw[JUNE].max() <= 118
        assert year.solar_kw.max() <= 130  # the inverter


def test_wind_peaks_between_550_and_850_kw(years):
    for year in years:
        assert 550 <= year.wind_kw.max() <= 850


def test_sun_and_wind_are_opposed(years):
    assert mean(years, lambda year: np.corrcoef(year.solar_kw, year.wind_kw)[0, 1]) == pytest.approx(
        -0.3, abs=0.02
    )


def test_full_draw_is_available_in_40_to_60_percent_of_the_hours(years):
    for year in years:
        assert 0.40 <= (year.total_kw >= TOTAL_KW).mean() <= 0.60


def test_critical_load_is_carried_in_85_percent_of_the_hours(years):
    assert mean(years, lambda year: (year.total_kw >= CRITICAL_KW).mean()) == pytest.approx(0.85, abs=0.02)


def test_and_in_96_percent_with_storage(years):
    assert mean(years, lambda year: served_share(year.total_kw)) == pytest.approx(0.96, abs=0.01)


def test_lulls_last_3_hours_at_the_median_and_46_at_most(years):
    assert mean(years, lambda year: np.median(lulls(year.total_kw))) == pytest.approx(3, abs=0.7)
    longest = [lulls(year.total_kw).max() for year in years]
    assert 36 <= np.mean(longest) <= 48
    assert np.max(longest) <= 62  # the worst of twenty years


def test_wind_is_strongest_in_early_spring_and_at_night(years):
    wind = np.mean([year.wind_kw for year in years], axis=0).reshape(365, 24)
    assert wind[31:90].mean() > 1.15 * wind[181:273].mean()
    assert wind[:, [22, 23, 0, 1, 2, 3]].mean() > 2 * wind[:, 10:16].mean()


def test_the_sun_shines_by_day(years):
    solar = np.mean([year.solar_kw for year in years], axis=0).reshape(365, 24)
    assert solar[:, [21, 22, 23, 0, 1, 2, 3, 4]].max() == 0
    assert solar.sum(axis=0).argmax() == 12  # the sun is highest at 12:48
    daylight = (solar > 0).sum(axis=1)
    assert daylight[172] == pytest.approx(14, abs=1)
    assert daylight[355] == pytest.approx(10, abs=1)


def test_seeds_starts_and_lengths():
    year = generate(3)
    for other in (generate(3), generate(3, 5000), generate(3, 1)):
        np.testing.assert_array_equal(other.solar_kw, year.solar_kw[: len(other)])
        np.testing.assert_array_equal(other.wind_kw, year.wind_kw[: len(other)])
    assert not np.array_equal(generate(4).wind_kw, year.wind_kw)
    assert len(generate(3, 20_000)) == 20_000
    june = generate(3, 48, datetime(2021, 6, 21, 12))
    assert june.start == datetime(2021, 6, 21, 12)
    assert june.solar_kw[:4].min() > 0
    assert june.solar_kw[10:16].max() == 0
    with pytest.raises(ValueError, match="hours=0: must be at least 1"):
        generate(0, 0)


def test_it_is_like_a_year_computed_from_real_weather(years, shared_file):
    path = shared_file("derived/gleamm_like_2012_hourly.csv.gz")
    small, large = (
        read_power(path, wind=wind, gaps="join") for wind in ("wind_kw_v27_32m", "wind_kw_300kw_80m")
    )
    assert mean(years, lambda year: year.solar_kw.mean()) == pytest.approx(small.solar_kw.mean(), rel=0.1)
    # Two sizes of turbine at two heights: the generated one lies between them.
    for statistic in (lambda trace: trace.wind_kw.mean(), lambda trace: (trace.total_kw >= TOTAL_KW).mean()):
        assert statistic(small) < mean(years, statistic) < statistic(large)
    for trace in (small, large):
        correlation = np.corrcoef(trace.solar_kw, trace.wind_kw)[0, 1]
        assert mean(years, lambda year: np.corrcoef(year.solar_kw, year.wind_kw)[0, 1]) == pytest.approx(
            correlation, abs=0.03
        )
    assert mean(years, lambda year: lulls(year.total_kw).max()) == pytest.approx(
        lulls(small.total_kw).max(), abs=10
    )
