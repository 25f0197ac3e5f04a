"""Masks are made of zeros and ones; what VecNormalize makes of them is no mask, and is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from sb3_greendc.core.masking import check_normalization, effective_mask, mask_logits
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.extractors import JobSetPolicy, MaskedActorCriticPolicy

SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "seed": 0, "device": "cpu"}


@pytest.mark.parametrize("dtype", [th.bool, th.int8, th.uint8, th.float32, th.float64])
def test_a_mask_of_any_dtype_acts_alike(dtype: th.dtype) -> None:
    mask = th.tensor([[1, 0, 1], [0, 0, 0]]).to(dtype)
    assert effective_mask(mask).tolist() == [[True, False, True], [True, True, True]]


@pytest.mark.parametrize("value", [-0.5, 0.5, 2.0, float("nan")])
def test_floats_other_than_0_and_1_are_no_mask(value: float) -> None:
    mask = th.tensor([[1.0, 0.0], [value, 1.0]])
    with pytest.raises(ValueError, match=r"action_mask holds numbers other than 0 and 1.*norm_obs_keys"):
        mask_logits(th.zeros(2, 2), mask)


def normalized(**options: Any) -> VecNormalize:
    return VecNormalize(make_vec_env("ResourcePool-10", 2, seed=0, image_dtype="float32"), **options)


def test_an_environment_that_normalizes_masks_is_refused() -> None:
    for env in (None, normalized(norm_obs=False), normalized(norm_obs_keys=["jobs"])):
        check_normalization(env)
    with pytest.raises(ValueError, match="VecNormalize normalizes 'action_mask'"):
        check_normalization(normalized())


@pytest.mark.parametrize("policy", [MaskedActorCriticPolicy, JobSetPolicy])
def test_sb3s_own_algorithms_stop_at_the_first_normalized_mask(policy: Any) -> None:
    PPO(policy, normalized(norm_obs_keys=["jobs"]), **SMALL).learn(16)
    model = PPO(policy, normalized(), **SMALL)
    with pytest.raises(ValueError, match="action_mask holds numbers other than 0 and 1"):
        model.learn(16)
    assert model.num_timesteps == 0
