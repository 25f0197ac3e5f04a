"""The command: what it prints and writes, what it refuses, and that nothing stops it for good."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch as th
from command_cases import one_line_error
from tuning_cases import (
    OPTIONS,
    counted,
    find,
    journal,
    open_to_read_alone,
    results,
    search,
)

from sb3_greendc.cli import tune
from sb3_greendc.cli.tune import main
from sb3_greendc.core import yaml
from sb3_greendc.core.engine import DIED_AGAIN, TaskError
from sb3_greendc.runs.hyperparameters import Hyperparameters
from sb3_greendc.runs.models import load_model, save_model
from sb3_greendc.tuning import Objective, Order, report, study, training, worker
from sb3_greendc.tuning import search as search_module
from sb3_greendc.tuning.score import Score
from sb3_greendc.tuning.storage import open_storage

FOLDER = Path("runs") / "tuning" / "small"
FILE = """\
default:
  policy: MlpPolicy
  n_timesteps: 5000
  gamma: 0.5
  n_steps: 16
  batch_size: 16
  n_epochs: 3
"""
"""Hyperparameters that train in no time, none of them those of :data:`OPTIONS`."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_search_from_beginning_to_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ppo.yml").write_text(f"# kept\n{FILE}")
    monkeypatch.setenv("GREENDC_ZOO", str(folder))
    assert main([*OPTIONS, "--trials", "3", "--write-zoo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "ppo on VCC-2021-v1: 3 trials of 240 steps (0 done; at most 720 steps to go, less what is pruned), "
        "1 at once (serial)"
    )
    assert lines[1].startswith("judged by the mean return of 2 validation episodes of 2020-05, 2020-06")
    progress = [line for line in lines if line.startswith("[")]
    assert [line[:13] for line in progress] == ["[1/3] trial 0", "[2/3] trial 1", "[3/3] trial 2"]
    assert all("complete" in line and "best " in line for line in progress)

    figures = {f"{name}.{kind}" for name in ("history", "importances", "slice") for kind in ("png", "html")}
    written = {path.name for path in FOLDER.iterdir()}
    expected = figures if find_spec("plotly") else {name for name in figures if name.endswith("png")}
    assert expected | {"journal.log", "report.json", "trials.csv", "best"} <= written
    made = json.loads((FOLDER / "report.json").read_text())
    assert made["retrained"] == made["score"]
    shown = {row["policy"] for row in made["test"]}
    assert shown == {"best trial", "settings of the file", "always_on", "random"}
    assert load_model(FOLDER / "best").run["hyperparameters"] == made["settings"]

    text = (folder / "ppo.yml").read_text()
    assert text.startswith("# kept\ndefault:")
    assert "study 'small'" in text
    assert "seeds 1000000 to 1000001" in text
    assert yaml.load(folder / "ppo.yml")["VCC-2021-v1"] == made["settings"]

    def judge_again(*_: object) -> None:
        raise AssertionError("the test figures were computed twice")

    monkeypatch.setattr(report, "map_tasks", judge_again)
    monkeypatch.setattr(tune, "draw", lambda *_: ([], []))  # the same again
    assert main([*OPTIONS, "--trials", "3"]) == 0
    assert "Test: VCC-2021-v1, 2 episodes" in capsys.readouterr().out

    assert main([*OPTIONS, "--trials", "3", "--write-zoo"]) == 0
    assert f"wrote no block: {folder / 'ppo.yml'} has these settings already" in capsys.readouterr().out
    assert (folder / "ppo.yml").read_text() == text


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "draw", lambda *_: ([], []))


