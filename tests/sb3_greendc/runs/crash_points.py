"""A training that ends, as if the power went, right before one of its changes to the folder; for each one.

``python crash_points.py SCENARIO FOLDER`` prints a line of JSON for each crash point: a call of
``os.replace``, ``os.unlink`` or ``os.rmdir``. The processes are forks of this one, which has loaded all
and learned nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch as th
from resume_cases import tensors_of

from sb3_greendc.cli.train import main, prepare
from sb3_greendc.core import yaml
from sb3_greendc.runs import checkpoints
from sb3_greendc.runs.models import load_model

KILLED = 137
HPARAMS = ["n_steps=16", "batch_size=32", "n_epochs=1", "policy_kwargs={net_arch: [8]}", "normalize=true"]
RUN = ["--algo", "ppo", "--env", "CartPole-v1", "--timesteps", "192", "--n-envs", "4", "--no-progress"]
RUN += ["--checkpoint-every", "64", "--device", "cpu", "--hparams", *HPARAMS]


def command(out: Path, seed: int, *more: str) -> Callable[[], int]:
    return lambda: main([*RUN, "--out", str(out), "--seed", str(seed), *more])


def in_child(work: Callable[[], int], said: Path, die_at: int | None = None) -> int:
    """Do something in a process of its own, and return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            with said.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            if die_at is not None:
                _die_at(die_at)
            code = work()
        except SystemExit as error:
            code = int(error.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _die_at(point: int) -> None:
    """Make this process end right before its change of that number, from 0."""
    calls = 0

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            if calls == point:
                os._exit(KILLED)
            calls += 1
            return change(*args, **kwargs)

        return wrapper

    for name in ("replace", "unlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))


def state_of(out: Path) -> dict[str, Any]:
    """Return what a reader finds: the error, or seed, weights and normalizer."""
    try:
        saved = load_model(out)
    except ValueError as error:
        return {"error": str(error)}
    assert saved.normalizer is not None
    found = {**tensors_of(saved.model), "mean": saved.normalizer.obs_rms.mean}
    content = {key: np.asarray(value).tobytes().hex() for key, value in found.items() if value is not None}
    return {"seed": saved.run["seed"], "content": content}


def look_and(work: Callable[[], int], out: Path, found: Path) -> Callable[[], int]:
    """Return what a process does: look, work, look again, and write down what it saw."""

    def do() -> int:
        seen = [state_of(out)]
        try:
            return work()
        finally:
            found.write_text(json.dumps([*seen, state_of(out)]))

    return do


def scenario(name: str, folder: Path) -> None:
    """Kill, look, resume and compare at every point."""
    said, states = folder / "said", folder / "states.json"
    whole = []
    for seed in (1, 2):
        out = folder / f"whole_{seed}"
        assert in_child(look_and(command(out, seed), out, states), said) == 0, said.read_text()
        whole.append(json.loads(states.read_text())[1])
    old, new = whole
    for point in range(1000):
        out = folder / f"{name}_{point}"
        more = []
        if name == "overwrite":
            shutil.copytree(folder / "whole_1", out)
            more = ["--overwrite"]
        code = in_child(command(out, 2, *more), said, point)
        if code == 0:
            print(json.dumps({"points": point, "same": state_of(out) == new}))
            return
        assert code == KILLED, said.read_text()
        resumed = in_child(look_and(command(out, 2, "--resume"), out, states), said)
        found, after = json.loads(states.read_text())
        refused = said.read_text() if resumed == 2 else ""
        if refused:  # because of what is left of the old run
            resumed = in_child(look_and(command(out, 2, "--overwrite"), out, states), said)
            after = json.loads(states.read_text())[1]
        assert resumed == 0, said.read_text()
        seen = "old" if found == old else "new" if found == new else found.get("error", "a mixture")
        rest = [str(path) for path in out.rglob(".*")]
        print(json.dumps({"seen": seen, "refused": refused, "same": after == new, "rest": rest}), flush=True)
        shutil.rmtree(out)


if __name__ == "__main__":
    th.set_num_threads(1)
    checkpoints.IN_CHUNKS = 1000
    prepare("ppo", "CartPole-v1", 192, hyperparameters=yaml.parse_assignments(HPARAMS, "--hparams"))
    scenario(sys.argv[1], Path(sys.argv[2]))
