from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_cases import one_line_error
from PIL import Image
from stable_baselines3 import PPO

from sb3_greendc.cli import evaluate as command
from sb3_greendc.cli import train as train_command
from sb3_greendc.cli.evaluate import main
from sb3_greendc.core.files import RescuedError
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation import paired
from sb3_greendc.evaluation.episodes import run_batch
from sb3_greendc.evaluation.paired import FIRST_SEED, evaluate
from sb3_greendc.evaluation.result_files import read_results, write_results
from sb3_greendc.runs.models import save_model

pytestmark = pytest.mark.usefixtures("toy")

BASE = ["--env", "Toy", "--policies", "all", "half", "--episodes", "3", "--no-progress"]


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")


def fails_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    return one_line_error("evaluate", main, arguments, capsys)


def test_table_csv_record_and_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = PPO("MlpPolicy", make_vec_env("Toy", 1), seed=0)
    save_model(model, tmp_path / "run", {"algorithm": "ppo"})
    policies = ["all", "half", str(tmp_path / "run" / "model.zip")]
    out = tmp_path / "tables" / "results.csv"
    arguments = ["--env", "Toy", "Toy-v0", "--policies", *policies, "--episodes", "5", "--seed", "7"]
    arguments += ["--metrics", "return", "total", "--reference", "all", "--out", str(out), "--plot"]
    assert main(arguments) == 0
    written = pd.read_csv(out)
    expected = pd.concat([evaluate(policies, env_id, 5, 7) for env_id in ("Toy", "Toy-v0")])
    pd.testing.assert_frame_equal(written, expected.reset_index(drop=True))
    pd.testing.assert_frame_equal(read_results(out)[0], written)
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["options"]["seed"] == 7
    assert record["versions"]["gymnasium"]
    assert "commit" in record
    assert record["policies"] == {policy: [policy] for policy in policies}
    with Image.open(out.with_suffix(".png")) as picture:
        assert picture.size[0] > 400
    assert out.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    said = capsys.readouterr().out
    assert "Toy-v1: mean of 5 episodes" in said
    assert "Toy-v0: mean of 5 episodes" in said
    assert f"{written['return'][0:5].mean():.4g}" in said
    assert "Δ: less all on the same episode" in said


def test_environment_keywords_are_typed(tmp_path: Path) -> None:
    out = tmp_path / "results.csv"
    assert main([*BASE, "--set", "min_steps=6", "--set", "max_steps=6", "--out", str(out)]) == 0
    assert (pd.read_csv(out)["length"] == 6).all()


def test_one_environment_named_twice(tmp_path: Path) -> None:
    out = tmp_path / "results.csv"
    assert main(["--env", "Toy", "Toy-v1", *BASE[2:], "--metrics", "return", "--out", str(out)]) == 0
    assert len(pd.read_csv(out)) == 6


