"""``greendc decide``: a snapshot in, a decision out, and one line for what is wrong."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from greendc.live import PoolJob, PoolPower, PoolSnapshot, RunningJob, Scheduler, Snapshot, WaitingJob
from sb3_greendc.cli.decide import main

SNAPSHOT = Snapshot(
    processors=8,
    capacity=8,
    running=(RunningJob("a", 6, 4000, 400),),
    waiting=(WaitingJob("big", 8, 3600, 900), WaitingJob("short", 2, 600, 60)),
)

POOL = PoolSnapshot(
    jobs=(PoolJob("waiting", 1, 2, (3,), 0.5, id="long"), PoolJob("waiting", 0, 1, (3,), 0.5, id="short")),
    power=(PoolPower(1.0),) * 4,
    configuration={"units": 4, "resource_types": 1, "horizon": 4},
)


def test_the_command_prints_what_the_library_decides(capsys, tmp_path, monkeypatch):
    path = tmp_path / "snapshot.json"
    path.write_text(SNAPSHOT.to_json())
    assert main([str(path), "--policy", "fcfs", "--backfill", "none"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["start"] == []
    monkeypatch.setattr("sys.stdin", io.StringIO(SNAPSHOT.to_json()))
    assert main(["--policy", "sjf", "--set", "predicted=true"]) == 0
    expected = Scheduler("sjf", predicted=True).decide(SNAPSHOT)
    assert capsys.readouterr().out.strip() == expected.to_json()
    assert expected.start == ("short",)


def test_a_snapshot_of_a_pool_goes_through_the_same_command(capsys, tmp_path):
    path = tmp_path / "pool.json"
    path.write_text(POOL.to_json())
    assert main([str(path), "--policy", "sjf", "--set", "dispatch=reserve", "--no-work-conserving"]) == 0
    expected = Scheduler("sjf", dispatch="reserve", work_conserving=False).decide(POOL)
    assert capsys.readouterr().out.strip() == expected.to_json()
    assert expected.start == ("short",)
    assert [(place.id, place.start_steps) for place in expected.places] == [("short", 0), ("long", 1)]
    assert main([str(path), "--env", "ResourcePool-20"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "deadline_never"


def test_the_schemas_are_printed(capsys):
    assert main(["--schema"]) == 0
    schemas = json.loads(capsys.readouterr().out)
    assert set(schemas["snapshot"]["properties"]) >= {"running", "waiting", "forecast"}
    assert schemas["decision"]["required"][0] == "start"
    assert schemas["pool_snapshot"]["required"] == ["jobs", "power"]
    assert set(schemas["pool_decision"]["properties"]) >= {"start", "places", "suspend", "passed_over"}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_texts_that_begin_with_a_byte_order_mark_are_read(encoding, capsys, tmp_path, monkeypatch):
    text = SNAPSHOT.to_json()
    expected = Scheduler("sjf").decide(SNAPSHOT).to_json()
    path, settings = tmp_path / "snapshot.json", tmp_path / "settings.json"
    path.write_text(text, encoding=encoding)
    settings.write_text('{"policy": "sjf"}', encoding="utf-8-sig")
    assert main([str(path), "--policy", str(settings)]) == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert main(["--policy", "sjf"]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeff" + text))
    assert main(["--policy", "sjf"]) == 0
    assert capsys.readouterr().out == 3 * f"{expected}\n"


@pytest.mark.parametrize("arguments", [["--schema"], ["--policy", "sjf"]])
def test_a_reader_that_goes_away_ends_it_quietly(arguments, tmp_path):
    path = tmp_path / "snapshot.json"
    path.write_text(SNAPSHOT.to_json())
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "sb3_greendc", "decide", str(path), *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        ([], "{}", "processors: missing"),
        ([], "no", "line 1: no JSON"),
        (["--policy", "wsp"], SNAPSHOT.to_json(), "policy='wsp'"),
        (["--set", "futures=2"], SNAPSHOT.to_json(), "futures: no option of policy='wspt'"),
        (["--set", "futures"], SNAPSHOT.to_json(), "--set futures: must be key=value"),
        (["--policy", "wspt"], POOL.to_json(), "the snapshot is of a resource pool: policy='wspt'"),
        (["--env", "ResourcePool-10"], SNAPSHOT.to_json(), "the snapshot is of a cluster: env: no option of"),
        (["--env", "VCC-2019"], "{}", "error: env='VCC-2019': must be a resource pool's id"),
        (["--policy", "runs/absent"], POOL.to_json(), "model runs/absent: no such file"),
        (["absent.json"], "", "absent.json: there is no such file"),
        (["."], "", ".: cannot be read: Is a directory"),
        (
            [],
            SNAPSHOT.to_json().replace("4000", "9" * 5000),
            "standard input: snapshot: a number has too many",
        ),
        (
            [],
            SNAPSHOT.to_json().replace('"limit_seconds": 600', '"limit_seconds": -1'),
            "standard input: waiting",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_decided(
    arguments, text, message, capsys, monkeypatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err.splitlines()[-1]
