"""Masks, targets and batches of an update, each of which can be mistaken for another."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from toy_data import toy_model


def test_cloning_is_among_the_valid_actions():
    model = toy_model("masked", weight_mode="bc").learn(5)
    batch = model._next_batch()
    with th.no_grad():
        logits = model.policy.logits(model.policy.encode(batch.observations))
    masks = batch.observations["action_mask"].bool()
    assert (~masks).any()
    losses = [
        -th.log_softmax(row[valid], dim=0)[int(valid[:action].sum())]
        for row, valid, action in zip(logits, masks, batch.actions, strict=True)
    ]
    th.testing.assert_close(model.losses(batch).actor, th.stack(losses).mean())


def test_the_greatest_value_is_that_of_a_valid_action():
    model = toy_model("masked", value_mode="max", weight_mode="exp").learn(5)
    batch = model._next_batch()
    with th.no_grad():
        q = model.policy.q_values(model.policy.encode(batch.observations)).amin(dim=0)
    masks = batch.observations["action_mask"].bool()
    best = th.where(masks, q, -th.inf).amax(dim=1)
    assert (best < q.amax(dim=1)).any()
    taken = q.gather(1, batch.actions.unsqueeze(1)).squeeze(1)
    th.testing.assert_close(model.losses(batch).advantage, taken - best)


def test_conservatism_does_not_lower_invalid_actions():
    model, plain = (toy_model("masked", cql_alpha=alpha) for alpha in (1.0, 0.0))
    plain.policy.load_state_dict(model.policy.state_dict())
    batch = model._next_batch()
    with th.no_grad():
        q = model.policy.q_values(model.policy.encode(batch.observations))
        masks = batch.observations["action_mask"].bool()
        taken = q.gather(2, batch.actions.view(1, -1, 1).expand(2, -1, 1)).squeeze(2)
        soft = th.where(masks, q, -th.inf).logsumexp(dim=2)
        added = model.losses(batch).critic - plain.losses(batch).critic
    th.testing.assert_close(added, (soft - taken).mean(dim=1).sum())


@pytest.mark.parametrize("target_actor", [True, False])
def test_target_values_are_of_the_target_encoder(target_actor):
    model = toy_model("masked", target_actor=target_actor, policy_kwargs={"net_arch": {"shared": [16]}})
    policy = model.policy
    batch = model._next_batch()
    with th.no_grad():
        before = policy.next_outputs(batch.next_observations)
        for parameter in policy.features_extractor.parameters():
            parameter.add_(1.0)
        after = policy.next_outputs(batch.next_observations)
    assert th.equal(before[1], after[1])
    assert th.equal(before[0], after[0]) == target_actor


def test_every_run_and_every_stretch_of_it_draws_other_batches():
    def rewards(seed: int, update: int) -> np.ndarray:
        model = toy_model(seed=seed, batch_size=64)
        model._n_updates = update
        return model._next_batch().rewards.numpy()

    drawn = [rewards(seed, update) for seed, update in ((0, 0), (1, 0), (0, 8), (0, 16))]
    for i, one in enumerate(drawn):
        for other in drawn[:i]:
            assert not np.array_equal(one, other)
    np.testing.assert_array_equal(drawn[0], rewards(0, 0))


@pytest.mark.parametrize("action", ["discrete", "box"])
def test_every_run_and_every_update_has_its_own_draws(action):
    model = toy_model("dict", action, value_mode="mean")
    first = model._draws().initial_seed()
    model._n_updates = 1
    second = model._draws().initial_seed()
    other = toy_model("dict", action, value_mode="mean", seed=1)
    assert len({first, second, other._draws().initial_seed()}) == 3
