"""The compiled VCC simulator against its plain reference, and the laws that it must keep."""

from __future__ import annotations

import numpy as np
import pytest
from vcc_cases import random_actions, random_config, reference_of

from greendc.vcc import VCCSimulator, columns, layout


@pytest.mark.parametrize("block", range(10))
def test_kernel_equals_reference(block):
    """1,000 random configurations and action sequences, bit for bit."""
    for case in range(100):
        rng = np.random.default_rng([block, case])
        simulator = VCCSimulator(random_config(rng))
        simulator.reset_env(0, np.random.default_rng(case))
        reference = reference_of(simulator, 0)
        size = simulator.observation_space.shape[0]
        out = simulator.empty_observations()
        simulator.observe(out, 0)
        np.testing.assert_array_equal(simulator.report.raw[0, :size], reference.observation())
        for action in random_actions(rng, simulator.hours).astype(np.float32):
            simulator.step(np.array([[action]]), out)
            reward, info = reference.step(float(action))
            assert simulator.rewards[0] == reward
            assert {key: simulator.step_info[key][0] for key in columns.INFO} == info
            np.testing.assert_array_equal(simulator.report.raw[0, :size], reference.observation())
        cluster = simulator.state.cluster[0]
        assert cluster["evictions"] == reference.evictions
        assert cluster["outside_jobs"] == reference.outside
        assert cluster["lost_work"] == reference.lost
        share = simulator.episode_metrics(0)["flexible_work_done"]
        assert share == pytest.approx(reference.flexible_work_done(), rel=1e-12, abs=0.0)
        assert simulator.state.loads[0].tolist() == reference.machines
        assert simulator.world.no_delay[0].tolist() == reference.no_delay


@pytest.mark.parametrize("seed", range(20))
def test_work_is_conserved_and_machines_are_never_overfull(seed):
    rng = np.random.default_rng(seed)
    simulator = VCCSimulator(random_config(rng), num_envs=3)
    for i in range(3):
        simulator.reset_env(i, np.random.default_rng(i))
    out = simulator.empty_observations()
    for _ in range(simulator.hours):
        simulator.step(rng.random((3, 1)), out)
        assert (simulator.state.loads <= layout.MICRO).all()
        assert (simulator.state.loads >= 0).all()
    for i in range(3):
        metrics = simulator.episode_metrics(i)
        useful = metrics["executed_work"] - metrics["lost_work"]
        assert metrics["submitted_work"] == pytest.approx(useful + metrics["queued_work"], abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_incurred_charges_add_up_to_those_at_day_ends(seed):
    rng = np.random.default_rng(seed)
    config = random_config(rng, slo="overdue", charge="incurred")
    simulator = VCCSimulator(config)
    simulator.reset_env(0, np.random.default_rng(seed))
    out = simulator.empty_observations()
    for action in random_actions(rng, simulator.hours):
        simulator.step(np.array([[action]]), out)
    history = simulator.report.history[0]
    assert history["slo"].sum() == pytest.approx(history["overdue"].sum(), abs=1e-6)


def test_inflexible_jobs_never_wait():
    rng = np.random.default_rng(3)
    simulator = VCCSimulator(random_config(rng, evict=True, days=3))
    simulator.reset_env(0, np.random.default_rng(0))
    out = simulator.empty_observations()
    trace = simulator.trace
    inflexible = trace.job_class < layout.FIRST_FLEXIBLE_CLASS
    days = simulator.world.days[0]
    expected = np.zeros(simulator.hours, dtype=np.int64)
    for slot in range(0 if simulator.config.warm_start else 1, len(days)):
        for j in range(trace.day_offsets[days[slot]], trace.day_offsets[days[slot] + 1]):
            if inflexible[j]:
                first = trace.submit_hour[j] % 24 + 24 * (slot - 1)
                expected[max(0, first) : max(0, first + trace.duration[j])] += trace.cpu[j]
    for _ in range(simulator.hours):
        simulator.step(np.zeros((1, 1)), out)
    loads = simulator.report.history["inflexible_load"][0]
    np.testing.assert_allclose(loads, expected / layout.MICRO, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(simulator.report.history["load"][0], loads)
