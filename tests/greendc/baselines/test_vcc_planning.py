"""The planners' parts against definitions and hand-solved instances, and the plans that they make."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from vcc_small import fresh, play, random_trace, series_of, small_config, trace_of

from greendc.baselines.vcc import AlwaysOn, DayAhead, MoerThreshold, Rolling
from greendc.baselines.vcc.arrivals import CLASSES, SHORTEST, ExpectedArrivals, duration_class
from greendc.baselines.vcc.fluid import FluidModel, Window
from greendc.baselines.vcc.rolling import longest_best_prefix, usable_slack, value_of_running
from greendc.vcc import VCCConfig, VCCSimulator
from greendc.vcc.snapshot import UnfinishedJobs


def jobs_of(*jobs):
    """Flexible jobs of ``(cpu, left, delay)``, waiting."""
    cpu, left, delay = (np.array(values) for values in zip(*jobs, strict=True))
    everywhere = np.ones(len(cpu), dtype=np.bool_)
    return UnfinishedJobs(np.rint(cpu * 1e6).astype(np.int64), left, delay, everywhere, ~everywhere)


def model_without_arrivals(capacity=1.0, hours=4):
    """A fluid model of a cluster to which next to nothing comes."""
    config = small_config(workload=trace_of((0, 1, 1e-6, 100)), capacity=capacity)
    model = FluidModel(VCCSimulator(config), hours)
    for array in (model._arrivals.inflexible, model._arrivals.work, model._arrivals.cpu):
        array[:] = 0
    return model


# --- expected arrivals -----------------------------------------------------------------------------


def test_expected_arrivals_are_the_mean_day():
    trace = random_trace(3, days=4)
    hours = 30
    expected = ExpectedArrivals(trace, hours)
    flexible = ~trace.inflexible
    for start in (0, 7, 23):
        inflexible = np.zeros(hours)
        work, cpu = np.zeros((CLASSES, hours)), np.zeros((CLASSES, hours))
        for k in range(hours):  # what comes in hour k from now, as on every day of the trace
            arriving = np.flatnonzero(trace.submit_hour % 24 == (start + k) % 24)
            for j in arriving:
                size = trace.cpu[j] / 1e6 / trace.days
                for later in range(k, hours):
                    if flexible[j]:
                        c = duration_class(trace.duration[j])
                        work[c, later] += size * min(trace.duration[j], later - k + 1)
                        cpu[c, later] += size
                    elif later - k < trace.duration[j]:
                        inflexible[later] += size
        np.testing.assert_allclose(expected.inflexible[start], inflexible, atol=1e-12)
        np.testing.assert_allclose(expected.work[start], work, atol=1e-12)
        np.testing.assert_allclose(expected.cpu[start], cpu, atol=1e-12)


def test_duration_classes_begin_where_they_say():
    assert duration_class(SHORTEST).tolist() == list(range(CLASSES))
    assert duration_class(SHORTEST[1:] - 1).tolist() == list(range(CLASSES - 1))


# --- the fluid programme ---------------------------------------------------------------------------


def test_lookahead_of_known_jobs():
    model = model_without_arrivals()
    jobs = UnfinishedJobs(
        cpu=np.array([300_000, 500_000, 200_000]),
        left=np.array([2, 3, 1]),
        delay=np.array([0, 0, 5]),
        flexible=np.array([False, True, True]),
        running=np.array([True, True, False]),
    )
    window = model.window(jobs, 0, 4, np.array([2, 9]))
    np.testing.assert_allclose(window.inflexible, [0.3, 0.3, 0, 0])
    np.testing.assert_allclose(window.upper[1], [0.5, 1.0, 1.5, 1.5])  # 3 hours left: class of 2 to 3
    np.testing.assert_allclose(window.lower[1], [0, 0, 0.5, 1.0])
    np.testing.assert_allclose(window.upper[0], [0.2] * 4)
    np.testing.assert_allclose(window.lower[0], [0] * 4)
    np.testing.assert_allclose(window.rate[:2], [[0.2] * 4, [0.5] * 4])


def test_work_goes_to_the_cheapest_hours_that_deadlines_allow():
    model = model_without_arrivals()
    jobs = jobs_of((0.5, 2, 0))
    price = np.array([3.0, 1.0, 4.0, 2.0])
    free = model.solve(model.window(jobs, 0, 4, np.array([2])), price, 100.0, 100.0)
    np.testing.assert_allclose(free.flexible, [0, 0.5, 0, 0.5], atol=1e-9)
    np.testing.assert_allclose(free.capacity_price, 0, atol=1e-9)
    hurried = model.solve(model.window(jobs, 0, 4, np.array([1])), price, 100.0, 100.0)
    np.testing.assert_allclose(hurried.flexible, [0.5, 0.5, 0, 0], atol=1e-9)


def test_the_price_of_capacity_is_what_one_more_unit_would_save():
    model = model_without_arrivals(capacity=0.5)
    jobs = jobs_of((0.5, 1, 0), (0.3, 1, 0))
    price = np.array([5.0, 1.0, 3.0, 4.0])
    plan = model.solve(model.window(jobs, 0, 4, np.array([3, 3])), price, 100.0, 100.0)
    np.testing.assert_allclose(plan.flexible, [0, 0.5, 0.3, 0], atol=1e-9)
    np.testing.assert_allclose(plan.capacity_price, [0, 3.0 - 1.0, 0, 0], atol=1e-9)


def test_overload_is_bought_where_deadlines_exceed_the_capacity():
    model = model_without_arrivals(capacity=0.4)
    jobs = jobs_of((0.5, 1, 30), (0.5, 1, 30))
    plan = model.solve(model.window(jobs, 0, 4, np.array([0, 0])), np.ones(4), 7.0, 0.0)
    np.testing.assert_allclose(plan.flexible, [1.0, 0, 0, 0], atol=1e-9)
    assert plan.capacity_price[0] == pytest.approx(7.0)


def test_work_is_left_over_where_that_is_cheaper():
    model = model_without_arrivals()
    jobs = jobs_of((0.5, 1, 0))
    window = model.window(jobs, 0, 4, np.array([4]))
    assert model.solve(window, np.full(4, 2.0), 100.0, 1.0).flexible.sum() == pytest.approx(0)
    assert model.solve(window, np.full(4, 2.0), 100.0, 3.0).flexible.sum() == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(20))
def test_solutions_keep_their_bounds_and_more_room_never_costs_more(seed):
    rng = np.random.default_rng(seed)
    hours = 6
    model = model_without_arrivals(hours=hours)
    jobs = jobs_of(*[(rng.uniform(0.01, 0.3), int(rng.integers(1, 9)), 0) for _ in range(12)])
    window = model.window(jobs, 0, hours, rng.integers(0, 9, 12))
    window = window._replace(inflexible=rng.uniform(0, 0.5, hours))
    price = rng.random(hours)
    costs = []
    for model.capacity in (0.5, 1.0, 4.0):
        plan = model.solve(window, price, 10.0, 0.5)
        done = plan.flexible.cumsum()
        assert (done <= window.upper.sum(axis=0) + 1e-9).all()
        assert (done >= window.lower.sum(axis=0) - 1e-9).all()
        assert (plan.capacity_price >= -1e-9).all()
        assert (plan.capacity_price <= 10 + 1e-9).all()
        overload = np.maximum(0, plan.flexible - np.maximum(0, model.capacity - window.inflexible))
        costs.append(price @ plan.flexible + 10 * overload.sum() - 0.5 * done[-1])
    assert costs[0] >= costs[1] - 1e-9
    assert costs[1] >= costs[2] - 1e-9


# --- what running a job is worth -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_value_of_running_is_the_difference_of_the_best_plans(seed):
    rng = np.random.default_rng(seed)
    price = rng.random(9)
    left, slack = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    window = range(left + slack)
    with_now, without = (
        min(
            sum(price[list(hours)])
            for hours in itertools.combinations(window, left)
            if (0 in hours) == runs_now
        )
        for runs_now in (True, False)
    )
    value = value_of_running(price, np.array([left]), np.array([slack]), np.array([99.0]), False)
    assert value[0] == pytest.approx(without - with_now)


def test_value_of_running_at_the_edges():
    price = np.array([5.0, 1.0, 2.0, 3.0])
    late = np.array([99.0])

    def value(left, slack, to_the_end=False):
        return value_of_running(price, np.array([left]), np.array([slack]), late, to_the_end)[0]

    assert value(1, 0) == 99  # no slack left
    assert value(1, -3) == 99
    assert value(100, 1) == 3 - 5  # must run 3 of the 4 hours: without now, all of the others
    assert value(100, 2) == 2 - 5
    assert value(100, 2, to_the_end=True) == 99  # all of it that fits must be done
    assert value(2, 24, to_the_end=True) == 2 - 5
    assert value_of_running(price[:1], np.array([1]), np.array([9]), late, True)[0] == 99


def test_usable_slack_of_long_jobs_is_spread_over_their_life():
    left, delay = np.array([5, 5, 5, 96, 96]), np.array([0, 20, 30, 0, 20])
    assert usable_slack(left, delay).tolist() == [24, 4, -6, 6, 1]


def test_longest_best_prefix():
    for seed in range(50):
        values = np.random.default_rng(seed).integers(-3, 4, 8).astype(float)
        sums = [values[:k].sum() for k in range(9)]
        assert longest_best_prefix(values) == max(k for k in range(9) if sums[k] == max(sums))
    assert longest_best_prefix(np.zeros(0)) == 0


# --- plans in the environment ----------------------------------------------------------------------


def emissions_with(clean_hours, dirty=0.5):
    """Emissions that are zero in these hours of the episode."""
    moer = np.full(1000, dirty)
    moer[48 + np.asarray(clean_hours)] = 0.0
    return series_of(moer)


def played_load(policy_class, **options):
    """The loads of an episode under the oracle forecast."""
    options = {"capacity": 1.0, "forecast": "oracle", **options}
    config = small_config(resample_days=False, warm_start=False, **options)
    simulator, observations = fresh(config)
    play(policy_class(simulator), observations)
    return simulator.report.history["load"][0], simulator.episode_metrics(0)


def test_rolling_waits_for_clean_hours():
    one_job = trace_of((3, 2, 0.5, 100), days=2)
    load, metrics = played_load(Rolling, workload=one_job, moer=emissions_with([9, 10, 11]))
    assert np.flatnonzero(load).tolist() in ([9, 10], [10, 11], [9, 11])
    assert metrics["carbon_kg"] == 0
    assert metrics["overdue_work"] == 0


def test_rolling_does_not_wait_beyond_deadlines():
    one_job = trace_of((3, 2, 0.5, 100), days=2)
    load, metrics = played_load(Rolling, workload=one_job, moer=emissions_with([40, 41]))
    assert load.sum() == 1.0
    assert np.flatnonzero(load).max() < 3 + 24 + 2
    assert metrics["overdue_work"] == 0


def test_day_ahead_is_done_by_midnight():
    every_morning = [(24 * day, 2, 0.05, 100) for day in range(2) for _ in range(10)]
    jobs = trace_of(*every_morning, days=2)
    load, _ = played_load(DayAhead, workload=jobs, moer=emissions_with([30, 31]))
    np.testing.assert_allclose(load.reshape(2, 24).sum(axis=1), 1.0)  # not all on the clean second day
    load, metrics = played_load(DayAhead, workload=jobs, moer=emissions_with([20, 21, 44, 45]))
    assert np.flatnonzero(load).tolist() == [20, 21, 44, 45]
    assert metrics["carbon_kg"] == 0


def test_day_ahead_plans_at_midnight_only():
    simulator, observations = fresh(small_config(forecast="oracle"))
    policy = DayAhead(simulator)
    planned = []
    plan = policy.curve
    policy.curve = lambda index, forecast: planned.append(simulator.hour(index)) or plan(index, forecast)
    play(policy, observations)
    assert planned == [0, 24]


def test_day_ahead_plans_at_once_when_it_comes_in_late():
    simulator, observations = fresh(small_config())
    for _ in range(7):
        simulator.step(np.ones((1, 1)), observations)
    curve = DayAhead(simulator).curve(0, np.ones(24))
    assert len(curve) == 17
    policy = DayAhead(simulator)
    assert policy.predict(observations)[0][0, 0] == np.float32(policy._curves[0, 7])


def test_rolling_beats_day_ahead_and_the_threshold():
    config = VCCConfig(month="2019-05", days=10, forecast="sgip")
    totals = {}
    for policy_class in (AlwaysOn, MoerThreshold, DayAhead, Rolling):
        simulator, observations = fresh(config, num_envs=2)
        play(policy_class(simulator), observations)
        totals[policy_class] = np.mean([simulator.episode_metrics(i)["total_cost"] for i in range(2)])
    assert min(totals, key=totals.get) is Rolling
    assert totals[Rolling] < 0.98 * totals[AlwaysOn]


def test_capacity_is_scarce_where_all_work_wants_to_be():
    """Six jobs, and room for two in each of three clean hours."""
    jobs = trace_of(*[(0, 1, 0.5, 100)] * 6, days=2)
    load, metrics = played_load(Rolling, workload=jobs, moer=emissions_with([5, 6, 7]))
    np.testing.assert_allclose(load[5:8], 1.0)
    assert metrics["carbon_kg"] == 0


def test_lookahead_fields_have_a_shape_each():
    simulator, _ = fresh(small_config())
    jobs = simulator.unfinished_jobs(0)
    window = FluidModel(simulator, 24).window(jobs, 0, 24, np.zeros(jobs.flexible.sum(), dtype=int))
    assert isinstance(window, Window)
    assert [part.shape for part in window] == [(CLASSES, 24)] * 3 + [(24,)]
