"""``train --algo crr --data FILE``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch as th
from toy_data import toy_dataset

from sb3_greendc.cli.train import main
from sb3_greendc.crr import CRR
from sb3_greendc.runs.models import load_model

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


def test_resumes_exactly(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(arguments(data, "whole")) == 0
    every = ["--checkpoint-every", "10"]

    class KilledError(Exception):
        pass

    train = CRR.train

    def dies(self: CRR, gradient_steps: int) -> None:
        if self.num_timesteps == 23:
            raise KilledError
        train(self, gradient_steps)

    with monkeypatch.context() as patched:
        patched.setattr(CRR, "train", dies)
        with pytest.raises(KilledError):
            main([*arguments(data, "cut"), *every])
    checkpoint = data.parent / "cut" / "checkpoint.zip"
    assert CRR.load(checkpoint, device="cpu").num_timesteps == 20
    assert main([*arguments(data, "cut"), *every, "--resume"]) == 0
    whole, cut = (parameters_of(data.parent / name / "model.zip") for name in ("whole", "cut"))
    assert all(th.equal(whole[name], cut[name]) for name in whole)


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
    ],
)
def test_wrong_options(data: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*arguments(data), *more])
    assert message in capsys.readouterr().err


def test_a_finished_run_and_a_checkpoint_of_another_are_kept(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    every = ["--checkpoint-every", "10"]
    assert main([*arguments(data), *every]) == 0
    before = (data.parent / "run" / "model.zip").read_bytes()
    for more, message in [
        ([], "has a model.zip already"),
        ([*every, "--resume", "--seed", "1"], "another run"),
    ]:
        with pytest.raises(SystemExit):
            main([*arguments(data), *more])
        assert message in capsys.readouterr().err
    assert (data.parent / "run" / "model.zip").read_bytes() == before
    checkpoint = data.parent / "run" / "checkpoint.zip"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-50])
    with pytest.raises(SystemExit):
        main([*arguments(data), *every, "--resume"])
    assert "not a whole checkpoint" in capsys.readouterr().err
