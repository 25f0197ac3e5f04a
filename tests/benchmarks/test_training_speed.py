"""What compares the speed of algorithms: ratios, and equal work on both sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stable_baselines3.common.base_class import BaseAlgorithm

from benchmarks import devices, training
from benchmarks.command import build_parser, main
from benchmarks.training import Comparison
from sb3_greendc.cli.benchmark import run_envs
from sb3_greendc.evaluation.collection import collect


def test_time_compared_is_the_inverse_of_rates_compared() -> None:
    rates = {"ours": [50.0, 5.0, 51.0], "theirs": [100.0, 10.0, 100.0]}
    assert Comparison("rate", "ours", "theirs", "").figure(rates) == 0.5
    assert Comparison("time", "ours", "theirs", "", of_time=True).figure(rates) == 2.0


def test_training_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "_BUFFERED", 600)
    path = tmp_path / "speed.json"
    arguments = ["--parts", "discrete_sac", "offline", "--rounds", "1", "--seconds", "0.02"]
    assert main(["train", *arguments, "--json", str(path)]) == 0
    figures = json.loads(path.read_text())
    assert {"discrete_sac_x_dqn", "discrete_sac_replay_share", "crr_x_dqn"} <= set(figures["ratios"])
    assert {"dqn", "discrete_sac", "dqn_256", "crr"} <= set(figures["per_second"])
    assert all(value > 0 for value in figures["ratios"].values())
    assert "discrete_sac_x_dqn" in capsys.readouterr().out


def test_on_policy_relatives_do_the_same_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = "{n_envs: 4, n_steps: 16, batch_size: 32, n_epochs: 3, target_kl: 0.01, cost_limit: 5}"
    (tmp_path / "pid_ppo.yml").write_text(f"default: {block}")
    monkeypatch.setenv("GREENDC_ZOO", str(tmp_path))
    updates = []

    def learn(model: BaseAlgorithm, steps: int) -> None:
        model.learn(steps)
        updates.append((type(model).__name__, steps, model._n_updates))

    monkeypatch.setattr(training, "learn", learn)
    for case in training.on_policy_pair("pid_ppo", "ppo", "VCC-2019", {"days": 2}, {"n_epochs": 2}):
        assert case.steps_per_call == 64
        case.run(2)
    assert updates == [("PPO", 128, 4), ("PIDLagrangianPPO", 128, 4)]


def test_whole_runs() -> None:
    assert training.collected_per_minute(2000, repeats=1) > 0
    minutes, processor_minutes = training.minutes_of_a_million(64)
    assert minutes > 0 and processor_minutes > 0


def test_the_command_has_all_parts() -> None:
    options = build_parser().parse_args(["envs"])
    assert options.run is run_envs
    assert build_parser().parse_args(["train"]).run is training.run_train
    assert build_parser().parse_args(["devices"]).run is devices.run_devices


def test_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "devices.json"
    options = ["--device", "cpu", "--cases", "discrete_sac", "crr", "--rounds", "1", "--seconds", "0.02"]
    assert main(["devices", *options, "--json", str(path)]) == 0
    figures = json.loads(path.read_text())["cases"]
    assert list(figures) == ["discrete_sac", "crr"]
    for row in figures.values():
        assert row["times"] == pytest.approx(row["device"] / row["cpu"]) and row["times"] > 0
    assert "cpu × cpu" in capsys.readouterr().out


def test_cases_of_devices_count_what_they_train(tmp_path: Path) -> None:
    models = {}

    def learn(model: BaseAlgorithm, steps: int) -> None:
        models[type(model).__name__] = (steps, str(model.device))

    collect(["hvf"], "ResourcePool-10", 300).save(tmp_path / "data.npz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "learn", learn)
        for name in ("maskable_ppo", "crr", "discrete_sac"):
            case = devices.timed(name, devices.SETTINGS[name], "cpu", tmp_path / "data.npz")
            case.run(3)
            steps, device = models.popitem()[1]
            assert (steps, device) == (3 * case.steps_per_call, "cpu")
            assert case.steps_per_call > 1 or name == "crr"


def test_a_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["devices", "--device", "cuda:99", "--cases", "discrete_sac"])
    assert "cuda:99" in capsys.readouterr().err


def test_bad_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--seconds", "0"])
    assert capsys.readouterr().err == "benchmark: error: --seconds 0.0: must be above 0\n"
