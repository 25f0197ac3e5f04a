from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_greendc.cli import benchmark, benchmark_train
from sb3_greendc.cli.benchmark import main, ppo_share, times_reference
from sb3_greendc.cli.benchmark_train import Comparison
from sb3_greendc.cli.timing import Case, measure

pytestmark = pytest.mark.usefixtures("toy")


@pytest.fixture(autouse=True)
def toy_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "FAMILIES", {"toy": "Toy", "masked": "DiscreteToy"})


def test_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "speed.json"
    arguments = ["envs", "--rounds", "2", "--seconds", "0.01", "--num-envs", "8", "--no-ppo"]
    assert main([*arguments, "--json", str(path)]) == 0
    figures = json.loads(path.read_text())
    names = {f"{family}_{kind}" for family in ("toy", "masked") for kind in ("single", "batch", "vecenv")}
    assert set(figures["x_cartpole"]) == names
    assert set(figures["steps_per_second"]) == {*names, "cartpole"}
    assert all(value > 0 for value in figures["x_cartpole"].values())
    assert figures["command"]
    assert "toy_vecenv" in capsys.readouterr().out


def test_a_call_counts_each_environment_and_speed_is_what_was_slept() -> None:
    def sleeper(name: str, seconds: float, steps: int) -> Case:
        return Case(name, lambda calls: time.sleep(calls * seconds), steps)

    cases = [sleeper("cartpole", 1e-3, 1), sleeper("batch", 2e-3, 10)]
    rates = measure(cases, rounds=3, seconds=0.1)
    assert len(rates["batch"]) == 3
    assert times_reference(rates)["batch"] == pytest.approx(5.0, rel=0.2)


def test_ratio_is_taken_within_each_round() -> None:
    """A machine that was ten times slower in one round does not change it."""
    rates = {"cartpole": [100.0, 10.0, 100.0], "x": [50.0, 5.0, 51.0]}
    assert times_reference(rates) == {"x": 0.5}


def test_share_of_ppo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ppo.yml").write_text("default: {n_envs: 4, n_steps: 16, batch_size: 32, n_epochs: 2}")
    monkeypatch.setenv("GREENDC_ZOO", str(tmp_path))
    assert 0 < ppo_share("Toy", rollouts=1) < 1
    assert 0 < ppo_share("Toy", rollouts=1, plain=True) < 1


def test_time_compared_is_the_inverse_of_rates_compared() -> None:
    rates = {"ours": [50.0, 5.0, 51.0], "theirs": [100.0, 10.0, 100.0]}
    assert Comparison("rate", "ours", "theirs", "").figure(rates) == 0.5
    assert Comparison("time", "ours", "theirs", "", of_time=True).figure(rates) == 2.0


def test_training_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark_train, "_BUFFERED", 600)
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

    monkeypatch.setattr(benchmark_train, "learn", learn)
    for case in benchmark_train.on_policy_pair("pid_ppo", "ppo", "Toy", {}, {"n_epochs": 2}):
        assert case.steps_per_call == 64
        case.run(2)
    assert updates == [("PPO", 128, 4), ("PIDLagrangianPPO", 128, 4)]


def test_whole_runs() -> None:
    assert benchmark_train.collected_per_minute(2000, repeats=1) > 0
    minutes, processor_minutes = benchmark_train.minutes_of_a_million(64)
    assert minutes > 0 and processor_minutes > 0


@pytest.mark.parametrize("arguments", [["envs", "--families", "none"], ["envs", "--rounds", "0"], []])
def test_bad_options(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2


@pytest.mark.parametrize("what", ["envs", "train"])
def test_bad_seconds(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([what, "--seconds", "0"])
    assert capsys.readouterr().err == "benchmark: error: --seconds 0.0: must be above 0\n"
