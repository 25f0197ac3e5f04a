"""Arrays by D4RL's names: what follows a row is the next row, and what nobody recorded is left out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from sb3_greendc import CRR, OfflineDataset

N = 10
SPACES = (spaces.Box(0, 20, (1,), np.float32), spaces.Box(-1, 1, (2,), np.float32))


def arrays(**changes: Any) -> dict[str, Any]:
    """Return three episodes: rows 0 to 3 end, 4 to 7 run out of time, 8 and 9 are cut by the recording."""
    rows = np.arange(N)
    data: dict[str, Any] = {
        "observations": rows.astype(np.float32)[:, None],
        "actions": np.tile(np.float32([-0.5, 0.5]), (N, 1)),
        "rewards": rows.astype(np.float32),
        "terminals": rows == 3,
        "timeouts": rows == 7,
        "infos/qpos": np.zeros((N, 3)),
        "metadata/algorithm": np.array(b"SAC"),
    }
    return {name: value for name, value in {**data, **changes}.items() if value is not None}


def test_rows_whose_next_observation_nobody_knows_are_left_out() -> None:
    data = OfflineDataset.from_dict(arrays(), *SPACES)
    np.testing.assert_array_equal(data.observations[:, 0], [0, 1, 2, 3, 4, 5, 6, 8])  # type: ignore[call-overload]
    following = data.next_observations[:, 0]  # type: ignore[call-overload]
    np.testing.assert_array_equal(following, [1, 2, 3, 3, 5, 6, 7, 9])
    np.testing.assert_array_equal(data.rewards, [0, 1, 2, 3, 4, 5, 6, 8])
    np.testing.assert_array_equal(np.flatnonzero(data.terminated), [3])
    np.testing.assert_array_equal(np.flatnonzero(data.truncated), [6, 7])
    assert data.n_episodes == 3


def test_a_row_that_ends_and_runs_out_of_time_ends() -> None:
    data = OfflineDataset.from_dict(
        arrays(terminals=np.arange(N) % 5 == 4, timeouts=np.arange(N) == 4), *SPACES
    )
    assert len(data) == N
    np.testing.assert_array_equal(np.flatnonzero(data.terminated), [4, 9])
    assert not data.truncated.any()


def test_next_observations_are_taken_as_they_are() -> None:
    """As ``d4rl.qlearning_dataset`` returns them."""
    following = np.arange(1, N + 1, dtype=np.float32)[:, None]
    data = OfflineDataset.from_dict(arrays(next_observations=following, timeouts=None), *SPACES)
    assert len(data) == N
    np.testing.assert_array_equal(data.next_observations, following)
    np.testing.assert_array_equal(np.flatnonzero(data.truncated), [N - 1])


def test_without_timeouts_an_episode_is_cut_where_the_next_row_begins_elsewhere() -> None:
    """``d4rl.qlearning_dataset`` leaves out the last step of an episode whose time was up."""
    kept = np.delete(np.arange(N), 7)
    rows = {name: value[kept] for name, value in arrays().items() if name[0] in "oart"}
    following = rows["observations"] + 1
    del rows["timeouts"]
    for nested in (False, True):
        now, then = (
            ({"a": rows["observations"]}, {"a": following}) if nested else (rows["observations"], following)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            data = OfflineDataset.from_dict({**rows, "observations": now, "next_observations": then})
        np.testing.assert_array_equal(np.flatnonzero(data.truncated), [6, 8])
        assert data.n_episodes == 3


def test_without_timeouts_and_next_observations_there_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="no array 'timeouts': nothing tells where time was up"):
        data = OfflineDataset.from_dict(arrays(timeouts=None), *SPACES)
    assert data.n_episodes == 2


def test_costs_and_sources_are_kept(tmp_path: Path) -> None:
    more = {"costs": np.arange(N) / 2, "source_id": np.arange(N) // 4 % 2}
    np.savez(tmp_path / "x.npz", **arrays(**more))
    for data in (OfflineDataset.from_dict(arrays(**more)), OfflineDataset.load(tmp_path / "x.npz")):
        assert data.costs is not None
        np.testing.assert_array_equal(data.costs, data.rewards / 2)
        np.testing.assert_array_equal(data.source_id, [0, 0, 0, 0, 1, 1, 1, 0])


def test_a_file_with_an_unknown_array_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **arrays(cost=np.zeros(N)))
    with pytest.raises(ValueError, match=r"x\.npz: unknown array 'cost'; did you mean 'costs'"):
        OfflineDataset.load(tmp_path / "x.npz")


def test_dict_observations_by_key_or_nested() -> None:
    parts = {"a": np.arange(N, dtype=np.float32)[:, None], "b": np.ones((N, 2), np.float32)}
    flat = {f"observations/{key}": value for key, value in parts.items()}
    actions = np.arange(N) % 3
    one = OfflineDataset.from_dict(arrays(observations=parts, actions=actions))
    other = OfflineDataset.from_dict(arrays(observations=None, actions=actions, **flat))
    for data in (one, other):
        assert data.action_space == spaces.Discrete(3)
        np.testing.assert_array_equal(data.next_observations["a"][:, 0], [1, 2, 3, 3, 5, 6, 7, 9])  # type: ignore[call-overload, index]


def test_files_and_algorithms_take_them(tmp_path: Path) -> None:
    plain = {name: value for name, value in arrays().items() if not name.startswith("metadata")}
    np.savez(tmp_path / "d4rl.npz", **plain)
    data = OfflineDataset.load(tmp_path / "d4rl.npz")
    assert (len(data), data.n_episodes) == (8, 3)
    model = CRR("MlpPolicy", dataset=arrays(), device="cpu", seed=0, batch_size=4)
    model.learn(2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": None}, "no array 'rewards', beside 'terminals'"),
        ({"timeouts": np.zeros(3)}, "timeouts: 3 rows, but there are 10 terminals"),
        ({"rewards": np.zeros(4)}, "rewards: 4 rows, but there are 10 terminals"),
        ({"actions": np.zeros((7, 2))}, "actions: 7 rows, but there are 10 terminals"),
        ({"costs": 1.0}, "costs: a single value, but there are 10 terminals"),
        ({"observations": {"a": np.zeros((3, 1))}}, "observations/a: 3 rows, but there are 10 terminals"),
        ({"timeouts": None, "timeout": np.zeros(N)}, "unknown array 'timeout'; did you mean 'timeouts'"),
        ({"advantages": np.zeros(N)}, r"unknown array 'advantages' \(known: observations, .*infos/\.\.\."),
        ({"rewards/a": np.zeros(N)}, "unknown array 'rewards/a'"),
        ({"terminals": np.zeros(N), "timeouts": np.ones(N)}, "no row is followed by another"),
        ({"terminals": np.full(N, np.nan)}, r"terminals: 10 of 10 rows are not true or false; .* \(nan\)"),
        ({"timeouts": np.arange(N) / 8}, r"timeouts: 8 of 10 rows are not true or false; .* \(0\.125\)"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OfflineDataset.from_dict(arrays(**changes), *SPACES)


def test_a_misspelt_or_missing_name_beside_observations_is_the_one_that_is_named() -> None:
    rows = {"observations": np.zeros((4, 1)), "actions": np.zeros(4, np.int64), "rewards": np.zeros(4)}
    with pytest.raises(ValueError, match="unknown array 'terminal'; did you mean 'terminals'"):
        OfflineDataset.from_dict({**rows, "terminal": np.zeros(4)})
    with pytest.raises(ValueError, match="no array 'terminals', beside 'observations'"):
        OfflineDataset.from_dict(rows)
