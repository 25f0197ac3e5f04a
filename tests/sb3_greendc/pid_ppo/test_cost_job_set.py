"""CostJobSetPolicy obeys the masks that it is given, in every method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th

from sb3_greendc import PIDLagrangianPPO, make_vec_env


@pytest.fixture(scope="module")
def model() -> PIDLagrangianPPO:
    env = make_vec_env("ResourcePool-10", 8, seed=0, mask="now", cost="weighted", cost_weights=[0.01, 0.0])
    return PIDLagrangianPPO("CostJobSetPolicy", env, cost_limit=5.0, n_steps=8, seed=0, device="cpu")


def with_a_choice(model: PIDLagrangianPPO) -> dict[str, Any]:
    """Return observations of which every one leaves a choice."""
    env = model.get_env()
    assert env is not None
    seen: list[dict[str, Any]] = [dict(env.reset())]
    for _ in range(30):
        seen.append({k: v.copy() for k, v in env.step(model.predict(seen[-1])[0])[0].items()})
    every = {key: np.concatenate([one[key] for one in seen]) for key in seen[0]}
    free = every["action_mask"].sum(axis=1) >= 3
    assert free.sum() > 10
    return {key: values[free] for key, values in every.items()}


@pytest.mark.parametrize("allowed", ["one of the observation's", "one that the observation forbids"])
def test_given_masks_replace_the_observations(model: PIDLagrangianPPO, allowed: str) -> None:
    observations = with_a_choice(model)
    valid = observations["action_mask"].astype(bool)
    action = valid.argmax(axis=1) if allowed == "one of the observation's" else valid.argmin(axis=1)
    mask = np.eye(valid.shape[1], dtype=bool)[action]
    for deterministic in (False, True):
        chosen, _ = model.predict(observations, deterministic=deterministic, action_masks=mask)
        np.testing.assert_array_equal(chosen, action)
    tensors, _ = model.policy.obs_to_tensor(observations)
    actions, given = th.as_tensor(action), th.as_tensor(mask)
    with th.no_grad():
        drawn, _, log_prob = model.policy(tensors, action_masks=given)
        every = [
            log_prob,
            model.policy.get_distribution(tensors, action_masks=given).log_prob(actions),
            model.policy.evaluate_actions(tensors, actions, action_masks=given)[1],
            model.policy.evaluate_actions_with_cost(tensors, actions, given)[2],
        ]
    assert th.equal(drawn, actions)
    assert all((one == 0.0).all() for one in every)


def test_without_given_masks_it_obeys_the_observations(model: PIDLagrangianPPO) -> None:
    observations = with_a_choice(model)
    chosen, _ = model.predict(observations)
    assert observations["action_mask"][np.arange(len(chosen)), chosen].all()
