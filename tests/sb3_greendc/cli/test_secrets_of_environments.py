"""An environment may need a password: the run has it, its records and what is shared do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from command_cases import one_line_error
from gymnasium.envs.classic_control import CartPoleEnv

from sb3_greendc.cli import evaluate
from sb3_greendc.cli.train import main
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.experiments.known.players import player

SECRET = "hunter2"
ENV_ID = "BehindAPassword-v0"
GIVEN = [f"db=postgresql://me:{SECRET}@host/d", f"api_token={SECRET}", "length=8"]


class BehindAPassword(CartPoleEnv):
    """Checks what it is given, as a database would."""

    def __init__(self, db: str, api_token: str, length: int = 500) -> None:
        assert f":{SECRET}@" in db
        assert api_token == SECRET
        assert length == 8
        super().__init__()


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    gym.register(ENV_ID, entry_point=BehindAPassword, max_episode_steps=50)
    yield
    del gym.registry[ENV_ID]


def holds_the_secret(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    out = tmp_path / "run"
    assert main(arguments(out)) == 0
    return out


def arguments(out: Path, *more: str) -> list[str]:
    small = ["--hparams", "n_steps=16", "batch_size=16", "n_epochs=1", "--n-envs", "1", "--timesteps", "32"]
    head = ["--algo", "ppo", "--env", ENV_ID, "--set", *GIVEN, "--checkpoint-every", "16", "--no-progress"]
    return [*head, *small, "--out", str(out), *more]


def test_the_folder_of_a_run_has_no_secret_and_is_resumed(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list((run / "checkpoints").iterdir())
    assert holds_the_secret(run) == []
    capsys.readouterr()
    assert main(arguments(run, "--resume")) == 0
    assert "done before" in capsys.readouterr().out


def test_it_is_judged_where_the_secret_is_given_again(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--policies", str(run), "--episodes", "1", "--out", str(tmp_path / "scores.csv")]
    error = one_line_error("evaluate", evaluate.main, asked, capsys)
    assert "db: has a secret, which records do not keep: give it by --set db=..." in error
    assert evaluate.main([*asked, "--set", *GIVEN]) == 0
    assert SECRET not in "".join(capsys.readouterr())
    assert holds_the_secret(tmp_path) == []


def test_data_have_no_secret(tmp_path: Path) -> None:
    given: dict[str, Any] = dict(pair.split("=", 1) for pair in GIVEN)
    given["length"] = int(given["length"])
    path = tmp_path / "data.npz"
    chance = player("random", gym.spaces.Discrete(2))
    collect({"chance": chance}, ENV_ID, 20, env_kwargs=given).save(path)
    assert holds_the_secret(tmp_path) == []
    assert OfflineDataset.load(path).metadata["env_kwargs"]["api_token"] == "***"
