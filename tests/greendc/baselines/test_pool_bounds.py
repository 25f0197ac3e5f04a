"""Upper bounds of the resource pool: exact on small instances, above every policy on others."""

from __future__ import annotations

import itertools
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from heuristic_cases import job_arrays, pool_with, random_config
from scipy import sparse

from greendc.baselines import make_policy
from greendc.baselines.linear import NoBoundError, Programme
from greendc.baselines.resource_pool.cpsat import ScheduleModel, clairvoyant_optimum, replay
from greendc.baselines.resource_pool.instance import recorded_instance
from greendc.baselines.resource_pool.lp_bound import lp_bound
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator

needs_cpsat = pytest.mark.skipif(find_spec("ortools") is None, reason="the extra 'oracle' is not installed")


class Holder:
    def __init__(self, simulator):
        self.simulator = simulator


def tiny_pool(seed, **options):
    """Up to five jobs on two to four units for eight steps, under any power."""
    rng = np.random.default_rng(seed)
    n, types, units = int(rng.integers(2, 6)), int(rng.integers(1, 3)), int(rng.integers(2, 5))
    jobs = [
        (
            int(arrival),
            int(rng.integers(1, 5)),
            (int(rng.integers(1, units + 1)), *rng.integers(0, units + 1, types - 1).tolist()),
            float(rng.uniform(0.4, 1.0)),
        )
        for arrival in np.sort(rng.integers(0, 4, n))
    ]
    power = {"power": "markov", "power_low": 0.6} if rng.random() < 0.5 else {}
    small = {"units": units, "resource_types": types, "horizon": 12, "episode_steps": 8, **power, **options}
    return pool_with(*jobs, **small)[0]


def brute_force(instance, contiguous):
    """The greatest value, by trying every start and place of every job."""
    types = instance.need.shape[1]
    taken = np.zeros((instance.steps, types, instance.units), bool)
    taken[np.arange(instance.units) >= instance.level[:, None, None].repeat(types, 1)] = True
    suffix = np.append(np.cumsum(instance.value[::-1])[::-1], 0.0)
    best = 0.0

    def fits(rows, j):
        """Yield every way to place job ``j`` in these rows, as masks of units by type."""
        need = instance.need[j]
        if not contiguous:
            if ((instance.units - taken[rows].sum(axis=2)) >= need).all():
                yield None
            return
        for first in itertools.product(*(range(instance.units - int(u) + 1) if u else (0,) for u in need)):
            block = np.zeros((types, instance.units), bool)
            for k, f in enumerate(first):
                block[k, f : f + need[k]] = True
            if not (taken[rows] & block).any():
                yield block

    def search(j, value):
        nonlocal best
        best = max(best, value)
        if j == len(instance) or value + suffix[j] <= best:
            return
        for start in range(instance.release[j], instance.due[j] - instance.length[j] + 1):
            rows = slice(start, start + instance.length[j])
            for block in fits(rows, j):
                before = taken[rows].copy()
                if block is not None:
                    taken[rows] |= block
                else:  # which units does not matter: take any that are free, step by step
                    for h, k in itertools.product(range(rows.start, rows.stop), range(types)):
                        taken[h, k, np.flatnonzero(~taken[h, k])[: instance.need[j, k]]] = True
                search(j + 1, value + instance.value[j])
                taken[rows] = before
        search(j + 1, value)

    search(0, 0.0)
    return best


@needs_cpsat
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_the_optimum_is_that_of_brute_force(first):
    below_contiguous = below_capacity = 0
    for seed in range(first, first + 50):
        pool = tiny_pool(seed)
        instance = recorded_instance(pool)
        contiguous, capacity = brute_force(instance, True), brute_force(instance, False)
        optimum = clairvoyant_optimum(pool, workers=1)
        assert optimum.proved
        assert optimum.solver_value == pytest.approx(contiguous, abs=1e-9), seed
        assert optimum.bound == pytest.approx(contiguous, rel=1e-6, abs=1e-5)
        assert optimum.value <= optimum.bound + 1e-9
        schedule = optimum.schedule
        assert replay(pool, 0, schedule.job, schedule.start).value == optimum.value
        any_units = clairvoyant_optimum(pool, placement="capacity", workers=1)
        assert any_units.bound == pytest.approx(capacity, rel=1e-6, abs=1e-5), seed
        assert lp_bound(instance).value >= capacity - 1e-6
        below_contiguous += optimum.value < contiguous - 1e-6
        below_capacity += contiguous < capacity - 1e-6
    assert below_contiguous <= 5  # rarely does taking the lowest block cost anything
    assert below_capacity <= 15


