"""Put your own datacenter in: a job log, measured power and the grid's carbon intensity, from three files.

`main` writes a made-up site of four weeks so that the script runs as it is; give it your own files instead
(jobs in Standard Workload Format, hourly power and carbon as CSV). Prints a row per policy: share of the
jobs' value, energy from the grid and its carbon. Seconds. `scripts/reproduce.py my-site` trains a policy on
top and writes a report.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from sb3_greendc import evaluate


def write_made_up_site(folder: Path, hours: int = 28 * 24) -> None:
    """Write `jobs.swf`, `power.csv` and `carbon.csv`."""
    rng = np.random.default_rng(0)
    submitted = np.sort(rng.integers(0, hours * 3600, 3 * hours // 2))
    lines = ["; MaxProcs: 64"]
    for number, second in enumerate(submitted, start=1):
        run, processors = 3600 * rng.integers(1, 9), 2 ** rng.integers(1, 6)
        # job, submit, wait, run, processors, ..., processors asked, time asked, ..., status 1: done
        lines.append(f"{number} {second} 0 {run} {processors} -1 -1 {processors} {run} -1 1" + " -1" * 7)
    (folder / "jobs.swf").write_text("\n".join(lines) + "\n")

    hour = np.arange(hours)
    sun = np.clip(np.sin(2 * np.pi * (hour % 24 - 6) / 24), 0, None)
    time = pd.date_range("2024-06-01", periods=hours, freq="h")
    power = {"time": time, "solar_kw": 150 * sun, "wind_kw": rng.weibull(2, hours).clip(0, 3) * 100}
    pd.DataFrame(power).to_csv(folder / "power.csv", index=False)
    pd.DataFrame({"time": time, "carbon_kg_per_kwh": 0.45 - 0.2 * sun}).to_csv(
        folder / "carbon.csv", index=False
    )


def main(folder: Path | None = None, episodes: int = 20) -> None:
    """Judge baselines on the site of a folder, in so many episodes of a week; no folder: a made-up one."""
    with tempfile.TemporaryDirectory() as made_up:
        if folder is None:
            folder = Path(made_up)
            write_made_up_site(folder)
        site = {
            "units": 16,  # what the pool schedules; the log's processors are scaled to them
            "workload": folder / "jobs.swf",
            "offered_load": None,  # the log's own arrivals
            "power": "trace",
            "trace": folder / "power.csv",
            "carbon": folder / "carbon.csv",
            "site": {
                "total_kw": 200.0,
                "critical_kw": 40.0,  # cooling and network, served first
                "battery": {"energy_kwh": 400.0},
                "grid": "capped",  # the grid helps out, up to
                "grid_cap_kw": 60.0,
            },
            "episode_steps": 168,
        }
        policies = ["fcfs", "hvf", "deadline_never", "deadline_never:dispatch=easy,scope=queue"]
        results = evaluate(policies, "ResourcePool", episodes, seed=0, env_kwargs=site)
    columns = ["total_job_value_ratio", "brown_kwh", "carbon_kg", "curtailed_kwh"]
    print(results.groupby("policy", sort=False)[columns].mean().round(2).to_string())


if __name__ == "__main__":
    main()
