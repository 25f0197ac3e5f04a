"""The tool that kills trainings: a few kills, and a difference that it must see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "crash_trainings.py"
FORGETS = """
import runpy, sys
from sb3_greendc.runs import training_state
training_state._set_random_states = lambda states: None
sys.argv = ["crash_trainings.py", *sys.argv[1:]]
runpy.run_path({tool!r}, run_name="__main__")
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")


def run(*command: str) -> tuple[int, dict[str, int], str]:
    options = ["--count", "12", "--cases", "ppo", "--minutes", "5"]
    done = subprocess.run([sys.executable, *command, *options], capture_output=True, text=True)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.slow  # instants differ from run to run; every point of change is in runs/test_crash_points.py
def test_killed_trainings_end_as_others() -> None:
    code, result, said = run(str(TOOL))
    assert (code, result["failures"]) == (0, 0), said
    assert sum(result["kills"].values()) >= 12  # type: ignore[attr-defined]


def test_it_sees_a_training_that_goes_on_otherwise() -> None:
    code, result, said = run("-c", FORGETS.format(tool=str(TOOL)))
    assert code == 1
    assert "ppo, " in said
    assert "differs in" in said
    assert result["failures"] > 0
