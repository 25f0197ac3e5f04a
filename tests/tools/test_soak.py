"""Random steps with laws checked from outside: they hold here, and each is found broken where it is."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soak
from soak_pool import BrokenLawError, PoolWatch

from greendc.resource_pool import layout as at

PRESET, TRACE, CARBON, COMMANDED = 2, 11, 12, 46
"""Seeds of pools: the plain preset; one with sun and wind; one whose cost is carbon; one whose power is
commanded, and whose reward charges for energy."""


@pytest.fixture(autouse=True)
def _quiet() -> None:
    warnings.filterwarnings("ignore", message=".*above 0.8.*")


@pytest.mark.parametrize("family", soak.FAMILIES)
def test_every_law_holds(family: str) -> None:
    seeds = {
        "pool": (4, 9, CARBON, COMMANDED, 25),
        "vcc": (2, 4, 9, 12, 14),
        "cluster": (1, 3, 6, 13, 14, 21),
    }[family]
    steps = sum(soak.play(family, seed, episodes=1, num_envs=4)[1] for seed in seeds)
    assert steps > 1_000


def waiting_job_forgotten(pool: Any) -> None:
    env = pool.state.env
    env["n_queue"] -= env["n_queue"] > 0


def job_done_at_once(pool: Any) -> None:
    jobs = pool.state.jobs
    jobs["duration"][jobs["status"] == at.FINISHED] += 1


def add(name: str, amount: float) -> Callable[[Any], None]:
    def fault(pool: Any) -> None:
        pool.state.env[name] += np.asarray(amount).astype(pool.state.env[name].dtype)

    return fault


def unit_kept(pool: Any) -> None:
    pool.state.counts[:, 0] += 1


def late_finish_paid(pool: Any) -> None:
    jobs = pool.state.jobs
    jobs["latest"][(jobs["status"] == at.FINISHED) & (jobs["finish"] <= jobs["latest"])] = 0


def blocks_on_one_another(pool: Any) -> None:
    pool.state.units[:, at.BLOCKS] = 0


POOL_FAULTS: dict[str, tuple[int, Callable[[Any], None], str]] = {
    "a waiting job is forgotten": (PRESET, waiting_job_forgotten, "listed once each|units in use"),
    "a job is done too early": (PRESET, job_done_at_once, "work takes its time"),
    "a unit is never given back": (PRESET, unit_kept, "units in use"),
    "units are used twice": (PRESET, blocks_on_one_another, "no unit is used twice"),
    "work that nobody did": (PRESET, add("used_unit_steps", 1), "unit-steps are those of the jobs"),
    "a reward twice": (PRESET, add("accrued_reward", 0.5), "rewards add up"),
    "a late job is paid": (PRESET, late_finish_paid, "rewards are the values of the jobs|planned value"),
    "a delayed job too many": (PRESET, add("n_delayed", 1), "n_delayed counts jobs"),
    "energy from nowhere": (TRACE, add("stored_kwh", 1.0), "the battery holds what was charged"),
    "grid energy that serves nothing": (TRACE, add("grid_kwh", 1.0), "energy in is energy out"),
    "critical energy forgotten": (TRACE, add("unserved_kwh", 1.0), "critical energy"),
    "energy that costs nothing": (CARBON, add("carbon_kg", 1.0), "the cost is that of grid energy"),
    "energy that is paid twice": (COMMANDED, add("grid_cost", -9.0), "grid_cost never falls"),
    "money for nothing": (COMMANDED, add("grid_cost", 9.0), "rewards are the values of the jobs"),
    "time stands still": (PRESET, add("now", -1), "the clock goes on"),
}


@pytest.mark.parametrize("name", POOL_FAULTS)
def test_a_broken_pool_is_found_out(name: str) -> None:
    seed, fault, law = POOL_FAULTS[name]
    with pytest.raises(BrokenLawError, match=rf"pool .*seed {seed}, step \d+: .*({law})"):
        soak.play("pool", seed, episodes=1, num_envs=3, fault=fault)


def test_a_pool_that_breaks_in_compiled_code_is_found_out() -> None:
    _, pool = soak.make_case("pool", TRACE, num_envs=3)
    watch, out = soak.watch_of(pool, 0.5, seed=1), pool.empty_observations()
    assert isinstance(watch, PoolWatch) and isinstance(out, dict)
    for i in range(3):
        pool.reset_env(i, np.random.default_rng(i))
        watch.reset(i)
    watch.play(30, out)
    assert watch.steps == 90
    pool.state.env["stored_kwh"][1] += 5.0
    with pytest.raises(BrokenLawError, match=r"the battery holds what was charged, environment 1: "):
        watch.play(30, out)


def in_cluster(name: str, amount: int) -> Callable[[Any], None]:
    def fault(datacenter: Any) -> None:
        datacenter.state.cluster[name] += amount

    return fault


def machine_overfull(datacenter: Any) -> None:
    datacenter.state.loads[:, 0] += 10**6


def job_restarted(datacenter: Any) -> None:
    """A job that waits has an hour more to do than it came with."""
    datacenter.state.places["left"] += 1


def reward_of_others(datacenter: Any) -> None:
    datacenter.rewards += 0.25


def carbon_twice(datacenter: Any) -> None:
    datacenter.step_info["carbon"] *= 2.0


def charged_without_tolerance(datacenter: Any) -> None:
    """Every day end charges something, however little is overdue."""
    datacenter.step_info["overdue"] += 0.01 * (datacenter.state.cluster["now"] % 24 == 0)


VCC_FAULTS: dict[str, tuple[Callable[[Any], None], str]] = {
    "work that nobody did": (in_cluster("executed_work", 1), "work done is the load of the hours"),
    "flexible work that nobody did": (in_cluster("executed_flexible_work", 1), "and the flexible work"),
    "work is lost": (in_cluster("lost_work", 1), "submitted is done and left"),
    "a job too many is submitted": (in_cluster("submitted_work", 5), "work of all jobs is submitted"),
    "a waiting job too many": (in_cluster("waiting_jobs", 1), "have run, or wait"),
    "load outside the machines": (in_cluster("load_flexible", 7), "load|work"),
    "a machine over its capacity": (machine_overfull, "no machine holds more"),
    "a job begins again": (job_restarted, "submitted is done and left"),
    "overdue work forgotten": (in_cluster("overdue_work", 1), "overdue work is that of the late jobs"),
    "the reward of others": (reward_of_others, "the reward is carbon and SLO"),
    "no tolerance": (charged_without_tolerance, "overdue work beyond the tolerance is charged"),
    "carbon twice": (carbon_twice, "carbon is energy times intensity"),
    "an hour is skipped": (in_cluster("now", 1), "an hour has passed|index"),
}


@pytest.mark.parametrize("name", VCC_FAULTS)
def test_a_broken_datacenter_is_found_out(name: str) -> None:
    fault, law = VCC_FAULTS[name]
    with pytest.raises(BrokenLawError, match=rf"vcc .*seed 2, step \d+: .*({law})"):
        soak.play("vcc", 2, episodes=1, num_envs=3, fault=fault)


SUSPENDS, REPLAYS, KILLS = 1, 3, 13
"""Seeds of clusters: green power with suspensions, RLScheduler's profile, jobs killed and requeued."""


