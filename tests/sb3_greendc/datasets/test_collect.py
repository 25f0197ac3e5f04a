from __future__ import annotations

import errno
import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import A2C
from stable_baselines3.common.vec_env import VecNormalize

import greendc
from greendc.baselines import make_policy
from sb3_greendc.cli.collect import main
from sb3_greendc.core.files import RescuedError
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.datasets import OfflineDataset, from_minari, npz
from sb3_greendc.datasets.recorder import Recorder
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.runs.models import save_model

POOL = {"units": 4, "horizon": 8, "ready_pool_size": 3, "episode_steps": 20, "resource_types": 1}


@pytest.mark.usefixtures("toy")
def test_rows_are_what_the_single_environments_do() -> None:
    """Every row of every environment, against plain Gymnasium with the same seeds."""
    data = collect(["all", "half"], "Toy", 60, seed=5, n_envs=3)
    assert np.bincount(data.source_id).tolist() == [30, 30] and data.sources == ("all", "half")
    row = 0
    for source, name in enumerate(data.sources):
        for i in range(3):
            env: Any = gym.make("Toy-v1")
            policy = make_policy(name, env)
            observation, _ = env.reset(seed=5 + 3 * source + i)
            for step in range(10):
                action, _ = policy.predict(observation)
                np.testing.assert_array_equal(data.observations[row], observation)
                np.testing.assert_array_equal(data.actions[row], action)
                observation, reward, terminated, truncated, info = env.step(action)
                np.testing.assert_array_equal(data.next_observations[row], observation)
                assert data.rewards[row] == reward and data.costs[row] == info["cost"]
                assert not data.terminated[row] and not terminated
                assert data.truncated[row] == (truncated or step == 9)
                if truncated:
                    observation, _ = env.reset()
                row += 1
    ended = np.flatnonzero(data.truncated)
    assert (np.diff(data.episode_id)[ended[:-1]] == 1).all() and data.n_episodes == len(ended)


@pytest.mark.usefixtures("toy")
def test_shares_and_blocks_differ_by_one_at_most() -> None:
    data = collect(["all", "half"], "Toy", 25, n_envs=4)
    assert np.bincount(data.source_id).tolist() == [13, 12] and len(data) == 25


def test_terminated_and_truncated_are_kept_apart() -> None:
    class Left:
        def predict(self, observation: Any, **_: Any) -> tuple[Any, None]:
            return np.zeros(len(observation), np.int64), None

    data = collect({"left": Left()}, "CartPole-v1", 40, n_envs=2)
    assert data.terminated.any() and data.costs is None
    assert (data.terminated | data.truncated)[[19, 39]].all()  # where recording stops
    assert set(np.flatnonzero(data.truncated)) <= {19, 39}
    assert (
        np.abs(data.next_observations[data.terminated, 2]).min() > 0.2
    )  # the pole has fallen, not been reset


def test_masks_reach_the_data_and_metadata_repeat_them() -> None:
    data = collect(["sjf", "hvf"], "ResourcePool-10", 200, seed=3, env_kwargs=POOL)
    assert data.observations["resources"].dtype == np.uint8
    assert data.observations["action_mask"][np.arange(200), data.actions].all()
    assert data.metadata["env_id"] == "ResourcePool-10-v0" and data.metadata["env_kwargs"] == POOL
    assert data.metadata["seed"] == 3 and data.metadata["versions"]["numpy"]
    again = collect(["sjf", "hvf"], "ResourcePool-10", 200, seed=3, env_kwargs=POOL)
    np.testing.assert_array_equal(again.actions, data.actions)
    np.testing.assert_array_equal(again.rewards, data.rewards)


def test_planners_values_are_kept_as_labels() -> None:
    data = collect(
        ["rollout:futures=2,depth=4"], "ResourcePool-10", 40, env_kwargs=POOL, labels=["advantages"], n_envs=2
    )
    advantages = data.labels["advantages"]
    assert advantages.shape == (40, 5) and advantages.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(advantages), data.observations["action_mask"] == 0)
    np.testing.assert_array_equal(np.nanargmax(advantages, axis=1), data.actions)
    with pytest.raises(ValueError, match="label 'advantages': policy 'sjf' has no advantages"):
        collect(["sjf"], "ResourcePool-10", 10, labels=["advantages"])
    with pytest.raises(ValueError, match="label='value': must be one of"):
        collect(["sjf"], "ResourcePool-10", 10, labels=["value"])


