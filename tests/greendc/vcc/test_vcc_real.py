"""A month of the real jobs against the real emissions; skipped where the data is absent."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import greendc
from greendc import baselines
from greendc.vcc import layout

REPOSITORY = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("GREENDC_SHARED_DATA", REPOSITORY / ".." / "shared" / "data"))
JOBS = SHARED / "google2019" / "daily_events"

pytestmark = pytest.mark.skipif(not JOBS.is_dir(), reason="the real jobs are not at hand")


@pytest.mark.parametrize("env_id", ["VCC-2019-v0", "VCC-2021-v1"])
def test_a_whole_month_runs_and_conserves_job_hours(env_id):
    env = greendc.make_vec(env_id, 4, workload=JOBS, resample_days=False)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    levels = np.array([1.0, 0.0, 0.5, np.nan])
    for _ in range(720):
        actions = np.where(np.isnan(levels), rng.random(4), levels)[:, None]
        *_, infos = env.step(actions)
    metrics = [infos["final_info"][i]["episode_metrics"] for i in range(4)]
    for each in metrics:
        assert each["submitted_work"] == pytest.approx(each["executed_work"] + each["queued_work"], abs=1e-9)
    done = [each["flexible_work_done"] for each in metrics]
    assert done[0] > 0.99 > done[3] > done[1] == 0.0
    assert metrics[0]["carbon_kg"] == pytest.approx(metrics[0]["carbon_no_delay_kg"], rel=0.02)


def test_the_real_jobs_are_read_whole():
    simulator = greendc.make_simulator("VCC-2019", 1, workload=JOBS)
    counts = simulator.trace.counts
    assert (counts["read"], counts["zero_duration"], counts["zero_cpu"]) == (47276, 78, 20)
    assert simulator.trace.mean_load == pytest.approx(3.0, abs=0.01)
    assert simulator.capacity / layout.MICRO == pytest.approx(3.0 / 0.65, abs=0.02)


@pytest.mark.parametrize(("env_id", "saved"), [("VCC-2019", (0.07, 0.19)), ("VCC-2021", (0.03, 0.10))])
def test_thresholds_save_what_a_prototype_saved(env_id, saved):
    """-9 to -17 % carbon in May 2019 and -4 to -8 % in May 2021, with the true forecast and its settings."""
    carbon = {}
    for name in ("always_on", "moer_threshold"):
        env = greendc.make_vec(env_id, 1, workload=JOBS, resample_days=False, forecast="oracle")
        observations, _ = env.reset(seed=0)
        options = {"quantile": 0.65, "low": 0.45} if name == "moer_threshold" else {}
        policy = baselines.make_policy(name, env, **options)
        for _ in range(720):
            observations, *_, infos = env.step(policy.predict(observations)[0])
        carbon[name] = infos["final_info"][0]["episode_metrics"]["carbon_kg"]
    assert saved[0] < 1 - carbon["moer_threshold"] / carbon["always_on"] < saved[1]
