"""``greendc decide``: a snapshot in, a decision out, and one line for what is wrong."""

from __future__ import annotations

import io
import json

import pytest

from greendc.live import RunningJob, Scheduler, Snapshot, WaitingJob
from sb3_greendc.cli.decide import main

SNAPSHOT = Snapshot(
    processors=8,
    capacity=8,
    running=(RunningJob("a", 6, 4000, 400),),
    waiting=(WaitingJob("big", 8, 3600, 900), WaitingJob("short", 2, 600, 60)),
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


def test_the_schemas_are_printed(capsys):
    assert main(["--schema"]) == 0
    schemas = json.loads(capsys.readouterr().out)
    assert set(schemas["snapshot"]["properties"]) >= {"running", "waiting", "forecast"}
    assert schemas["decision"]["required"][0] == "start"


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        ([], "{}", "processors: missing"),
        ([], "no", "line 1: no JSON"),
        (["--policy", "wsp"], SNAPSHOT.to_json(), "policy='wsp'"),
        (["--set", "futures=2"], SNAPSHOT.to_json(), "futures: no option of policy='wspt'"),
        (["--set", "futures"], SNAPSHOT.to_json(), "--set futures: must be key=value"),
        (["absent.json"], "", "absent.json: there is no such file"),
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
