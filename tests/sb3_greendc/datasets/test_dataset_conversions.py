from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from dataset_cases import DICT_SPACE, assert_same, box_dataset, masked_arrays, masked_dataset
from gymnasium import spaces
from stable_baselines3 import SAC
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from greendc.resource_pool import ResourcePoolEnv
from sb3_greendc import collect
from sb3_greendc.datasets import (
    OfflineDataset,
    concatenate,
    from_minari,
    from_replay_buffer,
    from_trajectories,
    to_minari,
    to_replay_buffer,
    to_trajectories,
)


@pytest.fixture
def _minari_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


@pytest.mark.usefixtures("_minari_folder")
@pytest.mark.parametrize("make", [masked_dataset, box_dataset])
def test_minari_round_trip(make: Any) -> None:
    data = make()
    written = to_minari(data, "greendc/toy-v0", description="a test")
    assert written.total_steps == len(data) and written.total_episodes == data.n_episodes
    for read in (from_minari(written), from_minari("greendc/toy-v0")):
        assert_same(data, read)
        assert read.sources == data.sources and read.metadata == data.metadata
        assert read.observation_space == data.observation_space
        for name, label in data.labels.items():
            np.testing.assert_array_equal(read.labels[name], label)
            assert read.labels[name].dtype == label.dtype
    with pytest.raises(ValueError, match="none of this id"):
        from_minari("greendc/other-v0")
    with pytest.raises(ValueError, match="must be an id such as NAMESPACE/NAME-v0"):
        to_minari(data, "greendc/other")


@pytest.mark.usefixtures("_minari_folder")
@pytest.mark.parametrize("dataset_id", ["a/x-v0", "é/x-v0", "aa//x-v0", "/x-v0", "aa/x"])
def test_ids_that_minari_does_not_read_are_refused_before_it_writes(dataset_id: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="NAMESPACE/NAME-v0, the namespace of two characters or more"):
        to_minari(masked_dataset(), dataset_id)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_minari_folder")
@pytest.mark.parametrize("dataset_id", ["x-v0", "aa/x-v0", "éé/x-v0", "a/b/x-v0"])
def test_ids_that_minari_reads_are_taken(dataset_id: str) -> None:
    import minari

    assert_same(masked_dataset(), from_minari(to_minari(masked_dataset(), dataset_id)))
    assert list(minari.list_local_datasets()) == [dataset_id]


@pytest.mark.usefixtures("_minari_folder")
def test_part_of_a_minari_data_set_has_the_sources_of_its_episodes() -> None:
    data = collect(["sjf", "fcfs"], "ResourcePool-10", 60, n_envs=2, env_kwargs={"episode_steps": 10})
    written = to_minari(data, "greendc/pool-v0")
    part = from_minari(written.filter_episodes(lambda episode: episode.infos["source_id"][-1] == 1))
    assert part.sources == ("fcfs",)
    assert len(part) == (data.source_id == 1).sum()
    assert not part.source_id.any()


@pytest.mark.usefixtures("_minari_folder")
def test_metadata_of_numpy_stay_numbers() -> None:
    metadata = {"seed": np.int64(3), "weights": np.array([0.5, 1.0]), "file": Path("x")}
    to_minari(replace(masked_dataset(), metadata=metadata), "greendc/toy-v0")
    assert from_minari("greendc/toy-v0").metadata == {"seed": 3, "weights": [0.5, 1.0], "file": "x"}


@pytest.mark.usefixtures("_minari_folder")
def test_combined_minari_data_sets_do_not_mix_up_their_sources() -> None:
    import minari

    parts = [masked_dataset(), replace(masked_dataset(), sources=("other", "third"))]
    written = [to_minari(part, f"greendc/part{i}-v0") for i, part in enumerate(parts)]
    combined = minari.combine_datasets(written, "greendc/whole-v0")
    with pytest.warns(UserWarning, match=r"of greendc/part0-v0, greendc/part1-v0, .* concatenate\("):
        read = from_minari(combined)
    assert read.sources == ("source_0",) and len(read) == 16
    np.testing.assert_array_equal(read.rewards, np.tile(parts[0].rewards, 2))


