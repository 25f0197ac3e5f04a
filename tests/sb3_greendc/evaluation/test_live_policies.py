"""Trained runs decide for live pools as they act in their environments, and bad ones are named."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import greendc
from greendc.cluster.columns import ARRIVING, COS_DAY, SIN_DAY
from greendc.live import (
    ClusterScheduler,
    PoolSnapshot,
    RunningJob,
    Scheduler,
    Snapshot,
    SnapshotError,
    WaitingJob,
)
from greendc.live.restore import View, restore, snapshot_of
from greendc.resource_pool import ResourcePoolSimulator
from sb3_greendc.cli.decide import main
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.prior import read_prior
from sb3_greendc.recurrent_pid_ppo import RecurrentPIDLagrangianPPO
from sb3_greendc.runs.models import save_model

KWARGS = {"mask": "now", "lookahead": 6, "horizon": 24, "offered_load": 1.4, "ready_pool_size": 6}


def decided(model: Any) -> Any:
    """The model with an opinion: a fresh network takes all actions nearly alike."""
    model.policy.action_net.weight.data *= 100.0
    return model


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of MaskablePPO, which takes masks apart from observations."""
    env = make_vec_env("ResourcePool-10", 1, **KWARGS)
    model = decided(MaskablePPO("MultiInputPolicy", env, n_steps=8, batch_size=8, seed=0))
    folder = tmp_path_factory.mktemp("masked")
    save_model(
        model, folder, {"algorithm": "maskable_ppo", "env_id": "ResourcePool-10", "env_kwargs": KWARGS}
    )
    return folder