@pytest.mark.usefixtures("toy")
def test_a_model_of_normalized_observations_is_recorded_without_them(tmp_path: Path) -> None:
    env = VecNormalize(make_vec_env("Toy", 2, 0))
    model = A2C("MlpPolicy", env, seed=0, device="cpu").learn(200)
    save_model(model, tmp_path / "run", {"algorithm": "a2c"})
    data = collect([str(tmp_path / "run")], "Toy", 30, n_envs=2)
    assert np.abs(data.observations).max() <= 1.0
    shown = env.normalize_obs(np.array(data.observations))
    np.testing.assert_allclose(data.actions, model.predict(shown, deterministic=True)[0], atol=1e-6)
    assert np.ptp(data.actions) > 0


def test_observations_in_files_while_recording(tmp_path: Path) -> None:
    kept = collect(["sjf"], "ResourcePool-10", 100, env_kwargs=POOL)
    mapped = collect(["sjf"], "ResourcePool-10", 100, env_kwargs=POOL, folder=tmp_path / "scratch")
    assert isinstance(mapped.observations["resources"], np.memmap)
    for key in kept.observations:
        np.testing.assert_array_equal(mapped.next_observations[key], kept.next_observations[key])
    assert list((tmp_path / "scratch").iterdir()) == []


def test_box_actions_of_the_other_family() -> None:
    data = collect(["moer_threshold"], "VCC-2021", 100, env_kwargs=greendc.training_kwargs("VCC-2021-v1"))
    assert data.actions.shape == (100, 1) and data.actions.dtype == np.float32
    assert np.isfinite(data.costs).all()


