"""The environment of a saved model, without ``--env``: its settings, but not the months of its training."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import greendc
from greendc.registration import FAMILIES
from sb3_greendc.evaluation.recorded_environment import recorded_environment
from sb3_greendc.runs.portable import ENVIRONMENT_FILE

Make = Callable[..., None]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Work in an empty folder; return what makes a run there, as far as is read here."""
    monkeypatch.chdir(tmp_path)

    def make(folder: str, env_id: str | None, env_kwargs: Mapping[str, Any] | None = None) -> None:
        Path(folder).mkdir(parents=True)
        (Path(folder) / "model.zip").touch()
        run = {"algorithm": "ppo", "env_id": env_id, "env_kwargs": env_kwargs}
        (Path(folder) / "run.json").write_text(json.dumps(run))

    return make


@pytest.mark.parametrize(
    ("env_id", "recorded", "kept"),
    [
        ("VCC-2021-v1", {"split": "train", "month": None, "constrained": True}, {"constrained": True}),
        ("VCC-2019-v1", {"split": "train"}, {}),
        ("DiscreteVCC-2020", {"split": "train", "month": None}, {}),
        ("VCC-2021-v1", {"month": "2019-07"}, {"month": "2019-07"}),  # chosen by hand
        ("VCC-2021-v1", {"split": "train", "month": ["2019-07"]}, {"split": "train", "month": ["2019-07"]}),
        ("VCC-v1", {"split": "validation"}, {"split": "validation"}),
        ("ResourcePoolCarbon-10", {"carbon": "PGE-2019", "mask": "now"}, {"mask": "now"}),
        ("ResourcePoolCarbon-10", {"carbon": "SCE-2019"}, {"carbon": "SCE-2019"}),
        ("ResourcePool-10", {"units": 9}, {"units": 9}),
        ("ResourcePool-10", None, {}),
    ],
)
def test_what_training_added_is_left_out(
    record: Make, env_id: str, recorded: Mapping[str, Any], kept: Mapping[str, Any]
) -> None:
    record("run", env_id, recorded)
    assert recorded_environment(["run"]) == (env_id, kept)


@pytest.mark.parametrize("env_id", [env_id for family in FAMILIES for env_id in family.presets])
def test_whatever_training_adds_to_an_id_is_known(record: Make, env_id: str) -> None:
    record("run", env_id, {**greendc.training_kwargs(env_id), "mine": 1})
    assert recorded_environment(["run"]) == (env_id, {"mine": 1})


@pytest.mark.parametrize("env_id", ["VCC-2019-v1", "VCC-2021-v1", "VCC-v1", "ResourcePoolCarbon-10-v0"])
def test_so_is_what_tuning_adds(record: Make, env_id: str) -> None:
    pytest.importorskip("optuna", reason="the extra 'tune' is not installed")
    from sb3_greendc.tuning import make_objective

    record("run", env_id, make_objective(env_id, "ppo", 100).training_kwargs)
    assert recorded_environment(["run"]) == (env_id, {})


@pytest.mark.parametrize(
    "policies",
    [
        ["runs/seed_2"],
        ["runs/seed_2/model.zip"],
        ["ppo=runs/seed_*"],
        ["ppo:runs/seed_2"],
        ["x=ppo:runs/seed_*"],
        ["guarded=work_conserving:runs/seed_*"],
        ["hvf:starts=[1, 2]", "pretrained", "pretrained:VCC", "ppo=runs/seed_*"],
    ],
)
def test_a_model_is_found_however_it_is_named(record: Make, policies: Sequence[str]) -> None:
    record("runs/seed_10", "ResourcePool-10", {"units": 10})
    record("runs/seed_2", "ResourcePool-10", {"units": 2})
    assert recorded_environment(policies) == ("ResourcePool-10", {"units": 2})


def test_only_a_model_that_is_named_says_so(record: Make, tmp_path: Path) -> None:
    (tmp_path / ENVIRONMENT_FILE).write_text("{")
    record("no_environment", None)
    with pytest.raises(ValueError, match="--env: missing"):
        recorded_environment(["hvf", "no_environment"])
    with pytest.raises(ValueError, match="unknown policy 'hfv'; did you mean 'hvf'"):
        recorded_environment(["hfv"])
    record("run", "VCC-2031", {})
    with pytest.raises(ValueError, match="unknown environment 'VCC-2031'"):
        recorded_environment(["run"])


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [("env_kwargs", 3, "an object"), ("env_id", 3, "text"), ("algorithm", 3, "text")],
)
def test_a_record_of_another_form_is_named(record: Make, key: str, value: object, kind: str) -> None:
    record("run", "VCC-2021-v1", {})
    path = Path("run") / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ValueError, match=rf"run\.json: {key}=3: must be {kind}"):
        recorded_environment(["run"])