class TestBadInput:
    def test_unknown_policy(self, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line(["--env", "Toy", "--policies", "hlaf"], capsys)
        assert "unknown policy 'hlaf'; did you mean 'half'?" in error

    def test_unknown_environment(self, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line(["--env", "Tooy", "--policies", "all"], capsys)
        assert "unknown environment 'Tooy'" in error

    def test_missing_model(self, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line(["--env", "Toy", "--policies", "none/model.zip"], capsys)
        assert "model none/model.zip: no such file" in error

    def test_model_of_another_space(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        save_model(PPO("MlpPolicy", make_vec_env("CartPole-v1", 1)), tmp_path, {"algorithm": "ppo"})
        error = fails_in_one_line(["--env", "Toy", "--policies", str(tmp_path)], capsys)
        assert "was made for observations Box(4,) float32, the environment has Box(3,) float32" in error

    def test_unknown_keyword(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "unknown option 'size'" in fails_in_one_line([*BASE, "--set", "size=3"], capsys)

    def test_reference_that_does_not_take_part(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "--reference x: must be one of" in fails_in_one_line([*BASE, "--reference", "x"], capsys)

    def test_plot_without_a_place(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "--plot: needs --out" in fails_in_one_line([*BASE, "--plot"], capsys)

    def test_unknown_metric_is_told_before_anything_runs(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "results.csv"
        error = fails_in_one_line([*BASE, "--metrics", "totl", "--out", str(out)], capsys)
        assert "--metrics totl: Toy-v1 has none of that name; did you mean 'total'? (known: return," in error
        assert not out.exists()

    def test_unknown_metric_of_another_package_is_told_after_the_episodes_are_safe(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        save_model(PPO("MlpPolicy", make_vec_env("CartPole-v1", 1)), tmp_path, {"algorithm": "ppo"})
        out = tmp_path / "results.csv"
        arguments = ["--env", "CartPole", "--policies", str(tmp_path), "--episodes", "2", "--no-progress"]
        error = fails_in_one_line([*arguments, "--metrics", "retrun", "--out", str(out)], capsys)
        assert "metric='retrun'" in error
        assert len(pd.read_csv(out)) == 2

    def test_bound_where_there_is_none(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        save_model(PPO("MlpPolicy", make_vec_env("CartPole-v1", 1)), tmp_path, {"algorithm": "ppo"})
        arguments = ["--env", "CartPole-v1", "--policies", str(tmp_path), "--bound", "lp"]
        error = fails_in_one_line([*arguments, "--out", str(tmp_path / "x.csv")], capsys)
        assert "--bound lp: there is none for CartPole-v1" in error

    def test_file_of_another_kind(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails_in_one_line([*BASE, "--out", str(tmp_path / "results.xlsx")], capsys)
        assert "results.xlsx: must end in .csv or .parquet" in error

    def test_address_without_ray(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "needs --engine ray" in fails_in_one_line([*BASE, "--ray-address", "auto"], capsys)


def test_parquet_carries_its_record(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "results.parquet"
    assert main([*BASE, "--out", str(out)]) == 0
    table, record = read_results(out)
    pd.testing.assert_frame_equal(table, evaluate(["all", "half"], "Toy", 3, FIRST_SEED))
    assert record["policies"] == {"all": ["all"], "half": ["half"]}
    assert record["versions"]["gymnasium"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.parquet"]


def test_named_runs_are_one_row_of_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(2):
        model = PPO("MlpPolicy", make_vec_env("Toy", 1), seed=seed)
        save_model(model, tmp_path / f"seed_{seed}", {"algorithm": "ppo"})
    arguments = ["--env", "Toy", "--policies", f"ppo={tmp_path}/seed_*", "full=all", "--episodes", "4"]
    out = tmp_path / "results.csv"
    assert main([*arguments, "--reference", "full", "--out", str(out), "--no-progress"]) == 0
    table = pd.read_csv(out)
    assert table.groupby("policy")["run"].nunique().to_dict() == {"full": 1, "ppo": 2}
    assert json.loads(out.with_suffix(".json").read_text())["policies"]["ppo"] == [
        f"{tmp_path}/seed_0",
        f"{tmp_path}/seed_1",
    ]
    assert f"{table[table['policy'] == 'ppo']['return'].mean():.4g}" in capsys.readouterr().out


def test_interrupted_it_keeps_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside what a whole evaluation wrote before, none of which is touched."""
    out = tmp_path / "results.csv"
    whole = [*BASE, "--out", str(out), "--reference", "half", "--plot"]
    assert main(whole) == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def interrupted(batch: Any, *rest: Any) -> Any:
        if batch.source.name == "half":
            raise KeyboardInterrupt
        return run_batch(batch, *rest)

    monkeypatch.setattr(paired, "run_batch", interrupted)
    assert main(whole) == 130
    said = capsys.readouterr().out
    assert "interrupted; 3 episodes had been run" in said
    assert f"wrote {tmp_path / 'results.partial.csv'} and {tmp_path / 'results.partial.json'}" in said
    assert {path: path.read_bytes() for path in before} == before
    made = {path.name for path in tmp_path.iterdir()} - {path.name for path in before}
    assert made == {f"results.partial.{suffix}" for suffix in ("csv", "json", "png", "pdf")}
    table, record = read_results(tmp_path / "results.partial.csv")
    pd.testing.assert_frame_equal(table, evaluate(["all"], "Toy", 3, FIRST_SEED))
    assert record["completed"] is False
    with pytest.raises(KeyboardInterrupt):
        main([*BASE[:3], "half", *BASE[5:]])


def test_a_full_disk_does_not_lose_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(path: Path, *rest: Any) -> Any:
        if path == tmp_path / "results.csv":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_results(path, *rest)

    monkeypatch.setattr(command, "write_results", write)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RescuedError, match="No space left on device; the table is in "):
        main([*BASE, "--out", str(tmp_path / "results.csv")])
    [kept] = tmp_path.glob("greendc-rescued-*/results.csv")
    table, record = read_results(kept)
    pd.testing.assert_frame_equal(table, evaluate(["all", "half"], "Toy", 3, FIRST_SEED))
    assert record["completed"] is True
    assert "all" in capsys.readouterr().out  # the table is shown all the same


def test_episodes_outlive_what_fails_after_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no bound")

    for number, name in enumerate(("add_share_of_bound", "_print")):
        out = tmp_path / f"{number}.csv"
        with monkeypatch.context() as patch:
            patch.setattr(command, name, fail)
            with pytest.raises(RuntimeError, match="no bound"):
                main([*BASE, "--out", str(out)])
        assert len(pd.read_csv(out)) == 6


def test_a_metric_given_twice_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--metrics", "return", "return"]) == 0
    assert capsys.readouterr().out.count("return") == 1


def test_a_folder_that_cannot_be_written_is_found_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(paired, "run_batch", None)
    error = fails_in_one_line([*BASE, "--out", str(tmp_path / "file" / "x.csv")], capsys)
    assert "file: cannot be written" in error


def save_run(folder: Path, **record: Any) -> None:
    model = PPO("MlpPolicy", make_vec_env("Toy", 1), seed=0)
    save_model(model, folder, {"algorithm": "ppo", "env_id": "Toy-v1", **record})


def test_without_env_the_settings_of_the_model_are_shown_and_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(tmp_path / "runs" / "seed_0", env_kwargs={"split": "train", "max_steps": 5, "min_steps": 5})
    out = tmp_path / "results.csv"
    policies = ["all", f"ppo={tmp_path}/runs/seed_*"]
    arguments = ["--policies", *policies, "--episodes", "2", "--no-progress", "--out", str(out)]
    assert main([*arguments, "--set", "min_steps=4"]) == 0
    said = capsys.readouterr().out
    assert "environment: Toy-v1 with max_steps=5, min_steps=4, from the first saved model\n" in said
    table, record = read_results(out)
    assert record["env_kwargs"] == {"max_steps": 5, "min_steps": 4}
    assert table["seed"].tolist() == [FIRST_SEED, FIRST_SEED + 1] * 2
    expected = evaluate(policies[:1], "Toy", 2, FIRST_SEED, env_kwargs=record["env_kwargs"])
    pd.testing.assert_frame_equal(table[table["policy"] == "all"], expected)
    assert main([*BASE, "--set", "max_steps=5", "--out", str(out)]) == 0
    assert read_results(out)[1]["env_kwargs"] == {"max_steps": 5}


def test_a_model_is_not_judged_on_the_months_of_its_training(tmp_path: Path) -> None:
    """With and without ``--env`` the episodes are those of the id's own month."""
    env_kwargs = {"split": "train", "month": None, "days": 1}
    model = PPO("MlpPolicy", make_vec_env("VCC-2021", 1, **env_kwargs), seed=0)
    save_model(
        model, tmp_path / "vcc", {"algorithm": "ppo", "env_id": "VCC-2021-v1", "env_kwargs": env_kwargs}
    )
    arguments = [
        "--policies",
        "always_on",
        str(tmp_path / "vcc"),
        "--episodes",
        "3",
        "--no-progress",
        "--out",
    ]
    assert main([*arguments, str(tmp_path / "own.csv")]) == 0
    named = ["--env", "VCC-2021", "--set", "days=1"]
    assert main([*arguments, str(tmp_path / "named.csv"), *named]) == 0
    own, said = (read_results(tmp_path / name) for name in ("own.csv", "named.csv"))
    pd.testing.assert_frame_equal(own[0], said[0])
    assert own[1]["env_kwargs"] == said[1]["env_kwargs"] == {"days": 1}


def test_a_run_that_diverged_does_not_drop_out_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["--algo", "ppo", "--env", "Toy", "--timesteps", "200", "--n-envs", "2", "--no-progress"]
    train += ["--hparams", "n_steps=16", "batch_size=16"]
    assert train_command.main([*train, "--out", str(tmp_path / "seed_0")]) == 0
    assert train_command.main([*train, "learning_rate=1e30", "--out", str(tmp_path / "seed_1")]) == 1
    capsys.readouterr()
    for pattern in (f"{tmp_path}/seed_*", f"{tmp_path}/seed_*/model.zip"):
        for environment in (["--env", "Toy"], []):
            error = fails_in_one_line([*environment, "--policies", f"ppo={pattern}"], capsys)
            assert f"models {pattern}: no model.zip in {tmp_path}/seed_1 (unfinished or diverged)" in error
    assert main(["--policies", f"ppo={tmp_path}/seed_[02]", "--episodes", "2", "--no-progress"]) == 0


@pytest.mark.parametrize("name", ["run", "MANIFEST", "progress", "settings"])
def test_results_replace_no_file_of_a_run(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(tmp_path)
    (tmp_path / "progress.csv").write_text("time/total_timesteps\n1\n")
    (tmp_path / "settings.json").write_text('{"mine": 1}')
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(paired, "run_batch", None)
        error = fails_in_one_line([*BASE, "--out", str(tmp_path / f"{name}.csv")], capsys)
    assert f"{name}.csv: " in error
    assert "would replace" in error
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    for _ in range(2):  # other names are free, and results replace results
        assert main([*BASE, "--out", str(tmp_path / "results.csv")]) == 0
    assert main(["--policies", str(tmp_path), "--episodes", "1", "--no-progress"]) == 0


def test_a_folder_in_the_place_of_the_table_is_found_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paired, "run_batch", None)
    (tmp_path / "results.csv").mkdir()
    assert "is a folder" in fails_in_one_line([*BASE, "--out", str(tmp_path / "results.csv")], capsys)
