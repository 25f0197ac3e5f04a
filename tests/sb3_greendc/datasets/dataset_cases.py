"""Small data sets of every kind, with exact contents."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from sb3_greendc.datasets import OfflineDataset

ARRAYS = (
    "observations",
    "next_observations",
    "actions",
    "rewards",
    "costs",
    "terminated",
    "truncated",
    "episode_id",
    "source_id",
)

DICT_SPACE = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (3, 2), np.uint8),
        "vector": spaces.Box(-1, 1, (2,), np.float32),
        "action_mask": spaces.Box(0, 1, (3,), np.int8),
    }
)


def masked_arrays(lengths: tuple[int, ...] = (4, 1, 3), seed: int = 0) -> dict[str, Any]:
    """Return episodes with masks; the first terminates, the others are truncated."""
    rng = np.random.default_rng(seed)
    n, k = sum(lengths), len(lengths)
    image = rng.integers(0, 256, (n + k, 3, 2), dtype=np.uint8)
    vector = rng.uniform(-1, 1, (n + k, 2)).astype(np.float32)
    mask = (rng.random((n + k, 3)) < 0.5).astype(np.int8)
    mask[:, 2] = 1
    # Episode e has the rows from first[e] on, and one more for what follows its last step.
    first = np.cumsum([0, *[length + 1 for length in lengths[:-1]]])
    rows = np.concatenate([start + np.arange(length) for start, length in zip(first, lengths, strict=True)])
    episode = np.repeat(np.arange(k), lengths)
    last = np.append(episode[1:] != episode[:-1], True)
    actions = np.array([rng.choice(np.flatnonzero(mask[row])) for row in rows])
    return {
        **{f"obs/{key}": value[rows] for key, value in (("image", image), ("vector", vector))},
        **{f"next_obs/{key}": value[rows + 1] for key, value in (("image", image), ("vector", vector))},
        "obs/action_mask": mask[rows],
        "next_obs/action_mask": mask[rows + 1],
        "actions": actions,
        "rewards": rng.normal(size=n),
        "costs": rng.random(n),
        "terminated": last & (episode == 0),
        "truncated": last & (episode > 0),
        "episode_id": episode,
        "source_id": (episode == 2).astype(np.int64),
    }


def masked_dataset(**changes: Any) -> OfflineDataset:
    """Return :func:`masked_arrays` as a data set with labels and metadata."""
    arrays = {**masked_arrays(), **changes}
    labels = {"advantages": np.where(arrays["obs/action_mask"] != 0, 1.5, np.nan).astype(np.float32)}
    metadata = {"env_id": "Toy-v0", "seeds": [1, 2]}
    return OfflineDataset.from_dict(arrays, DICT_SPACE, spaces.Discrete(3), ["a", "b"], labels, metadata)


def box_dataset() -> OfflineDataset:
    """Return plain observations and ``Box`` actions in [0, 2]."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(12, 2)).astype(np.float32)
    data = {
        "obs": states[:-1],
        "next_obs": states[1:],
        "actions": rng.uniform(0, 2, (11, 1)).astype(np.float32),
        "rewards": rng.normal(size=11),
        "terminated": np.arange(11) == 5,
        "truncated": np.arange(11) == 10,
        "costs": rng.random(11),
    }
    space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    return OfflineDataset.from_dict(data, space, spaces.Box(0, 2, (1,), np.float32))


def assert_same(a: OfflineDataset, b: OfflineDataset, names: tuple[str, ...] = ARRAYS) -> None:
    """Compare arrays, dtypes included."""
    for name in names:
        x, y = getattr(a, name), getattr(b, name)
        if isinstance(x, dict):
            assert x.keys() == y.keys(), name
            for key in x:
                np.testing.assert_array_equal(x[key], y[key], f"{name}/{key}")
                assert x[key].dtype == y[key].dtype, f"{name}/{key}"
        else:
            np.testing.assert_array_equal(x, y, name)
            assert x.dtype == y.dtype, name
