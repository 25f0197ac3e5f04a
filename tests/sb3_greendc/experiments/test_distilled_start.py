"""PID-PPO from a distilled policy: late jobs are started for their bonus, and the run is like any other."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from greendc.resource_pool.observation import JOB_FEATURES
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.experiments.constrained import CHOICE, DELAY
from sb3_greendc.experiments.distilled_start import distilled_pid_ppo
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.experiments.training import Training
from sb3_greendc.runs.models import RUN_FILE

PROBLEM = Scenario("ResourcePool-10", {"offered_load": 1.5, "episode_steps": 60, **DELAY})
LEARNER = dataclasses.replace(distilled_pid_ppo(5.0, True), labels=1000, futures=2, epochs=3)


def share_of_late_starts(late_start):
    """Return how often the distilled policy starts a late job where it can start nothing else."""
    acting = PROBLEM.with_kwargs(**CHOICE)
    (start,) = dataclasses.replace(LEARNER, late_start=late_start).needs(acting, 0)
    model = start.distill().model
    env = make_vec_env(acting.env_id, 16, 7, **acting.env_kwargs)
    observations = env.reset()
    started = []
    for _ in range(60):
        masks = np.asarray(observations["action_mask"]).astype(bool)
        actions, _ = model.predict(observations, deterministic=True, action_masks=masks)
        on_time = observations["jobs"][:, :, JOB_FEATURES.index("on_time")] > 0.5
        starts = masks[:, : on_time.shape[1]]
        only_late = starts.any(axis=1) & ~(starts & on_time).any(axis=1)
        started += list(actions[only_late] < on_time.shape[1])
        observations, _, _, _ = env.step(actions)
    return np.mean(started)


def test_late_jobs_are_started_for_the_bonus_alone():
    assert share_of_late_starts(0.0) < 0.2
    assert share_of_late_starts(2.0) > 0.8


@pytest.mark.filterwarnings("ignore:No episode finished")
def test_the_run_is_judged_and_saved_and_the_same_from_a_start_that_is_given():
    learner = dataclasses.replace(LEARNER, hyperparameters={**LEARNER.hyperparameters, "n_steps": 32})
    task = Training(PROBLEM, learner, 1024, 0, 3)
    outcome = task.compute()
    assert len(outcome.tables["episodes"]) == 3
    assert outcome.tables["progress"]["train/lagrange_multiplier"].notna().any()
    assert "model.zip" in outcome.files
    (start,) = task.needs
    files = start.compute().files
    record = {**json.loads(files[RUN_FILE]), "seconds": 5000.0}
    given = task.given({**files, RUN_FILE: json.dumps(record).encode()})
    assert (given.key, given.identity) == (task.key, task.identity)
    episodes, same = (one.tables["episodes"] for one in (outcome, given.compute()))
    assert episodes["total_job_value"].equals(same["total_job_value"])
    assert 0 < episodes["trained_seconds"].max() < 5000 < same["trained_seconds"].min()


def test_runs_under_other_limits_and_gains_share_their_start():
    def start_of(limit, load=1.0, seed=0, **settings):
        scenario = PROBLEM.with_kwargs(offered_load=load)
        (start,) = Training(scenario, distilled_pid_ppo(limit, True, **settings), 1024, seed, 3).needs
        return start.key

    assert start_of(5.0) == start_of(20.0, kp=1.0)
    assert start_of(5.0) != start_of(5.0, load=0.8)
    assert start_of(5.0) != start_of(5.0, seed=1)


def test_the_start_is_a_part_of_the_key():
    task = Training(PROBLEM, LEARNER, 1024, 0, 3)
    longer = dataclasses.replace(task, learner=dataclasses.replace(LEARNER, labels=3000))
    assert longer.key != task.key
    assert longer.needs[0].seconds() > task.needs[0].seconds()