@pytest.mark.usefixtures("no_figures")
class TestWritingTheBlock:
    """Only what beats the settings that the file has, as they are there and at that moment, is written."""

    @pytest.fixture
    def file(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (folder / "ppo.yml").write_text(FILE)
        monkeypatch.setenv("GREENDC_ZOO", str(folder))
        return folder / "ppo.yml"

    @pytest.fixture
    def tried(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
        """Note what is trained, let each model have the return that :attr:`returns` says, by its gamma."""
        noted: list[dict[str, Any]] = []
        train_and_score = training.train_and_score

        def note(objective: Any, hyperparameters: Any, *others: Any) -> training.Training:
            noted.append(dict(hyperparameters.settings))
            trained = train_and_score(objective, hyperparameters, *others)
            return training.Training(trained.model, Score(-noted[-1]["gamma"]))

        monkeypatch.setattr(worker, "train_and_score", note)
        monkeypatch.setattr(report, "train_and_score", note)
        return noted

    def asked(self, gamma: str, *others: str) -> list[str]:
        options = [option for option in OPTIONS if option != "n_epochs=2"]
        place = options.index("--timesteps")
        fixed = [f"gamma={gamma}", "n_epochs=1", "learning_rate=1e-12"]
        return [*options[:place], *fixed, *options[place:], "--trials", "1", "--write-zoo", *others]

    def test_what_is_fixed_is_not_in_the_settings_of_the_file(
        self, file: Path, tried: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A search around bad values beats the file with these values, but not the file."""
        assert main(self.asked("0.9")) == 0
        said = capsys.readouterr().out
        assert (
            "validation return of trial 0: -0.9, trained again: -0.9, of the settings of the file: -0.5"
            in said
        )
        assert "fixed by --hparams, in the trials alone: n_envs, n_steps, batch_size, gamma, n_epochs" in said
        assert "wrote no block: the settings of the file are better" in said
        assert file.read_text() == FILE
        assert tried[-1] == yaml.load(file)["default"]

    def test_a_block_that_came_meanwhile_is_compared_with(
        self, file: Path, tried: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(self.asked("0.1", "--study", "first")) == 0
        written = file.read_text()
        assert "# Fixed, not searched: n_envs=2, n_steps=24" in written
        assert yaml.load(file)["VCC-2021-v1"]["gamma"] == 0.1
        assert main(self.asked("0.2", "--study", "second")) == 0  # of the file as it is now
        assert "of the settings of the file: -0.1" in capsys.readouterr().out
        assert file.read_text() == written

        file.write_text(FILE)
        options = [*self.asked("0.2", "--study", "third")]
        options.remove("--write-zoo")
        assert main(options) == 0
        file.write_text(written)  # after the report
        capsys.readouterr()
        before = len(tried)
        assert main([*options, "--write-zoo"]) == 0
        said = capsys.readouterr().out
        assert f"{file} has changed since the report; validation return of its settings now: -0.1" in said
        assert "wrote no block: the settings of the file are better" in said
        assert file.read_text() == written
        assert len(tried) == before + 1  # the test is not judged again

    def test_settings_that_do_not_fit_are_no_rival(
        self, file: Path, tried: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What is fixed may be what makes the file's settings fit."""
        file.write_text(FILE.replace("MlpPolicy", "MlpPolcy"))
        options = self.asked("0.9")
        options.insert(options.index("gamma=0.9"), "policy=MlpPolicy")
        assert main(options) == 0
        said = capsys.readouterr().out
        assert (
            "of the settings of the file: none: they do not fit (ppo does not fit: Policy MlpPolcy unknown"
            in said
        )
        assert yaml.load(file)["VCC-2021-v1"]["policy"] == "MlpPolicy"

    def test_a_file_that_broke_meanwhile_is_one_line(
        self, folder: Path, file: Path, tried: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = self.asked("0.9")
        options.remove("--write-zoo")
        assert main(options) == 0
        made = find(journal(folder / FOLDER / "journal.log"))
        assert made is not None
        file.write_text("- 3\n")
        asked = argparse.Namespace(wide=False, storage=None, write_zoo=True)
        assert tune._finish(made, FOLDER, asked) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("tune: error: wrote no block: ")
        assert file.read_text() == "- 3\n"
        made.study.set_user_attr("report", None)  # as if it had broken before the report
        assert tune._finish(made, FOLDER, asked) == 1
        assert (
            f"of the settings of the file: none: they cannot be read ({file}: must map"
            in capsys.readouterr().out
        )


@pytest.mark.parametrize(("own", "trained_with"), [(0.9, 0.5), (0.3, 0.3), (None, 0.5)])
def test_settings_of_the_file_keep_the_limit_of_the_study(
    own: float | None, trained_with: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def note(objective: Objective, hyperparameters: Hyperparameters) -> training.Training:
        seen.append(hyperparameters.settings["cost_limit"])
        return training.Training(None, Score(1.0))  # type: ignore[arg-type]

    monkeypatch.setattr(report, "require_fit", lambda *_: None)
    monkeypatch.setattr(report, "_train", note)
    objective = Objective("pid_ppo", "VCC-2021-v1", 48, base={"cost_limit": 0.5}, pruner="none")
    block = {} if own is None else {"cost_limit": own}
    rival = report._score_block(report._Finals(objective, {}, Path(), block))
    assert seen == [trained_with]
    assert rival == report.Rival(block, Score(1.0))


@pytest.mark.usefixtures("no_figures")
class TestFilesOfAReport:
    """Whoever works on a study has its model and its report, wherever and whenever."""

    def test_another_folder_gets_model_and_report_too(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = [*OPTIONS, "--trials", "1", "--storage", journal(folder / "journal.log")]
        assert main([*options, "--out", "A"]) == 0
        monkeypatch.setattr(report, "evaluate", None)  # the test is judged once
        capsys.readouterr()
        assert main([*options, "--out", "B"]) == 0
        said = capsys.readouterr().out
        assert f"training trial 0 again, for {Path('B') / 'best'}\n" in said
        assert f"model and record: {Path('B') / 'best'}\n" in said
        first, second = (load_model(Path(name) / "best").model.policy.state_dict() for name in "AB")
        assert all(th.equal(first[name], second[name]) for name in first)
        one, other = (json.loads((Path(name) / "report.json").read_text()) for name in "AB")
        moment = {"date": "", "command": "", "commit": ""}
        assert {**one, **moment} == {**other, **moment}
        assert Path("A/trials.csv").read_text() == Path("B/trials.csv").read_text()
        stamp = Path("B/report.json").stat().st_mtime_ns
        assert main([*options, "--out", "B"]) == 0
        assert "training trial" not in capsys.readouterr().out
        assert Path("B/report.json").stat().st_mtime_ns == stamp

    def test_a_model_of_another_trial_is_replaced(self, folder: Path) -> None:
        options = [*OPTIONS, "--trials", "1", "--storage", journal(folder / "journal.log")]
        assert main([*options, "--out", "A"]) == 0
        record = json.loads(Path("A/best/run.json").read_text())
        made = load_model("A/best")
        save_model(made.model, Path("A/best"), {**record, "hyperparameters": {}}, made.normalizer)
        assert main([*options, "--out", "A"]) == 0
        assert load_model("A/best").run["hyperparameters"] == record["hyperparameters"]

    @pytest.mark.parametrize("last", ["trials.csv", "report.json"])
    def test_a_crash_while_files_are_written_is_made_good(
        self, last: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The storage knows of a report only when its files are there."""
        options = [*OPTIONS, "--trials", "1"]

        def crash(path: Path, *_: Any) -> Any:
            if path.name == last:
                raise KeyboardInterrupt
            return write(path, *_)

        name = "atomic_write" if last == "trials.csv" else "write_json"
        write = getattr(report, name)
        with monkeypatch.context() as patch:
            patch.setattr(report, name, crash)
            assert main(options) == 130
        study = find(journal(folder / FOLDER / "journal.log"))
        assert study is not None
        assert "report" not in study.study.user_attrs
        assert main(options) == 0
        assert {"report.json", "trials.csv", "best"} <= {path.name for path in FOLDER.iterdir()}


def test_password_is_nowhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in what is printed nor in any file: report, record of the model, hyperparameters, figures."""
    url = "postgresql://user:s3cret@host/db"
    kept = open_storage(journal(folder / "journal.log"))
    monkeypatch.setattr(study, "open_storage", lambda *_: kept)
    (folder / "ppo.yml").write_text(FILE)
    monkeypatch.setenv("GREENDC_ZOO", str(folder))
    monkeypatch.setattr(search_module, "map_tasks", lambda f, tasks, *_: [f(task) for task in tasks])
    monkeypatch.setattr(report, "map_tasks", lambda f, tasks: [f(task) for task in tasks])
    options = [*OPTIONS, "--trials", "2", "--write-zoo", "--storage", url, "--out", "out"]
    monkeypatch.setattr(sys, "argv", ["tune.py", *options])
    assert main(options) == 0
    said = capsys.readouterr()
    assert "in postgresql://user:***@host/db" in said.out
    records = [json.loads((folder / "out" / name).read_text()) for name in ("report.json", "best/run.json")]
    assert all("--storage 'postgresql://user:***@host/db'" in record["command"] for record in records)
    assert "postgresql://user:***@host/db" in (folder / "ppo.yml").read_text()
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert len(written) > 8
    assert [path for path in written if b"s3cret" in path.read_bytes()] == []
    assert "s3cret" not in said.out + said.err


def test_password_is_not_in_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "postgresql://user:s3cret@host/db"
    with pytest.raises(SystemExit):
        main(["--env", "VCC-2021", "--storag", "x", "--strage", url])
    assert "postgresql://user:***@host/db" in capsys.readouterr().err

    def gone(*_: object) -> None:
        raise TaskError(0, Order(url, "small", 2), f"ConnectionError: {url} is gone, so is 's3cret'")

    monkeypatch.setattr(study, "open_storage", lambda *_: open_storage("sqlite://"))
    monkeypatch.setattr(tune, "run_search", gone)
    assert main([*OPTIONS, "--storage", url]) == 1
    said = capsys.readouterr()
    assert "is gone" in said.err
    assert "s3cret" not in said.out + said.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--env", "VCC-2012"], r"unknown environment 'VCC-2012'; did you mean 'VCC-20"),
        (["--env", "VCC-2021", "--algo", "ppoo"], r"unknown algorithm 'ppoo'; did you mean 'ppo'\?"),
        (["--env", "VCC-2021", "--algo", "ars"], r"no search space for 'ars'.*there is one for a2c"),
        (["--env", "VCC-2021", "--algo", "dqn"], r"dqn does not fit"),
        (["--env", "VCC-2021", "--algo", "maskable_ppo"], r"maskable_ppo needs action masks"),
        (["--env", "VCC-2021", "--hparams", "gama=0.9"], r"no such hyperparameter; did you mean 'gamma'\?"),
        (["--env", "VCC-2021", "--set", "dais=3"], r"unknown option 'dais'; did you mean 'days'\?"),
        (["--env", "VCC-2021", "--set", "month=2020-10"], r"month='2020-10': must be left out"),
        (["--env", "VCC-2021", "--storage", "journl:///x"], r"storage .*must be journal:///PATH"),
        (["--env", "VCC-2021", "--storage", "sqlite:////nowhere/x.db"], r"cannot be reached"),
        (["--env", "VCC-2021", "--algo", "crr"], r"crr learns from data: --data FILE"),
        (["--env", "VCC-2021", "--data", "x.npz"], r"x\.npz"),
        (["--env", "VCC-2021", "--ray-address", "auto"], r"--ray-address: needs --engine ray"),
        (["--env", "VCC-2021", "--hparams", "gamma=abc"], r"gamma='abc': 'abc': must be a number"),
        (["--env", "VCC-2021", "--lease", "nan"], r"--lease nan: must be from 1 to 86,400 seconds"),
        (["--env", "VCC-2021", "--lease", "inf"], r"--lease inf: must be from 1 to 86,400 seconds"),
    ],
)
def test_bad_input_is_one_line(
    options: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*options, "--timesteps", "100"])
    assert caught.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("tune: error: ")
    assert re.search(message, line), line
    assert list(folder.iterdir()) == []


def test_a_sqlite_file_that_cannot_be_written_is_one_line_before_any_trial(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{folder / 'studies.db'}"
    optuna.create_study(storage=url, study_name="another")
    open_to_read_alone(monkeypatch)
    monkeypatch.setattr(tune, "run_search", lambda *_: pytest.fail("a trial was run"))
    err = one_line_error("tune", main, [*OPTIONS, "--storage", url], capsys)
    assert f"storage {url}: cannot be written: attempt to write a readonly database" in err


def test_an_out_that_cannot_be_written_is_one_line_before_any_trial(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "file").touch()
    monkeypatch.setattr(tune, "run_search", lambda *_: pytest.fail("a trial was run"))
    for out in ("file", "file/out"):
        assert f"--out {out}: cannot be written" in one_line_error(
            "tune", main, [*OPTIONS, "--out", out], capsys
        )


def test_full_disk_ends_the_command_and_spoils_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tune, "_finish", lambda *_: 0)
    url = journal(folder / "journal.log")
    options = [*OPTIONS, "--storage", url]
    assert main([*options, "--trials", "1"]) == 0
    before = results(search(url, 1))

    def full(descriptor: int) -> None:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - 5)  # half a line got in
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:

        def on_a_full_disk(*arguments: Any) -> training.Training:
            patch.setattr(os, "fsync", full)
            return training.train_and_score(*arguments)

        patch.setattr(worker, "train_and_score", on_a_full_disk)
        assert main([*options, "--trials", "2"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"tune: error: .*No space left on device.*; the same command goes on", line)
    open_storage.cache_clear()
    assert main([*options, "--trials", "2", "--lease", "1"]) == 0  # its worker, this process, still lives
    study = find(url)
    assert study is not None
    assert results(study)[:1] == before
    assert len(counted(study)) == 2


def test_workers_that_die_end_the_command_in_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Out of memory, most likely: nobody is helped by where the command stood."""

    def die(*_: Any) -> None:
        raise TaskError(0, "an order", DIED_AGAIN)

    monkeypatch.setattr(tune, "run_search", die)
    assert main([*OPTIONS, "--jobs", "2"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"tune: error: a worker: {DIED_AGAIN}; the same command goes on"


def test_study_of_other_settings_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tune, "_finish", lambda *_: 0)
    storage = ["--storage", journal(folder / "journal.log")]
    main([*OPTIONS, "--trials", "1", *storage])
    before = (folder / "journal.log").read_bytes()
    with pytest.raises(SystemExit):
        main([*OPTIONS, "--trials", "1", *storage, "--pruner", "hyperband"])
    assert "was made with pruner 'median', not 'hyperband'; --study names another" in capsys.readouterr().err
    assert (folder / "journal.log").read_bytes().startswith(before)
