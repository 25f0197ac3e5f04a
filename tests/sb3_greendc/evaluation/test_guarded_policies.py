"""Policies that are evaluated with the guard against idle pools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.paired import Evaluation, evaluate
from sb3_greendc.evaluation.policy_sources import policy_sources

SHORT = {"episode_steps": 60, "offered_load": 0.3}
METRICS = ["return", "length", "total_job_value", "utilization"]


class Idler:
    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        return np.full(len(observation["jobs"]), 11), state


def test_one_policy_or_all() -> None:
    policies: dict[str, Any] = {"idle": Idler(), "sjf": "sjf", "guarded": "work_conserving:sjf"}
    plain = evaluate(policies, "ResourcePool-10", 2, env_kwargs=SHORT).set_index("policy")
    everything = evaluate(policies, "ResourcePool-10", 2, env_kwargs=SHORT, work_conserving=True)
    everything = everything.set_index("policy")
    assert (plain.loc["idle", "utilization"] == 0).all()
    assert (everything.loc["idle", "completed_jobs"] > 0).all()
    for name in ("sjf", "guarded"):  # it never idles by itself
        np.testing.assert_array_equal(everything.loc[name, METRICS], plain.loc["sjf", METRICS])


def test_what_ships_keeps_what_it_chooses_from() -> None:
    named, guarded = policy_sources(["pretrained", "work_conserving:pretrained"], "ResourcePool-10-v0")
    assert guarded.name == "work_conserving:pretrained"
    assert guarded.choice == named.choice != {}
    assert guarded.source == f"work_conserving:{named.source}"
    env = guarded.prepare_env(make_vec_env("ResourcePool-10", 2, **guarded.choice, **SHORT))
    assert type(guarded.policy_for(env)).__name__ == "WorkConserving"


def test_a_guard_is_for_pools_and_there_is_one() -> None:
    with pytest.raises(ValueError, match=r"work_conserving: must be a policy of a resource pool"):
        Evaluation(["work_conserving:always_on"], "VCC-2019", env_kwargs={"days": 1})
    twice = policy_sources(["work_conserving:sjf"], "ResourcePool-10-v0", work_conserving=True)
    assert twice[0].source == "work_conserving:sjf"
    with pytest.raises(ValueError, match="unknown policy 'sfj'; did you mean 'sjf'"):
        policy_sources(["work_conserving:sfj"], "ResourcePool-10-v0")