@pytest.mark.parametrize(
    ("convert", "says"),
    [
        (lambda: to_minari({}, "greendc/x-v0"), "data: must be an OfflineDataset, not dict"),
        (lambda: to_trajectories([1]), "data: must be an OfflineDataset, not list"),
        (lambda: to_replay_buffer("x.npz"), "data: must be an OfflineDataset, not str"),
        (lambda: from_replay_buffer(5), "buffer: must be a replay buffer of Stable-Baselines3, not int"),
        (lambda: OfflineDataset.from_dict([1]), "data: must be a dict of arrays, not list"),
        (lambda: OfflineDataset.load(5), "path: must be the path of a data set, not int"),
        (lambda: concatenate(masked_dataset()), "datasets: must be a sequence of data sets, not OfflineDat"),
        (lambda: concatenate([masked_dataset(), 3]), r"datasets\[1\]: must be an OfflineDataset, not int"),
    ],
)
def test_what_is_not_of_the_kind_to_be_converted_is_named(convert: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        convert()


def test_whole_numbers_below_zero_ask_for_a_space() -> None:
    columns = {"obs": np.zeros((3, 1)), "next_obs": np.zeros((3, 1)), "actions": np.array([0, -1, 1])}
    ends = {"rewards": np.zeros(3), "terminated": np.zeros(3), "truncated": np.zeros(3)}
    with pytest.raises(ValueError, match="actions: whole numbers, of which the least is -1: give action_sp"):
        OfflineDataset.from_dict({**columns, **ends})


@pytest.mark.parametrize("wrong", [5, masked_dataset()])
def test_what_is_no_minari_data_set_is_named(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"of type {type(wrong).__name__}: must be a Minari data set, or its"):
        from_minari(wrong)


@pytest.mark.usefixtures("_minari_folder")
def test_minari_data_recover_their_environment() -> None:
    costs = {"cost": "weighted", "cost_weights": (1.0, 0.5)}
    options = {"episode_steps": 12, "reward": {"on_time": 1.0}, **costs}
    data = collect(["hvf"], "ResourcePool-10", 40, n_envs=2, env_kwargs=options)
    env = to_minari(data, "greendc/pool-v0").recover_environment()
    assert env.spec.id == "ResourcePool-10-v0"
    assert env.unwrapped.config == ResourcePoolEnv(**options).config
    assert env.observation_space == data.observation_space
    env.reset(seed=0)
    # Read without our own metadata, as data of others are.
    written = minari_of("greendc/pool-v0")
    written.storage.update_metadata({"sb3_greendc": "{}"})
    metadata = from_minari(written).metadata
    assert metadata["env_id"] == "ResourcePool-10-v0" and metadata["env_kwargs"]["episode_steps"] == 12


@pytest.mark.usefixtures("_minari_folder")
def test_minari_data_of_an_environment_that_cannot_be_written_have_none() -> None:
    data = masked_dataset()
    for number, metadata in enumerate(({}, {"env_id": "Nowhere-v0"}, {"env_id": 3})):
        written = to_minari(replace(data, metadata=metadata), f"greendc/none{number}-v0")
        assert written.spec.env_spec is None


def minari_of(name: str) -> Any:
    import minari

    return minari.load_dataset(name)


@pytest.mark.usefixtures("_minari_folder")
@pytest.mark.filterwarnings("ignore:.*None")
def test_minari_data_of_others_are_read() -> None:
    """Written with Minari alone, as another project would: no sources, infos without a reset's entry."""
    import minari
    from minari.data_collector import EpisodeBuffer

    buffers = [
        EpisodeBuffer(
            observations=np.arange(4, dtype=np.float32)[:, None],
            actions=np.array([0, 1, 0]),
            rewards=np.array([1.0, 2.0, 3.0]),
            terminations=np.array([False, False, ends]),
            truncations=np.array([False, False, not ends]),
            infos={"cost": np.array([0.0, 0.5, 1.0])} if ends else {},
        )
        for ends in (True, False)
    ]
    written = minari.create_dataset_from_buffers(
        "other/toy-v0",
        buffers,
        observation_space=spaces.Box(0, 9, (1,), np.float32),
        action_space=spaces.Discrete(2),
    )
    data = from_minari(written)
    np.testing.assert_array_equal(data.next_observations[:, 0], [1, 2, 3] * 2)
    np.testing.assert_array_equal(data.terminated, [0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(data.truncated, [0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(data.costs, [0, 0.5, 1, 0, 0, 0])


@pytest.mark.parametrize("make", [masked_dataset, box_dataset])
def test_imitation_round_trip(make: Any) -> None:
    pytest.importorskip("imitation")
    data = make()
    trajectories = to_trajectories(data)
    assert [len(one) for one in trajectories] == np.bincount(data.episode_id).tolist()
    read = from_trajectories(trajectories, data.observation_space, data.action_space)
    assert_same(data, read)
    assert read.sources == data.sources


def test_imitation_says_terminal_of_truncated_episodes_too() -> None:
    types = pytest.importorskip("imitation.data.types")
    data = masked_dataset()
    stripped = [
        types.TrajectoryWithRew(one.obs, one.acts, None, terminal, one.rews)
        for one, terminal in zip(to_trajectories(data), (True, True, False), strict=True)
    ]
    with pytest.raises(ValueError, match=r"trajectory 0: .*assume_terminal"):
        from_trajectories(stripped, DICT_SPACE, spaces.Discrete(3))
    read = from_trajectories(stripped, DICT_SPACE, spaces.Discrete(3), assume_terminal=True)
    np.testing.assert_array_equal(np.flatnonzero(read.terminated), [3, 4])
    np.testing.assert_array_equal(np.flatnonzero(read.truncated), [7])
    assert read.costs is None
    without = [types.Trajectory(one.obs, one.acts, one.infos, True) for one in to_trajectories(data)]
    with pytest.raises(ValueError, match="no rewards"):
        from_trajectories(without, DICT_SPACE, spaces.Discrete(3))


def test_costs_and_sources_of_some_trajectories_are_not_lost() -> None:
    types = pytest.importorskip("imitation.data.types")
    spaces_of_all = (DICT_SPACE, spaces.Discrete(3))
    first, *others = to_trajectories(masked_dataset())
    infos = [{key: value for key, value in info.items() if key != "cost"} for info in first.infos]
    sparse = types.TrajectoryWithRew(first.obs, first.acts, np.array(infos), True, first.rews)
    costs = from_trajectories([sparse, *others], *spaces_of_all).costs
    assert costs is not None
    np.testing.assert_array_equal(costs, np.where(np.arange(8) < 4, 0.0, masked_dataset().costs))
    bare = types.TrajectoryWithRew(first.obs, first.acts, None, False, first.rews)
    with pytest.raises(ValueError, match="trajectory 1: has no infos, but others have costs"):
        from_trajectories([others[0], bare], *spaces_of_all)
    for info in infos:
        del info["source"]
    with pytest.raises(ValueError, match="trajectory 2: its last info has no 'source', but others have"):
        from_trajectories([*others, sparse], *spaces_of_all)


def test_trajectories_may_come_one_by_one_and_something_else_is_named() -> None:
    pytest.importorskip("imitation")
    data = masked_dataset()
    trajectories = to_trajectories(data)
    read = from_trajectories((one for one in trajectories), data.observation_space, data.action_space)
    assert_same(data, read)
    with pytest.raises(TypeError, match="trajectories of type TrajectoryWithRew: must be a sequence"):
        from_trajectories(trajectories[0])
    with pytest.raises(TypeError, match="trajectory 1: of type int; must be a TrajectoryWithRew"):
        from_trajectories([trajectories[0], 2])


def test_a_trajectory_of_another_form_is_named() -> None:
    types = pytest.importorskip("imitation.data.types")

    def one(width: int, n_actions: int = 1) -> Any:
        return types.TrajectoryWithRew(
            np.zeros((4, width)), np.zeros((3, n_actions)), None, False, np.zeros(3)
        )

    with pytest.raises(ValueError, match=r"trajectory 2: observations with rows of shape \(3,\); .* \(2,\)"):
        from_trajectories([one(2), one(2), one(3)])
    with pytest.raises(ValueError, match=r"trajectory 1: actions with rows of shape \(2,\); .* \(1,\)"):
        from_trajectories([one(2), one(2, 2)])
    first = replace(to_trajectories(masked_dataset())[2], infos=None, terminal=False)
    with pytest.raises(ValueError, match=r"trajectory 1: has observations, .*; the first has observations/"):
        from_trajectories([first, one(2)])


def test_shuffled_transitions_are_no_episodes() -> None:
    pytest.importorskip("imitation")
    arrays = masked_arrays()
    arrays["next_obs/vector"] = arrays["next_obs/vector"][::-1]
    with pytest.raises(ValueError, match="not followed by the next one of their episode"):
        to_trajectories(OfflineDataset.from_dict(arrays, DICT_SPACE, spaces.Discrete(3)))


def test_replay_buffer_round_trip_of_dicts() -> None:
    data = masked_dataset()
    buffer = to_replay_buffer(data, 10, device="cpu")
    assert isinstance(buffer, DictReplayBuffer) and buffer.size() == 8 and not buffer.full
    read = from_replay_buffer(buffer)
    assert_same(data, read, ("observations", "next_observations", "actions", "terminated", "truncated"))
    np.testing.assert_allclose(read.rewards, data.rewards, rtol=1e-6)
    np.testing.assert_array_equal(read.episode_id, data.episode_id)
    with pytest.raises(ValueError, match="buffer_size=3"):
        to_replay_buffer(data, 3)


def test_replay_buffer_round_trip_of_whole_numbers_in_a_dict() -> None:
    space = spaces.Dict({"kind": spaces.Discrete(4), "level": spaces.Box(0, 1, (2,), np.float32)})
    following = {"next_obs/kind": np.arange(8) % 4, "next_obs/level": np.zeros((8, 2))}
    now = {"obs/kind": (np.arange(8) + 3) % 4, "obs/level": np.zeros((8, 2))}
    ends = {"terminated": np.arange(8) == 7, "truncated": np.zeros(8)}
    columns = {"actions": np.arange(8) % 2, "rewards": np.arange(8.0), **ends}
    data = OfflineDataset.from_dict({**now, **following, **columns}, space)
    read = from_replay_buffer(to_replay_buffer(data, device="cpu"))
    np.testing.assert_array_equal(read.observations["kind"], data.observations["kind"])
    np.testing.assert_array_equal(read.next_observations["kind"], data.next_observations["kind"])


def test_replay_buffer_keeps_box_actions_scaled() -> None:
    data = box_dataset()
    buffer = to_replay_buffer(data, device="cpu")
    assert isinstance(buffer, ReplayBuffer) and buffer.full
    np.testing.assert_allclose(buffer.actions[:, 0], data.actions - 1, atol=1e-6)  # from [0, 2] to [-1, 1]
    read = from_replay_buffer(buffer)
    np.testing.assert_allclose(read.actions, data.actions, atol=1e-6)
    raw = to_replay_buffer(data, device="cpu", scaled_actions=False)
    assert_same(data, from_replay_buffer(raw, scaled_actions=False), ("actions",))


@pytest.mark.parametrize(("low", "high"), [(-np.inf, np.inf), (0, np.inf), (1, 1)])
def test_actions_without_bounds_are_not_scaled(low: float, high: float) -> None:
    actions = spaces.Box(low, high, (1,), np.float32)
    data = replace(box_dataset(), action_space=actions, actions=np.ones((11, 1), np.float32))
    with pytest.raises(ValueError, match=r"action space Box.*: must have finite bounds, the lower below the"):
        to_replay_buffer(data, device="cpu")
    raw = to_replay_buffer(data, device="cpu", scaled_actions=False)
    with pytest.raises(ValueError, match=r"action space Box.*: must have finite bounds, the lower below the"):
        from_replay_buffer(raw)
    assert_same(data, from_replay_buffer(raw, scaled_actions=False), ("actions",))


@pytest.mark.parametrize(("low", "high"), [(1e9, 1e9 + 1), (-3e38, 3e38)])
def test_bounds_between_which_float32_has_no_scale_are_refused(low: float, high: float) -> None:
    actions = spaces.Box(low, high, (1,), np.float64)
    data = replace(box_dataset(), action_space=actions, actions=np.full((11, 1), low))
    with pytest.raises(ValueError, match=r"action space Box.*: its bounds are too close or too far apart"):
        to_replay_buffer(data, device="cpu")


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.Discrete(3, start=1)])
def test_buffers_of_actions_that_data_do_not_have_are_refused(space: spaces.Space[Any]) -> None:
    buffer = ReplayBuffer(10, spaces.Box(0, 1, (2,), np.float32), space, device="cpu")
    action = np.ones((1, *(space.shape or (1,))))
    buffer.add(np.zeros(2), np.ones(2), action, np.zeros(1), np.ones(1), [{}])
    with pytest.raises(ValueError, match=r"action_space=.*: must be Box, or Discrete that starts at 0"):
        from_replay_buffer(buffer)


def test_a_buffer_that_an_algorithm_filled() -> None:
    """Episodes of five steps in a full ring, the oldest five steps overwritten: the rest is read in order."""
    env = gym.make("Pendulum-v1", max_episode_steps=5)
    model = SAC("MlpPolicy", env, buffer_size=12, learning_starts=100, device="cpu", seed=0)
    model.learn(17)
    data = from_replay_buffer(model.replay_buffer)
    assert len(data) == 12 and not data.terminated.any()
    np.testing.assert_array_equal(np.flatnonzero(data.truncated), [4, 9, 11])
    assert np.abs(data.actions).max() > 1.01  # unscaled: the torque goes to 2
    steps = data.observations[1:][~data.truncated[:-1]]
    np.testing.assert_array_equal(steps, data.next_observations[:-1][~data.truncated[:-1]])


def test_buffers_that_do_not_know_truncation() -> None:
    data = box_dataset()
    space = (data.observation_space, data.action_space)
    with pytest.raises(ValueError, match="no transitions"):
        from_replay_buffer(ReplayBuffer(5, *space))
    lean = ReplayBuffer(5, *space, handle_timeout_termination=False)
    lean.add(np.zeros(2), np.ones(2), np.zeros(1), np.zeros(1), np.ones(1), [{}])
    with pytest.raises(ValueError, match="assume_terminal"):
        from_replay_buffer(lean)
    assert from_replay_buffer(lean, assume_terminal=True).terminated.all()
    assert from_replay_buffer(lean, assume_terminal=False).truncated.all()
    shared = ReplayBuffer(5, *space, optimize_memory_usage=True, handle_timeout_termination=False)
    shared.add(np.zeros(2), np.ones(2), np.zeros(1), np.zeros(1), np.ones(1), [{}])
    with pytest.raises(ValueError, match="optimize_memory_usage"):
        from_replay_buffer(shared, assume_terminal=True)


def test_each_environment_of_a_buffer_has_its_episodes() -> None:
    buffer = ReplayBuffer(8, spaces.Box(0, 99, (1,), np.float32), spaces.Discrete(2), n_envs=2)
    for t in range(3):
        now = np.array([[t], [10 + t]], np.float32)
        ended = np.array([t == 1, False])
        infos = [{"TimeLimit.truncated": False}, {"TimeLimit.truncated": False}]
        buffer.add(now, now + 1, np.array([[0], [1]]), np.array([t, -t]), ended, infos)
    data = from_replay_buffer(buffer)
    np.testing.assert_array_equal(data.observations[:, 0], [0, 1, 2, 10, 11, 12])
    np.testing.assert_array_equal(data.next_observations[:, 0], [1, 2, 3, 11, 12, 13])
    np.testing.assert_array_equal(data.actions, [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(data.terminated, [0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(data.truncated, [0, 0, 1, 0, 0, 1])
    np.testing.assert_array_equal(data.episode_id, [0, 0, 1, 2, 2, 2])
