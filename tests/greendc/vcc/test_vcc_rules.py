"""What the VCC problem means: hand-solved hours, the two SLOs, and who may see the future."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from vcc_cases import random_moer

from greendc.traces import MoerSeries, load_moer
from greendc.traces.jobs import JobTrace
from greendc.vcc import VCCEnv, layout

HALF = 500_000
FLAT = MoerSeries("flat", np.datetime64("2020-01-01T00", "h"), np.ones(2000), np.ones((2000, 3)))


def trace_of(jobs, days=2):
    """A trace of (hour, duration, cpu in millionths, priority)."""
    hours, durations, cpu, priority = map(np.array, zip(*jobs, strict=True))
    return JobTrace(hours, durations, cpu, priority, days)


def env_of(jobs, days=2, **options):
    defaults = {
        "moer": FLAT,
        "month": "2020-01",
        "utc_offset": -8,
        "days": days,
        "workload": trace_of(jobs, days),
        "resample_days": False,
        "warm_start": False,
        "capacity": 1.0,
        "normalize": False,
        "reward_baseline": "none",
    }
    # Local midnight of 1 January is 08:00 UTC: begin a day earlier, for the forecasts' past.
    moer = defaults["moer"]
    defaults["moer"] = dataclasses.replace(moer, start=moer.start - np.timedelta64(24, "h"))
    return VCCEnv(**{**defaults, **options})


def play(env, actions):
    env.reset(seed=0)
    return [env.step(np.array([action]))[4] for action in actions]


def loads(infos):
    return [round(info["load"], 6) for info in infos]


def test_jobs_start_by_class_and_skip_what_does_not_fit():
    # A free job came first, but mid goes before it; the large batch job is passed over, not a plug.
    env = env_of([(0, 1, HALF, 50), (0, 1, 800_000, 105), (0, 1, 400_000, 118)])
    infos = play(env, [1, 1, 1])
    assert loads(infos) == [0.9, 0.8, 0.0]
    assert [info["waiting"] for info in infos] == [1, 0, 0]


def test_inflexible_jobs_run_under_a_vcc_of_zero_and_take_room_from_flexible_ones():
    env = env_of([(0, 2, 600_000, 200), (0, 3, 300_000, 50), (1, 1, HALF, 400)])
    infos = play(env, [1, 0.0, 1, 1, 1, 1])
    # Hour 1: the VCC of 0 evicts the free job; monitoring at .5 beside production at .6 is more than a
    # machine, and runs outside it.
    assert loads(infos)[:2] == [0.9, 1.1]
    assert [info["inflexible_load"] for info in infos[:2]] == [0.6, 1.1]
    metrics = env.simulator.episode_metrics(0)
    assert metrics["evictions"] == 1 and metrics["outside_jobs"] == 1
    assert loads(infos)[2:] == [0.3, 0.3, 0.0, 0.0]  # two hours of its work were left


def test_an_inflexible_job_evicts_to_have_room_on_a_machine():
    env = env_of([(0, 5, 700_000, 50), (1, 1, HALF, 200)])
    infos = play(env, [1, 1, 1])
    assert loads(infos) == [0.7, 0.5, 0.7]
    assert env.simulator.episode_metrics(0)["outside_jobs"] == 0


def test_eviction_takes_the_latest_start_then_the_higher_index_and_keeps_work():
    jobs = [(0, 4, 200_000, 50), (1, 4, 200_000, 50), (1, 4, 200_000, 118)]
    env = env_of(jobs)
    infos = play(env, [1, 1, 0.4, 1, 1, 1, 1, 1])
    # Hour 2: of the two that started in hour 1, the higher index (the mid job) goes.
    assert loads(infos) == [0.2, 0.6, 0.4, 0.6, 0.4, 0.2, 0.0, 0.0]
    costly = env_of(jobs, eviction_loss_hours=1)
    assert loads(play(costly, [1, 1, 0.4, 1, 1, 1, 1, 1])) == [0.2, 0.6, 0.4, 0.6, 0.4, 0.2, 0.2, 0.0]
    assert costly.simulator.episode_metrics(0)["lost_work"] == 0.2
    kept = env_of(jobs, evict=False)
    assert loads(play(kept, [1, 1, 0.4, 1])) == [0.2, 0.6, 0.6, 0.6]


def test_overdue_work_is_charged_at_day_ends_and_once_more_at_the_end():
    # One job of an hour at .5 that never runs: late after 25 h, so at hours 48 (overdue + undone).
    env = env_of([(0, 1, HALF, 50)], charge="day_end")
    infos = play(env, [0.0] * 48)
    charges = [info["overdue"] for info in infos]
    demand = [0.5, 0.0]  # of the no-delay schedule, day by day
    assert charges[23] == 0.0
    assert charges[47] == pytest.approx(0.5 - 0.03 * demand[1] + 0.5)
    assert sum(charges) == charges[47]
    # The last day has no demand: its cost is a share of the mean day's, which is 0.25.
    assert [info["cost"] for info in infos if info["cost"]] == [(0.5 + 0.5) / 0.25]


def test_a_job_set_back_behind_what_it_had_done_at_first_has_done_no_work():
    # The job of the evening before has 4 of its 10 hours done at t = 0, and an eviction at once costs 3.
    options = {"workload": trace_of([(20, 10, HALF, 50)], 1), "warm_start": True, "eviction_loss_hours": 3}
    env = env_of([(0, 1, HALF, 50)], days=1, **options)
    play(env, [0.0] + [1.0] * 2)
    metrics = env.simulator.episode_metrics(0)
    assert (metrics["lost_work"], metrics["executed_work"]) == (1.5, 1.0)
    assert metrics["flexible_work_done"] == 0.0
    env.step(np.ones(1)), env.step(np.ones(1))
    # Two hours of running on, it has done one more than at t = 0, of the five that no delay gives.
    assert env.simulator.episode_metrics(0)["flexible_work_done"] == pytest.approx(1 / 5)


def test_incurred_charges_fall_in_the_hour_that_causes_them():
    # A job of 30 h that must start within 24 h; the tolerance is 3 % of the mean day.
    env = env_of([(0, 30, HALF, 50)], days=3)
    infos = play(env, [0.0] * 26 + [1.0] * 46)
    charges = np.array([info["slo"] for info in infos])
    assert not charges[:24].any()  # a day of delay is free
    assert charges[24] > 0 and charges[25] > 0
    assert charges.sum() == pytest.approx(sum(info["overdue"] for info in infos))
    plain = env_of([(0, 30, HALF, 50)], days=3, charge="day_end")
    charges = [info["slo"] for info in play(plain, [0.0] * 26 + [1.0] * 46)]
    assert np.flatnonzero(charges).tolist() == [47]


def test_allocating_when_nothing_waits_satisfies_the_page_and_is_caught_by_overdue():
    """The page's SLO counts allocation: a policy can meet it and leave work undone."""
    # Ten-hour jobs arrive at 5 every morning; the capacity of a day is allocated before that, for
    # three hours, each night followed by an eviction.
    jobs = [(24 * day + 5, 10, 300_000, 50) for day in range(4)]
    env = env_of(jobs, days=4, slo="page", charge="day_end", kw_per_unit=0.0)
    infos = play(env, ([1.0] * 3 + [0.0] * 21) * 4)
    metrics = env.simulator.episode_metrics(0)
    assert sum(info["slo"] for info in infos) == metrics["page_shortfall"] == 0.0
    assert metrics["flexible_work_done"] < 0.6
    assert metrics["overdue_work"] > 1.0


