"""The rule that evolution has found, and evolution."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from greendc.baselines.cluster import HEURISTICS, GuardedRollout
from greendc.baselines.cluster.evolution import Practice, evolve
from greendc.cluster import ClusterConfig, ClusterJobs, ClusterSimulator, lublin_jobs
from greendc.cluster.evolved import shipped_weights
from greendc.cluster.kernel_evolved import WEIGHTS
from greendc.live import Scheduler, Snapshot, WaitingJob

MADE = lublin_jobs(3, 600, 64)
JOBS = dataclasses.replace(MADE, run=np.maximum(MADE.run, 10), request=np.maximum(MADE.request, 10))
"""Ten seconds or more: shorter ones are all alike to the network."""


def simulator_of(episode_jobs=80, backfill="easy", **options):
    config = ClusterConfig(workload=JOBS, episode_jobs=episode_jobs, backfill=backfill, **options)
    simulator = ClusterSimulator(config)
    simulator.reset_env(0, np.random.default_rng(0), {"start": 100})
    return simulator


def starts(rule, weights=None, **options):
    simulator = simulator_of(**options)
    simulator.play(0, rule, weights=weights)
    return simulator.state.jobs[0]["first_start"].tolist()


def only(k, value):
    weights = np.zeros(WEIGHTS)
    weights[k] = value
    return weights


@pytest.mark.parametrize(("k", "sign", "rule"), [(0, 1, "sjf"), (1, 1, "smallest"), (2, -1, "fcfs")])
def test_a_single_weight_is_a_textbook_order(k, sign, rule):
    assert starts("evolved", only(k, sign)) == starts(rule)


def test_what_ships_is_for_a_kind_of_backfilling():
    weights = {kind: shipped_weights(kind) for kind in ("none", "easy", "conservative")}
    assert weights["conservative"] is not None
    assert weights["conservative"].tolist() == weights["easy"].tolist() != weights["none"].tolist()
    assert starts("evolved") == starts("evolved", weights["easy"]) != starts("evolved", weights["none"])
    assert starts("evolved", backfill="none") == starts("evolved", weights["none"], backfill="none")
    with pytest.raises(ValueError, match="read-only"):
        weights["easy"][0] = 1.0


@pytest.mark.parametrize("weights", [np.zeros(WEIGHTS - 1), np.full(WEIGHTS, np.nan), np.zeros((1, WEIGHTS))])
def test_weights_that_do_not_fit(weights):
    with pytest.raises(ValueError, match=rf"weights=.*{WEIGHTS} finite numbers"):
        starts("evolved", weights)


@pytest.mark.parametrize("weights", ["weights.json", [[1.0], 2.0], {"none": 1.0}])
def test_weights_that_are_no_numbers(weights):
    with pytest.raises(ValueError, match=rf"weights: must be {WEIGHTS} finite numbers"):
        starts("evolved", weights)


def test_other_rules_have_no_weights():
    with pytest.raises(ValueError, match=r"weights=.*rule=.saf. has none"):
        starts("saf", np.zeros(WEIGHTS))


def test_rollouts_and_heuristics_take_it():
    simulator = simulator_of(profile="rlscheduler", visible_jobs=80)
    first = HEURISTICS["evolved"](simulator).act(simulator.empty_observations())
    assert simulator.state.visible[0, first[0]] == simulator.first(0, "evolved")
    alone = GuardedRollout(simulator, base="evolved", guard=1e9, futures=2)
    alone.play(0)
    assert simulator.state.jobs[0]["first_start"].tolist() == starts("evolved", profile="rlscheduler")


def test_evolution_finds_better_orders():
    pytest.importorskip("cmaes")
    gains = []
    practice = Practice([simulator_of(profile="rlscheduler")], sequences=4)
    weights = evolve([practice], 12, 0, lambda generation, gain: gains.append((generation, gain)))
    assert [generation for generation, _ in gains] == list(range(1, 13))
    first, last = np.mean([gain for _, gain in gains[:3]]), np.mean([gain for _, gain in gains[-3:]])
    assert last < first - 0.05
    assert evolve([practice], 12, 0).tolist() == weights.tolist()
    assert evolve([practice], 12, 1).tolist() != weights.tolist()


def test_evolution_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "cmaes", None)
    with pytest.raises(ImportError, match=r"evolution needs cmaes: pip install 'sb3-greendc\[tune\]'"):
        evolve([Practice([simulator_of()])], 1, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"practices": []}, r"practices=.*one or more, of one backfill"),
        ({"practices": ["none", "easy"]}, r"practices=.*easy.*none.*of one backfill"),
        ({"generations": 0}, "generations=0: .*1 or more"),
        ({"sigma": 0.0}, r"sigma=0\.0: .*above 0"),
        ({"sigma": float("nan")}, "sigma=nan: .*above 0"),
        ({"start": np.zeros(3)}, r"weights=.*finite numbers"),
    ],
)
def test_wrong_evolutions(options, said):
    pytest.importorskip("cmaes")
    kinds = options.get("practices", ["easy"])
    made = [Practice([simulator_of(backfill=kind)]) for kind in kinds]
    with pytest.raises(ValueError, match=said):
        evolve(**{"generations": 1, "seed": 0, **options, "practices": made})


def test_a_practice_is_of_clusters_with_a_sequence_or_more():
    with pytest.raises(TypeError, match="must be a ClusterSimulator, not int"):
        Practice([1])
    few = ClusterSimulator(ClusterConfig(workload=lublin_jobs(3, 600, 64), episode_jobs=600))
    assert Practice([few]).draw(np.random.default_rng(0))[0][1] == 0


def test_sequences_of_a_practice():
    simulator = simulator_of()
    drawn = Practice([simulator], sequences=400, first=517).draw(np.random.default_rng(0))
    assert {start for _, start in drawn} == {517, 518, 519, 520}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("simulators", [], r"simulators=\[\]: .*at least one"),
        ("sequences", 0, "sequences=0: .*1 or more"),
        ("share", 0.0, r"share=0\.0: .*above 0"),
        ("first", 521, "first=521: .*from 0 to 520"),
    ],
)
def test_wrong_practice(field, value, said):
    fields = {"simulators": [simulator_of()], field: value}
    with pytest.raises(ValueError, match=said):
        Practice(**fields)


def test_weights_for_a_live_cluster():
    waiting = tuple(WaitingJob(name, *sizes) for name, sizes in (("wide", (4, 60, 0)), ("long", (1, 900, 0))))
    snapshot = Snapshot(processors=4, capacity=4, waiting=waiting)
    for k, first in ((0, "wide"), (1, "long")):
        decision = Scheduler("evolved", weights=only(k, 1.0), backfill="none").decide(snapshot)
        assert decision.start == (first,)
    with pytest.raises(ValueError, match=rf"weights=.*{WEIGHTS} finite numbers"):
        Scheduler("evolved", weights=[1.0])
    with pytest.raises(ValueError, match=r"weights=.*rule='saf' has none"):
        Scheduler("saf", weights=only(0, 1.0))


@pytest.mark.parametrize(("processors", "first"), [(1, 1), (50, 0)])
def test_the_work_that_waits_can_decide(processors, first):
    """A unit is steep where little work waits, and puts the long job first; it is flat where much does."""
    weights = only(0, 1.0)
    weights[[4, 5, 11, 12]] = -57.2, 20.0, 200.0, -1.0  # bias, of the length, of the work, of the unit
    table = ClusterJobs([0, 0], [10, 1000], [10, 1000], [processors, processors], 100)
    simulator = ClusterSimulator(ClusterConfig(workload=table, episode_jobs=2))
    simulator.reset_env(0, np.random.default_rng(0))
    assert simulator.first(0, "evolved", weights=weights) == first