@pytest.fixture(scope="module")
def normalised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of PPO on flat observations that were normalised."""
    kwargs = {**KWARGS, "observation": "flat"}
    env = VecNormalize(make_vec_env("ResourcePool-10", 2, seed=0, **kwargs), norm_reward=False)
    model = decided(PPO("MlpPolicy", env, n_steps=16, batch_size=16, seed=0))
    env.reset()
    for _ in range(30):
        env.step(np.array([kwargs["ready_pool_size"] + 1] * 2))
    folder = tmp_path_factory.mktemp("normalised")
    save_model(model, folder, {"algorithm": "ppo", "env_id": "ResourcePool-10-v0", "env_kwargs": kwargs})
    return folder


def act(simulator: ResourcePoolSimulator, folder: Path) -> list[int]:
    """Let a saved model act until time goes on, by its own ``predict``; return its actions."""
    from sb3_greendc.runs.models import load_model

    saved, actions, now = load_model(folder), [], simulator.view().now
    while simulator.view().now == now:
        out: Any = simulator.empty_observations()
        simulator.observe(out)
        seen = out if saved.normalizer is None else saved.normalizer.normalize_obs(out)
        masks = {} if saved.normalizer is not None else {"action_masks": simulator.action_masks()}
        action = int(saved.model.predict(seen, deterministic=True, **masks)[0][0])  # type: ignore[call-arg]
        actions.append(action)
        simulator.step(np.array([action]), out)
    return actions


@pytest.mark.parametrize("kind", ["masked", "normalised"])
def test_a_trained_run_decides_as_it_acts(kind: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(kind)
    kwargs = KWARGS if kind == "masked" else {**KWARGS, "observation": "flat"}
    simulator: Any = greendc.make_simulator("ResourcePool-10", **kwargs)
    simulator.reset_env(0, np.random.default_rng(3))
    scheduler = Scheduler.load(folder, work_conserving=False)
    lengths = set()
    for _ in range(25):
        told = PoolSnapshot.from_json(simulator.snapshot().to_json())
        actions = list(scheduler.decide(told).actions)
        assert actions == act(simulator, folder)
        lengths.add(len(actions))
    assert len(lengths) > 1


def test_the_command_takes_a_run_and_says_what_does_not_fit(
    masked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulator: Any = greendc.make_simulator("ResourcePool-10", **KWARGS)
    simulator.reset_env(0, np.random.default_rng(3))
    path = tmp_path / "pool.json"
    path.write_text(simulator.snapshot().to_json())
    assert main([str(path), "--policy", str(masked)]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == str(masked)
    other: Any = greendc.make_simulator("ResourcePool-20", **KWARGS)
    other.reset_env(0, np.random.default_rng(3))
    with pytest.raises(SnapshotError, match=r"does not fit the pool: policy .* was made for observations"):
        Scheduler.load(masked).decide(other.snapshot())


def test_rollouts_take_a_distilled_network_as_prior() -> None:
    simulator: Any = greendc.make_simulator(
        "ResourcePool-10", mask="now_on_time", lookahead=24, fragmentation=True
    )
    simulator.reset_env(0, np.random.default_rng(1))
    options = {"futures": 4, "depth": 12}
    scheduler = Scheduler.load("rollout", prior="pretrained", work_conserving=False, **options)
    from greendc.baselines.resource_pool import Rollout

    planner = Rollout(simulator, prior=read_prior("pretrained", simulator), **options)
    for _ in range(12):
        decision, now, taken = scheduler.decide(simulator.snapshot()), simulator.view().now, []
        while simulator.view().now == now:
            out = simulator.empty_observations()
            simulator.observe(out)
            taken.append(int(planner.act(out)[0]))
            simulator.step(np.array(taken[-1:]), out)
        assert list(decision.actions) == taken
    with pytest.raises(ValueError, match="futurs: no option of policy='rollout'; did you mean 'futures'"):
        Scheduler.load("rollout", prior="pretrained", futurs=3)


def test_runs_that_cannot_decide_are_named(masked: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"futures: no option of policy=.*; known are none"):
        Scheduler.load(masked, futures=3)
    model = MaskablePPO("MultiInputPolicy", make_vec_env("ResourcePool-10", 1), n_steps=8, batch_size=8)
    save_model(model, tmp_path / "bare", {"algorithm": "maskable_ppo"})
    with pytest.raises(ValueError, match="bare: no record beside it says which environment"):
        Scheduler.load(tmp_path / "bare")
    vcc = PPO("MlpPolicy", make_vec_env("VCC-2019", 1), n_steps=8, batch_size=8)
    save_model(vcc, tmp_path / "vcc", {"algorithm": "ppo", "env_id": "VCC-2019"})
    with pytest.raises(ValueError, match="vcc: must be for resource pools, not for VCC-2019-v1"):
        Scheduler.load(tmp_path / "vcc")
    env = make_vec_env("ResourcePool-10", 1, observation="flat")
    recurrent = RecurrentPIDLagrangianPPO("MlpLstmPolicy", env, n_steps=8, batch_size=8, cost_limit=10.0)
    run = {
        "algorithm": "recurrent_pid_ppo",
        "env_id": "ResourcePool-10",
        "env_kwargs": {"observation": "flat"},
    }
    save_model(recurrent, tmp_path / "recurrent", run)
    with pytest.raises(
        ValueError, match="recurrent: remembers earlier steps, which a snapshot does not hold"
    ):
        Scheduler.load(tmp_path / "recurrent")


CLUSTER = {"workload_jobs": 300, "episode_jobs": 60, "visible_jobs": 12, "backfill": "easy"}


@pytest.fixture(scope="module")
def of_cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained on a cluster."""
    env = make_vec_env("Cluster", 1, **CLUSTER)
    model = decided(MaskablePPO("MultiInputPolicy", env, n_steps=8, batch_size=8, seed=0))
    folder = tmp_path_factory.mktemp("cluster")
    save_model(model, folder, {"algorithm": "maskable_ppo", "env_id": "Cluster", "env_kwargs": CLUSTER})
    return folder


def test_a_trained_run_decides_for_a_cluster_as_it_acts(of_cluster: Path) -> None:
    """In all that it sees but the share of the episode to come, which no queue has, and the time of day."""
    from sb3_greendc.runs.models import load_model

    model: Any = load_model(of_cluster).model
    scheduler = Scheduler.load(of_cluster, work_conserving=False)
    started = 0
    for seed in range(3):
        simulator: Any = greendc.make_simulator("Cluster", **CLUSTER)
        simulator.reset_env(0, np.random.default_rng(seed))
        out = simulator.empty_observations()
        for _ in range(12):
            cluster = simulator.state.cluster[0]
            if cluster["over"] or cluster["arrived"] == CLUSTER["episode_jobs"]:
                break
            now, before = int(cluster["now"]), simulator.state.jobs["start"][0].copy()
            clock = datetime(2026, 3, 1, tzinfo=timezone.utc) + timedelta(seconds=now % 86_400)
            snapshot = snapshot_of(simulator, horizon_hours=48)
            decision = scheduler.decide(snapshot, clock)
            while simulator.state.cluster[0]["now"] == now and not simulator.state.cluster[0]["over"]:
                simulator.observe(out)
                out["cluster"][0, ARRIVING] = 0.5
                masks = out["action_mask"].astype(bool)
                action = int(model.predict(out, action_masks=masks, deterministic=True)[0][0])
                simulator.step(np.array([action]), out)
            after = simulator.state.jobs["start"][0]
            fresh = np.flatnonzero((after == now) & (before != now))
            assert sorted(decision.start) == sorted(map(str, fresh))
            started += len(fresh)
    assert started > 5


