"""Laws of the resource pool that hold whatever the configuration and the actions."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_cases import FixedWorkload, job_arrays, random_config, sensible_or_any
from pool_reference import ReferencePool
from pool_reference_shown import episode_metrics

from greendc.resource_pool import ResourcePoolConfig, ResourcePoolEnv, ResourcePoolSimulator
from greendc.resource_pool.view import DARK, FREE, STATUS_NAMES

SEEDS = st.integers(0, 2**32 - 1)
FUTURE, WAITING, RESERVED, RUNNING, FINISHED, LEFT = range(len(STATUS_NAMES))


def simulator_and_rng(seed, **fixed):
    rng = np.random.default_rng(seed)
    simulator = ResourcePoolSimulator(random_config(rng, **fixed))
    simulator.reset_env(0, np.random.default_rng(seed))
    return simulator, rng


def play(simulator, rng):
    """Step with mostly valid actions until the episode is over."""
    out = simulator.empty_observations()
    while not simulator.truncated[0]:
        simulator.step(np.array([sensible_or_any(rng, simulator.action_masks()[0])]), out)
        yield out


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_units_are_used_once_in_blocks_and_only_with_power(seed):
    simulator, rng = simulator_and_rng(seed)
    config = simulator.config
    for _ in play(simulator, rng):
        view = simulator.view()
        table, cells, levels = view.job_table(), view.cell_jobs(), view.levels
        taken = np.zeros_like(cells)
        for job in view.placed:
            first, last = max(table["start"][job] - view.now, 0), table["end"][job] - view.now
            assert last <= config.horizon
            for k in range(config.resource_types):
                block, need = table["block"][job, k], table["units"][job, k]
                assert block >= 0 and block + need <= config.units
                columns = slice(k * config.units + block, k * config.units + block + need)
                taken[first:last, columns] += 1
                brown = config.power == "trace" and config.site.grid == "qos_above"
                if not (brown and table["qos"][job] > config.site.grid_qos_above):
                    assert need == 0 or block + need <= levels[0] or first > 0, "runs in the dark"
        assert taken.max(initial=0) <= 1
        np.testing.assert_array_equal(taken == 1, cells >= 0)
        dark = np.tile(np.arange(config.units) >= levels[:, None], (1, config.resource_types))
        np.testing.assert_array_equal(cells == DARK, dark & (taken == 0))
        np.testing.assert_array_equal(cells == FREE, ~dark & (taken == 0))


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_every_job_is_in_exactly_one_place(seed):
    simulator, rng = simulator_and_rng(seed)
    config = simulator.config
    for out in play(simulator, rng):
        view = simulator.view()
        status = view.job_table()["status"]
        waiting, placed = view.queue.tolist(), view.placed.tolist()
        assert sorted(waiting) == np.flatnonzero(status == WAITING).tolist()
        assert placed == np.flatnonzero((status == RESERVED) | (status == RUNNING)).tolist()
        assert (status != FUTURE).all()
        assert out["jobs"][0, :, 0].sum() == min(len(waiting), config.ready_pool_size)
        assert simulator.observation_space.contains({key: values[0] for key, values in out.items()})
        arrived = (simulator.workload.jobs.arrival <= view.now).sum()
        assert len(status) == arrived


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_value_and_work_are_conserved_through_suspensions(seed):
    simulator, rng = simulator_and_rng(seed, suspend=True, skip_forced=False, start_delay=0, end_delay=0)
    jobs = simulator.workload.jobs
    worked = np.zeros(len(jobs), int)
    view = simulator.view()
    running = np.zeros(len(jobs), bool)
    while not simulator.truncated[0]:
        before = view.now
        # A step of time is worked by what runs when it begins: here, after the last decision in it.
        running[:] = False
        placed = view.placed
        table = view.job_table()
        running[placed[table["status"][placed] == RUNNING]] = True
        mask = simulator.action_masks()[0]
        simulator.step(np.array([sensible_or_any(rng, mask)]), simulator.empty_observations())
        if view.now > before:
            worked += running
            table = view.job_table()
            done = table["status"] == FINISHED
            np.testing.assert_array_equal(worked[: len(done)][done], jobs.duration[: len(done)][done])
            waits = table["status"] == WAITING
            left = (jobs.duration - worked)[: len(waits)]
            np.testing.assert_array_equal(table["remaining"][waits], left[waits])


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_energy_balances_in_every_step(seed):
    simulator, rng = simulator_and_rng(seed, power="trace", skip_forced=False)
    battery = simulator.config.site.battery
    before, stored = simulator.episode_metrics(0), simulator.view().stored_kwh
    for _ in play(simulator, rng):
        now = simulator.episode_metrics(0)
        gain = {key: now[key] - before[key] for key in now if key.endswith("_kwh")}
        sources = gain["solar_kwh"] + gain["wind_kwh"] + gain["battery_discharged_kwh"] + gain["brown_kwh"]
        sinks = gain["critical_kwh"] + gain["pool_kwh"] + gain["battery_charged_kwh"] + gain["curtailed_kwh"]
        assert sources == pytest.approx(sinks, abs=1e-9)
        change = battery.efficiency * gain["battery_charged_kwh"] - gain["battery_discharged_kwh"]
        assert simulator.view().stored_kwh - stored == pytest.approx(change, abs=1e-9)
        before, stored = now, simulator.view().stored_kwh


@settings(max_examples=80, deadline=None)
@given(SEEDS)
def test_exact_forecasts_break_nothing(seed):
    simulator, rng = simulator_and_rng(seed, forecast_error=0.0)
    levels = None
    for _ in play(simulator, rng):
        view = simulator.view()
        if levels is not None and view.now == levels[0] + 1:
            assert (view.levels[:-1] >= levels[1][1:]).all(), "a later forecast promises less"
        levels = view.now, view.levels
    metrics = simulator.episode_metrics(0)
    assert metrics["broken_reservations"] == 0 and metrics["power_suspensions"] == 0


def test_wrong_forecasts_do_break_reservations():
    broken = 0.0
    for seed in range(10):
        simulator, rng = simulator_and_rng(seed, forecast_error=0.3, power="random", power_level=0.7)
        for _ in play(simulator, rng):
            pass
        metrics = simulator.episode_metrics(0)
        broken += metrics["broken_reservations"] + metrics["power_suspensions"]
    assert broken > 0


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_masks_are_exactly_the_actions_that_place_a_job(seed):
    simulator, rng = simulator_and_rng(seed, skip_forced=False)
    last = simulator.config.ready_pool_size + 1
    out = simulator.empty_observations()
    simulator.observe(out)
    while not simulator.truncated[0]:
        mask = simulator.action_masks()[0]
        np.testing.assert_array_equal(out["action_mask"][0], mask)
        queue = simulator.view().queue.tolist()
        for action in range(last):
            trial = copy.deepcopy(simulator)
            trial.step(np.array([action]), trial.empty_observations())
            placed = trial.step_info["time_advanced"][0] == 0
            assert placed == mask[action]
            assert trial.episode_metrics(0)["invalid_actions"] - simulator.episode_metrics(0)[
                "invalid_actions"
            ] == (not placed)
            if placed and action < last - 1:
                assert queue[action] in trial.view().placed
        assert mask[last]
        simulator.step(np.array([int(rng.choice(np.flatnonzero(mask)))]), out)


def best_value(pool: ReferencePool) -> float:
    """The most on-time value that any sequence of actions collects, by looking at all of them."""
    if pool.over():
        return episode_metrics(pool)["total_job_value"]
    best = 0.0
    for action in np.flatnonzero(pool.mask()):
        trial = copy.deepcopy(pool)
        trial.step(int(action))
        best = max(best, best_value(trial))
    return best


@settings(max_examples=25, deadline=None, derandomize=True)
@given(SEEDS)
def test_more_power_never_lowers_the_optimum(seed):
    rng = np.random.default_rng(seed)
    count = 3
    jobs = job_arrays(
        *sorted(
            (
                int(rng.integers(0, 2)),
                int(rng.integers(1, 3)),
                (int(rng.integers(1, 4)), int(rng.integers(0, 4))),
                float(rng.uniform(0.3, 1.0)),
            )
            for _ in range(count)
        )
    )
    config = ResourcePoolConfig(
        units=4,
        horizon=4,
        ready_pool_size=count,
        episode_steps=4,
        workload=FixedWorkload(jobs),
        power="random",
        power_level=0.6,
    )
    levels = rng.uniform(0.2, 1.0, (8, 1))
    more = np.minimum(levels + rng.uniform(0.0, 0.5, (8, 1)), 1.0)
    rest = np.zeros((8, 4))
    optima = [
        best_value(ReferencePool(config, jobs, np.hstack([series, rest]), 1.0)) for series in (levels, more)
    ]
    assert optima[1] >= optima[0]


def test_looking_in_vain_for_a_place_changes_nothing() -> None:
    """``place`` that finds none leaves masks, observations and what follows as they were."""
    in_vain = 0
    for seed in range(12):
        env = ResourcePoolEnv(units=4, offered_load=1.4, episode_steps=60, horizon=40)
        env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(60):
            other = copy.deepcopy(env)
            for job in other.simulator.view().queue:
                if other.simulator.place(0, int(job), now_only=True) >= 0:
                    break
                in_vain += 1
            else:
                np.testing.assert_array_equal(env.action_masks(), other.action_masks())
                for action in np.flatnonzero(env.action_masks()):
                    ours, theirs = (copy.deepcopy(each).step(action) for each in (env, other))
                    for key, values in ours[0].items():
                        np.testing.assert_array_equal(values, theirs[0][key])
            *_, truncated, _ = env.step(rng.choice(np.flatnonzero(env.action_masks())))
            if truncated:
                break
    assert in_vain > 100