def test_page_slo_is_the_shortfall_of_allocation_below_97_per_cent():
    env = env_of([(0, 24, HALF, 50)], days=1, slo="page", charge="day_end")
    infos = play(env, [0.25] * 24)
    assert infos[-1]["slo"] == pytest.approx(0.97 * 12 - 6)
    assert infos[-1]["cost"] == pytest.approx((12 - 6) / 12)


def test_constrained_form_leaves_the_slo_to_the_cost():
    jobs = [(24 * day, 1, HALF, 50) for day in range(3)]
    plain, constrained = (env_of(jobs, days=3, constrained=flag) for flag in (False, True))
    for env in (plain, constrained):
        env.reset(seed=0)
    costs = 0.0
    for _ in range(72):
        a, b = plain.step(np.zeros(1)), constrained.step(np.zeros(1))
        assert b[1] == -b[4]["carbon"]
        assert a[1] == pytest.approx(b[1] - a[4]["slo"])
        assert a[4]["cost"] == b[4]["cost"]
        costs += b[4]["cost"]
    # Day 2 owes the first day's job, day 3 two more; at the end all three are undone.
    assert costs == pytest.approx(1 + 2 + 3)


def test_no_delay_baseline_changes_rewards_by_what_actions_cannot_change():
    jobs = [(hour, 2, 100_000, 50) for hour in range(40)]
    returns = {}
    for baseline in ("none", "no_delay"):
        for level in (0.2, 1.0):
            env = env_of(jobs, reward_baseline=baseline)
            env.reset(seed=0)
            returns[baseline, level] = sum(env.step(np.array([level]))[1] for _ in range(48))
    gaps = [returns["no_delay", level] - returns["none", level] for level in (0.2, 1.0)]
    assert gaps[0] == pytest.approx(gaps[1])
    assert returns["no_delay", 1.0] == pytest.approx(0.0)


