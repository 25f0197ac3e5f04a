"""Saved models that hold pickled code: by no route does it run unless somebody trusts the file."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import make_release
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from sb3_greendc.cli import calibrate_cost_limit, collect, evaluate, planners
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.collection import Collection
from sb3_greendc.evaluation.paired import Evaluation
from sb3_greendc.evaluation.prior import read_prior
from sb3_greendc.runs.folder import MANIFEST
from sb3_greendc.runs.models import (
    MODEL_FILE,
    NORMALIZER_FILE,
    PICKLED_NORMALIZER_FILE,
    UntrustedError,
    load_model,
    save_model,
)

ENV = "ResourcePool-10"
RECORD = {"algorithm": "ppo", "env_id": ENV, "env_kwargs": {}, "hyperparameters": {}}


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def model(normalize: bool = False) -> PPO:
    env: Any = make_vec_env(ENV, 1)
    if normalize:
        env = VecNormalize(env, norm_obs=False)
    return PPO("MultiInputPolicy", env, n_steps=16, batch_size=16, device="cpu", seed=0)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "ran"


def hostile_zip(folder: Path, marker: Path) -> Path:
    """A working model in SB3's form, one attribute of which is hostile."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MODEL_FILE
    model().save(path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    data = json.loads(entries["data"])
    code = base64.b64encode(cloudpickle.dumps(Hostile(marker))).decode()
    data["hostile"] = {":type:": "x", ":serialized:": code}
    entries["data"] = json.dumps(data).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    (folder / "run.json").write_text(json.dumps(RECORD))
    return path


def hostile_normalizer(folder: Path, marker: Path) -> Path:
    """A good model beside a hostile normaliser; its record says nothing of normalisers."""
    save_model(model(), folder, RECORD)
    (folder / PICKLED_NORMALIZER_FILE).write_bytes(pickle.dumps(Hostile(marker)))
    (folder / "run.json").write_text(json.dumps(RECORD))
    (folder / MANIFEST).unlink()
    return folder / MODEL_FILE


KINDS = pytest.mark.parametrize("make", [hostile_zip, hostile_normalizer])
Make = Callable[[Path, Path], Path]


@KINDS
def test_loading_says_what_it_would_run(tmp_path: Path, marker: Path, make: Make) -> None:
    path = make(tmp_path / "run", marker)
    for source in (path, path.parent, f"ppo:{path}"):
        with pytest.raises(UntrustedError, match=r"holds pickled code.*--trust.*trust=True"):
            load_model(source)
    assert not marker.exists()
    load_model(path, trust=True)
    assert marker.exists()  # the files are as hostile as they should be


@KINDS
def test_no_function_runs_it(tmp_path: Path, marker: Path, make: Make) -> None:
    folder = make(tmp_path / "run", marker).parent
    simulator = make_vec_env(ENV, 1).simulator  # type: ignore[attr-defined]
    for use in (
        lambda: Evaluation([str(folder)], ENV, 1),
        lambda: Evaluation({"x": folder}, ENV, 1),
        lambda: Collection([str(folder)], ENV, 10),
        lambda: read_prior(str(folder), simulator),
        lambda: Evaluation([f"rollout:futures=2,prior={folder}"], ENV, 1),
    ):
        with pytest.raises(ValueError, match="holds pickled code"):
            use()
    assert not marker.exists()
    Evaluation([str(folder)], ENV, 1, trust=True)
    assert marker.exists()


@KINDS
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (evaluate, ["--env", ENV, "--episodes", "1", "--policies", "{folder}"]),
        (evaluate, ["--env", ENV, "--episodes", "1", "--policies", "x={parent}/r*"]),
        (collect, ["--env", ENV, "--transitions", "10", "--policies", "{folder}", "--out", "{parent}/x.npz"]),
        (calibrate_cost_limit, ["--env", ENV, "--episodes", "1", "--policies", "{folder}"]),
        (planners, ["loads", "--model", "{folder}", "--out", "{parent}/x.csv"]),
        (planners, ["loads", "--policies", "{folder}", "--out", "{parent}/x.csv"]),
        (make_release, ["--model", "{folder}", "--name", "x"]),
        (make_release, ["--distill", "9", "--name", "x", "--env", ENV, "--baselines", "{folder}"]),
    ],
)
def test_no_command_runs_it(
    tmp_path: Path,
    marker: Path,
    make: Make,
    command: Any,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = make(tmp_path / "run", marker).parent
    filled = [argument.format(folder=folder, parent=tmp_path) for argument in arguments]
    with pytest.raises(SystemExit) as stopped:
        command.main(filled)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert "holds pickled code, which would run when it is loaded" in said
    assert said.count("\n") == 1
    assert not marker.exists()
    assert command.build_parser().parse_args([*filled, "--trust"]).trust


def test_evaluate_runs_it_on_trust(tmp_path: Path, marker: Path) -> None:
    hostile_zip(tmp_path / "run", marker)
    arguments = [
        "--env",
        ENV,
        "--episodes",
        "1",
        "--policies",
        str(tmp_path / "run"),
        "--set",
        "episode_steps=20",
    ]
    assert evaluate.main([*arguments, "--no-progress", "--trust"]) == 0
    assert marker.exists()


def test_a_normalizer_that_the_record_denies_is_not_opened(tmp_path: Path, marker: Path) -> None:
    save_model(model(), tmp_path, RECORD)
    (tmp_path / PICKLED_NORMALIZER_FILE).write_bytes(pickle.dumps(Hostile(marker)))
    assert load_model(tmp_path).normalizer is None
    assert load_model(tmp_path, trust=True).normalizer is None
    assert not marker.exists()


def test_an_older_run_is_converted(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    trained = model(normalize=True).learn(16)
    save_model(trained, old, RECORD)
    trained.save(old / MODEL_FILE)
    (old / PICKLED_NORMALIZER_FILE).write_bytes(pickle.dumps(trained.get_vec_normalize_env()))
    (old / NORMALIZER_FILE).unlink()
    (old / MANIFEST).unlink()
    with pytest.raises(UntrustedError):
        load_model(old)
    trusted = load_model(old, trust=True)
    save_model(trusted.model, new, trusted.run, trusted.normalizer)
    converted = load_model(new)
    assert trusted.normalizer is not None and converted.normalizer is not None
    assert vars(converted.normalizer.ret_rms) == vars(trusted.normalizer.ret_rms)
    wanted = trained.policy.state_dict()
    assert all((value == wanted[key]).all() for key, value in converted.model.policy.state_dict().items())


def test_a_normalizer_comes_back_exactly(tmp_path: Path) -> None:
    trained = model(normalize=True)
    trained.learn(16)
    save_model(trained, tmp_path, RECORD)
    files = [MANIFEST, MODEL_FILE, NORMALIZER_FILE, "run.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    own, loaded = trained.get_vec_normalize_env(), load_model(tmp_path).normalizer
    assert own is not None and loaded is not None
    assert vars(loaded.ret_rms) == vars(own.ret_rms)
    assert (loaded.clip_obs, loaded.gamma, loaded.epsilon) == (own.clip_obs, own.gamma, own.epsilon)
    loaded.set_venv(make_vec_env(ENV, 1))
    loaded.reset()
    reward = np.array([0.3])
    assert loaded.normalize_reward(reward) == own.normalize_reward(reward)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("ret_rms") and state.update(extra=1),
        lambda state: state.update(gamma="high"),
        lambda state: state.update(norm_obs=True),
        lambda state: state.update(ret_rms={"$": "class", "name": "os:system"}),
        lambda state: state.update(observation_space=None),
    ],
)
def test_a_forged_normalizer_is_refused(tmp_path: Path, change: Any) -> None:
    save_model(model(normalize=True), tmp_path, RECORD)
    path = tmp_path / NORMALIZER_FILE
    state = json.loads(path.read_text())
    state.pop("obs_rms", None)
    change(state)
    path.write_text(json.dumps(state))
    with pytest.raises(ValueError, match=r"normalizer\.json: damaged, or of another run"):
        load_model(tmp_path)
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(ValueError, match=r"normalizer\.json: damaged: "):
        load_model(tmp_path)


class OwnNormalize(VecNormalize):
    """A normaliser of a user's."""


def test_what_is_ones_own_is_saved_with_a_warning_and_loads_on_trust(tmp_path: Path) -> None:
    env = OwnNormalize(make_vec_env(ENV, 1), norm_obs=False)
    own = PPO(
        "MultiInputPolicy", env, learning_rate=lambda _: 1e-3, n_steps=16, batch_size=16, device="cpu", seed=0
    )
    with pytest.warns(UserWarning, match=r"saved with pickled code") as warned:
        save_model(own, tmp_path, RECORD)
    assert len([one for one in warned if "pickled code" in str(one.message)]) == 2
    with pytest.raises(UntrustedError):
        load_model(tmp_path)
    assert isinstance(load_model(tmp_path, trust=True).normalizer, OwnNormalize)
    save_model(model(normalize=True), tmp_path, RECORD)
    assert not (tmp_path / PICKLED_NORMALIZER_FILE).exists()
    assert load_model(tmp_path).normalizer is not None