@pytest.mark.parametrize(
    ("policies", "options", "message"),
    [
        (["sfj"], {}, "unknown policy 'sfj'; did you mean 'sjf'"),
        (["sjf"], {"transitions": 0}, "transitions=0"),
        (["sjf"], {"seed": -1}, "seed=-1"),
        (["sjf"], {"n_envs": 0}, "n_envs=0"),
        ([], {}, "policies: none given"),
        ({"a": ["sjf", "hvf"]}, {}, "'a' stands for several"),
    ],
)
def test_bad_requests(policies: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        collect(policies, "ResourcePool-10", **{"transitions": 10, **options})


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "data" / "x.npz"
    arguments = [
        "--env",
        "ResourcePool-10",
        "--policies",
        "sjf",
        "fcfs",
        "--transitions",
        "300",
        "--seed",
        "9",
    ]
    arguments += ["--out", str(out), "--set", *(f"{key}={value}" for key, value in POOL.items())]
    assert main([*arguments, "--no-progress"]) == 0
    assert "300 transitions of" in capsys.readouterr().out
    data = OfflineDataset.load(out)
    assert len(data) == 300 and data.metadata["env_kwargs"] == POOL and data.sources == ("sjf", "fcfs")
    assert json.loads(json.dumps(dict(data.metadata)))["seed"] == 9
    before = out.read_bytes()
    with pytest.raises(SystemExit):
        main(arguments)
    assert "exists already; --overwrite" in capsys.readouterr().err and out.read_bytes() == before
    assert main([*arguments, "--overwrite", "--no-progress", "--stochastic"]) == 0


def test_command_uses_the_training_split(tmp_path: Path) -> None:
    out = tmp_path / "x.npz"
    arguments = ["--env", "VCC-2021", "--policies", "always_on", "--transitions", "50", "--out", str(out)]
    assert main([*arguments, "--no-progress"]) == 0
    assert OfflineDataset.load(out).metadata["env_kwargs"] == {"split": "train", "month": None}


def test_command_writes_minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    arguments = ["--env", "ResourcePool-10", "--policies", "sjf", "--transitions", "60", "--no-progress"]
    arguments += ["--format", "minari", "--out", "greendc/pool-v0"]
    assert main(arguments) == 0
    data = from_minari("greendc/pool-v0")
    assert len(data) == 60 and data.metadata["env_id"] == "ResourcePool-10-v0"
    with pytest.raises(SystemExit):
        main(arguments)


@pytest.mark.usefixtures("toy")
def test_a_minari_folder_with_data_of_no_version_is_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    arguments = ["--env", "Toy", "--policies", "all", "--transitions", "20", "--no-progress"]
    assert main([*arguments, "--format", "minari", "--out", "toy-v0"]) == 0
    (tmp_path / "toy-v0").rename(tmp_path / "toy")
    metadata = tmp_path / "toy" / "data" / "metadata.json"
    if metadata.is_file():
        metadata.write_text(metadata.read_text().replace("toy-v0", "toy"))
    assert main([*arguments, "--format", "minari", "--out", "toy-v0"]) == 0


@pytest.mark.usefixtures("toy")
def test_what_minari_does_not_take_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minari")

    def refuse(*_: object) -> None:
        raise TypeError("no array")

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.setattr("sb3_greendc.cli.collect.to_minari", refuse)
    monkeypatch.chdir(tmp_path)
    arguments = ["--env", "Toy", "--policies", "all", "--transitions", "60", "--no-progress"]
    with pytest.raises(RescuedError, match="no Minari data set: no array; the data set is in "):
        main([*arguments, "--format", "minari", "--out", "mine/toy-v0"])
    [kept] = tmp_path.glob("greendc-rescued-*/toy-v0.npz")
    assert len(OfflineDataset.load(kept)) == 60


def test_a_folder_in_the_place_of_the_file_is_found_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.npz").mkdir()
    arguments = ["--env", "ResourcePool-10", "--policies", "sjf", "--transitions", "10", "--overwrite"]
    with pytest.raises(SystemExit):
        main([*arguments, "--out", str(tmp_path / "x.npz")])
    assert "x.npz: is a folder; must be a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--out": "x.dat"}, "must end in .npz"),
        (
            {"--out": "mine/x", "--format": "minari"},
            "--out='mine/x': must be an id such as NAMESPACE/NAME-v0",
        ),
        ({"--policies": "sfj"}, "did you mean 'sjf'"),
        ({"--env": "ResourcePol-10"}, "ResourcePol-10"),
        ({"--set": "unit=3"}, "unit"),
    ],
)
def test_bad_commands_are_one_line(
    changes: dict[str, str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = {"--env": "ResourcePool-10", "--policies": "sjf", "--transitions": "10"}
    options |= {"--out": str(tmp_path / "x.npz"), **changes}
    with pytest.raises(SystemExit) as error:
        main(list(itertools.chain(*options.items())))
    err = capsys.readouterr().err
    assert error.value.code == 2 and err.startswith("collect: error: ") and err.count("\n") == 1
    assert message in err and list(tmp_path.iterdir()) == []


def test_two_hundred_thousand_transitions_a_minute() -> None:
    collect(["sjf"], "ResourcePool-20", 100)  # compile
    started = time.process_time()
    collect(["sjf", "hvf"], "ResourcePool-20", 20_000)
    assert time.process_time() - started < 6.0


@pytest.mark.usefixtures("toy")
def test_leftovers_of_a_killed_command_are_swept(tmp_path: Path) -> None:
    left = tmp_path / ".x.npz.abc.part"
    left.write_bytes(b"half")
    options = ["--env", "Toy", "--policies", "all", "--transitions", "20", "--no-progress"]
    assert main([*options, "--out", str(tmp_path / "x.npz")]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("method", ["before", "after"])
@pytest.mark.parametrize("call", [2, 3, 9, 11, 12, 20])
def test_interrupted_it_keeps_what_is_whole(
    method: str,
    call: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All transitions whose next observation is there, exactly as the whole recording has them."""
    calls = itertools.count(1)
    original = getattr(Recorder, method)

    def interrupted(self: Recorder, *given: Any) -> Any:
        result = original(self, *given)
        if next(calls) == call:
            raise KeyboardInterrupt
        return result

    arguments = ["--env", "Toy", "--policies", "all", "half", "--transitions", "60", "--n-envs", "3"]
    arguments += ["--seed", "5", "--no-progress", "--set", "split=train"]
    whole = collect(["all", "half"], "Toy", 60, seed=5, n_envs=3, env_kwargs={"split": "train"})
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, method, interrupted)
        assert main([*arguments, "--out", str(tmp_path / "x.npz")]) == 130
    assert "interrupted; what had been recorded:" in capsys.readouterr().out
    data = OfflineDataset.load(tmp_path / "x.npz")
    assert data.metadata["interrupted"] is True
    # Blocks of ten rows, three a policy; of what runs, the last transition waits for what follows it.
    running = (call - 1) // 10
    steps = (call - 1) % 10 + 1
    each = steps if steps == 10 and method == "after" else steps - 1
    rows = np.concatenate(
        [np.arange(30 * running), *(30 * running + 10 * i + np.arange(each) for i in range(3))]
    )
    ended = whole.truncated[30 * running + 10 * np.arange(3) + steps - 1]
    if method == "after" and steps < 10:
        rows = np.sort(np.append(rows, 30 * running + 10 * np.flatnonzero(ended) + steps - 1)).astype(int)
    assert len(data) == len(rows)
    for name in ("observations", "next_observations", "actions", "rewards", "terminated", "costs"):
        np.testing.assert_array_equal(data.batch(range(len(data)))[name], whole.batch(rows)[name])
    expected = whole.select(rows)
    np.testing.assert_array_equal(data.truncated, expected.truncated)
    assert data.n_episodes == expected.n_episodes and data.sources == expected.sources


@pytest.mark.usefixtures("toy")
def test_interrupted_before_the_first_transition_there_is_nothing_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Recorder, *given: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Recorder, "before", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main(["--env", "Toy", "--policies", "all", "--transitions", "60", "--out", str(tmp_path / "x.npz")])


@pytest.mark.usefixtures("toy")
def test_a_full_disk_does_not_lose_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: Path, *rest: Any) -> None:
        if path == tmp_path / "x.npz":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(path, *rest)

    original = npz.write
    monkeypatch.setattr(npz, "write", write)
    monkeypatch.chdir(tmp_path)
    arguments = ["--env", "Toy", "--policies", "all", "--transitions", "60", "--no-progress"]
    with pytest.raises(RescuedError, match="No space left on device; the data set is in "):
        main([*arguments, "--out", str(tmp_path / "x.npz")])
    [kept] = tmp_path.glob("greendc-rescued-*/x.npz")
    assert len(OfflineDataset.load(kept)) == 60


@pytest.mark.usefixtures("toy")
@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot take room for a file")
def test_a_scratch_folder_without_room_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found before the first step; a mapped file would end the process at the first page that fails."""

    def full(descriptor: int, start: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    arguments = ["--env", "Toy", "--policies", "all", "--transitions", "60", "--scratch", str(tmp_path / "s")]
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--out", str(tmp_path / "x.npz"), "--no-progress"])
    assert stop.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"collect: error: {tmp_path / 's'}: no room for ")


LABELLED: dict[str, Any] = {"env_kwargs": {"episode_steps": 40}, "n_envs": 2, "labels": ("advantages",)}
TEACHER = "rollout:futures=2"


def test_the_policy_acts_and_the_teacher_labels() -> None:
    plain = collect(["sjf"], "ResourcePool-10", 120, 3, **{**LABELLED, "labels": ()})
    data = collect(["sjf"], "ResourcePool-10", 120, 3, **LABELLED, teacher=TEACHER)
    assert data.actions.tolist() == plain.actions.tolist()
    assert data.sources == ("sjf",)
    assert data.metadata["teacher"] == TEACHER
    labels = data.labels["advantages"]
    assert np.isfinite(labels).any(axis=1).all()
    assert (np.nanargmax(labels, axis=1) != data.actions).any()  # else nothing is learned from the teacher


def test_a_teacher_needs_labels_that_it_has() -> None:
    with pytest.raises(ValueError, match=r"teacher 'rollout.*: no label"):
        collect(["sjf"], "ResourcePool-10", 120, **{**LABELLED, "labels": ()}, teacher=TEACHER)
    with pytest.raises(ValueError, match="label 'advantages': policy 'hvf' has no advantages"):
        collect(["sjf"], "ResourcePool-10", 120, **LABELLED, teacher="hvf")


@pytest.mark.parametrize("name", ["transitions", "seed", "n_envs"])
def test_numbers_that_are_not_whole_are_named(name: str) -> None:
    numbers = {"transitions": 20, "seed": 0, "n_envs": 2, name: 20.0}
    with pytest.raises(TypeError, match=f"{name}: must be a whole number, not float"):
        collect(["hvf"], "ResourcePool-10", **numbers)
