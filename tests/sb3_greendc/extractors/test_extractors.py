"""Every extractor: shapes, scales, what it reads, who can use it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from pool_spaces import pool_batch, pool_space
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.preprocessing import preprocess_obs

from sb3_greendc.discrete_sac import DiscreteSAC
from sb3_greendc.extractors import (
    EXTRACTORS,
    ForecastExtractor,
    JobSetExtractor,
    MaskedCombinedExtractor,
    ResourceImageExtractor,
    ResourceRowsExtractor,
    extractor_class,
    resolve_extractor,
)

POOL_EXTRACTORS = {
    "resource_rows": {},
    "resource_image": {},
    "resource_image_pooled": {"pooled": True},
    "job_set": {},
    "job_set_attention": {"n_attention_heads": 4},
    "combined": {},
}


def build(name, space):
    cls = EXTRACTORS[name.removesuffix("_pooled").removesuffix("_attention")]
    return cls(space, **POOL_EXTRACTORS[name])


def tensors(space, observations):
    return preprocess_obs({key: th.as_tensor(x) for key, x in observations.items()}, space)


class PoolEnv(gym.Env):
    """Random observations of the resource-pool family."""

    def __init__(self, **kwargs):
        self.observation_space = pool_space(horizon=16, **kwargs)
        self.action_space = spaces.Discrete(self.observation_space["action_mask"].shape[0])

    def _observation(self):
        self._mask = np.ones(self.action_space.n, np.int8)
        self._mask[:2] = self.t % 2
        return {**self.observation_space.sample(), "action_mask": self._mask}

    def action_masks(self):
        return self._mask.astype(bool)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observation(), {}

    def step(self, action):
        self.t += 1
        return self._observation(), 1.0, False, self.t >= 8, {}


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("name", POOL_EXTRACTORS)
def test_features_are_finite_and_reach_every_parameter(name, dtype):
    space = pool_space(image_dtype=dtype)
    extractor = build(name, space)
    features = extractor(tensors(space, pool_batch(space)))
    assert features.shape == (4, extractor.features_dim)
    assert th.isfinite(features).all()
    if features.requires_grad:
        (features * th.randn_like(features)).sum().backward()
    unused = [key for key, p in extractor.named_parameters() if p.grad is None or not p.grad.abs().any()]
    assert not unused


@pytest.mark.parametrize("name", POOL_EXTRACTORS)
def test_every_input_but_the_mask_counts(name):
    space = pool_space()
    extractor, batch = build(name, space), pool_batch(space)
    before = extractor(tensors(space, batch))
    for key in space.spaces:
        changed = dict(batch)
        changed[key] = 1 - batch[key] if key == "action_mask" else pool_batch(space, seed=9)[key]
        differs = not th.allclose(before, extractor(tensors(space, changed)), atol=1e-6)
        assert differs == (key != "action_mask"), key


@pytest.mark.parametrize("name", ["resource_rows", "resource_image", "resource_image_pooled", "job_set"])
def test_uint8_and_float_images_mean_the_same(name):
    as_bytes, as_floats = pool_space(), pool_space(image_dtype=np.float32)
    a, b = build(name, as_bytes), build(name, as_floats)
    b.load_state_dict(a.state_dict())
    batch = pool_batch(as_bytes)
    batch["resources"] = (
        np.random.default_rng(0).choice([0, 64, 200, 255], batch["resources"].shape).astype(np.uint8)
    )
    scaled = {**batch, "resources": batch["resources"].astype(np.float32) / 255}
    th.testing.assert_close(a(tensors(as_bytes, batch)), b(tensors(as_floats, scaled)), rtol=1e-3, atol=1e-4)


def n_parameters(extractor):
    return sum(p.numel() for p in extractor.parameters())


def test_size_of_the_image_extractor():
    def size(units, **kwargs):
        return n_parameters(ResourceImageExtractor(pool_space(5, units), **kwargs))

    assert 290_000 < size(10) < 340_000
    assert size(300) > 3_000_000
    assert size(10, pooled=True) == size(300, pooled=True) < 420_000


def test_pooled_image_does_not_mix_resource_types():
    """Each type's columns are a channel."""
    space = pool_space(units=3, horizon=4)
    extractor = ResourceImageExtractor(space, pooled=True)
    seen = []
    extractor.convolutions.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    batch = pool_batch(space, batch=1)
    batch["resources"][:] = np.arange(6)
    extractor(tensors(space, batch))
    assert seen[0].shape == (1, 2, 4, 3)
    np.testing.assert_allclose(seen[0][0, :, 0] * 255, [[0, 1, 2], [3, 4, 5]], atol=1e-4)


