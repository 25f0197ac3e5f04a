"""The bound on a month's cost: below every policy, and exact where all is known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from vcc_small import fresh, play, random_trace, series_of, small_config, trace_of

from greendc.baselines import make_policy
from greendc.baselines.linear import NoBoundError
from greendc.baselines.vcc.best_known import CurveSearch
from greendc.baselines.vcc.bound import cost_bound


class Holder:
    def __init__(self, simulator):
        self.simulator = simulator


def total_cost(simulator, index=0):
    return simulator.episode_metrics(index)["total_cost"]


@pytest.mark.parametrize("seed", range(12))
def test_no_policy_undercuts_it(seed):
    rng = np.random.default_rng(seed)
    config = small_config(
        days=int(rng.integers(1, 4)),
        workload=random_trace(seed, jobs_per_day=int(rng.choice([30, 80]))),
        target_load=float(rng.choice([0.4, 0.65, 0.8])),
        warm_start=bool(rng.integers(2)),
        evict=bool(rng.integers(2)),
        slo_weight=float(rng.choice([0.1, 1.0])),
        forecast="oracle",
    )
    simulator, observations = fresh(config, seed=seed)
    bound = cost_bound(simulator).value
    best = np.inf
    for name in ("always_on", "moer_threshold", "rolling", "day_ahead"):
        simulator, observations = fresh(config, seed=seed)
        play(make_policy(name, Holder(simulator)), observations)
        assert total_cost(simulator) >= bound - 1e-6, name
        best = min(best, total_cost(simulator))
    for _ in range(10):
        simulator, observations = fresh(config, seed=seed)
        for _ in range(simulator.hours):
            simulator.step(rng.uniform(0, 1, (1, 1)) ** rng.choice([0.3, 1.0, 3.0]), observations)
        assert total_cost(simulator) >= bound - 1e-6
    assert bound >= 0.5 * best  # it says something


def test_it_does_not_matter_what_has_been_done():
    simulator, observations = fresh(small_config())
    before = cost_bound(simulator).value
    for _ in range(20):
        simulator.step(np.array([[0.3]]), observations)
    assert cost_bound(simulator).value == pytest.approx(before, rel=1e-9)


def test_a_job_that_can_wait_runs_in_the_cleanest_hours():
    # Two hours of work, submitted at 2, in a day whose cleanest hours are 10 and 20.
    moer = np.full(400, 0.5)
    moer[48 + 10], moer[48 + 20] = 0.1, 0.2
    trace = trace_of((2, 2, 0.25, 105), (3, 1, 0.5, 200))
    config = small_config(
        days=1, moer=series_of(moer), workload=trace, capacity=1.0, warm_start=False, resample_days=False
    )
    simulator, observations = fresh(config)
    expected = 0.5 * 0.5 + 0.25 * (0.1 + 0.2)
    assert cost_bound(simulator).value == pytest.approx(expected)
    for hour in range(24):
        simulator.step(np.array([[1.0 if hour in (10, 20) else 0.0]]), observations)
    assert total_cost(simulator) == pytest.approx(expected)


def test_undone_work_is_charged_where_carbon_costs_more():
    moer = np.full(400, 5.0)
    trace = trace_of((2, 2, 0.25, 105))
    config = small_config(
        days=1, moer=series_of(moer), workload=trace, capacity=1.0, warm_start=False, resample_days=False
    )
    assert cost_bound(fresh(config)[0]).value == pytest.approx(0.25 * 2)


def test_capacity_limits_how_much_can_move():
    # Four jobs of half a machine: only two fit in the one clean hour.
    moer = np.full(400, 0.5)
    moer[48 + 10] = 0.0
    trace = trace_of(*[(2, 1, 0.5, 105)] * 4)
    config = small_config(
        days=1, moer=series_of(moer), workload=trace, capacity=1.0, warm_start=False, resample_days=False
    )
    assert cost_bound(fresh(config)[0]).value == pytest.approx(0.5 * 0.5 * 2)


def test_it_is_below_what_a_search_finds():
    simulator, _ = fresh(small_config(days=3))
    bound = cost_bound(simulator).value
    search = CurveSearch(simulator, 0)
    found = search.metrics(search.run([], budget=200))["total_cost"]
    assert 0.6 * found <= bound <= found


def test_where_evictions_lose_work_it_says_so():
    with pytest.raises(NoBoundError, match="eviction_loss_hours=1"):
        cost_bound(fresh(small_config(eviction_loss_hours=1))[0])