@needs_cpsat
def test_playable_schedules_are_played_as_they_are():
    for seed in range(40):
        pool = tiny_pool(seed, episode_steps=12)
        instance = recorded_instance(pool)
        nothing = replay(pool, 0, np.zeros(0, np.int64), np.zeros(0, np.int64))
        found = ScheduleModel(instance, "lowest", nothing).solve(20.0, 1)
        played = replay(pool, 0, found.job, found.start)
        assert played.value == pytest.approx(found.value)
        np.testing.assert_array_equal(played.job, found.job)
        np.testing.assert_array_equal(played.start, found.start)
        np.testing.assert_array_equal(played.block, found.block)


@needs_cpsat
def test_solved_by_hand():
    # Three jobs of 3 steps for the whole pool, due at 6 all of them: the two best fit.
    jobs = [(0, 3, (4, 0), 0.48), (0, 3, (4, 0), 0.5), (0, 3, (4, 0), 0.49)]
    pool, _ = pool_with(*jobs, episode_steps=10)
    optimum = clairvoyant_optimum(pool)
    assert optimum.value == pytest.approx(12 * (0.5 + 0.49))
    assert sorted(optimum.schedule.job.tolist()) == [1, 2]
    assert sorted(optimum.schedule.start.tolist()) == [0, 3]


@needs_cpsat
def test_the_optimum_is_of_one_environment_of_a_batch():
    # Of the others one has begun no episode, and one has ended it.
    config = ResourcePoolConfig(units=4, horizon=20, episode_steps=20, skip_forced=True)
    batch, single = ResourcePoolSimulator(config, 3), ResourcePoolSimulator(config)
    batch.reset_env(1, np.random.default_rng(5))
    single.reset_env(0, np.random.default_rng(5))
    found, expected = clairvoyant_optimum(batch, 1, workers=1), clairvoyant_optimum(single, workers=1)
    assert found.value == pytest.approx(expected.value)
    assert found.value > 0.0
    with pytest.raises(RuntimeError, match="environment 0: no episode has begun"):
        clairvoyant_optimum(batch, 0)


def test_a_copy_of_one_environment_goes_on_by_itself():
    config = ResourcePoolConfig(units=4, horizon=20, episode_steps=30, offered_load=2.0)
    batch, single = ResourcePoolSimulator(config, 2), ResourcePoolSimulator(config)
    batch.reset_env(0, np.random.default_rng(0))
    for pool, index in ((batch, 1), (single, 0)):
        pool.reset_env(index, np.random.default_rng(1))
        pool.step(np.full(pool.num_envs, 11), pool.empty_observations())
    copied, before = batch.alone(1), [array.copy() for array in batch.state]
    for pool in (copied, single):
        policy, out = make_policy("hvf", Holder(pool)), pool.empty_observations()
        while not pool.truncated[0]:
            pool.observe(out)
            pool.step(policy.predict(out)[0], out)
    assert copied.episode_metrics(0) == single.episode_metrics(0)
    for array, was in zip(batch.state, before, strict=True):
        np.testing.assert_array_equal(array, was)


