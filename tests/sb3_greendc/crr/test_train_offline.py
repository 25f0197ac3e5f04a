"""``train --algo crr --data FILE``."""

from __future__ import annotations

import csv
import errno
import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch as th
from toy_data import toy_dataset

from sb3_greendc.cli.train import main
from sb3_greendc.crr import CRR
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.runs import resume_offline
from sb3_greendc.runs.checkpoints import CheckpointFolder
from sb3_greendc.runs.models import load_model
from sb3_greendc.runs.trees import unpack_tree

SMALL = ["batch_size=16", "policy_kwargs={net_arch: [16]}"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.npz"
    toy_dataset("masked").save(path)
    return path


def arguments(path: Path, out_name: str = "run", **more: str) -> list[str]:
    given = {"algo": "crr", "data": str(path), "out": str(path.parent / out_name), "timesteps": "30", **more}
    options = [text for key, value in given.items() for text in (f"--{key}", value)]
    return [*options, "--device", "cpu", "--no-progress", "--hparams", *SMALL]


def parameters_of(path: Path) -> dict[str, th.Tensor]:
    return CRR.load(path, device="cpu").policy.state_dict()


def test_trains_and_records(data: Path) -> None:
    assert main(arguments(data)) == 0
    run = data.parent / "run"
    saved = load_model(run)
    assert isinstance(saved.model, CRR)
    assert saved.model.num_timesteps == 30
    record = json.loads((run / "run.json").read_text())
    assert record["algorithm"] == "crr"
    assert record["transitions"] == 150
    assert record["completed"] is True
    rows = list(csv.DictReader((run / "progress.csv").open()))
    assert float(rows[-1]["time/total_timesteps"]) == 30


class KilledError(Exception):
    """Ends a run in this process, without anything being saved."""


EVERY = ["--checkpoint-every", "10"]


def killed_at(step: int, data: Path, monkeypatch: pytest.MonkeyPatch, out_name: str = "cut") -> Path:
    """Start a run that ends after so many steps, and return the folder of its checkpoints."""
    train = CRR.train

    def dies(self: CRR, gradient_steps: int) -> None:
        if self.num_timesteps == step:
            raise KilledError
        train(self, gradient_steps)

    with monkeypatch.context() as patched:
        patched.setattr(CRR, "train", dies)
        with pytest.raises(KilledError):
            main([*arguments(data, out_name), *EVERY])
    return data.parent / out_name / "checkpoints"


def log_of(run: Path) -> list[dict[str, str]]:
    rows = csv.DictReader((run / "progress.csv").open())
    return [{key: row[key] for key in sorted(row) if key not in CLOCKS} for row in rows]


CLOCKS = ("time/fps", "time/time_elapsed")


@pytest.mark.parametrize("log_interval", [1000, 20, 7])
@pytest.mark.parametrize("hparams", [[], ["weight_mode=exp"], ["weight_mode=bc"]])
def test_resumes_exactly(
    data: Path,
    log_interval: int,
    hparams: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Weights and log, whose running means go over the checkpoint or end right at it."""
    learn = CRR.learn
    monkeypatch.setattr(CRR, "learn", lambda *given, **more: learn(*given, **more, log_interval=log_interval))
    monkeypatch.setitem(globals(), "SMALL", [*SMALL, *hparams])
    assert main([*arguments(data, "whole"), *EVERY]) == 0
    folder = killed_at(23, data, monkeypatch)
    assert [path.name for path in CheckpointFolder(folder).paths()] == [
        "step_000000000020.ckpt",
        "step_000000000010.ckpt",
    ]
    assert main([*arguments(data, "cut"), *EVERY, "--resume"]) == 0
    assert "going on from step 20" in capsys.readouterr().out
    whole, cut = (data.parent / name for name in ("whole", "cut"))
    ours, theirs = (parameters_of(run / "model.zip") for run in (whole, cut))
    assert all(th.equal(ours[name], theirs[name]) for name in ours)
    assert log_of(whole) == log_of(cut)
    assert len(log_of(whole)) == 30 // log_interval + (30 % log_interval > 0)
    model = (cut / "model.zip").read_bytes()
    assert main([*arguments(data, "cut"), *EVERY, "--resume"]) == 0
    assert "done before" in capsys.readouterr().out
    assert (cut / "model.zip").read_bytes() == model


def test_killed_after_the_last_checkpoint_it_logs_what_is_left_and_keeps_its_time(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise KilledError

    assert main([*arguments(data, "whole"), *EVERY]) == 0
    with monkeypatch.context() as patched:
        patched.setattr(CRR, "dump_logs", dies)  # right after the last step, and its checkpoint
        with pytest.raises(KilledError):
            main([*arguments(data, "cut"), *EVERY])
    pack = resume_offline.unpack_tree
    hours = {"nanoseconds": 2 * 3600 * 10**9}
    monkeypatch.setattr(resume_offline, "unpack_tree", lambda state: {**pack(state), **hours})
    assert main([*arguments(data, "cut"), *EVERY, "--resume"]) == 0
    whole, cut = (data.parent / name for name in ("whole", "cut"))
    assert log_of(cut) == log_of(whole)
    assert len(log_of(cut)) == 1
    assert json.loads((cut / "run.json").read_text())["seconds"] >= 7200


def test_data_of_an_environment_that_is_not_known_here(data: Path) -> None:
    named = replace(OfflineDataset.load(data), metadata={"env_id": "TheirOwn-v3"})
    named.save(data.parent / "theirs.npz")
    assert main(arguments(data.parent / "theirs.npz")) == 0
    assert json.loads((data.parent / "run" / "run.json").read_text())["env_id"] == "TheirOwn-v3"


def test_a_damaged_checkpoint_is_passed_over(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments(data, "whole"), *EVERY]) == 0
    newest = CheckpointFolder(killed_at(23, data, monkeypatch)).paths()[0]
    newest.write_bytes(newest.read_bytes()[:-9])
    assert main([*arguments(data, "cut"), *EVERY, "--resume"]) == 0
    said = capsys.readouterr().out
    assert "step_000000000020.ckpt is damaged" in said
    assert "going on from step 10" in said
    whole, cut = (parameters_of(data.parent / name / "model.zip") for name in ("whole", "cut"))
    assert all(th.equal(whole[name], cut[name]) for name in whole)


def test_checkpoints_are_not_unpickled(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CheckpointFolder(killed_at(23, data, monkeypatch))
    monkeypatch.setattr(pickle, "loads", None)
    monkeypatch.setattr(pickle, "load", None)
    monkeypatch.setattr(pickle, "Unpickler", None)
    checkpoint = folder.latest(
        json.loads(folder.paths()[0].read_bytes().partition(b"\n")[0])["identity"], print
    )
    assert checkpoint is not None
    assert set(unpack_tree(checkpoint.state)) >= {"parameters", "history", "log"}


def test_other_data_are_refused(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same file by another name goes on; another file by the same name does not."""
    killed_at(23, data, monkeypatch)
    kept = data.read_bytes()
    changed = OfflineDataset.load(data)
    changed.rewards[3] += 1.0
    changed.save(data)
    with pytest.raises(SystemExit):
        main([*arguments(data, "cut"), *EVERY, "--resume"])
    assert "is of another run: data_checksum: " in capsys.readouterr().err
    moved = data.with_name("moved.npz")
    moved.write_bytes(kept)
    assert main([*arguments(moved, "cut"), *EVERY, "--resume"]) == 0
    assert "going on from step 20" in capsys.readouterr().out


def test_interrupted_runs_are_saved(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = CRR.train

    def interrupted(self: CRR, gradient_steps: int) -> None:
        if self.num_timesteps == 7:
            raise KeyboardInterrupt
        train(self, gradient_steps)

    monkeypatch.setattr(CRR, "train", interrupted)
    assert main(arguments(data)) == 130
    record = json.loads((data.parent / "run" / "run.json").read_text())
    assert (record["completed"], record["trained_timesteps"]) == (False, 7)


def test_seeds(data: Path) -> None:
    """Each gives the model that it gives alone."""
    assert main([*arguments(data, "many"), "--seeds", "1", "5"]) == 0
    assert main([*arguments(data, "alone"), "--seed", "5"]) == 0
    first, last, alone = (
        parameters_of(data.parent / name / "model.zip") for name in ("many/seed_1", "many/seed_5", "alone")
    )
    assert all(th.equal(last[name], alone[name]) for name in alone)
    assert not all(th.equal(first[name], alone[name]) for name in alone)


def test_data_on_disk_teach_the_same(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(data.parent / "cache"))
    assert main(arguments(data, "memory")) == 0
    assert main([*arguments(data, "disk"), "--mmap"]) == 0
    memory, disk = (parameters_of(data.parent / name / "model.zip") for name in ("memory", "disk"))
    assert all(th.equal(memory[name], disk[name]) for name in memory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algo": "ppo"}, "ppo learns from an environment"),
        ({"algo": "cr"}, "unknown algorithm 'cr'"),
        ({"data": "missing.npz"}, "missing.npz"),
        ({"env": "ResourcePol"}, "did you mean"),
    ],
)
def test_one_line_errors(
    data: Path, change: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        main(arguments(data, **change))
    assert error.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--hparams", "weight_mode=max"], "weight_mode='max'"),
        (["--hparams", "value_mode=max"], "every weight would be 0"),
        (["--hparams", "betta=1"], "did you mean 'beta'"),
        (["--resume"], "--checkpoint-every"),
        (["--set", "days=1"], "--set: is for an environment; --data has none"),
        (["--n-envs", "2"], "--n-envs: is for an environment; --data has none"),
    ],
)
def test_wrong_options(data: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*arguments(data), *more])
    assert message in capsys.readouterr().err


def test_a_finished_run_and_checkpoints_of_another_are_kept(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments(data), *EVERY]) == 0
    killed_at(23, data, monkeypatch)
    before = {path: path.read_bytes() for path in data.parent.rglob("*") if path.is_file()}
    for name, more, message in [
        ("run", [], "has a model already"),
        ("run", [*EVERY, "--resume", "--seed", "1"], "another run: seed: 0 there, 1 here"),
        ("cut", [], "--resume goes on from them"),
        ("cut", [*EVERY, "--resume", "--seed", "1"], "another run: seed: 0 there, 1 here"),
    ]:
        with pytest.raises(SystemExit):
            main([*arguments(data, name), *more])
        assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in data.parent.rglob("*") if path.is_file()} == before


def test_a_full_disk_is_one_line(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert main([*arguments(data), *EVERY]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "step_000000000010.ckpt: No space left on device" in line
