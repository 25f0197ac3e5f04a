"""Looking into an environment, and copying it."""

from __future__ import annotations

import numpy as np
import pytest
from vcc_cases import random_actions, random_config, reference_of

from greendc.vcc import VCCSimulator


@pytest.mark.parametrize("seed", range(30))
def test_unfinished_jobs_are_the_references_in_the_order_of_their_claim(seed):
    rng = np.random.default_rng(seed)
    simulator = VCCSimulator(random_config(rng))
    simulator.reset_env(0, np.random.default_rng(seed))
    reference = reference_of(simulator, 0)
    out = simulator.empty_observations()
    for hour, action in enumerate(random_actions(rng, simulator.hours).astype(np.float32)):
        jobs = simulator.unfinished_jobs(0)
        assert simulator.hour(0) == hour
        running = [job for job in reference.running if job.left]
        inflexible = [job for job in running if not job.flexible]
        started = sorted((job for job in running if job.flexible), key=lambda job: (job.start, job.id))
        waiting = sorted(reference.waiting, key=lambda job: (job.job_class, job.id))
        flexible = [(job.cpu, job.left, hour - job.submit - job.done) for job in [*started, *waiting]]
        of_flexible = [values[jobs.flexible].tolist() for values in (jobs.cpu, jobs.left, jobs.delay)]
        assert list(zip(*of_flexible, strict=True)) == flexible
        assert jobs.running[jobs.flexible].tolist() == [True] * len(started) + [False] * len(waiting)
        assert sorted(jobs.cpu[~jobs.flexible]) == sorted(job.cpu for job in inflexible)
        assert not jobs.flexible[: len(inflexible)].any()
        simulator.step(np.array([[action]]), out)
        reference.step(float(action))


@pytest.mark.parametrize("seed", range(10))
def test_a_copy_goes_on_like_the_original(seed):
    rng = np.random.default_rng(seed)
    config = random_config(rng, days=3)
    source, copies = VCCSimulator(config, num_envs=2), VCCSimulator(config, num_envs=3)
    for simulator in (source, copies):
        for i in range(simulator.num_envs):
            simulator.reset_env(i, np.random.default_rng(seed + i))
    actions = rng.random((72, 1, 1))
    out, copied_out = source.empty_observations(), copies.empty_observations()
    for hour in range(72):
        if hour == 30:
            copies.copy_env(source, 1, [0, 2])
        source.step(actions[hour].repeat(2, axis=0), out)
        copies.step((actions[hour] if hour >= 30 else 1 - actions[hour]).repeat(3, axis=0), copied_out)
        if hour >= 30:
            for row in (0, 2):
                np.testing.assert_array_equal(copied_out[row], out[1])
                assert copies.rewards[row] == source.rewards[1]
    for row in (0, 2):
        np.testing.assert_array_equal(copies.report.history[row], source.report.history[1])
        assert copies.episode_metrics(row) == source.episode_metrics(1)
    assert (copies.report.history["vcc"][1] != source.report.history["vcc"][1]).any()


def test_copies_need_the_same_configuration():
    rng = np.random.default_rng(0)
    config = random_config(rng)
    with pytest.raises(ValueError, match="same configuration"):
        VCCSimulator(config).copy_env(VCCSimulator(random_config(rng)), 0, [0])
