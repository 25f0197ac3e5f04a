"""Small intact files of every kind that the package reads, for :mod:`fuzz_readers` to damage."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
from reader_oracles import Files

_STAMPS = [f"2021-03-01 {hour:02}:00" for hour in range(6)]


def _text(*lines: str) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def power_file() -> bytes:
    """Power in kW and a remark."""
    rows = (f"{at},{i}.5,{791.806 - i:.3f},note" for i, at in enumerate(_STAMPS))
    return _text("time,solar_kw,Wind (kW),remark", *rows)


def carbon_file() -> bytes:
    """Carbon intensity in g/kWh among other columns."""
    rows = (f"{at},US,{343.98 + i:.2f},{39.5 - i},false" for i, at in enumerate(_STAMPS))
    return _text("Datetime (UTC),Country,Carbon gCO2eq/kWh,Low Carbon Percentage,estimated", *rows)


def feed_file() -> bytes:
    """A service's forecast of carbon intensity."""
    entries = (
        f'{{"carbonIntensity": {343.98 + n:.2f}, "datetime": "2026-03-01T{10 + n}:00:00Z"}}' for n in range(5)
    )
    return _text('{"zone": "DE", "forecast": [', ",\n".join(entries), "]}")


def swf_file() -> bytes:
    """A log of six jobs in the Standard Workload Format."""
    jobs = (
        f"{n} {100 * n} {n} {60 * n} {2 * n} -1 -1 {2 * n} 7200 -1 1 {n} 2 -1 0 -1 -1 -1" for n in range(1, 7)
    )
    return _text("; Version: 2.2", "; MaxJobs: 6", "; MaxProcs: 128 (of 144)", *jobs)


def sacct_file() -> bytes:
    """An export of ``sacct``: jobs that ran, a step, one that runs."""
    day = "2024-03-01T"
    return _text(
        "JobID|User|Submit|Start|End|Elapsed|Timelimit|NCPUS|State",
        f"101|ann|{day}10:00:00|{day}10:05:00|{day}11:05:00|01:00:00|1-02:03:04|4|COMPLETED",
        f"101.batch||{day}10:05:00|{day}10:05:00|{day}11:05:00|01:00:00||4|COMPLETED",
        f"102|bob|{day}09:00:00|{day}10:00:00|{day}10:30:00|30:00|UNLIMITED|8|CANCELLED by 1000",
        f"104|ann|{day}10:11:00|{day}10:12:00|Unknown|05:00:00|Partition_Limit|1|RUNNING",
        f"106|eve|{day}10:13:00|{day}10:13:00|2024-03-03T11:13:00|2-01:00:00|90|6|TIMEOUT",
    )


def google_file() -> bytes:
    """Jobs of Google's cluster of 2019."""
    rows = (
        f"{600_000_000 + 1_800_000_000 * n},c-{n},{1_000_000_000 * (n + 1)},0.{n + 1}25,{40 * n}"
        for n in range(6)
    )
    return _text("time,task_id,duration,cpu,priority", *rows)


def moer_file() -> bytes:
    """Hourly emissions rates and three forecasts."""
    return _text("time,moer,f1,f2,f3", *(f"2021-03-01T{n:02}:00Z,0.{n}11,0.2,0.3,0.412" for n in range(6)))


def archive_file() -> bytes:
    """Emissions rates every 5 minutes and 36 forecasts."""
    header = ",".join(["time", "moer", *(f"f{k}" for k in range(1, 37))])
    values = ",".join(f"0.{k:03}" for k in range(36))
    return _text(header, *(f"2021-03-01 00:{5 * n:02}:00+00:00,0.{n}1,{values}" for n in range(4)))


def epw_file() -> bytes:
    """Six hours of an EnergyPlus weather file."""
    header = ["LOCATION,Somewhere,TX,USA,TMY3,722700,33.6,-101.9,-6.0,1000.0", *["HEADER,1"] * 6]
    rows = []
    for hour in range(19, 25):
        cells = {
            0: "2021",
            1: "6",
            2: "20",
            3: str(hour),
            5: "?9?9",
            6: "20.5",
            9: "90000",
            13: "123",
            14: "200",
        }
        cells |= {15: "50", 21: f"{hour / 3:.1f}"}
        rows.append(",".join(cells.get(i, "0") for i in range(35)))
    return _text(*header, "DATA PERIODS,1,1,Data,Sunday, 6/20, 6/20", *rows)


