from __future__ import annotations

import argparse
import dataclasses
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from greendc.traces.power import CarbonTrace, PowerTrace
from sb3_greendc.cli import reproduce
from sb3_greendc.experiments import my_site
from sb3_greendc.experiments.learners import DISCRETE_SAC

DAY = 24


def power(start, hours):
    return PowerTrace(np.full(hours, 50.0), np.full(hours, 300.0), start=start)


def carbon(start, hours):
    """Count hours, in 4096ths: so that they are emissions that a grid can have, and exact."""
    return CarbonTrace(np.arange(hours) / 4096.0, start=start)


def test_a_series_of_the_same_time_is_taken_as_it_is():
    laid, same = my_site.lay_on(carbon(datetime(2021, 1, 1), 10 * DAY), power(datetime(2021, 1, 3), DAY))
    assert same
    assert (4096.0 * laid).tolist() == list(range(2 * DAY, 3 * DAY))


def test_the_clock_is_moved():
    laid, _ = my_site.lay_on(carbon(datetime(2021, 1, 1), 10 * DAY), power(datetime(2021, 1, 3), DAY), -6.0)
    assert 4096.0 * laid[0] == 2 * DAY + 6


def test_another_year_is_laid_onto_the_calendar():
    year = carbon(datetime(2021, 1, 1), 365 * DAY)
    laid, same = my_site.lay_on(year, power(datetime(2012, 2, 28, 0, 30), 3 * DAY))
    assert not same
    first = (31 + 27) * DAY
    assert (4096.0 * laid[:DAY]).tolist() == list(range(first, first + DAY))
    assert (4096.0 * laid[DAY : 2 * DAY] == first + DAY - 1).all()  # 29 February: the hour before
    assert 4096.0 * laid[2 * DAY] == first + DAY


@pytest.fixture
def inputs(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["; MaxProcs: 16", "; UnixStartTime: 1600000000"]
    for job in range(1, 401):
        run_time, size = int(rng.integers(600, 20_000)), int(rng.integers(1, 8))
        fields = [job, job * 3600, 0, run_time, size, -1, -1, size, run_time, -1, 1, *[1] * 7]
        lines.append(" ".join(map(str, fields)))
    (tmp_path / "log.swf").write_text("\n".join(lines) + "\n")
    times = pd.date_range("2020-03-01", periods=60 * DAY, freq="h")
    sun_and_wind = {"time": times, "solar_kw": 40.0, "wind_kw": 100.0 + np.arange(len(times)) % 400}
    pd.DataFrame(sun_and_wind).to_csv(tmp_path / "power.csv", index=False)
    dirt = {"time": times + pd.Timedelta(days=365), "carbon gCO2/kWh": 300.0}
    pd.DataFrame(dirt).to_csv(tmp_path / "carbon.csv", index=False)
    return [
        f"--{name}={tmp_path / file}"
        for name, file in (
            ("jobs", "log.swf"),
            ("power", "power.csv"),
            ("carbon", "carbon.csv"),
        )
    ]


def test_from_three_files_to_a_report(inputs, tmp_path, monkeypatch):
    tiny = dataclasses.replace(DISCRETE_SAC, quick_decisions=400)
    monkeypatch.setattr(my_site, "pool_learners", lambda budget: [tiny])
    monkeypatch.setattr(my_site.Budget, "episodes", 3)
    monkeypatch.setattr(my_site.Budget, "test_steps", 72)
    monkeypatch.setattr(my_site.Budget, "labels", lambda budget, long_queues: 600)
    out = tmp_path / "out"
    arguments = ["my-site", *inputs, "--quick", "--engine=serial", f"--out={out}", "--set", "units=8"]
    assert reproduce.main(arguments) == 0
    report = (out / "my-site" / "report.md").read_text()
    for part in (
        "log.swf: 400 jobs",
        "laid onto the power's calendar",
        "mean 0.300 kg/kWh",
        "deadline_never",
        "chooses among the first 32 jobs",
    ):
        assert part in report
    margins = [line.split("(`")[1].split("`")[0] for line in report.splitlines() if " against " in line]
    assert len(margins) == 2 * len(set(margins))  # each rival once, for each of both learners
    assert (out / "my-site" / "model" / "model.zip").is_file()
    assert (out / "my-site" / "figure.png").is_file()


@pytest.mark.parametrize(
    ("file", "header", "message"),
    [
        ("power", "time,heat", "solar or wind power among 'time', 'heat': say --solar or --wind"),
        ("power", "time,solar", "(W, kW, MW or GW): say --power-unit"),
        ("power", "hour,solar_kw", "begins with time or date): say --power-time"),
        ("carbon", "time,dirt", "no column of carbon intensity among 'time', 'dirt': say --carbon-column"),
        ("carbon", "time,carbon", "(such as kg/kWh): say --carbon-unit"),
        ("carbon", "hour,carbon_g_per_kwh", "begins with time or date): say --carbon-time"),
    ],
)
def test_unclear_files_are_one_line_that_names_the_option(inputs, tmp_path, capsys, file, header, message):
    (tmp_path / f"{file}.csv").write_text(f"{header}\n2020-01-01 00:00,1\n2020-01-01 01:00,1\n")
    with pytest.raises(SystemExit) as stopped:
        reproduce.main(["my-site", *inputs, f"--out={tmp_path / 'out'}"])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_options_tell_what_files_do_not(inputs, tmp_path):
    for file, header in (("power", "hour,sun"), ("carbon", "hour,dirt")):
        rows = pd.read_csv(tmp_path / f"{file}.csv").to_numpy()[:, [0, 1]]
        pd.DataFrame(rows, columns=header.split(",")).to_csv(tmp_path / f"{file}.csv", index=False)
    parser = argparse.ArgumentParser()
    my_site.add_options(parser)
    told = ["--solar=sun", "--power-time=hour", "--power-unit=MW"]
    told += ["--carbon-column=dirt", "--carbon-time=hour", "--carbon-unit=kg/MWh"]
    facts = my_site.prepare_site(parser.parse_args([*inputs, *told]), tmp_path / "kept").facts
    assert "mean 40000 kW of sun and 0 kW of wind" in facts["power"]
    assert "mean 0.300 kg/kWh" in facts["carbon"]
