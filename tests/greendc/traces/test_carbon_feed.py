"""Forecasts of carbon intensity as services answer: units and clocks are understood, or refused by entry."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timezone

import numpy as np
import pytest

import greendc
from greendc.traces import TraceError, UnclearTraceError, read_carbon

ROWS = [{"time": f"2026-03-01T00:{k:02}:00Z", "duration": 15, "value": 100.0 + k} for k in (0, 15, 30, 45)]
MAPS = {
    "zone": "DE",
    "forecast": [
        {"carbonIntensity": 326, "datetime": "2026-03-01T17:00:00.000Z"},
        {"carbonIntensity": 297, "datetime": "2026-03-01T18:00:00.000Z"},
        {"carbonIntensity": 194, "datetime": "2026-03-01T19:00:00.000Z"},
    ],
    "updatedAt": "2026-03-01T16:25:44.424Z",
}
WATTTIME = {
    "data": [
        {"point_time": f"2026-03-01T00:{minute:02}:00+00:00", "value": value}
        for minute, value in ((0, 870.0), (5, 900.5), (10, 0.0))
    ],
    "meta": {
        "region": "CAISO_NORTH",
        "units": "lbs_co2_per_mwh",
        "data_point_period_seconds": 300,
        "generated_at": "2026-03-01T00:00:00+00:00",
    },
}
HALVES = [
    {
        "from": "2026-01-20T12:00Z",
        "to": "2026-01-20T12:30Z",
        "intensity": {"forecast": 266, "actual": 263, "index": "moderate"},
    },
    {
        "from": "2026-01-20T12:30Z",
        "to": "2026-01-20T13:00Z",
        "intensity": {"forecast": 250, "index": "moderate"},
    },
]


def write(tmp_path, answer, name="answer.json"):
    path = tmp_path / name
    text = answer if isinstance(answer, str) else json.dumps(answer, indent=1)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize(
    ("answer", "kg", "step", "start"),
    [
        (MAPS, [0.326, 0.297, 0.194], 1.0, datetime(2026, 3, 1, 17)),
        (WATTTIME, np.array([870.0, 900.5, 0.0]) * 0.45359237e-3, 1 / 12, datetime(2026, 3, 1)),
        ({"data": HALVES}, [0.266, 0.25], 0.5, datetime(2026, 1, 20, 12)),
        ({"data": {"regionid": 3, "data": HALVES}}, [0.266, 0.25], 0.5, datetime(2026, 1, 20, 12)),
    ],
)
@pytest.mark.parametrize("name", ["answer.json", "answer.json.gz"])
def test_answers_of_services(tmp_path, answer, kg, step, start, name):
    trace = read_carbon(write(tmp_path, answer, name))
    np.testing.assert_allclose(trace.kg_per_kwh, kg, rtol=1e-12)
    assert trace.step_hours == pytest.approx(step)
    assert trace.start == start.replace(tzinfo=timezone.utc)


def test_plain_rows_need_a_unit_and_may_be_csv(tmp_path):
    path = write(tmp_path, ROWS)
    with pytest.raises(UnclearTraceError, match="'value' does not name a unit of carbon intensity"):
        read_carbon(path)
    trace = read_carbon(path, unit="g/kWh")
    np.testing.assert_allclose(trace.kg_per_kwh, [0.1, 0.115, 0.13, 0.145])
    assert trace.step_hours == 0.25
    stamped = [{("timestamp" if key == "time" else key): row[key] for key in row} for row in ROWS]
    assert (
        read_carbon(write(tmp_path, stamped), unit="g/kWh").kg_per_kwh.tolist() == trace.kg_per_kwh.tolist()
    )
    lines = ["time,duration,value", *(f"{row['time']},15,{row['value']}" for row in ROWS)]
    table = tmp_path / "rows.csv"
    table.write_text("\n".join(lines) + "\n")
    assert read_carbon(table, unit="g/kWh").kg_per_kwh.tolist() == trace.kg_per_kwh.tolist()
    table.write_text("\n".join(lines).replace(":30:00Z,15", ":30:00Z,30") + "\n")
    with pytest.raises(TraceError, match=r"rows.csv, line 4: duration must be the 15 minutes between rows"):
        read_carbon(table, unit="g/kWh")


def changed(entry, **values):
    """Return plain rows of which one is another."""
    rows = [dict(row) for row in ROWS]
    rows[entry - 1] = {**rows[entry - 1], **values}
    return rows


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (json.dumps(MAPS)[:-40], "answer.json: no whole JSON"),
        ("", "the file is empty"),
        ("[NaN]", "NaN is no number"),
        ("[" * 100_000, "no whole JSON"),
        ('{"data": [], "data": []}', "'data' twice in one object"),
        ("3", "must be rows of time, duration and value, or an answer of Electricity Maps"),
        ({"forecast": []}, "a forecast without entries"),
        ({"status": "error", "message": "Invalid auth-token"}, "an error of the service: Invalid auth-token"),
        ({"error": {"code": "400 Bad Request"}}, "an error of the service: .*400 Bad Request"),
        ([*ROWS, 3], "entry 5: must be an object, not 3"),
        ([*ROWS[:2], {"time": ROWS[2]["time"], "duration": 15}], "entry 3: value is missing"),
        (changed(2, value="many"), "entry 2: value='many': must be a finite number"),
        (changed(2, value=True), "entry 2: value='True': must be a finite number"),
        (changed(2, value=None), "entry 2: value='None': must be a finite number"),
        (changed(2, value=10**400), "entry 2: value="),
        (changed(2, value=-1), "entry 2: value=-1.*must be"),
        (changed(2, value=9e9), "entry 2: value=9000000000.*must be"),
        (changed(2, time=7), "entry 2: time='7': must be a date and time"),
        (changed(2, time="noon,1"), "entry 2: time='noon,1': must be a date and time"),
        (changed(2, time="noon"), "entry 2: time='noon': must be a date and time"),
        (changed(3, time=ROWS[1]["time"]), "entry 3: the time does not come after"),
        (changed(4, time="2026-03-01T01:15:00Z"), "entry 4: a gap of 2 missing step"),
        (changed(4, time="2026-03-01T00:46:00Z"), "entry 4: irregular"),
        (changed(3, duration=30), "entry 3: duration must be the 15 minutes between rows"),
        (changed(3, duration=None), "entry 3: duration is missing"),
        (
            {"data": [{"from": "noon", "to": "one", "intensity": {"forecast": 1}}]},
            "entry 1: not as the other",
        ),
        ({"data": [*HALVES, {**HALVES[0], "intensity": 3}]}, "entry 3: not as the other"),
        ({**WATTTIME, "meta": {}}, r"'carbon_intensity \(None\)' does not name a unit"),
        ({**WATTTIME, "meta": {**WATTTIME["meta"], "data_point_period_seconds": 600}}, "entry 1: duration"),
    ],
)
def test_damaged_answers_are_refused_by_entry(tmp_path, answer, says):
    path = write(tmp_path, answer)
    with pytest.raises(TraceError, match=says):
        read_carbon(path, **({"unit": "g/kWh"} if isinstance(answer, list) else {}))


def test_a_gap_may_be_filled(tmp_path):
    rows = [*ROWS[:3], {**ROWS[3], "time": "2026-03-01T01:00:00Z", "value": 150}]
    trace = read_carbon(write(tmp_path, rows), unit="g/kWh", gaps="interpolate")
    np.testing.assert_allclose(trace.kg_per_kwh, [0.1, 0.115, 0.13, 0.14, 0.15])
    assert trace.counts["missing_steps"] == 1


def test_a_cluster_runs_on_a_forecast(tmp_path):
    path = write(tmp_path, MAPS)
    hours = greendc.make_simulator("Cluster-v0", workload_jobs=60, episode_jobs=20, carbon=read_carbon(path))
    hours.reset_env(0, np.random.default_rng(0))
    hours.play(0, "fcfs")
    metrics = hours.episode_metrics(0)
    assert 0.194 < metrics["carbon_kg"] / metrics["energy_kwh"] < 0.326