@needs_cpsat
def test_suspension_is_allowed_for_in_the_bound():
    # A long job with just enough slack to make room for a short one that leaves no choice.
    jobs = [(0, 6, (4, 0), 6 / 8), (2, 2, (4, 0), 1.0)]
    without, _ = pool_with(*jobs, episode_steps=10)
    instance = recorded_instance(without)
    assert clairvoyant_optimum(without).value == pytest.approx(max(24 * 6 / 8, 8.0))
    with_suspension = recorded_instance(pool_with(*jobs, episode_steps=10, suspend=True)[0])
    assert with_suspension.may_suspend
    assert lp_bound(with_suspension).value == pytest.approx(24 * 6 / 8 + 8.0)
    assert lp_bound(instance).value < lp_bound(with_suspension).value


@needs_cpsat
def test_more_of_anything_is_never_worth_less():
    for seed in range(12):
        config = {"units": 4, "resource_types": 2, "episode_steps": 40, "offered_load": 1.2, "horizon": 31}
        values = []
        for level in (0.5, 0.75, 1.0):
            pool = ResourcePoolSimulator(ResourcePoolConfig(power_level=level, **config))
            pool.reset_env(0, np.random.default_rng(seed))
            instance = recorded_instance(pool)
            values.append((lp_bound(instance).value, clairvoyant_optimum(pool, time_limit=20).bound))
        lp, exact = np.array(values).T
        assert (np.diff(lp) >= -1e-6).all()
        assert (np.diff(exact) >= -1e-4).all()
        assert (lp >= exact - 1e-4).all()


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_policy_passes_a_bound(first):
    tight = []
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        config = random_config(rng, suspend=bool(seed % 3 == 0), units=int(rng.choice([4, 10])))
        pool = ResourcePoolSimulator(config)
        policies = [make_policy(name, Holder(pool)) for name in ("deadline_never", "density")]
        policies += [make_policy("rollout", Holder(pool), futures=4), None]
        for policy in policies:
            out = pool.empty_observations()
            pool.reset_env(0, np.random.default_rng(seed))
            bound = lp_bound(recorded_instance(pool)).value
            pool.observe(out)
            while pool.view().now < config.episode_steps:
                if policy is None:
                    actions = rng.choice(np.flatnonzero(pool.action_masks()[0]))[None]
                else:
                    actions = policy.predict(out)[0]
                pool.step(actions, out)
            value = pool.episode_metrics(0)["total_job_value"]
            assert value <= bound + 1e-6, (seed, config)
            tight.append(value / bound if bound > 0 else 1.0)
    assert max(tight) > 0.8


@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize("energy_kwh", [0.0, 1000.0])
def test_with_an_open_grid_the_battery_binds_nothing(energy_kwh, suspend):
    site = {"grid": "open", "battery": {"energy_kwh": energy_kwh}}
    options = {"units": 4, "episode_steps": 40, "suspend": suspend}
    config = ResourcePoolConfig(power="trace", site=site, **options)
    pools = [ResourcePoolSimulator(config), ResourcePoolSimulator(ResourcePoolConfig(**options))]
    for pool in pools:
        pool.reset_env(0, np.random.default_rng(0))
    site_bound, full_bound = (lp_bound(recorded_instance(pool)).value for pool in pools)
    assert site_bound == full_bound
    policy, out = make_policy("deadline_never", Holder(pools[0])), pools[0].empty_observations()
    pools[0].observe(out)
    while not pools[0].truncated[0]:
        pools[0].step(policy.predict(out)[0], out)
    assert 0.0 < pools[0].episode_metrics(0)["total_job_value"] <= site_bound + 1e-6


@needs_cpsat
def test_the_optimum_is_no_less_than_any_policy():
    for seed in range(6):
        config = ResourcePoolConfig(episode_steps=60, offered_load=0.8, power="markov", power_low=0.5)
        pool = ResourcePoolSimulator(config)
        pool.reset_env(0, np.random.default_rng(seed))
        optimum = clairvoyant_optimum(pool, time_limit=20)
        assert optimum.value <= optimum.bound + 1e-9
        assert optimum.bound <= lp_bound(recorded_instance(pool)).value + 1e-4
        for name in ("sjf", "qos", "deadline_never", "rollout"):
            pool.reset_env(0, np.random.default_rng(seed))
            policy, out = make_policy(name, Holder(pool)), pool.empty_observations()
            pool.observe(out)
            while pool.view().now < 60:
                pool.step(policy.predict(out)[0], out)
            assert pool.episode_metrics(0)["total_job_value"] <= optimum.bound + 1e-6
            if optimum.proved and optimum.value == pytest.approx(optimum.bound):
                assert pool.episode_metrics(0)["total_job_value"] <= optimum.value + 1e-6


