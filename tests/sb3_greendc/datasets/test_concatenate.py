"""Several data sets as one: rows, ends of episodes, sources, labels, metadata."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from dataset_cases import assert_same, box_dataset, masked_arrays, masked_dataset

from sb3_greendc.datasets import OfflineDataset, concatenate


def renamed(data: OfflineDataset, *sources: str, **metadata: object) -> OfflineDataset:
    return dataclasses.replace(data, sources=sources, metadata={**data.metadata, **metadata})


def test_rows_follow_one_another_and_so_do_their_next_observations():
    one, other = masked_dataset(), masked_dataset(**masked_arrays(seed=1))
    both = concatenate([one, other])
    both.validate()
    assert len(both) == 16 and both.n_episodes == 2 * one.n_episodes
    assert_same(both.select(np.arange(8)), one.select(np.arange(8)))
    for name in ("rewards", "actions", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(both, name)[8:], getattr(other, name))
    for key, values in both.next_observations.items():
        np.testing.assert_array_equal(values[:8], one.next_observations[key])
        np.testing.assert_array_equal(values[8:], other.next_observations[key])
    np.testing.assert_array_equal(both.labels["advantages"][8:], other.labels["advantages"])


def test_sources_of_one_name_are_one_and_metadata_are_what_all_say():
    one = renamed(masked_dataset(), "a", "b", env_kwargs={"units": 10, "load": 0.2}, seed=1)
    other = renamed(masked_dataset(), "b", "c", env_kwargs={"units": 10, "load": 1.0}, seed=2)
    both = concatenate([one, other])
    assert both.sources == ("a", "b", "c")
    assert [both.sources[i] for i in both.source_id[8:]] == [other.sources[i] for i in other.source_id]
    assert both.metadata == {"env_id": "Toy-v0", "seeds": [1, 2], "env_kwargs": {"units": 10}}


def test_costs_are_kept():
    data = box_dataset()
    both = concatenate([data, data])
    np.testing.assert_array_equal(both.costs, np.tile(data.costs, 2))


def test_what_does_not_fit_is_named():
    data = masked_dataset()
    with pytest.raises(ValueError, match=r"datasets\[1\]: its observation_space"):
        concatenate([data, box_dataset()])
    with pytest.raises(ValueError, match=r"datasets\[1\]: has the labels \[\]; must be \['advantages'\]"):
        concatenate([data, dataclasses.replace(data, labels={})])
    wide = data.with_labels({"advantages": np.zeros((8, 4))})
    with pytest.raises(ValueError, match=r"datasets\[2\]: label 'advantages' .* \(4,\); must be \(3,\)"):
        concatenate([data, data, wide])
    with pytest.raises(ValueError, match=r"datasets\[1\]: either all have costs, or none"):
        concatenate([data, dataclasses.replace(data, costs=None)])
    with pytest.raises(ValueError, match="there is none"):
        concatenate([])