def test_what_a_restored_cluster_shows_is_what_the_cluster_showed() -> None:
    visible, waiting = 4, []
    simulator: Any = greendc.make_simulator("Cluster", **{**CLUSTER, "visible_jobs": visible})
    simulator.reset_env(0, np.random.default_rng(5))
    for arrived in range(10, 60, 5):
        while simulator.state.cluster[0]["arrived"] < arrived:
            simulator.take(0, simulator.first(0, "saf"))
        snapshot = snapshot_of(simulator)
        restored = restore(snapshot, snapshot.waiting, "easy", view=View(visible, 0)).simulator
        theirs, ours = simulator.empty_observations(), restored.empty_observations()
        simulator.observe(theirs)
        restored.observe(ours)
        unknown = [ARRIVING, SIN_DAY, COS_DAY]
        assert ours["cluster"][0, unknown].tolist() == [0.5, 0.0, 1.0]
        ours["cluster"][0, unknown] = theirs["cluster"][0, unknown]
        for part in theirs:
            np.testing.assert_array_equal(ours[part], theirs[part], err_msg=part)
        waiting.append(len(snapshot.waiting))
    assert max(waiting) > visible


def test_runs_of_the_other_family_are_named(of_cluster: Path, masked: Path, tmp_path: Path) -> None:
    cluster: Any = greendc.make_simulator("Cluster", **CLUSTER)
    cluster.reset_env(0, np.random.default_rng(5))
    with pytest.raises(
        ValueError, match=r"the snapshot is of a cluster: policy .* must be for clusters, not"
    ):
        Scheduler.load(masked).decide(snapshot_of(cluster))
    pool: Any = greendc.make_simulator("ResourcePool-10", **KWARGS)
    pool.reset_env(0, np.random.default_rng(3))
    with pytest.raises(
        ValueError, match=r"the snapshot is of a resource pool: policy=.* a run that was train"
    ):
        Scheduler.load(of_cluster).decide(pool.snapshot())
    frozen = {**CLUSTER, "profile": "rlscheduler"}
    model = MaskablePPO("MultiInputPolicy", make_vec_env("Cluster", 1, **frozen), n_steps=8, batch_size=8)
    save_model(
        model,
        tmp_path / "frozen",
        {"algorithm": "maskable_ppo", "env_id": "Cluster-v0", "env_kwargs": frozen},
    )
    with pytest.raises(ValueError, match="was trained in profile='rlscheduler', where no action waits"):
        Scheduler.load(tmp_path / "frozen")


def test_a_policy_that_waits_leaves_no_cluster_idle(tmp_path: Path) -> None:
    model = MaskablePPO("MultiInputPolicy", make_vec_env("Cluster", 1, **CLUSTER), n_steps=8, batch_size=8)
    bias: Any = model.policy.action_net.bias
    bias.data[-1] = 1e6
    run = {"algorithm": "maskable_ppo", "env_id": "Cluster-v0", "env_kwargs": CLUSTER}
    save_model(model, tmp_path / "waits", run)
    jobs = (WaitingJob("long", 4, 7200, 60), WaitingJob("short", 4, 600, 60), WaitingJob("large", 16, 60, 60))
    idle = Snapshot(processors=16, capacity=8, waiting=jobs)
    assert Scheduler.load(tmp_path / "waits").decide(idle).start == ("short",)
    assert Scheduler.load(tmp_path / "waits", work_conserving=False).decide(idle).start == ()
    busy = Snapshot(processors=16, capacity=8, waiting=jobs, running=(RunningJob("a", 2, 600, 0),))
    assert Scheduler.load(tmp_path / "waits").decide(busy).start == ()


def test_a_run_decides_under_the_rules_of_its_training_unless_told_otherwise(tmp_path: Path) -> None:
    kwargs = {**CLUSTER, "backfill": "conservative", "forecast_hours": 6}
    model = MaskablePPO("MultiInputPolicy", make_vec_env("Cluster", 1, **kwargs), n_steps=8, batch_size=8)
    run = {"algorithm": "maskable_ppo", "env_id": "Cluster-v0", "env_kwargs": kwargs}
    save_model(model, tmp_path / "run", run)
    scheduler = ClusterScheduler(str(tmp_path / "run"))
    assert (scheduler.backfill, scheduler.admission, scheduler.horizon_hours) == ("conservative", "now", 6)
    told = ClusterScheduler(str(tmp_path / "run"), backfill="none", horizon_hours=2)
    assert (told.backfill, told.horizon_hours) == ("none", 2)
