"""What ``greendc clone`` writes, refuses and keeps."""

from __future__ import annotations

import errno
import itertools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cloning_cases import POOL, first_action_data

from sb3_greendc.bc import Clone
from sb3_greendc.bc.cloning import _BestEpoch
from sb3_greendc.cli.clone import main
from sb3_greendc.core.files import RescuedError
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.runs.models import load_model


@pytest.fixture(scope="module", autouse=True)
def _imitation() -> None:
    pytest.importorskip("imitation")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "token=s3cret.npz"
    collect(["hvf"], "ResourcePool-10", 6000, env_kwargs=POOL).save(data)
    out = tmp_path / "clone"
    arguments = ["--data", str(data), "--out", str(out), "--epochs", "1", "--episodes", "2"]
    assert main([*arguments, "--no-progress"]) == 0
    said = capsys.readouterr().out
    assert "maskable_ppo, epoch 1 of 1" in said and "agreement on 2 fresh episodes" in said
    table = pd.read_csv(out / "agreement.csv")
    assert set(table["policy"]) == {"clone", "hvf"} and set(table["heuristic"]) == {"hvf"}
    written = {"model.zip", "run.json", "MANIFEST.json", "history.csv", "agreement.csv"}
    assert {path.name for path in out.iterdir()} == written
    record = json.loads((out / "run.json").read_text())
    assert record["algorithm"] == "maskable_ppo" and record["env_id"] == "ResourcePool-10-v0"
    assert "s3cret" not in str(record)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--data": "none.npz"}, "none.npz"),
        ({"--batch-size": "100000"}, "batch_size=100000"),
        ({"--policy-kwargs": "net_arch"}, "must be key=value"),
        ({"--policy-kwargs": "net_arch=[-3]", "--batch-size": "16"}, "does not fit: "),
        ({"--device": "cuda:99"}, "--device cuda:99: cannot be used on this machine"),
        ({"--seed": "-1"}, "seed=-1: must be at least 0"),
        ({"--learning-rate": "1e38", "--batch-size": "16"}, "training has diverged"),
    ],
)
def test_bad_commands_are_one_line(
    changes: dict[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_action_data().save(tmp_path / "x.npz")
    options = {"--data": str(tmp_path / "x.npz"), "--out": str(tmp_path / "run"), **changes}
    try:
        code = main([*itertools.chain(*options.items()), "--no-progress"])
    except SystemExit as error:
        code = error.code  # type: ignore[assignment]
    err = capsys.readouterr().err
    assert (
        code == (1 if "diverged" in message else 2)
        and err.startswith("clone: error: ")
        and err.count("\n") == 1
    )
    assert message in err and not (tmp_path / "run").exists()


def small_command(data: OfflineDataset, folder: Path) -> list[str]:
    data.save(folder / "x.npz")
    options = ["--epochs", "2", "--batch-size", "16", "--no-progress"]
    return ["--data", str(folder / "x.npz"), "--out", str(folder / "run"), *options]


def test_data_of_an_environment_that_is_not_known_here_are_cloned(tmp_path: Path) -> None:
    theirs = replace(first_action_data(), metadata={"env_id": "TheirOwn-v3"})
    assert main(small_command(theirs, tmp_path)) == 0
    assert load_model(tmp_path / "run").run["env_id"] == "TheirOwn-v3"


def test_an_interrupted_command_keeps_the_best_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = _BestEpoch.finish_epoch

    def interrupted(self: _BestEpoch, loss: float) -> None:
        if self.history:
            raise KeyboardInterrupt
        finish(self, loss)

    monkeypatch.setattr(_BestEpoch, "finish_epoch", interrupted)
    assert main(small_command(first_action_data(), tmp_path)) == 130
    assert load_model(tmp_path / "run").run["completed"] is False
    assert len(pd.read_csv(tmp_path / "run" / "history.csv")) == 1


def test_a_full_disk_does_not_lose_the_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = Clone.save

    def full(self: Clone, folder: Path, **record: Any) -> Path:
        if folder == tmp_path / "run":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return save(self, folder, **record)

    monkeypatch.setattr(Clone, "save", full)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RescuedError, match="No space left on device; the model is in "):
        main(small_command(first_action_data(), tmp_path))
    [kept] = tmp_path.glob("greendc-rescued-*/run")
    assert {path.name for path in kept.iterdir()} >= {"model.zip", "run.json", "history.csv"}


def test_a_place_that_cannot_be_written_is_found_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = small_command(first_action_data(), tmp_path)
    (tmp_path / "run").touch()
    with pytest.raises(SystemExit):
        main(command)
    [line] = capsys.readouterr().err.splitlines()
    assert "run: cannot be written" in line
