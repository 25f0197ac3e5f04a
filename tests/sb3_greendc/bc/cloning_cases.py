"""What tests of behavioral cloning share."""

from __future__ import annotations

import numpy as np

from sb3_greendc.datasets import OfflineDataset

POOL = {"units": 4, "horizon": 12, "ready_pool_size": 4, "episode_steps": 40}


def first_action_data(n_episodes: int = 12) -> OfflineDataset:
    """Return masked data in which the first valid action is taken."""
    rng = np.random.default_rng(0)
    n = 10 * n_episodes
    masks = (rng.random((n, 4)) < 0.5).astype(np.int8)
    masks[:, 3] = 1
    vector = np.concatenate([masks[:, :3], rng.random((n, 1))], axis=1).astype(np.float32)
    obs = {"obs/vector": vector, "obs/action_mask": masks}
    following = {key.replace("obs", "next_obs"): np.roll(value, -1, axis=0) for key, value in obs.items()}
    ends = np.arange(n) % 10 == 9
    return OfflineDataset.from_dict(
        {
            **obs,
            **following,
            "actions": masks.argmax(axis=1),
            "rewards": np.zeros(n),
            "terminated": ends,
            "truncated": np.zeros(n, bool),
        }
    )
