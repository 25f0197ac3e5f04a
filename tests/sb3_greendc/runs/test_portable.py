"""Folders to carry: files travel along, paths are those of the place, and what is damaged is refused."""

from __future__ import annotations

import json
import shutil

import pytest

from sb3_greendc.cli.evaluate import recorded_environment
from sb3_greendc.runs.models import MODEL_FILE, RUN_FILE
from sb3_greendc.runs.portable import ENVIRONMENT_FILE, Environment, read_environment, write_portable


@pytest.fixture
def carried(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / MODEL_FILE).write_bytes(b"model")
    (run / RUN_FILE).write_text(
        '{"algorithm": "ppo", "env_id": "ResourcePool-10", "env_kwargs": {"units": 9}}'
    )
    (run / "checkpoint").write_bytes(b"large")
    (tmp_path / "jobs.swf").write_text("jobs")
    kwargs = {"workload": str(tmp_path / "jobs.swf"), "power": "trace", "units": 12}
    made = write_portable(
        tmp_path / "model", run, Environment("ResourcePool", kwargs, {"mask": "now_on_time"})
    )
    (tmp_path / "jobs.swf").unlink()
    return made


def test_a_folder_is_read_where_it_lies(carried, tmp_path):
    moved = tmp_path / "elsewhere" / "policy"
    shutil.move(carried, moved)
    assert sorted(path.name for path in moved.iterdir()) == [
        ENVIRONMENT_FILE,
        "inputs",
        MODEL_FILE,
        RUN_FILE,
    ]
    for source in (moved, moved / MODEL_FILE, f"ppo:{moved}"):
        found = read_environment(source)
        assert found.choice == {"mask": "now_on_time"}
        workload = moved.resolve() / "inputs" / "jobs.swf"
        assert found.env_kwargs == {"workload": str(workload), "power": "trace", "units": 12}
        assert workload.read_text() == "jobs"


def test_writing_again_leaves_nothing_of_before(carried, tmp_path):
    write_portable(carried, tmp_path / "run", Environment("ResourcePool", {"units": 3}, {}))
    assert list((carried / "inputs").iterdir()) == []
    assert read_environment(carried).env_kwargs == {"units": 3}


def test_a_model_alone_has_no_environment(tmp_path):
    assert read_environment(tmp_path) is None


@pytest.mark.parametrize("path", ["../run/model.zip", "inputs/gone.swf", "/etc/hosts", None])
def test_a_file_outside_the_folder_is_refused(carried, path):
    record = json.loads((carried / ENVIRONMENT_FILE).read_text())
    record["env_kwargs"]["workload"] = path
    (carried / ENVIRONMENT_FILE).write_text(json.dumps(record))
    with pytest.raises(ValueError, match="must be a file in the folder"):
        read_environment(carried)


@pytest.mark.parametrize("text", ["{", "[]", '{"env_id": "ResourcePool"}'])
def test_a_damaged_record_is_named(carried, text):
    (carried / ENVIRONMENT_FILE).write_text(text)
    with pytest.raises(ValueError, match=rf"{ENVIRONMENT_FILE}: damaged"):
        read_environment(carried)


def test_evaluations_take_the_environment_of_the_first_model_that_has_one(carried):
    policies = ["hvf", "fcfs:scope=queue", f"mine={carried}"]
    env_id, kwargs = recorded_environment(policies)
    assert (env_id, kwargs["units"]) == ("ResourcePool", 12)
    (carried / ENVIRONMENT_FILE).unlink()
    assert recorded_environment(policies) == ("ResourcePool-10", {"units": 9})  # the run's own record
    with pytest.raises(ValueError, match="--env: missing"):
        recorded_environment(policies[:2])
