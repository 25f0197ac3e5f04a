from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dataset_cases import DICT_SPACE, box_dataset, masked_arrays, masked_dataset
from gymnasium import spaces

from sb3_greendc.datasets import OfflineDataset


def test_everything_given_comes_back() -> None:
    arrays, data = masked_arrays(), masked_dataset()
    assert len(data) == 8 and data.n_episodes == 3 and data.sources == ("a", "b")
    for key in DICT_SPACE:
        np.testing.assert_array_equal(data.observations[key], arrays[f"obs/{key}"])
        np.testing.assert_array_equal(data.next_observations[key], arrays[f"next_obs/{key}"])
        assert data.observations[key].dtype == DICT_SPACE[key].dtype
    for name in ("actions", "rewards", "costs", "terminated", "truncated", "episode_id", "source_id"):
        np.testing.assert_array_equal(getattr(data, name), arrays[name])


def test_observations_are_stored_once() -> None:
    data = masked_dataset()
    assert len(data.final_observations["image"]) == 3  # one for each episode
    assert box_dataset().final_observations.shape == (2, 2)


def test_batch_gathers_rows_in_any_order() -> None:
    data = masked_dataset()
    rows = np.array([7, 0, 0, 4])
    batch = data.batch(rows)
    np.testing.assert_array_equal(
        batch["next_observations"]["vector"], data.next_observations["vector"][rows]
    )
    np.testing.assert_array_equal(batch["observations"]["image"], data.observations["image"][rows])
    np.testing.assert_array_equal(batch["labels"]["advantages"], data.labels["advantages"][rows])
    np.testing.assert_array_equal(batch["rewards"], data.rewards[rows])
    batch["observations"]["image"][:] = 0  # a copy
    assert data.observations["image"].any()
    assert set(data.batch(rows, ["actions"])) == {"actions"}
    with pytest.raises(KeyError, match="sources"):
        data.batch(rows, ["sources"])


def test_episodes_may_interleave() -> None:
    arrays = masked_arrays()
    order = np.array([4, 0, 5, 1, 6, 2, 7, 3])
    mixed = {key: value[order] for key, value in arrays.items()}
    data = OfflineDataset.from_dict(mixed, DICT_SPACE, spaces.Discrete(3))
    assert len(data.final_observations["image"]) == 3
    np.testing.assert_array_equal(data.next_observations["vector"], mixed["next_obs/vector"])


def test_shuffled_transitions_keep_their_next_observations() -> None:
    arrays = {key: value for key, value in masked_arrays().items() if key != "episode_id"}
    order = np.random.default_rng(1).permutation(8)
    mixed = {key: value[order] for key, value in arrays.items()}
    data = OfflineDataset.from_dict(mixed, DICT_SPACE, spaces.Discrete(3))
    np.testing.assert_array_equal(data.next_observations["image"], mixed["next_obs/image"])
    assert data.truncated[-1] or data.terminated[-1]


def test_a_cut_episode_counts_as_truncated() -> None:
    arrays = masked_arrays()
    arrays["truncated"] = np.zeros(8, bool)
    data = OfflineDataset.from_dict(arrays, DICT_SPACE, spaces.Discrete(3))
    np.testing.assert_array_equal(np.flatnonzero(data.truncated), [4, 7])
    np.testing.assert_array_equal(np.flatnonzero(data.terminated), [3])


def test_select_takes_episodes_and_drops_empty_sources() -> None:
    data = masked_dataset()
    rows = np.flatnonzero(data.source_id == 1)
    part = data.select(rows)
    assert part.sources == ("b",) and len(part) == 3 and not part.source_id.any()
    np.testing.assert_array_equal(part.labels["advantages"], data.labels["advantages"][rows])
    np.testing.assert_array_equal(part.next_observations["image"], data.next_observations["image"][rows])


