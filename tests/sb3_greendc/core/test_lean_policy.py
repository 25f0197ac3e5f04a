"""Lean policies see what SB3's see, and a softmax over many rows is the softmax."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy, MultiInputActorCriticPolicy

from sb3_greendc.core.lean_policy import LeanPolicy
from sb3_greendc.core.masking import mask_logits, masked_log_softmax

PARTS = {
    "vector": spaces.Box(-1.0, 1.0, (3,)),
    "table": spaces.Box(0, 255, (4, 2), dtype=np.uint8),
    "kind": spaces.Discrete(5),
}
DICT = spaces.Dict(PARTS)
BOXES = spaces.Dict({key: PARTS[key] for key in ("vector", "table")})
IMAGE = spaces.Box(0, 255, (36, 40, 3), dtype=np.uint8)


class Flat(ActorCriticPolicy, LeanPolicy):
    pass


class Parts(MultiInputActorCriticPolicy, LeanPolicy):
    pass


def observation(space, batch):
    space.seed(0)
    samples = [space.sample() for _ in range(batch or 1)]
    if isinstance(space, spaces.Dict):
        return {key: observation(part, batch) for key, part in space.spaces.items()}
    return np.stack(samples) if batch else samples[0]


@pytest.mark.parametrize("batch", [0, 1, 4])
@pytest.mark.parametrize(
    "space", [*PARTS.values(), IMAGE, DICT, BOXES], ids=[*PARTS, "image", "dict", "boxes"]
)
def test_observations_become_the_tensors_that_sb3_makes(space, batch):
    cls = Parts if isinstance(space, spaces.Dict) else Flat
    policy = cls(space, spaces.Discrete(2), lambda _: 1e-3)
    given = observation(space, batch)
    found, expected = policy.obs_to_tensor(given), BasePolicy.obs_to_tensor(policy, given)
    assert found[1] == expected[1] == bool(batch)
    if not isinstance(space, spaces.Dict):
        found, expected = ({"all": part[0]} for part in (found, expected))
    else:
        found, expected = found[0], expected[0]
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key].dtype == values.dtype
        assert th.equal(found[key], values)


def test_the_device_is_that_of_the_first_parameter():
    policy = Parts(DICT, spaces.Discrete(2), lambda _: 1e-3)
    assert policy.device == next(policy.parameters()).device == th.device("cpu")
    assert policy.to("meta").device == next(policy.parameters()).device == th.device("meta")


def test_an_array_that_cannot_be_written_is_no_matter():
    policy = Flat(PARTS["vector"], spaces.Discrete(2), lambda _: 1e-3)
    given = np.ones(3, np.float32)
    given.flags.writeable = False
    assert policy.obs_to_tensor(given)[0].tolist() == [[1.0, 1.0, 1.0]]


def test_a_wrong_shape_is_sb3s_error():
    policy = Flat(PARTS["vector"], spaces.Discrete(2), lambda _: 1e-3)
    with pytest.raises(ValueError, match=r"Unexpected observation shape \(4,\)"):
        policy.predict(np.ones(4, np.float32))


def test_a_change_of_mode_reaches_every_module():
    policy = Flat(PARTS["vector"], spaces.Discrete(2), lambda _: 1e-3)
    for mode in (False, True, True, False):
        policy.set_training_mode(mode)
        assert {module.training for module in policy.modules()} == {mode}


@pytest.mark.parametrize("rows", [2, 200])
def test_the_softmax_of_many_rows_is_the_softmax(rows):
    logits, mask = th.randn(rows, 7, requires_grad=True), th.rand(rows, 7) < 0.4
    towards = th.randn(rows, 7)
    for valid in (mask, None):
        expected = th.log_softmax(mask_logits(logits, valid), dim=-1)
        found = masked_log_softmax(logits, valid)
        th.testing.assert_close(found, expected)
        gradients = [th.autograd.grad((x * towards).sum(), logits)[0] for x in (found, expected)]
        th.testing.assert_close(*gradients)
