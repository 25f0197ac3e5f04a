"""Trained runs decide for live pools as they act in their environments, and bad ones are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import greendc
from greendc.live import PoolSnapshot, Scheduler, SnapshotError
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
    simulator: Any = greendc.make_simulator("ResourcePool-10", mask="now_on_time", lookahead=24)
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
