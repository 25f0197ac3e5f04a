"""``train --from-study``: a search ends in something that runs."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch as th
from optuna.trial import TrialState
from tuning_cases import OPTIONS, small_objective

from sb3_greendc.cli import train, tune
from sb3_greendc.core import commands, yaml
from sb3_greendc.runs import training
from sb3_greendc.runs.models import load_model
from sb3_greendc.tuning import create_or_load, found
from sb3_greendc.tuning.found import best_of
from sb3_greendc.tuning.storage import open_storage

STUDY = Path("runs") / "tuning" / "small"
OTHERS = [
    "--trials",
    "2",
    "--set",
    "forecast=oracle",
    "--hparams",
    "normalize={norm_reward: true}",
    "--seed",
    "3",
]


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Work in a folder with a study of two trials, and what its search printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("studies"))
        yield Path.cwd()


@pytest.fixture(scope="module")
def said(folder: Path) -> str:
    """Return what the search printed."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.setattr(tune, "draw", lambda *_: ([], []))
        assert tune.main([*OPTIONS, *OTHERS]) == 0
    return out.getvalue()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Note what the training is asked for, and train nothing."""
    noted: dict[str, Any] = {}

    def note(**arguments: Any) -> None:
        noted.update(arguments)
        raise ValueError("noted")

    monkeypatch.setattr("sb3_greendc.runs.jobs.prepare", note)
    return noted


def test_the_printed_command_trains_the_best_trial(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The model is the one that the search judged at its end."""
    (command,) = re.findall(r"^train it: greendc train (.*)$", said, re.MULTILINE)
    assert command == "--from-study small"
    assert train.main([*shlex.split(command), "--no-progress"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"study 'small': trial \d, the best of 2", printed)
    assert f"saved {STUDY / 'trained' / 'model.zip'}" in printed
    trained, best = (load_model(STUDY / name) for name in ("trained", "best"))
    for key in ("algorithm", "env_id", "env_kwargs", "seed", "timesteps", "n_envs", "hyperparameters"):
        assert trained.run[key] == best.run[key], key
    assert trained.run["env_kwargs"]["forecast"] == "oracle"
    assert trained.run["seed"] == 3
    assert trained.normalizer is not None
    weights = [model.model.policy.state_dict() for model in (trained, best)]
    assert all(th.equal(weights[0][name], weights[1][name]) for name in weights[1])


def test_the_command_imports_what_the_search_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_imported", ["my_module"])
    assert tune.command_for("small").endswith(" --from-study small --import my_module")


def test_the_file_beside_the_study_holds_the_same(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = json.loads((STUDY / "report.json").read_text())
    file = STUDY / "hparams.yml"
    assert yaml.load(file) == {"VCC-2021-v1": made["settings"]}
    assert "# Train it: greendc train --from-study small\n" in file.read_text()
    monkeypatch.setenv("GREENDC_ZOO", "nowhere")
    (STUDY.parent / "other").mkdir(exist_ok=True)
    run = training.prepare("ppo", "VCC-2021", 48, env_kwargs={"days": 1}, base=file)
    assert run.hyperparameters.settings == made["settings"]
    options = ["--algo", "ppo", "--env", "VCC-2021", "--set", "days=1", "--hparams-file", str(file)]
    assert train.main([*options, "--timesteps", "48", "--out", "from_file", "--no-progress"]) == 0
    assert load_model("from_file").run["hyperparameters"] == made["settings"]


def test_options_override_the_study(said: str, asked: dict[str, Any]) -> None:
    study = best_of("small")
    with pytest.raises(SystemExit):
        train.main(["--from-study", "small", "--out", "x"])
    assert asked["algorithm"] == "ppo"
    assert asked["env_id"] == "VCC-2021-v1"
    assert (asked["timesteps"], asked["seed"]) == (240, 3)
    assert asked["base"] == dict(study.settings)
    assert asked["env_kwargs"] == {**study.objective.training_kwargs}
    assert asked["env_kwargs"]["split"] == "train" and asked["env_kwargs"]["month"] is None
    options = [
        "--timesteps",
        "99",
        "--seed",
        "0",
        "--hparams",
        "gamma=0.5",
        "--set",
        "month=2019-07",
        "days=2",
    ]
    with pytest.raises(SystemExit):
        train.main(["--from-study", str(STUDY), "--out", "x", *options])
    assert (asked["timesteps"], asked["seed"]) == (99, 0)
    assert asked["hyperparameters"] == {"gamma": 0.5}
    assert asked["env_kwargs"] == {"days": 2, "month": "2019-07", "forecast": "oracle"}
    with pytest.raises(SystemExit):
        train.main(["--from-study", "small", "--out", "x", "--env", "VCC-2019"])
    assert asked["env_id"] == "VCC-2019"
    assert asked["env_kwargs"] == {"days": 1, "forecast": "oracle"}


@pytest.mark.parametrize("storage", ["journal:///elsewhere.log", "sqlite:///elsewhere.db"])
def test_studies_in_other_storages(storage: str, asked: dict[str, Any], folder: Path) -> None:
    search = create_or_load(small_objective(), "mine", storage)
    with pytest.raises(
        ValueError, match=r"study 'mine': no trial is complete yet \(0 pruned or diverged, 0 running\)"
    ):
        best_of("mine", storage)
    trial = search.study.ask(fixed_distributions=search.space)
    search.study.tell(trial, state=TrialState.PRUNED)
    trial = search.study.ask(fixed_distributions=search.space)
    with pytest.raises(ValueError, match=r"no trial is complete yet \(1 pruned or diverged, 1 running\)"):
        best_of("mine", storage)
    search.study.tell(trial, 1.0)
    with pytest.raises(SystemExit):
        train.main(["--from-study", "mine", "--storage", storage])
    assert asked["base"] == dict(search.objective.hyperparameters(trial.params).settings)
    with pytest.raises(ValueError, match=r"study 'mien': not in .*; did you mean 'mine'\?"):
        best_of("mien", storage)


def test_a_folder_of_a_study_of_another_name(said: str, tmp_path: Path) -> None:
    (tmp_path / "journal.log").write_bytes((STUDY / "journal.log").read_bytes())
    assert best_of(str(tmp_path)).study == "small"


def test_study_where_nothing_can_be_written(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    open_storage.cache_clear()
    monkeypatch.setattr(os, "symlink", read_only)
    assert best_of("small").trials == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--from-study", "smal"],
            r"study 'smal': not in runs/tuning; did you mean 'small'\?; --storage URL says",
        ),
        (
            ["--from-study", "x", "--storage", "journal:///no.log"],
            r"--storage journal:///no.log: no such file",
        ),
        (["--from-study", "x", "--storage", "sqlite:///no.db"], r"--storage sqlite:///no.db: no such file"),
        (["--from-study", "small", "--algo", "sac"], r"--algo sac: study 'small' tuned ppo"),
        (
            ["--from-study", "small", "--hparams-file", "x.yml"],
            r"--hparams-file x.yml: the hyperparameters come",
        ),
        (["--env", "VCC-2021", "--out", "x"], r"--algo NAME, or --from-study NAME, is required"),
        (["--env", "VCC-2021", "--algo", "ppo"], r"--out FOLDER is required"),
        (
            ["--env", "VCC-2021", "--algo", "ppo", "--out", "x", "--storage", "a"],
            r"--storage a: needs --from-study",
        ),
        (["--env", "VCC-2021", "--algo", "ppo", "--out", "x", "--hparams-file", "no.yml"], r"no.yml"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    said: str, options: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    with pytest.raises(SystemExit) as stop:
        train.main(options)
    assert stop.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("train: error: ")
    assert re.search(message, line), line
    assert sorted(folder.rglob("*")) == before


def test_a_study_of_another_program_is_refused(folder: Path) -> None:
    optuna.create_study(storage="sqlite:///foreign.db", study_name="foreign")
    with pytest.raises(ValueError, match="study 'foreign': made by another program"):
        best_of("foreign", "sqlite:///foreign.db")


def test_no_password_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = tune.command_for("small", "postgresql://tuner:s3cret@db/tuning")
    assert shown == "greendc train --from-study small --storage 'postgresql://tuner:***@db/tuning'"
    with pytest.raises(SystemExit):
        train.main(["--from-study", "small", "--storge", "postgresql://tuner:s3cret@db/tuning"])
    assert "s3cret" not in capsys.readouterr().err


def test_data_of_a_study_must_be_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objective = small_objective()
    objective = dataclasses.replace(objective, data=str(tmp_path / "x.npz"), data_checksum="abc")
    one = found.Found("small", 0, 1, objective, {})
    monkeypatch.setattr(found, "checksum", lambda path: "abc")
    assert one.data() == tmp_path / "x.npz"
    monkeypatch.setattr(found, "checksum", lambda path: "abd")
    with pytest.raises(ValueError, match=r"x\.npz is not what it was when the study was made"):
        one.data()