@pytest.mark.parametrize("forecast", ["sgip", "noisy", "persistence"])
def test_only_the_oracle_sees_the_future(forecast):
    rng = np.random.default_rng(0)
    moer = random_moer(rng)
    start = moer.month_slice("2020-02", -8, hours=48)
    now = start + 20
    changed = moer.moer.copy()
    changed[now:] = rng.random(len(changed) - now)
    archived = moer.forecast.copy()
    archived[now + 1 :] = rng.random((len(archived) - now - 1, 3))
    future = MoerSeries("changed", moer.start, changed, archived)

    def forecasts(series, kind):
        env = VCCEnv(moer=series, month="2020-02", days=2, forecast=kind, normalize=False)
        rows = [env.reset(seed=0)[0]]
        rows += [env.step(np.ones(1))[0] for _ in range(20)]
        return np.array(rows)[:, 3:27]

    np.testing.assert_array_equal(forecasts(moer, forecast), forecasts(future, forecast))
    assert not np.array_equal(forecasts(moer, "oracle"), forecasts(future, "oracle"))


def test_oracle_shows_the_truth_into_the_next_month():
    series = load_moer("PGE")
    env = VCCEnv(month="2021-04", forecast="oracle", normalize=False)
    start = series.month_slice("2021-04")
    observation, _ = env.reset(seed=0)
    for hour in range(720):
        np.testing.assert_array_equal(observation[3:27], series.moer[start + hour :][:24].astype(np.float32))
        observation, _, _, _, info = env.step(np.ones(1))
        assert info["moer"] == series.moer[start + hour]


def test_sgip_shows_the_archived_forecast_for_three_hours():
    series = load_moer("SCE")
    env = VCCEnv(month="2020-07", region="SCE", days=2, normalize=False)
    start = series.month_slice("2020-07")
    observation, _ = env.reset(seed=0)
    for hour in range(48):
        np.testing.assert_array_equal(observation[3:6], series.forecast[start + hour].astype(np.float32))
        past = series.moer[start + hour + 3 - 24 * np.arange(1, 15)]
        assert observation[6] == pytest.approx(past.mean(), rel=1e-6)
        observation, *_ = env.step(np.ones(1))


def test_noisy_errors_grow_with_lead_time():
    tables = []
    for noise in (0.0, 0.05):
        env = VCCEnv(forecast="noisy", forecast_noise=noise, month="2020-09")
        env.reset(seed=0)
        tables.append(env.simulator.world.forecast[0, :, :24].copy())
    spread = (tables[1] - tables[0]).std(axis=0)
    # The floor at zero clips some errors; the ordering and the size at 24 h remain.
    assert spread[23] == pytest.approx(0.05, rel=0.2)
    assert spread[23] > 1.5 * spread[5] > 1.5 * spread[0] > 0


def test_noise_comes_on_top_of_the_sgip_forecast():
    tables = []
    for options in ({"forecast": "sgip"}, {"forecast": "noisy", "forecast_noise": 0.0}):
        env = VCCEnv(month="2020-09", days=2, **options)
        env.reset(seed=0)
        tables.append(env.simulator.world.forecast[0])
    np.testing.assert_array_equal(*tables)


def test_the_same_jobs_meet_every_year():
    days = [VCCEnv(month=month) for month in ("2019-05", "2021-05")]
    for env in days:
        env.reset(seed=11)
    a, b = (env.simulator.world for env in days)
    np.testing.assert_array_equal(a.no_delay, b.no_delay)
    assert not np.array_equal(a.moer, b.moer)


def test_resampled_days_keep_their_weekday_and_warm_start_fills_the_cluster():
    env = VCCEnv()
    env.reset(seed=2)
    days = env.simulator.world.days[0]
    np.testing.assert_array_equal(days % 7, np.arange(-1, 30) % 7)
    warm, cold = VCCEnv(), VCCEnv(warm_start=False)
    first = []
    for each in (warm, cold):
        each.reset(seed=2)
        first.append(each.step(np.ones(1))[4]["load"])
    assert first[0] > 1.3 * first[1]
    replay = VCCEnv(resample_days=False)
    replay.reset(seed=5)
    np.testing.assert_array_equal(replay.simulator.world.days[0], np.arange(-1, 30) % 30)


def test_capacity_follows_the_target_load():
    env = VCCEnv(target_load=0.65)
    trace = env.simulator.trace
    assert env.simulator.capacity == pytest.approx(trace.mean_load / 0.65 * layout.MICRO, abs=1)
    env.reset(seed=0)
    for _ in range(720):
        env.step(np.ones(1))
    assert env.simulator.episode_metrics(0)["utilization"] == pytest.approx(0.65, abs=0.1)
