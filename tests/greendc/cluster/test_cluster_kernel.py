"""The compiled simulator equals the plain reference bit for bit, on random clusters.

``GREENDC_CLUSTER_WORKLOADS`` sets the number of workloads (default 18); 1,000 take four minutes.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from cluster_cases import random_config, reference_of

from greendc.cluster import ClusterSimulator
from greendc.cluster.kernel_evolved import WEIGHTS
from greendc.cluster.rules import RULES

WORKLOADS = int(os.environ.get("GREENDC_CLUSTER_WORKLOADS", "18"))
BATCHES = 6


def assert_same_state(simulator, i, reference):
    cluster, jobs = simulator.state.cluster[i], simulator.state.jobs[i]
    assert bool(cluster["over"]) == reference.over
    expected = {
        "now": reference.now,
        "used": reference.used,
        "capacity": reference.capacity,
        "arrived": reference.arrived,
        "starts": reference.starts,
        "busy": reference.busy,
        "powered": reference.powered,
        "excess": reference.excess,
        "wasted": reference.wasted,
        "preemptions": reference.preemptions,
        "invalid": reference.invalid,
        "carbon": reference.carbon_kg,
        "slowdown": reference.slowdown,
        "delay": reference.delay,
        "value": reference.value,
    }
    assert {name: cluster[name].item() for name in expected} == expected
    waiting = simulator.state.queue[i, : cluster["waiting"]].tolist()
    assert waiting == [job.id for job in reference.queue]
    by_weight = sorted(reference.queue, key=lambda job: (reference.weight(job), job.id))
    assert simulator.state.light[i, : cluster["waiting"]].tolist() == [job.id for job in by_weight]
    running = simulator.state.running[i, : cluster["running"]]
    by_estimate = sorted(reference.running, key=reference.estimate_of)
    assert running["job"].tolist() == [job.id for job in by_estimate]
    assert running["estimate"].tolist() == [reference.estimate_of(job) for job in by_estimate]
    phases = {"to come": 0, "waiting": 1, "running": 2, "done": 3}
    assert jobs["phase"].tolist() == [phases[job.phase] for job in reference.jobs]
    assert jobs["worked"].tolist() == [job.worked for job in reference.jobs]


def assert_same_observation(i, out, reference):
    jobs, cluster, capacity, mask = reference.observation()
    np.testing.assert_allclose(out["jobs"][i], np.array(jobs, np.float32), rtol=2e-7, atol=0)
    np.testing.assert_allclose(out["cluster"][i], np.array(cluster, np.float32), rtol=2e-7, atol=1e-9)
    np.testing.assert_allclose(out["capacity"][i], np.array(capacity, np.float32), rtol=2e-7, atol=0)
    assert out["action_mask"][i].tolist() == mask


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_decisions_lead_where_the_reference_goes(batch):
    for seed in range(batch, WORKLOADS, BATCHES):
        rng = np.random.default_rng(seed)
        simulator = ClusterSimulator(random_config(rng), 2)
        out = simulator.empty_observations()
        references = []
        for i in range(2):
            simulator.reset_env(i, np.random.default_rng([seed, i]))
            references.append(reference_of(simulator, i))
        simulator.observe(out)
        for _ in range(300):
            for i, reference in enumerate(references):
                assert_same_state(simulator, i, reference)
                assert_same_observation(i, out, reference)
            if any(reference.over for reference in references):
                break
            good = rng.random() < 0.9
            actions = []
            for i in range(2):
                choices = (
                    np.flatnonzero(out["action_mask"][i]) if good else np.arange(simulator.action_space.n)
                )
                actions.append(rng.choice(choices))
            simulator.step(np.array(actions), out)
            for i, reference in enumerate(references):
                assert simulator.rewards[i] == reference.act(int(actions[i]))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_rule_plays_whole_episodes_as_the_reference_does(batch):
    for seed in range(batch, WORKLOADS, BATCHES):
        rng = np.random.default_rng([seed, 7])
        simulator = ClusterSimulator(random_config(rng), 1)
        rule, fitting, predicted = RULES[seed % len(RULES)], bool(rng.integers(2)), bool(rng.integers(2))
        simulator.reset_env(0, rng)
        reference = reference_of(simulator, 0)
        weights = 4.0 * rng.normal(size=WEIGHTS) if rule == "evolved" else None
        simulator.play(0, rule, fitting, predicted, weights)
        reference.play(rule, fitting, predicted, weights)
        assert_same_state(simulator, 0, reference)
