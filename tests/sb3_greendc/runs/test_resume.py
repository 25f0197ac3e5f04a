"""Training in one go, and training that is killed and resumed, give the same model to the last bit."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch as th
from programs import run_python
from resume_cases import (
    CASES,
    EVERY,
    KILLED_AT,
    TOTAL,
    Case,
    LossOfPowerError,
    cut_off,
    die_at,
    same,
    tensors_of,
)
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_greendc.runs.jobs import Ended
from sb3_greendc.runs.models import load_model
from sb3_greendc.runs.training import train

CLOCKS = ["time/fps", "time/time_elapsed"]


def trained(case: Case, out: Path, resume: bool = False, every: int = EVERY) -> BaseAlgorithm:
    job = case.job(out, resume, every)
    run = job.check()
    if resume:
        # Whatever the global generators were used for in between must not matter.
        th.manual_seed(99)
        np.random.seed(99)  # noqa: NPY002
    train(run, job.out, False, job.formats, job.open_checkpoints(run))
    return run.model


def log(out: Path) -> pd.DataFrame:
    text = (out / "progress.csv").read_text()
    return pd.read_csv(out / "progress.csv").drop(columns=CLOCKS) if text else pd.DataFrame()


def assert_same_log(one: Path, other: Path) -> None:
    first, second = log(one), log(other)
    # SB3 orders the columns by a set of strings, differently in each process.
    pd.testing.assert_frame_equal(first, second[list(first.columns)] if len(first) else second)


def assert_same_rest(one: BaseAlgorithm, other: BaseAlgorithm) -> None:
    """Compare what will matter if training goes on: counters, environments, generators, buffers."""
    assert one.num_timesteps == other.num_timesteps >= TOTAL
    assert one._n_updates == other._n_updates
    assert one._episode_num == other._episode_num
    assert [(e["r"], e["l"]) for e in one.ep_info_buffer] == [(e["r"], e["l"]) for e in other.ep_info_buffer]
    for name in ("observations", "actions", "rewards", "dones"):
        if getattr(one, "replay_buffer", None) is not None:
            np.testing.assert_equal(getattr(one.replay_buffer, name), getattr(other.replay_buffer, name))
    actions = [one.action_space.sample() for _ in range(one.n_envs)]
    np.testing.assert_equal(actions, [other.action_space.sample() for _ in range(one.n_envs)])
    for _ in range(60):  # through the next starts of episodes
        (*ours, _), (*theirs, _) = one.env.step(np.array(actions)), other.env.step(np.array(actions))
        for mine, other_ in zip(ours, theirs, strict=True):
            np.testing.assert_equal(mine, other_)


@pytest.mark.parametrize("name", CASES)
def test_resumed_run_is_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    # The first run writes a single checkpoint: writing them must change nothing, too.
    whole = trained(case, tmp_path / "whole", every=10**9)
    with monkeypatch.context() as patch:
        die_at(KILLED_AT, cut_off, patch)
        with pytest.raises(LossOfPowerError):
            trained(case, tmp_path / "cut")
    assert not (tmp_path / "cut" / "model.zip").exists()
    with monkeypatch.context() as patch:
        steps: list[int] = []
        die_at(0, lambda callback: steps.append(callback.num_timesteps), patch)
        resumed = trained(case, tmp_path / "cut", resume=True)
    # From the newest checkpoint on, not from the beginning.
    assert KILLED_AT - EVERY - 60 < steps[0] <= KILLED_AT
    assert same(tensors_of(whole), tensors_of(resumed))
    assert_same_log(tmp_path / "whole", tmp_path / "cut")
    assert_same_rest(whole, resumed)


@pytest.mark.parametrize("with_checkpoints", [True, False])
def test_a_job_that_is_given_again_ends_as_others(
    with_checkpoints: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a worker was killed, another goes on from its last checkpoint; without one, it begins anew."""
    case = CASES["ppo-vcc"]
    whole = trained(case, tmp_path / "whole")
    job = case.job(tmp_path / "cut")
    with monkeypatch.context() as patch:
        die_at(KILLED_AT, cut_off, patch)
        assert "LossOfPowerError" in job.carry_out().traceback
    if not with_checkpoints:
        shutil.rmtree(job.out / "checkpoints")
    again = job.once_more()
    assert (again.resume, again.overwrite) == (with_checkpoints, not with_checkpoints)
    assert again.carry_out() == Ended()
    assert replace(again, resume=True, overwrite=False).carry_out() == Ended(done_before=True)
    assert same(tensors_of(whole), tensors_of(load_model(job.out).model))
    assert_same_log(tmp_path / "whole", job.out)


def test_the_comparison_sees_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the random states the resumed run is another one."""
    case = CASES["ppo-vcc"]
    whole = trained(case, tmp_path / "whole")
    with monkeypatch.context() as patch:
        die_at(KILLED_AT, cut_off, patch)
        with pytest.raises(LossOfPowerError):
            trained(case, tmp_path / "cut")
    monkeypatch.setattr("sb3_greendc.runs.training_state._set_random_states", lambda states: None)
    assert not same(tensors_of(whole), tensors_of(trained(case, tmp_path / "cut", resume=True)))


CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from resume_cases import CASES, die_at, killed
from sb3_greendc.runs import checkpoints
from sb3_greendc.core import files
job = CASES[{name!r}].job(Path({out!r}), resume={resume})
if {at}:
    die_at({at}, killed)
if {torn}:
    # The power goes while the third checkpoint is being written.
    original = files.os.fsync
    written = []
    def fsync(descriptor):
        written.append(descriptor)
        if len(written) == 5:
            files.os.truncate(descriptor, 1000)
            killed(None)
        original(descriptor)
    files.os.fsync = fsync
job.carry_out()
"""


def child(name: str, out: Path, at: int = 0, resume: bool = False, torn: bool = False) -> Any:
    values = {"name": name, "out": str(out), "at": at, "resume": resume, "torn": torn}
    code = CHILD.format(tests=str(Path(__file__).parent), **values)
    return run_python("-c", code)


@pytest.mark.parametrize(("name", "torn"), [("sac-vcc", False), ("maskable_ppo-pool", True)])
def test_killed_process(name: str, torn: bool, tmp_path: Path) -> None:
    """Another process goes on with what ``kill -9`` left, in one case half a checkpoint."""
    whole = trained(CASES[name], tmp_path / "whole")
    result = child(name, tmp_path / "cut", 0 if torn else KILLED_AT, torn=torn)
    assert result.returncode == -9, result.stderr
    folder = tmp_path / "cut" / "checkpoints"
    assert len(list(folder.glob("step_*.ckpt"))) == 2
    assert len(list(folder.glob(".step_*"))) == torn
    result = child(name, tmp_path / "cut", resume=True)
    assert result.returncode == 0, result.stderr
    assert f"going on from step {64 if torn else 128}" in result.stdout
    assert same(tensors_of(whole), tensors_of(load_model(tmp_path / "cut").model))
    assert_same_log(tmp_path / "whole", tmp_path / "cut")
    assert not list(folder.glob(".step_*"))