def test_rows_share_their_weights_over_time():
    """Moving a pattern by a whole block moves the activations of the blocks."""
    extractor = ResourceRowsExtractor(pool_space(horizon=16), block=4)
    blocks = extractor.rows[0]
    image = th.zeros(1, 16, 20)
    image[0, 1, 3] = 1.0
    moved = image.roll(4, dims=1)
    a, b = blocks(image).view(4, -1), blocks(moved).view(4, -1)
    th.testing.assert_close(a[0], b[1])


def test_a_horizon_that_blocks_do_not_divide():
    space = pool_space(horizon=10)
    assert th.isfinite(ResourceRowsExtractor(space, block=4)(tensors(space, pool_batch(space)))).all()


def test_vectors_under_any_key_are_read():
    space = pool_space()
    extra = spaces.Dict({**space.spaces, "weather": spaces.Box(-1, 1, (3,), np.float32)})
    assert (
        ResourceRowsExtractor(extra).inputs.vector_dim == ResourceRowsExtractor(space).inputs.vector_dim + 3
    )


@pytest.mark.parametrize("length", [27, 40])
def test_forecast(length):
    space = spaces.Box(-1, 1, (length,), np.float32)
    extractor = ForecastExtractor(space)
    x = th.rand(5, length)
    x[0, 3:27] = 0.4  # a flat forecast has no spread to divide by
    x[1, :3] = th.tensor([1.0, 900.0, 4e4])  # raw counts
    features = extractor(x)
    assert features.shape == (5, extractor.features_dim)
    assert th.isfinite(features).all()
    for entry in range(length):
        y = x.clone()
        y[2:, entry] += 0.5
        assert not th.allclose(features[2:], extractor(y)[2:], atol=1e-6), entry


def test_combined_drops_the_mask():
    space = pool_space()
    without = sum(int(np.prod(s.shape)) for key, s in space.spaces.items() if key != "action_mask")
    assert MaskedCombinedExtractor(space).features_dim == without


@pytest.mark.parametrize(
    ("cls", "space", "kwargs", "message"),
    [
        (ResourceRowsExtractor, spaces.Box(0, 1, (3,)), {}, "must be a Dict"),
        (JobSetExtractor, spaces.Dict(resources=spaces.Box(0, 1, (3, 2))), {}, "'jobs' is missing"),
        (
            ResourceRowsExtractor,
            spaces.Dict(jobs=spaces.Box(0, 1, (6,)), resources=spaces.Box(0, 1, (4, 4))),
            {},
            r"'jobs' has shape \(6,\)",
        ),
        (ResourceImageExtractor, pool_space(), {"pooled": True, "n_resource_types": 3}, "n_resource_types=3"),
        (JobSetExtractor, pool_space(), {"n_resource_types": 3}, "n_resource_types=3"),
        (JobSetExtractor, pool_space(), {"n_attention_heads": 7}, "n_attention_heads=7"),
        (ForecastExtractor, spaces.Box(0, 1, (20,)), {}, "3 to 26"),
        (MaskedCombinedExtractor, spaces.Dict(action_mask=spaces.Box(0, 1, (3,))), {}, "nothing but"),
    ],
)
def test_spaces_that_do_not_fit(cls, space, kwargs, message):
    with pytest.raises(ValueError, match=message):
        cls(space, **kwargs)


def test_names():
    kwargs = {"features_extractor": "resource_rows", "net_arch": [32]}
    assert resolve_extractor(kwargs) == {"features_extractor_class": ResourceRowsExtractor, "net_arch": [32]}
    assert resolve_extractor({"net_arch": [32]}) == {"net_arch": [32]}
    with pytest.raises(ValueError, match="did you mean 'resource_rows'"):
        extractor_class("resource_row")
    with pytest.raises(ValueError, match="one of the two"):
        resolve_extractor({"features_extractor": "flatten", "features_extractor_class": ForecastExtractor})


@pytest.mark.parametrize("name", POOL_EXTRACTORS)
@pytest.mark.parametrize("algorithm", [PPO, MaskablePPO, DQN, DiscreteSAC])
def test_serves_every_algorithm(algorithm, name):
    kwargs = {"features_extractor_class": EXTRACTORS[name.removesuffix("_pooled").removesuffix("_attention")]}
    kwargs["features_extractor_kwargs"] = POOL_EXTRACTORS[name]
    on_policy = {"n_steps": 16, "batch_size": 8, "n_epochs": 1}
    off_policy = {"learning_starts": 8, "buffer_size": 100, "batch_size": 8}
    extra = off_policy if algorithm in (DQN, DiscreteSAC) else on_policy
    model = algorithm("MultiInputPolicy", PoolEnv(), policy_kwargs=kwargs, device="cpu", seed=0, **extra)
    extractor = (model.q_net if algorithm is DQN else model.policy).features_extractor
    before = [p.detach().clone() for p in extractor.parameters()]
    model.learn(24)
    assert all(not th.equal(a, b) for a, b in zip(before, extractor.parameters(), strict=True))
