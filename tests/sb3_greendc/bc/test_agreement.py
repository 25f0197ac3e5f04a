from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from greendc.baselines import make_policy
from sb3_greendc.bc import agreement_scores, tie_sets
from sb3_greendc.core.masking import masked_log_softmax
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.agreement import MEASURES, agreement

SHARED = Path(os.environ.get("GREENDC_SHARED_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
VECTORS = SHARED.parent / "vectors" / "vectors.json"
POOL = {"units": 4, "horizon": 12, "ready_pool_size": 4, "episode_steps": 40}


def test_reference_vectors() -> None:
    if not VECTORS.is_file():
        pytest.skip(f"no {VECTORS}")
    case = json.loads(VECTORS.read_text())["agreement"]
    given = {key: np.array(value) for key, value in case["inputs"].items()}
    logits = masked_log_softmax(th.as_tensor(given["logits"]), th.as_tensor(given["mask"]))
    actions = logits.argmax(dim=1).numpy()
    np.testing.assert_array_equal(actions, case["outputs"].pop("policy_actions"))
    scores = agreement_scores(actions, given["heuristic_actions"], given["mask"], given["heuristic_tie_set"])
    for name, value in case["outputs"].items():
        assert getattr(scores, name) == pytest.approx(value, rel=1e-12), name


def test_a_state_without_choice_counts_overall_only() -> None:
    masks = np.array([[1, 0, 0], [1, 1, 1], [1, 1, 0], [0, 1, 1]])
    ties = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 1, 0]])
    scores = agreement_scores(np.array([0, 2, 0, 2]), np.array([0, 1, 0, 1]), masks, ties)
    assert (scores.agreement, scores.agreement_free) == (0.5, 1 / 3)
    assert (scores.agreement_tie, scores.agreement_tie_free) == (0.75, 2 / 3)
    assert scores.chance == (1 + 1 / 3 + 1 / 2 + 1 / 2) / 4 and scores.n_free == 3
    nothing_free = agreement_scores(np.array([0]), np.array([0]), np.array([[1, 0]]))
    assert nothing_free.agreement == 1.0 and np.isnan(nothing_free.agreement_free)


def test_tie_sets_are_the_jobs_with_the_key_of_the_chosen_one() -> None:
    """Jobs of three durations; of the equals that can start now, any may be the first."""
    env = make_vec_env("ResourcePool-10", 6, 0, **POOL)
    policy = make_policy("sjf", env)
    observations: Any = env.reset()
    sizes = []
    for _ in range(60):
        observations["jobs"][:, :, 6] = np.round(observations["jobs"][:, :, 6] * 3) / 3  # remaining time
        chosen = policy.act(observations)
        ties = tie_sets(policy.act, observations)
        jobs, masks = observations["jobs"], observations["action_mask"]
        starts = (jobs[:, :, 9] > 0) & (masks[:, :4] != 0)
        for i in range(6):
            if chosen[i] >= 4:
                expected = np.arange(6) == chosen[i]
            else:
                expected = np.append(starts[i] & (jobs[i, :, 6] == jobs[i, chosen[i], 6]), [False, False])
            np.testing.assert_array_equal(ties[i], expected)
            sizes.append(int(expected.sum()))
        observations, *_ = env.step(chosen)
    assert max(sizes) >= 2


class Fixed:
    """Does always the same where it may, else nothing."""

    def __init__(self, action: int) -> None:
        self.action = action

    def predict(self, observation: Any, **_: Any) -> tuple[Any, None]:
        masks = observation["action_mask"]
        return np.where(masks[:, self.action] != 0, self.action, masks.shape[1] - 1), None


def test_matrix_of_heuristics() -> None:
    table = agreement(["sjf", "fcfs"], ["sjf", "fcfs"], "ResourcePool-10", 5, env_kwargs=POOL)
    assert set(table["measure"]) == set(MEASURES) and len(table) == 4 * len(MEASURES)
    values = table.set_index(["heuristic", "policy", "measure"])["estimate"]
    for one in ("sjf", "fcfs"):
        for measure in ("agreement", "agreement_free", "agreement_tie", "agreement_tie_free"):
            assert values[one, one, measure] == 1.0
    assert values["sjf", "fcfs", "chance"] < values["sjf", "fcfs", "agreement"] < 1.0
    assert values["sjf", "fcfs", "agreement_tie"] >= values["sjf", "fcfs", "agreement"]
    assert (table["low"] <= table["estimate"]).all() and (table["estimate"] <= table["high"]).all()


def test_the_heuristic_drives() -> None:
    """The states are the heuristic's, so the count of states does not depend on the policy that is asked."""
    table = agreement({"first": Fixed(0), "idle": Fixed(5)}, ["sjf"], "ResourcePool-10", 4, env_kwargs=POOL)
    assert table.groupby("policy")["n_states"].first().nunique() == 1
    env = make_vec_env("ResourcePool-10", 4, 1_000_000, **POOL)
    policy = make_policy("sjf", env)
    observations: Any = env.reset()
    running, alike, total = np.ones(4, bool), 0, 0
    while running.any():
        actions = policy.act(observations)
        idle = np.full(4, 5)
        alike, total = alike + int((actions == idle)[running].sum()), total + int(running.sum())
        observations, _, dones, _ = env.step(actions)
        running &= ~dones
    row = table[(table["policy"] == "idle") & (table["measure"] == "agreement")].iloc[0]
    assert row["estimate"] == pytest.approx(alike / total) and row["n_states"] == total


def test_intervals_are_over_episodes() -> None:
    few = agreement(["fcfs"], ["sjf"], "ResourcePool-10", 4, env_kwargs=POOL)
    many = agreement(["fcfs"], ["sjf"], "ResourcePool-10", 40, env_kwargs=POOL)
    width = [
        float((table["high"] - table["low"])[table["measure"] == "agreement"].iloc[0])
        for table in (few, many)
    ]
    assert 0 < width[1] < width[0]
    one = agreement(["fcfs"], ["sjf"], "ResourcePool-10", 1, env_kwargs=POOL)
    assert (one["low"] == one["high"]).all()


@pytest.mark.parametrize(
    ("policies", "heuristics", "env_id", "options", "message"),
    [
        (["sjf"], ["sfj"], "ResourcePool-10", {}, "did you mean 'sjf'"),
        (["sjf:scope=queue"], ["sjf"], "ResourcePool-10", {}, "places jobs itself"),
        (["always_on"], ["always_on"], "VCC-2021", {}, "Discrete actions"),
        (["sjf"], ["sjf"], "ResourcePool-10", {"n_episodes": 0}, "n_episodes=0"),
    ],
)
def test_bad_requests(
    policies: Any, heuristics: Any, env_id: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        agreement(policies, heuristics, env_id, **{"n_episodes": 2, **options})