def test_rows_that_do_not_follow_one_another_share_no_observation() -> None:
    data = masked_dataset()
    assert np.flatnonzero(data.next_index < len(data)).tolist() == [0, 1, 2, 5, 6]
    every_second = data.select(np.arange(0, 8, 2))
    assert (every_second.next_index >= len(every_second)).all()
    shuffled = data.select(np.array([2, 1, 0, 3]))
    assert np.flatnonzero(shuffled.next_index < 4).tolist() == []


def test_select_takes_a_mask_too() -> None:
    data = masked_dataset()
    part = data.select(data.source_id == 1)
    np.testing.assert_array_equal(part.rewards, data.rewards[data.source_id == 1])


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([], "indices: none given; a data set holds at least one transition"),
        (np.zeros(8, bool), "indices: none given"),
        ([0, 0, 1], "indices: row 0 is there 2 times; must be distinct"),
        ([7, 1, -1], "indices: row 7 is there 2 times; must be distinct"),
    ],
)
def test_select_takes_distinct_rows(indices: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        masked_dataset().select(indices)


def test_spaces_are_guessed_where_they_are_not_given() -> None:
    data = OfflineDataset.from_dict(masked_arrays())
    assert data.observation_space["action_mask"] == DICT_SPACE["action_mask"]
    assert data.observation_space["image"] == DICT_SPACE["image"]
    assert data.action_space == spaces.Discrete(3)
    box = box_dataset()
    arrays = {"obs": box.observations, "next_obs": box.next_observations, "rewards": box.rewards}
    ends = {"terminated": box.terminated, "truncated": box.truncated}
    guessed = OfflineDataset.from_dict({**arrays, **ends, "actions": box.actions / 2})
    assert guessed.action_space == spaces.Box(0, 1, (1,), np.float32)
    with pytest.raises(ValueError, match="give action_space"):
        OfflineDataset.from_dict({**arrays, **ends, "actions": box.actions})
    whole = np.arange(len(box)) % 2
    for actions in (whole, whole[:, None], whole.astype(bool)):
        data = OfflineDataset.from_dict({**arrays, **ends, "actions": actions})
        assert data.action_space == spaces.Discrete(2)
        np.testing.assert_array_equal(data.actions, whole)
    with pytest.raises(ValueError, match=r"whole numbers of shape .*: give action_space"):
        OfflineDataset.from_dict({**arrays, **ends, "actions": np.stack([whole, whole], axis=1)})
    with pytest.raises(ValueError, match=r"actions: of dtype <U1; must be numbers"):
        OfflineDataset.from_dict({**arrays, **ends, "actions": np.full(len(box), "a")})
    states = {"obs/a": whole, "next_obs/a": whole, "rewards": box.rewards, "actions": whole}
    with pytest.raises(ValueError, match=r"obs/a: one number a row: give observation_space, or .*\(N, 1\)"):
        OfflineDataset.from_dict({**states, **ends})


def _set(name: str, row: object, value: object) -> dict[str, np.ndarray]:
    array = masked_arrays()[name].copy()
    array[row] = value
    return {name: array}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (_set("rewards", [2, 5], np.nan), r"rewards: 2 of 8 rows are not finite; the first is row 2 \(nan\)"),
        (_set("costs", 1, np.inf), r"costs: 1 of 8 rows are not finite; the first is row 1"),
        (
            _set("obs/vector", (3, 1), 1.5),
            r"observations/vector: 1 of 8 .* row 3, entry 1: 1.5, must be between",
        ),
        (
            _set("obs/vector", (3, 0), np.nan),
            r"observations/vector: .* row 3, entry 0: nan, must be a finite",
        ),
        (_set("next_obs/vector", (7, 0), 7.0), r"final_observations/vector: 1 of"),
        (_set("actions", 6, 5), r"actions: 1 of 8 .* row 6: 5, must be in Discrete\(3\)"),
        (_set("obs/action_mask", slice(1, 3), 0), r"actions: 2 of 8 rows are not allowed by their .* row 1"),
        (_set("terminated", 1, True), r"episode_id: 1 of 8 rows are not the last of their episode"),
        ({"actions": np.linspace(0, 2, 8)}, "actions: values of dtype float64 do not fit int64"),
        ({"rewards": np.zeros(7)}, r"rewards: of shape \(7,\); must be \(8,\)"),
        ({"source_id": np.full(8, 2)}, r"source_id: 8 of 8 rows are not in \[0, 2\)"),
        ({"source_id": np.zeros(8, int)}, "source 'b': has no transitions"),
        ({"truncated": np.full(8, 3)}, "truncated: 8 of 8 rows are not true or false"),
        ({"obs/image": np.zeros((8, 2, 2), np.uint8)}, r"obs/image: of shape \(8, 2, 2\); .* \(N, 3, 2\)"),
        ({"obs/other": np.zeros(8)}, "obs: the data have .*obs/other"),
        ({"reward": np.zeros(8)}, "unknown array 'reward'; did you mean 'rewards'"),
    ],
)
def test_bad_data_name_the_offender(changes: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        masked_dataset(**changes)


@pytest.mark.parametrize("name", ["truncated", "terminated", "rewards", "actions"])
def test_missing_arrays_are_named(name: str) -> None:
    arrays = masked_arrays()
    del arrays[name]
    with pytest.raises(ValueError, match=f"no array '{name}'"):
        OfflineDataset.from_dict(arrays, DICT_SPACE, spaces.Discrete(3))


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (np.array([{}] * 8, object), "labels/w: of dtype object; must be plain values, no Python objects"),
        ([[1], [1, 2]] * 4, r"labels/w: rows of several shapes; must be one array \(N, \.\.\.\)"),
        (1.0, "labels/w: a single value; must have a row for each action"),
        ([1.0] * 3, "labels/w: 3 rows, but there are 8 actions"),
    ],
)
def test_labels_that_are_none_are_named(label: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        masked_dataset().with_labels({"w": label})


def test_labels_may_be_lists() -> None:
    data = OfflineDataset.from_dict(
        masked_arrays(), DICT_SPACE, spaces.Discrete(3), labels={"w": [1.0, 2.0] * 4}
    )
    assert data.batch([1, 2])["labels"]["w"].tolist() == [2.0, 1.0]
    assert data.select(np.arange(4)).labels["w"].tolist() == [1.0, 2.0] * 2


def test_other_bad_input() -> None:
    arrays = masked_arrays()
    missing = {key: value for key, value in arrays.items() if not key.startswith("next_obs")}
    with pytest.raises(ValueError, match="no array 'next_obs', nor next_obs/KEY"):
        OfflineDataset.from_dict(missing, DICT_SPACE, spaces.Discrete(3))
    with pytest.raises(ValueError, match="holds no transitions"):
        OfflineDataset.from_dict({key: value[:0] for key, value in arrays.items()})
    with pytest.raises(ValueError, match=r"action_mask: rows of shape \(3,\) for 4 actions"):
        OfflineDataset.from_dict(arrays, DICT_SPACE, spaces.Discrete(4))
    with pytest.raises(ValueError, match="starts at 0"):
        OfflineDataset.from_dict(arrays, DICT_SPACE, spaces.Discrete(3, start=1))
    with pytest.raises(ValueError, match=r"action_space=MultiBinary\(3\): must be Box, or Discrete"):
        OfflineDataset.from_dict(arrays, DICT_SPACE, spaces.MultiBinary(3))
    for space in (spaces.Tuple([DICT_SPACE["image"]]), spaces.Dict({"nested": DICT_SPACE})):
        with pytest.raises(ValueError, match=rf"observation_space={type(space).__name__}\(.*\(not nested\)"):
            OfflineDataset.from_dict(arrays, space)
    with pytest.raises(ValueError, match="distinct names"):
        OfflineDataset.from_dict(arrays, DICT_SPACE, spaces.Discrete(3), ["a", "a"])
