"""Synthetic observations of the resource-pool family."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

N_FEATURES = 12


def pool_space(n_jobs=5, units=10, horizon=48, context=8, image_dtype=np.uint8):
    high = 255 if image_dtype == np.uint8 else 1.0
    return spaces.Dict(
        resources=spaces.Box(0, high, (horizon, 2 * units), image_dtype),
        jobs=spaces.Box(-1, 1, (n_jobs, N_FEATURES), np.float32),
        context=spaces.Box(-1, 1, (context,), np.float32),
        action_mask=spaces.Box(0, 1, (n_jobs + 2,), np.int8),
    )


def pool_batch(space, batch=4, seed=0):
    """Return random observations; the last action is valid in each."""
    space.seed(seed)
    rows = [space.sample() for _ in range(batch)]
    observations = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    observations["action_mask"][:, -1] = 1
    return observations
