from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image
from stable_baselines3 import PPO

from sb3_greendc.cli.evaluate import main
from sb3_greendc.common.evaluation import evaluate
from sb3_greendc.common.models import save_model
from sb3_greendc.common.vec_env import make_vec_env

pytestmark = pytest.mark.usefixtures("toy")

BASE = ["--env", "Toy", "--policies", "all", "half", "--episodes", "3", "--no-progress"]


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")


def fails_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("evaluate: error: ")
    assert err.count("\n") == 1
    return err


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
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["options"]["seed"] == 7
    assert record["versions"]["gymnasium"]
    assert "commit" in record
    with Image.open(out.with_suffix(".png")) as picture:
        assert picture.size[0] > 400
    said = capsys.readouterr().out
    assert "Toy-v1: mean of 5 episodes" in said
    assert "Toy-v0: mean of 5 episodes" in said
    assert f"{written['return'][0:5].mean():.4g}" in said
    assert "Δ 0" in said


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

    def test_unknown_metric_is_told_after_the_episodes_are_safe(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "results.csv"
        error = fails_in_one_line([*BASE, "--metrics", "retrun", "--out", str(out)], capsys)
        assert "metric='retrun'" in error
        assert len(pd.read_csv(out)) == 6
