from __future__ import annotations

import json
from pathlib import Path

import pytest

from sb3_greendc.cli import benchmark
from sb3_greendc.cli.benchmark import main, ppo_share, times_reference
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


def test_a_call_counts_each_environment_and_speed_is_what_the_clock_says() -> None:
    now = 0.0

    def busy(name: str, seconds: float, steps: int) -> Case:
        def run(calls: int) -> None:
            nonlocal now
            now += calls * seconds

        return Case(name, run, steps)

    rates = measure([busy("cartpole", 1e-3, 1), busy("batch", 2e-3, 10)], 3, 0.1, clock=lambda: now)
    assert len(rates["batch"]) == 3
    assert times_reference(rates)["batch"] == pytest.approx(5.0)


def test_what_is_slow_once_does_not_shorten_the_rounds() -> None:
    """A second passes at the 20th call, as something is compiled there."""
    now, made = 0.0, 0

    def run(calls: int) -> None:
        nonlocal now, made
        now += calls * 1e-3 + (made < 20 <= made + calls)
        made += calls

    def count(rounds: int) -> int:
        nonlocal made
        made = 0
        measure([Case("late", run)], rounds, 0.1, clock=lambda: now)
        return made

    assert count(2) - count(1) == 100


def test_ratio_is_taken_within_each_round() -> None:
    """A machine that was ten times slower in one round does not change it."""
    rates = {"cartpole": [100.0, 10.0, 100.0], "x": [50.0, 5.0, 51.0]}
    assert times_reference(rates) == {"x": 0.5}


def test_share_of_ppo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ppo.yml").write_text("default: {n_envs: 4, n_steps: 16, batch_size: 32, n_epochs: 2}")
    monkeypatch.setenv("GREENDC_ZOO", str(tmp_path))
    assert 0 < ppo_share("Toy", rollouts=1) < 1
    assert 0 < ppo_share("Toy", rollouts=1, plain=True) < 1


@pytest.mark.parametrize("arguments", [["envs", "--families", "none"], ["envs", "--rounds", "0"], []])
def test_bad_options(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2


def test_bad_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["envs", "--seconds", "0"])
    assert capsys.readouterr().err == "benchmark: error: --seconds 0.0: must be above 0\n"