def cluster_queue_forgets(cluster: Any) -> None:
    state = cluster.state.cluster
    state["waiting"] -= state["waiting"] > 0


def cluster_job_done_early(cluster: Any) -> None:
    jobs = cluster.state.jobs
    jobs["finish"][jobs["phase"] == 3] -= 1


def cluster_runs_again(cluster: Any) -> None:
    """What a suspended job had done is forgotten."""
    cluster.state.jobs["worked"][:] = 0


def cluster_out_of_order(cluster: Any) -> None:
    cluster.state.endings["end"][:, 0] += 10**7


def cluster_user_unknown(cluster: Any) -> None:
    cluster.state.groups["jobs"] += 1


def told(name: str, amount: float) -> Callable[[Any], None]:
    def fault(cluster: Any) -> None:
        getattr(cluster.report, name)[:] += amount

    return fault


CLUSTER_FAULTS: dict[str, tuple[int, Callable[[Any], None], str]] = {
    "a waiting job is forgotten": (SUSPENDS, cluster_queue_forgets, "waits, runs or is done"),
    "a job is done early": (REPLAYS, cluster_job_done_early, "runs for its run time"),
    "work is done twice": (SUSPENDS, cluster_runs_again, "work|delay|ends are|estimates|rewards"),
    "processors from nowhere": (SUSPENDS, in_cluster("used", 1), "processors in use"),
    "capacity from nowhere": (SUSPENDS, in_cluster("capacity", 1), "that of the series"),
    "power from nowhere": (SUSPENDS, in_cluster("powered", 1), "power adds up"),
    "work that nobody did": (
        REPLAYS,
        in_cluster("busy", 1),
        "energy times intensity|work: what was done, and what was lost",
    ),
    "waste that nobody paid": (SUSPENDS, in_cluster("wasted", 3600), "costs add up"),
    "a start too many": (REPLAYS, in_cluster("starts", 1), "what starts is preempted"),
    "time is skipped": (REPLAYS, in_cluster("now", 1), "the clock goes on"),
    "a reward twice": (SUSPENDS, told("rewards", 0.5), "rewards add up"),
    "a cost that was none": (SUSPENDS, told("cost", 0.5), "costs add up"),
    "delay forgotten": (REPLAYS, in_cluster("delay", -1), "delays add up"),
    "value for nothing": (SUSPENDS, in_cluster("value", 1), "on time"),
    "clean energy called dirty": (SUSPENDS, in_cluster("carbon", 10**6), "energy times intensity|rewards"),
    "ends out of order": (REPLAYS, cluster_out_of_order, "ends are of the run times"),
    "a user of one job more": (KILLS, cluster_user_unknown, "known by their jobs"),
}


@pytest.mark.parametrize("name", CLUSTER_FAULTS)
def test_a_broken_cluster_is_found_out(name: str) -> None:
    seed, fault, law = CLUSTER_FAULTS[name]
    with pytest.raises(BrokenLawError, match=rf"cluster .*seed {seed}, step \d+: .*({law})"):
        soak.play("cluster", seed, episodes=1, num_envs=3, fault=fault)


def test_what_was_done_is_written(tmp_path: Path) -> None:
    told = soak.soak(1, first=4, out=tmp_path, families=["vcc"], cases=1, episodes=1)
    assert told["seeds"] == [4, 4] and told["steps"] == sum(told["by"].values()) > 0
    assert f'"steps": {told["steps"]}' in (tmp_path / "soak.json").read_text(encoding="utf-8")


def test_a_broken_law_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> tuple[str, int]:
        raise BrokenLawError("pool ResourcePool-v0, seed 3, step 7: no unit is used twice")

    monkeypatch.setattr(soak, "play", broken)
    assert soak.main(["--steps", "5", "--out", str(tmp_path)]) == 1
    assert "broken: pool ResourcePool-v0, seed 3, step 7" in capsys.readouterr().out
