"""Where the power of an episode comes from, and how forecasts of it err."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from greendc.resource_pool import ResourcePoolConfig, ResourcePoolEnv
from greendc.resource_pool import layout as at
from greendc.traces.power import CarbonTrace, PowerTrace, read_carbon, read_power
from greendc.traces.prices import PriceTrace


def levels(seed=0, **options):
    env = ResourcePoolEnv(episode_steps=400, **options)
    env.reset(seed=seed)
    return env.simulator.power_series()[0][:, 0]


def test_levels_that_are_known():
    assert set(levels(power_level=0.9)) == {0.9}
    cycle = levels(power="on_off", power_level=0.9, power_low=0.2, on_steps=3, off_steps=2)
    assert cycle[:7].tolist() == [0.9, 0.9, 0.9, 0.2, 0.2, 0.9, 0.9]


def test_levels_drawn_anew_have_the_mean_and_stay_in_range():
    drawn = np.concatenate([levels(seed, power="random", power_level=0.8) for seed in range(30)])
    assert drawn.mean() == pytest.approx(0.8, abs=0.01)
    assert drawn.min() >= 0.6 and drawn.max() <= 1.0 and drawn.min() < 0.61 and drawn.max() > 0.99
    chain = levels(power="markov", power_low=0.5, stay_on=0.9, stay_off=0.5)
    assert set(chain) == {0.5, 1.0} and chain[0] == 1.0


@pytest.mark.parametrize("carbon", [0.37, "PGE-2020"])
@pytest.mark.parametrize("levels", [None, (0, 10)])
def test_a_generated_trace_has_the_sizes_of_the_sites_generators(carbon, levels):
    def series(**sizes):
        commands = {} if levels is None else {"power_levels": levels, "placement": "now"}
        grid = "critical" if levels is None else "open"
        site = {"grid": grid, **sizes}
        env = ResourcePoolEnv(power="trace", carbon=carbon, site=site, episode_steps=400, **commands)
        env.reset(seed=0)
        return env.simulator.power_series()[0]

    usual, other = series(), series(pv_kw=1500.0, wind_kw=450.0)
    np.testing.assert_allclose(other[:, 0], 10 * usual[:, 0])
    np.testing.assert_allclose(other[:, 1], usual[:, 1] / 2)
    assert usual[:, 0].max() > 50 and usual[:, 1].max() > 450
    assert not series(pv_kw=0.0, wind_kw=0.0)[:, :2].any()


def hours_of(trace_hours=2000, start=datetime(2021, 3, 1, 7, 30)):
    hour = (start.hour + start.minute / 60 + np.arange(trace_hours)) % 24
    return PowerTrace(hour, np.arange(trace_hours) / 10.0, 1.0, start)


def test_episodes_start_with_any_day_of_a_trace_and_keep_its_clock():
    starts = set()
    for seed in range(20):
        env = ResourcePoolEnv(power="trace", trace=hours_of(), episode_steps=100)
        observation, _ = env.reset(seed=seed)
        series, start_hour = env.simulator.power_series()
        assert series[0, 0] == start_hour == 0.5  # the trace's sun tells the hour
        np.testing.assert_allclose(np.diff(series[:, 1]), 0.1)
        angle = 2 * np.pi * start_hour / 24
        assert observation["context"][2:4] == pytest.approx([np.sin(angle), np.cos(angle)], abs=1e-6)
        starts.add(series[0, 1])
    assert len(starts) > 10
    assert max(starts) <= (2000 - 148) / 10


def test_a_trace_is_resampled_to_the_step():
    env = ResourcePoolEnv(power="trace", trace=hours_of(), step_hours=2.0, episode_steps=100)
    env.reset(seed=0)
    series, _ = env.simulator.power_series()
    np.testing.assert_allclose(np.diff(series[:, 1]), 0.2)


def test_carbon_is_aligned_with_the_trace_by_the_clock():
    trace = hours_of()
    carbon = CarbonTrace(np.arange(3000) / 1000.0, 1.0, trace.start - timedelta(hours=100))
    env = ResourcePoolEnv(power="trace", trace=trace, carbon=carbon, episode_steps=100)
    env.reset(seed=0)
    series, _ = env.simulator.power_series()
    np.testing.assert_allclose(series[:, 2] * 1000.0, series[:, 1] * 10.0 + 100)
    late = CarbonTrace(carbon.kg_per_kwh, 1.0, trace.start + timedelta(hours=1))
    with pytest.raises(ValueError, match=r"carbon=.*covers the trace"):
        ResourcePoolEnv(power="trace", trace=trace, carbon=late, episode_steps=100)


def test_forecast_errors_grow_with_the_root_of_the_lead_and_vanish_now():
    units, horizon, error = 1000, 33, 0.02
    env = ResourcePoolEnv(
        units=units, horizon=horizon, power_level=0.5, forecast_error=error, episode_steps=60
    )
    errors = []
    for seed in range(60):
        env.reset(seed=seed)
        no_op = env.action_space.n - 1
        for _ in range(8):
            errors.append(env.simulator.view().levels / (0.5 * units) - 1.0)
            env.step(no_op)
    spread = np.std(errors, axis=0)
    assert spread[0] == 0.0
    assert spread[1] == pytest.approx(error, rel=0.15)
    assert spread[16] == pytest.approx(4 * error, rel=0.3)
    assert spread[32] > spread[16] > spread[8] > spread[4]


def test_the_default_site_powers_the_pool_as_described():
    env = ResourcePoolEnv(ResourcePoolConfig(power="trace"))
    env.reset(seed=0)
    share = env.simulator.power.trace.total_kw
    assert 0.35 < (share >= 240).mean() < 0.65


@pytest.mark.parametrize(
    "log", ["swf/KTH-SP2_swf_unfiltered_log.swf.gz", "derived/mira_2018_from_lumos.swf.gz"]
)
def test_real_jobs_on_real_power(shared_file, log):
    trace = read_power(
        shared_file("derived/gleamm_like_2012_hourly.csv.gz"), wind="wind_kw_300kw_80m", gaps="join"
    )
    env = ResourcePoolEnv(
        units=50, workload=str(shared_file(log)), power="trace", trace=trace, late_jobs="leave", mask="now"
    )
    _, info = env.reset(seed=0)
    truncated = False
    while not truncated:
        action = int(env.action_masks().argmax())
        _, _, _, truncated, info = env.step(action)
    metrics = info["episode_metrics"]
    assert metrics["completed_jobs"] > 50 and metrics["total_job_value"] > 0
    assert metrics["broken_reservations"] == metrics["power_suspensions"] == 0
    assert metrics["wind_kwh"] > 1000 and metrics["solar_kwh"] > 1000


def test_episodes_at_a_site_start_at_midnight_like_the_workloads_days():
    env = ResourcePoolEnv(power="trace", episode_steps=30)
    starts = set()
    for seed in range(20):
        env.reset(seed=seed)
        series, start_hour = env.simulator.power_series()
        assert start_hour == 0.0
        # No sun at midnight, nor at the next.
        assert series[0, at.SOLAR] == series[24, at.SOLAR] == 0.0
        assert series[:24, at.SOLAR].max() > 0.0
        starts.add(series[:24, at.WIND].tobytes())
    assert len(starts) > 15


@pytest.mark.parametrize("series_hours", [1.0, 0.5])
def test_steps_after_days_that_are_left_out_have_the_carbon_and_price_of_their_own_days(series_hours):
    gone = ((72.0, 24.0), (144.0, 48.0))  # the fourth day; then the eighth and ninth
    trace = PowerTrace(np.ones(240), np.ones(240), 1.0, datetime(2021, 1, 2), closed_up=gone)
    day = np.repeat(np.arange(14.0), round(24 / series_hours))
    carbon = CarbonTrace(day / 100.0, series_hours, datetime(2021, 1, 1))
    price = PriceTrace(day, series_hours, datetime(2021, 1, 1))
    options = {"power": "trace", "trace": trace, "episode_steps": 48}
    power = ResourcePoolEnv(**options, carbon=carbon, price=price).simulator.power
    expected = np.repeat([1.0, 2, 3, 5, 6, 7, 10, 11, 12, 13], 24)
    np.testing.assert_allclose(power.price, expected)
    np.testing.assert_allclose(100.0 * power.carbon, expected)
    coarse = ResourcePoolEnv(**options, step_hours=2.0, price=price).simulator.power
    np.testing.assert_allclose(coarse.price, expected[::2])
    short = PriceTrace(day[: round(12 * 24 / series_hours)], series_hours, datetime(2021, 1, 1))
    with pytest.raises(ValueError, match=r"price=.*covers the trace.* but for the days that it leaves out"):
        ResourcePoolEnv(**options, price=short)


@pytest.mark.parametrize("step_hours", [1.0, 2.0, 0.5])
def test_a_carbon_series_that_leaves_out_days_keeps_the_times_of_the_others(tmp_path, step_hours):
    hours = [hour for hour in range(24 * 20) if hour // 24 not in (3, 8, 9)]
    rows = [f"{datetime(2021, 1, 1) + timedelta(hours=hour)},{hour / 1000},1" for hour in hours]
    path = tmp_path / "both.csv"
    path.write_text("\n".join(["time,carbon_kg_per_kwh,solar_kw", *rows, ""]))
    carbon = read_carbon(path, gaps="join")
    options = {"power": "trace", "carbon": carbon, "episode_steps": 48, "step_hours": step_hours}

    def laid(start, steps, closed_up=()):
        trace = PowerTrace(np.ones(steps), np.ones(steps), 1.0, start, closed_up=closed_up)
        return ResourcePoolEnv(**options, trace=trace).simulator.power.carbon

    def expected(of):
        steps = np.array(of).reshape(-1, max(round(step_hours), 1)).mean(axis=1)
        return np.repeat(steps, max(round(1 / step_hours), 1)) / 1000

    both = read_power(path, gaps="join")
    np.testing.assert_allclose(laid(both.start, len(both), both.closed_up), expected(hours))
    np.testing.assert_allclose(laid(datetime(2021, 1, 11), 240), expected(range(240, 480)))
    fewer = ((72.0, 24.0), (144.0, 96.0))
    left = [hour for hour in hours if hour // 24 not in (7, 10)]
    np.testing.assert_allclose(laid(both.start, len(left), fewer), expected(left))
    for start in (datetime(2021, 1, 1), datetime(2021, 1, 4), datetime(2021, 1, 4, 22)):
        with pytest.raises(ValueError, match=r"carbon=.* without the days that it leaves out'.*covers the"):
            laid(start, 240)


@pytest.mark.parametrize("minutes", [1, 3, 5, 7, 10, 15, 20, 30, 60, 90])
def test_episodes_of_steps_of_any_length_start_with_the_step_of_midnight(minutes):
    steps = 5 * 24 * 60 // minutes
    trace = PowerTrace(np.ones(steps), np.ones(steps), minutes / 60, datetime(2021, 1, 1))
    env = ResourcePoolEnv(power="trace", trace=trace, step_hours=minutes / 60, episode_steps=8, horizon=4)
    found = env.simulator.power.starts * minutes % (24 * 60)
    assert len(found) == 5 if 24 * 60 % minutes == 0 else len(found) >= 4
    assert (found < minutes).all()  # the first step that begins on a day


def test_the_seconds_of_a_traces_start_count():
    steps = 3 * 24 * 60
    start = datetime(2021, 1, 1, 12, 0, 30)
    trace = PowerTrace(np.ones(steps), np.ones(steps), 1 / 60, start)
    env = ResourcePoolEnv(power="trace", trace=trace, step_hours=1 / 60, episode_steps=8, horizon=4)
    env.reset(seed=0)
    assert env.simulator.power_series()[1] == pytest.approx(30 / 3600)
    assert env.simulator.power.starts.tolist() == [720, 720 + 1440, 720 + 2880]


def test_carbon_on_a_clock_of_another_kind_is_refused():
    generated = ResourcePoolEnv(power="trace").simulator.power.trace
    aware = generated.start.replace(tzinfo=timezone.utc)
    carbon = CarbonTrace(np.full(len(generated), 0.3), generated.step_hours, aware)
    with pytest.raises(ValueError, match="carbon='times with a time zone'"):
        ResourcePoolEnv(power="trace", carbon=carbon)


def test_carbon_and_price_are_aligned_across_a_change_of_clocks():
    """July's midnight in Berlin is 22:00 in UTC, January's 23:00."""
    berlin = ZoneInfo("Europe/Berlin")
    trace = PowerTrace(np.ones(2000), np.ones(2000), 1.0, datetime(2021, 7, 1, tzinfo=berlin))
    hours = np.arange(8000.0)
    carbon = CarbonTrace(hours / 1e4, 1.0, datetime(2021, 1, 1, tzinfo=berlin))
    price = PriceTrace(hours, 1.0, datetime(2021, 1, 1, tzinfo=berlin))
    power = ResourcePoolEnv(power="trace", trace=trace, carbon=carbon, price=price).simulator.power
    between = datetime(2021, 6, 30, 22, tzinfo=timezone.utc) - datetime(2020, 12, 31, 23, tzinfo=timezone.utc)
    assert power.price[0] == between / timedelta(hours=1)
    np.testing.assert_allclose(power.carbon * 1e4, power.price)


@pytest.mark.parametrize("minutes", [0, 15, 45])
def test_a_finer_carbon_series_may_begin_between_the_steps_of_the_trace(minutes):
    trace = hours_of()
    start = trace.start - timedelta(hours=10) + timedelta(minutes=minutes)
    quarters = np.arange(4 * 2100) / 1e4
    carbon = CarbonTrace(quarters, 0.25, start)
    found = ResourcePoolEnv(power="trace", trace=trace, carbon=carbon).simulator.power.carbon
    first = 40 - minutes // 15
    expected = quarters[first : first + 8000].reshape(2000, 4).mean(axis=1)
    np.testing.assert_allclose(found, expected)
    for beside in (15, -7):
        carbon = CarbonTrace(quarters, 0.25, trace.start + timedelta(minutes=beside))
        with pytest.raises(ValueError, match=r"carbon='8400 steps of 0.25 h .*covers the trace"):
            ResourcePoolEnv(power="trace", trace=trace, carbon=carbon)


def test_carbon_and_price_are_numbers_of_any_kind_but_not_true():
    for number in (np.float32(0.5), np.int64(1), 1, 0.25):
        power = ResourcePoolEnv(power="trace", carbon=number, price=number).simulator.power
        assert set(power.carbon) == set(power.price) == {float(number)}
    for name in ("carbon", "price"):
        with pytest.raises(ValueError, match=f"{name}=True: must be "):
            ResourcePoolConfig(power="trace", **{name: True})
        with pytest.raises(ValueError, match=f"{name}=.*: must be "):
            ResourcePoolConfig(power="trace", **{name: np.float32(-1.0)})
