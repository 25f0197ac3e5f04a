"""Limits that are proposed from what policies cost."""

from __future__ import annotations

import errno
import json
import os

import pandas as pd
import pytest

from sb3_greendc.cli import calibrate_cost_limit as command
from sb3_greendc.cli.calibrate_cost_limit import cost_distribution, main, propose_limits
from sb3_greendc.core.files import RescuedError, write_json
from sb3_greendc.evaluation.paired import FIRST_SEED


def episodes(**costs: list[float]) -> pd.DataFrame:
    rows = [
        {"policy": policy, "env_id": "E-v0", "cost": cost, "return": 1.0}
        for policy, values in costs.items()
        for cost in values
    ]
    return pd.DataFrame(rows)


def test_distribution_keeps_the_order_of_the_policies_and_their_costs():
    distribution = cost_distribution(episodes(trained=[10.0, 20.0, 30.0], hvf=[5.0, 5.0, 8.0]))
    assert list(distribution.index) == ["trained", "hvf"]
    assert distribution.loc["trained", ["mean", "std", "min", "median", "max"]].tolist() == [
        20,
        10,
        10,
        20,
        30,
    ]
    assert distribution.loc["hvf", "mean"] == 6.0


def test_limits_are_shares_of_the_first_policys_mean():
    limits = propose_limits(episodes(trained=[10.0, 20.0, 30.0], hvf=[12.0, 12.0, 12.0]), [0.5, 0.9])
    assert limits["fraction"].tolist() == [0.9, 0.5]
    assert limits["cost_limit"].tolist() == [18.0, 10.0]
    assert limits["episodes_within"].tolist() == [1 / 3, 1 / 3]
    assert limits["reached"].tolist() == [True, False]  # the cheapest policy costs 12


def test_the_record_keeps_no_secret_of_a_setting(tmp_path):
    log = tmp_path / "token=s3cret.swf"
    rest = "900 2 -1 -1 2 900 -1 1 1 1 1 1 1 -1 -1"
    jobs = "".join(f"{number} {600 * number} 0 {rest}\n" for number in range(1, 400))
    log.write_text(f"; MaxProcs: 10\n{jobs}")
    arguments = ["--env", "ResourcePool-10", "--policies", "hvf", "--episodes", "1", "--no-progress"]
    arguments += [
        "--set",
        f"workload={log}",
        "episode_steps=20",
        "step_hours=0.25",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(arguments) == 0
    record = (tmp_path / "out" / "calibration.json").read_text()
    assert "s3cret" not in record
    assert "token=***" in record


def test_an_environment_without_cost_is_an_error():
    with pytest.raises(ValueError, match=r'E-v0: the environment reports no info\["cost"\]'):
        cost_distribution(episodes(trained=[1.0, float("nan")]))


@pytest.mark.default_row
def test_command_writes_what_it_prints(tmp_path, capsys):
    arguments = ["--env", "ResourcePool-10", "--policies", "hvf", "edf", "--episodes", "3", "--no-progress"]
    arguments += ["--set", "episode_steps=60", "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    written = pd.read_csv(tmp_path / "out" / "episodes.csv")
    limits = pd.read_csv(tmp_path / "out" / "limits.csv")
    mean = written.loc[written["policy"] == "hvf", "cost"].mean()
    assert limits["cost_limit"].tolist() == pytest.approx([share * mean for share in (0.95, 0.8, 0.65, 0.5)])
    assert (tmp_path / "out" / "calibration.png").stat().st_size > 10_000
    record = json.loads((tmp_path / "out" / "calibration.json").read_text())
    assert record["env_id"] == "ResourcePool-10-v0"
    assert record["env_kwargs"] == {"episode_steps": 60}
    assert written["seed"].min() == record["seed"] == FIRST_SEED
    made = {"episodes.csv", "limits.csv", "calibration.png", "calibration.json"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == made
    assert main(arguments) == 0  # in the place of those before
    assert "--cost-limit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "ResourcePool-10", "--policies", "hvf", "--fractions", "1.5"], "--fractions 1.5"),
        (["--env", "ResourcePool-10", "--policies", "hfv"], "hfv"),
        (["--env", "ResourcePool-11", "--policies", "hvf"], "ResourcePool-11"),
    ],
)
def test_bad_input_is_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


BASE = ["--env", "ResourcePool-10", "--policies", "hvf", "--episodes", "1", "--no-progress"]
BASE += ["--set", "episode_steps=20", "--out"]


@pytest.mark.parametrize("sign", ["MANIFEST.json", "model.zip", "progress.csv", ".lock"])
def test_the_folder_of_a_run_is_refused_at_once(sign, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "Evaluation", None)
    (tmp_path / sign).touch()
    (tmp_path / "run.json").write_text('{"algorithm": "ppo"}')
    with pytest.raises(SystemExit) as stop:
        main([*BASE, str(tmp_path)])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error == f"calibrate: error: --out {tmp_path}: holds a training run; choose another folder\n"
    assert {path.name for path in tmp_path.iterdir()} == {sign, "run.json"}
    assert (tmp_path / "run.json").read_text() == '{"algorithm": "ppo"}'


def test_a_place_that_cannot_be_written_is_found_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "Evaluation", None)
    (tmp_path / "empty.csv").touch()
    with pytest.raises(SystemExit) as stop:
        main([*BASE, str(tmp_path / "empty.csv")])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert "empty.csv: cannot be written: File exists" in error
    assert error.count("\n") == 1


def test_a_full_disk_does_not_lose_the_result(tmp_path, monkeypatch):
    def write(path, value):
        if path.parent == tmp_path / "out":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_json(path, value)

    monkeypatch.setattr(command, "write_json", write)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RescuedError, match="No space left on device; the result is in "):
        main([*BASE, str(tmp_path / "out")])
    [kept] = tmp_path.glob("greendc-rescued-*/out")
    assert len(pd.read_csv(kept / "episodes.csv")) == 1
