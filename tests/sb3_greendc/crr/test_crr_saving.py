"""CRR saved and loaded: it acts alone, and goes on exactly where it stopped."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch as th
from algorithm_cases import ACTIONS, OBSERVATIONS
from programs import run_python
from toy_data import (
    observations_of,
    parameters_of,
    same,
    toy_dataset,
    toy_model,
)

import sb3_greendc
from sb3_greendc.crr import CRR


@pytest.mark.parametrize("observation", ["box", "masked", "dict"])
@pytest.mark.parametrize("action", ACTIONS)
def test_loads_and_predicts_alone(observation, action, tmp_path):
    if observation == "masked" and action != "discrete":
        pytest.skip("continuous actions have no masks")
    model = toy_model(observation, action).learn(10)
    model.save(tmp_path / "model")
    alone = CRR.load(tmp_path / "model", device="cpu")
    assert same(parameters_of(model), parameters_of(alone))
    observations = observations_of(model.dataset)
    for a, b in zip(model.predict(observations, deterministic=True)[0],
                    alone.predict(observations, deterministic=True)[0], strict=True):  # fmt: skip
        np.testing.assert_array_equal(a, b)
    assert alone.dataset is None
    assert alone.get_env() is None
    with pytest.raises(ValueError, match="no data"):
        alone.learn(1)


def test_predicts_in_a_fresh_process(tmp_path):
    model = toy_model("masked").learn(5)
    model.save(tmp_path / "model")
    observation = {key: array[3] for key, array in observations_of(model.dataset).items()}
    np.savez(tmp_path / "observation.npz", **observation)
    code = (
        "import numpy as np\n"
        "from sb3_greendc import CRR\n"
        "model = CRR.load('model.zip')\n"
        "print(int(model.predict(dict(np.load('observation.npz')), deterministic=True)[0]))\n"
    )
    done = run_python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == int(model.predict(observation, deterministic=True)[0])
    assert sb3_greendc.CRR is CRR


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"value_mode": "mean", "weight_mode": "exp"},
        {"target_actor": False, "target_update_interval": 3},
        {"seed": None},
    ],
    ids=["default", "drawn", "intervals", "no seed"],
)
@pytest.mark.parametrize("action", ACTIONS)
def test_goes_on_exactly_where_it_stopped(options, action, tmp_path):
    if "value_mode" not in options and action == "box":
        options = {**options, "value_mode": "max_sample"}
    model = toy_model("dict", action, **options)
    model.learn(13)
    model.save(tmp_path / "model")
    model.learn(11, reset_num_timesteps=False)
    th.manual_seed(99)
    loaded = CRR.load(tmp_path / "model", device="cpu")
    loaded.set_dataset(toy_dataset("dict", action))
    loaded.learn(11, reset_num_timesteps=False)
    assert loaded.num_timesteps == model.num_timesteps == 24
    assert same(parameters_of(model), parameters_of(loaded))


def test_logs_and_evaluations_do_not_change_what_is_learned():
    quiet, loud = toy_model("masked", value_mode="mean"), toy_model("masked", value_mode="mean")
    quiet.learn(20, log_interval=100)
    loud.learn(20, log_interval=1)
    assert same(parameters_of(quiet), parameters_of(loud))


def test_a_saved_model_is_small_and_holds_no_data(tmp_path):
    model = toy_model("image", policy_kwargs={})
    model.save(tmp_path / "model")
    bare = CRR("CnnPolicy", observation_space=OBSERVATIONS["image"], action_space=ACTIONS["discrete"],
               device="cpu", seed=0)  # fmt: skip
    bare.save(tmp_path / "bare")
    sizes = [(tmp_path / name).stat().st_size for name in ("model.zip", "bare.zip")]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)


def test_a_member_that_no_model_has_is_not_read(tmp_path: Path) -> None:
    """A few kilobytes that would unpack to more than the memory holds."""
    with zipfile.ZipFile(tmp_path / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", bytes(65 * 2**20))
    with pytest.raises(ValueError, match="data of 68,157,440 bytes: must be 67,108,864 at most"):
        CRR.load(tmp_path / "model.zip")
