"""``fetch carbon``: recorded answers are written as they came; nothing asks the network here."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys

import pytest

from greendc.traces import TraceError, read_carbon
from sb3_greendc.cli import fetch_carbon, fetch_traces

MAPS = {
    "zone": "DE",
    "forecast": [
        {"carbonIntensity": 326, "datetime": "2026-03-01T17:00:00.000Z"},
        {"carbonIntensity": 297, "datetime": "2026-03-01T18:00:00.000Z"},
    ],
}
WATTTIME = {
    "data": [
        {"point_time": "2026-03-01T00:00:00+00:00", "value": 870.0},
        {"point_time": "2026-03-01T00:05:00+00:00", "value": 900.0},
    ],
    "meta": {"units": "lbs_co2_per_mwh", "data_point_period_seconds": 300},
}
HALVES = {
    "data": [
        {"from": "2026-01-20T12:00Z", "to": "2026-01-20T12:30Z", "intensity": {"forecast": 266}},
        {"from": "2026-01-20T12:30Z", "to": "2026-01-20T13:00Z", "intensity": {"forecast": 250}},
    ]
}
BASIC = "Basic " + base64.b64encode(b"ada:secret").decode()
ACCOUNT = {"ELECTRICITY_MAPS_TOKEN": "t0k3n", "WATTTIME_USER": "ada", "WATTTIME_PASSWORD": "secret"}


def recorded(url, headers):
    """Answer as the services did."""
    if url == "https://api.electricitymaps.com/v3/carbon-intensity/forecast?zone=DE":
        return (200, json.dumps(MAPS).encode()) if headers == {"auth-token": "t0k3n"} else (401, b"no")
    if url == "https://api.watttime.org/login":
        return (200, b'{"token": "w"}') if headers == {"Authorization": BASIC} else (403, b"")
    if url == "https://api.watttime.org/v3/forecast?region=CAISO_NORTH&signal_type=co2_moer":
        known = headers == {"Authorization": "Bearer w"}
        return (200, json.dumps(WATTTIME).encode()) if known else (401, b"")
    assert re.fullmatch(
        r"https://api.carbonintensity.org.uk/(regional/)?intensity/\d{4}-\d\d-\d\dT\d\d:\d\dZ/fw48h"
        r"(/regionid/3)?",
        url,
    )
    return 200, json.dumps(HALVES).encode()


@pytest.fixture
def network(monkeypatch):
    """Let recorded answers stand in for the network, and for accounts those that they know."""
    monkeypatch.setattr(fetch_carbon, "http_get", recorded)
    for name, value in ACCOUNT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("service", "region", "mean"),
    [
        ("electricity-maps", ["--region", "DE"], 0.3115),
        ("watttime", ["--region", "CAISO_NORTH"], 0.885 * 0.45359237),
        ("great-britain", [], 0.258),
        ("great-britain", ["--region", "3"], 0.258),
    ],
)
def test_an_answer_is_written_and_read(tmp_path, network, capsys, service, region, mean):
    path = tmp_path / "forecast.json.gz"
    assert fetch_traces.main(["carbon", "--service", service, *region, "--out", str(path)]) == 0
    assert read_carbon(path).kg_per_kwh.mean() == pytest.approx(mean)
    said = capsys.readouterr().out
    assert "2 steps of" in said
    assert "kg/kWh" in said


def error_of(capsys, *arguments):
    assert fetch_traces.main(["carbon", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_what_is_wrong_is_one_line_and_writes_nothing(tmp_path, network, monkeypatch, capsys):
    out = ["--out", str(tmp_path / "forecast.json")]
    maps = ["--service", "electricity-maps"]
    assert "--region: must be given" in error_of(capsys, *maps, *out)
    assert "must be a number from 1 to 17" in error_of(
        capsys, "--service", "great-britain", "--region", "18", *out
    )
    assert "must end in .json" in error_of(capsys, *maps, "--out", str(tmp_path / "forecast.csv"))
    monkeypatch.setenv("ELECTRICITY_MAPS_TOKEN", "another")
    assert "status 401: no" in error_of(capsys, *maps, "--region", "DE", *out)
    monkeypatch.delenv("ELECTRICITY_MAPS_TOKEN")
    assert "set ELECTRICITY_MAPS_TOKEN" in error_of(capsys, *maps, "--region", "DE", *out)
    monkeypatch.setattr(fetch_carbon, "http_get", lambda url, headers: (200, b"<html>"))
    refused = error_of(capsys, "--service", "great-britain", *out)
    assert "the answer of great-britain: no whole JSON" in refused
    with pytest.raises(TraceError, match="gave no token"):
        fetch_carbon.watttime("CAISO_NORTH", ACCOUNT, lambda url, headers: (200, b"[]"))
    assert not list(tmp_path.iterdir())


def test_nothing_is_asked_at_import():
    code = (
        "import socket\n"
        "def refuse(*args, **kwargs): raise AssertionError('the network was asked')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "import greendc.traces.carbon_feed, sb3_greendc.cli.fetch_carbon, sb3_greendc.cli.fetch_traces\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