@needs_cpsat
def test_without_a_proof_it_bounds_no_worse_than_the_linear_programme():
    pool = ResourcePoolSimulator(ResourcePoolConfig())
    pool.reset_env(0, np.random.default_rng(0))
    optimum = clairvoyant_optimum(pool, time_limit=1.0)
    assert not optimum.proved
    assert optimum.value < optimum.bound <= lp_bound(recorded_instance(pool)).value + 1e-6


def test_a_large_pool_takes_under_a_minute():
    pool = ResourcePoolSimulator(ResourcePoolConfig(units=300, horizon=72, ready_pool_size=25))
    pool.reset_env(0, np.random.default_rng(0))
    bound = lp_bound(recorded_instance(pool))
    assert bound.seconds < 60
    assert 0 < bound.value < pool.state.jobs["value"].sum()


@needs_cpsat
def test_an_episode_without_a_job_that_can_be_on_time():
    pool, _ = pool_with((48, 5, (1, 1), 0.9))
    assert lp_bound(recorded_instance(pool)).value == 0.0
    assert clairvoyant_optimum(pool).value == 0.0


def test_the_hash_is_of_the_sequence():
    digests = {recorded_instance(tiny_pool(seed)).digest() for seed in range(20)}
    assert len(digests) == 20
    assert recorded_instance(tiny_pool(3)).digest() == recorded_instance(tiny_pool(3)).digest()
    jobs = job_arrays((0, 3, (2, 1), 0.5), (1, 2, (1, 0), 0.8))
    pool = ResourcePoolSimulator(ResourcePoolConfig(units=4, episode_steps=20))
    pool.reset_env(0, np.random.default_rng(0), {"jobs": jobs})
    before = recorded_instance(pool).digest()
    out = pool.empty_observations()
    for _ in range(12):
        pool.step(np.array([0]), out)
    assert recorded_instance(pool).digest() == before  # what was done in it does not matter


def test_a_programme_without_a_solution_says_so():
    row = sparse.csr_matrix(np.ones((1, 2)))
    impossible = Programme(np.ones(2), np.ones(2), row, np.array([-1.0]))  # x + y <= -1, x and y at least 0
    with pytest.raises(NoBoundError, match="infeasible"):
        impossible.bound(time_limit=5.0)


@needs_cpsat
def test_what_cannot_be_solved_says_why(monkeypatch):
    jobs = [(0, 3, (2, 1), 0.5)]
    with pytest.raises(NoBoundError, match="suspen"):
        clairvoyant_optimum(pool_with(*jobs, suspend=True)[0])
    with pytest.raises(NoBoundError, match="battery"):
        clairvoyant_optimum(pool_with(*jobs, power="trace")[0])
    with pytest.raises(ValueError, match="placement"):
        clairvoyant_optimum(pool_with(*jobs)[0], placement="anywhere")
    pool, out = pool_with(*jobs)
    pool.step(np.array([11]), out)
    with pytest.raises(ValueError, match="beginning of an episode"):
        clairvoyant_optimum(pool)
    with pytest.raises(RuntimeError, match="has begun"):
        recorded_instance(ResourcePoolSimulator(ResourcePoolConfig()))
    pool = ResourcePoolSimulator(ResourcePoolConfig())
    pool.reset_env(0, np.random.default_rng(0))
    with pytest.raises(NoBoundError, match="no schedule in time_limit"):
        clairvoyant_optimum(pool, time_limit=1e-6)
    with pytest.raises(NoBoundError, match="not solved"):
        lp_bound(recorded_instance(pool), time_limit=1e-9)
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(NoBoundError, match=r"pip install 'sb3-greendc\[oracle\]'"):
        clairvoyant_optimum(pool)
