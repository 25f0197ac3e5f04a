"""A pretrained encoder that was frozen stays as it is; one that only rests goes on learning."""

from __future__ import annotations

import copy

import pytest
import torch as th
from discrete_sac_cases import Encoder, make

from sb3_greendc.discrete_sac import DiscreteSAC


class HalfFrozen(Encoder):
    """An encoder whose weights are frozen when it is made, and whose biases are not."""

    def __init__(self, space):
        super().__init__(space)
        self.net[0].weight.requires_grad_(False)


def half_frozen(**options):
    return make(policy_kwargs={"features_extractor_class": HalfFrozen}, **options)


def moved(model, before):
    """Return which of the encoder's two parameters have moved."""
    now = model.policy.features_extractor.state_dict()
    return [name.rpartition(".")[2] for name in now if not th.equal(now[name], before[name])]


def encoder_of(model):
    return copy.deepcopy(model.policy.features_extractor.state_dict())


@pytest.mark.parametrize("actor_starts", [0, 10])
def test_frozen_parameters_do_not_move(actor_starts):
    model = half_frozen(actor_starts=actor_starts)
    before = encoder_of(model)
    model.learn(60)
    assert moved(model, before) == ["bias"]


def test_an_encoder_frozen_by_the_user_does_not_move():
    model = make(actor_starts=10)
    model.policy.features_extractor.requires_grad_(False)
    before = encoder_of(model)
    model.learn(60)
    assert moved(model, before) == []


def test_the_encoder_rests_with_the_actor_and_then_goes_on():
    model = make(actor_starts=20).learn(20)
    before = encoder_of(model)
    model.learn(20, reset_num_timesteps=False)
    assert moved(model, before) == []
    model.learn(20, reset_num_timesteps=False)
    assert moved(model, before) == ["weight", "bias"]


def test_a_model_saved_at_rest_goes_on_as_it_would_have(tmp_path):
    model = half_frozen(actor_starts=20).learn(30)  # ten updates
    model.save(tmp_path / "model", include=[])
    loaded = DiscreteSAC.load(tmp_path / "model", env=model.get_env(), device="cpu")
    before = encoder_of(loaded)
    loaded.learn(10, reset_num_timesteps=False)
    assert moved(loaded, before) == []
    loaded.learn(10, reset_num_timesteps=False)
    assert moved(loaded, before) == ["bias"]