def nsrdb_files() -> Files:
    """Six hours of sun (NSRDB) and of wind (WIND Toolkit)."""
    sun = [
        "Source,Location ID,City,State,Country,Latitude,Longitude,Time Zone,Elevation,Local Time Zone",
        "NSRDB,1,-,-,-,33.6,-101.9,-6,1000,-6",
        "Year,Month,Day,Hour,Minute,GHI,DHI,DNI,Wind Speed,Temperature",
        *(f"2021,6,20,{hour},30,{100 * hour},{10 * hour},{50 * hour},2.5,20.0" for hour in range(6)),
    ]
    wind = [
        "1,city,TX,country,2021,33.6,-101.9,Not Available,1,6",
        "WIND Toolkit data",
        "Temperature,Pressure,Speed,Direction,Temperature,Pressure,Speed,Direction",
        "C,atm,m/s,Degrees,C,atm,m/s,Degrees",
        "80,80,80,80,100,100,100,100",
        *(f"15.1,0.9,{hour}.25,180,14,0.89,{hour}.75,181" for hour in range(6)),
    ]
    return {"sun.csv": _text(*sun), "wind.srw": _text(*wind)}


def results_file() -> bytes:
    """Results whose policies have commas in quotes."""
    rows = (f'"ppo, {n % 2}",0,VCC-2021-v1,{n},{n},{-5.25 * n},{5 + n},' for n in range(6))
    return _text("policy,run,env_id,episode,seed,return,cost,undefined", *rows)


def plain_results_file() -> bytes:
    """The same without commas."""
    return results_file().replace(b'"', b"").replace(b"ppo, ", b"ppo")


def progress_file() -> bytes:
    """A log of Stable-Baselines3's."""
    rows = (f"{100 * n},{-3.5 * n},{'' if n == 1 else 0.25},text{n}" for n in range(1, 7))
    return _text("time/total_timesteps,rollout/ep_rew_mean,train/loss,note", *rows)


def yaml_file() -> bytes:
    """Hyperparameters with an anchor."""
    return _text(
        "default: &default",
        "  gamma: 0.985",
        "  learning_rate: 3e-4",
        "  net_arch: [64, 64]  # two layers",
        "  normalize: true",
        "VCC-2021:",
        "  <<: *default",
        "  n_steps: 96",
        "  policy_kwargs: {activation: relu, ortho_init: false}",
        '  note: "a, b"',
        "  when: 2019-05-01",
    )


def manifest_file() -> bytes:
    """A manifest of two traces."""
    fields = {"sha256": "00ff", "license": "CC BY", "attribution": "us", "source": "here", "units": "kg"}
    entry = "".join(f'{key} = "{value}"\n' for key, value in (fields | {"time_zone": "UTC"}).items())
    return "\n".join(f'[[trace]]\nfile = "moer/{name}.csv.gz"\n{entry}' for name in ("pge", "sce")).encode()


def parquet_file() -> bytes:
    """Power as Parquet."""
    frame = pd.DataFrame(
        {
            "time": pd.date_range("2021-03-01", periods=6, freq="h"),
            "solar_kw": np.arange(6) + 0.5,
            "wind_kw": 791.806 - np.arange(6),
        }
    )
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def dataset_file() -> bytes:
    """Eight transitions, compressed."""
    buffer = io.BytesIO()
    n = 8
    obs = np.linspace(0.0, 1.0, 3 * n, dtype=np.float32).reshape(n, 3)
    np.savez_compressed(
        buffer,
        obs=obs,
        next_obs=obs + 0.5,
        actions=np.arange(n) % 3,
        rewards=np.arange(n) / 7.0,
        terminated=np.arange(n) == n - 1,
        truncated=np.zeros(n, bool),
    )
    return buffer.getvalue()
