"""Kill trainings, resume them, and compare with trainings that nobody killed, to the last bit.

Three ways to die. ``instants``: ``SIGKILL`` after a random time, in rollouts, updates and writes alike; a
training is killed and resumed until it ends, a few times or many. ``changes``: right before one of its calls
of ``os.fsync``, ``os.replace``, ``os.unlink`` or ``os.rmdir``, each one in turn. ``pairs``: at one of these
calls, and the resumed training at another. Every training must end as the one that was left alone: weights,
optimizers, normalizer, log, and nothing half written beside them. ``--count`` kills in all; a line of JSON
tells how many there were of each kind and what differed. The exit code is 1 if anything did.

Processes are forks of this one, which has loaded everything and learned nothing: a kill takes seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch as th

from sb3_greendc.cli.train import main as train
from sb3_greendc.core import yaml
from sb3_greendc.runs import checkpoints
from sb3_greendc.runs.models import load_model
from sb3_greendc.runs.normalizers import normalizer_to_json
from sb3_greendc.runs.training import prepare

DIED = 137
SMALL = "policy_kwargs={net_arch: [8]}"
ON = ["n_steps=16", "batch_size=32", "n_epochs=1", SMALL]
OFF = ["learning_starts=20", "batch_size=16", "buffer_size=2000", "train_freq=2", SMALL]
CLOCKS = ["time/fps", "time/time_elapsed"]
KINDS = ("instants", "changes", "pairs")


@dataclass(frozen=True)
class Case:
    """A small training."""

    algorithm: str
    env_id: str
    hparams: list[str]
    settings: tuple[str, ...] = ()

    def command(self, out: Path, *more: str) -> Callable[[], int]:
        """Return what trains into a folder."""
        options = ["--algo", self.algorithm, "--env", self.env_id, "--timesteps", "256", "--n-envs", "4"]
        options += ["--checkpoint-every", "32", "--device", "cpu", "--seed", "3", "--no-progress"]
        given = ["--set", *self.settings] if self.settings else []
        return lambda: train([*options, *given, "--hparams", *self.hparams, "--out", str(out), *more])


CASES = {
    "ppo": Case("ppo", "CartPole-v1", [*ON, "normalize=true"]),
    "maskable_ppo": Case("maskable_ppo", "ResourcePool-10", ON, ("episode_steps=20",)),
    "sac": Case("sac", "VCC-2019", OFF, ("days=1",)),
    "discrete_sac": Case("discrete_sac", "ResourcePool-10", OFF, ("episode_steps=20",)),
}


def in_child(work: Callable[[], int], said: Path) -> int:
    """Start a process for some work, and return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        with said.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code = work()
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait_for(pid: int) -> int:
    """Return the exit code of a process, minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def dying_at(point: int, work: Callable[[], int]) -> Callable[[], int]:
    """Return work that ends its process right before its change to a folder of that number, from 0."""

    def do() -> int:
        calls = 0

        def counted(change: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                nonlocal calls
                if calls == point:
                    os._exit(DIED)
                calls += 1
                return change(*args, **kwargs)

            return wrapper

        for name in ("fsync", "replace", "unlink", "rmdir"):
            setattr(os, name, counted(getattr(os, name)))
        return work()

    return do


def content_of(out: Path) -> dict[str, str]:
    """Return everything that training made, in texts that are equal if all bits are."""
    saved = load_model(out)
    found: dict[str, str] = {}

    def visit(place: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                visit(f"{place}/{key}", item)
        elif isinstance(value, list | tuple):
            for i, item in enumerate(value):
                visit(f"{place}/{i}", item)
        else:
            array = value.detach().cpu().numpy() if isinstance(value, th.Tensor) else value
            is_array = isinstance(array, np.ndarray | np.generic | float)
            found[place] = np.asarray(array).tobytes().hex() if is_array else repr(array)

    visit("model", saved.model.get_parameters())
    variables = saved.model._get_torch_save_params()[1]
    visit("variables", {name: getattr(saved.model, name) for name in variables})
    if saved.normalizer is not None:
        visit("normalizer", normalizer_to_json(saved.normalizer))
    text = (out / "progress.csv").read_text()
    log = pd.read_csv(out / "progress.csv") if text else pd.DataFrame()
    found["log"] = log.drop(columns=CLOCKS, errors="ignore").to_csv(index=False)
    return found


class Campaign:
    """Kills of one case.

    :param case: what is trained
    :param folder: for its runs
    """

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.kills = dict.fromkeys(KINDS, 0)
        self.runs, self.points = 0, 0
        self.failures: list[str] = []
        self._said = folder / "said"
        folder.mkdir(parents=True)
        self._load()
        started = time.monotonic()
        whole = folder / "whole"
        if wait_for(in_child(case.command(whole), self._said)) != 0:
            raise RuntimeError(f"the training itself fails: {self._said.read_text()[-2000:]}")
        self.seconds = time.monotonic() - started
        self.whole = content_of(whole)

    def _load(self) -> None:
        """Load and compile what children need, without a step of learning: torch would not fork after one."""
        hyperparameters = yaml.parse_assignments(["n_envs=4", *self.case.hparams], "--hparams")
        settings = yaml.parse_assignments(self.case.settings, "--set")
        model = prepare(self.case.algorithm, self.case.env_id, 256, 3, settings, hyperparameters, "cpu").model
        assert model.env is not None
        model.env.reset()
        for _ in range(30):
            model.env.step(np.array([model.action_space.sample() for _ in range(4)]))

    def at_instants(self, random_times: random.Random) -> None:
        """Kill and resume one training, at random instants, until it ends by itself."""
        out = self.folder / "run"
        for attempt in range(1000):
            more = ["--resume"] if attempt else []
            pid = in_child(self.case.command(out, *more), self._said)
            # Longer and longer, or a slow machine would never let it end.
            time.sleep(random_times.uniform(0.0, 1.1 * self.seconds * (1.0 + attempt / 20)))
            os.kill(pid, signal.SIGKILL)
            code = wait_for(pid)
            if code != -signal.SIGKILL:
                break
            self.kills["instants"] += 1
        self._judge(out, code, f"instant {self.kills['instants']}")

    def at_change(self, point: int) -> bool:
        """Kill a training at one of its changes, resume it; return whether it has that many."""
        out = self.folder / "run"
        code = wait_for(in_child(dying_at(point, self.case.command(out)), self._said))
        if code != DIED:
            self._judge(out, code, "no change")
            return False
        self.kills["changes"] += 1
        self.points = max(self.points, point + 1)
        code = wait_for(in_child(self.case.command(out, "--resume"), self._said))
        self._judge(out, code, f"change {point}")
        return True

    def at_pair(self, random_points: random.Random) -> None:
        """Kill a training at one of its changes, and again when it is resumed, mostly soon after."""
        out = self.folder / "run"
        first = random_points.randrange(self.points)
        second = min(random_points.randrange(self.points), random_points.randrange(self.points))
        code = wait_for(in_child(dying_at(first, self.case.command(out)), self._said))
        if code == DIED:
            self.kills["pairs"] += 1
            code = wait_for(in_child(dying_at(second, self.case.command(out, "--resume")), self._said))
        if code == DIED:
            self.kills["pairs"] += 1
            code = wait_for(in_child(self.case.command(out, "--resume"), self._said))
        self._judge(out, code, f"changes {first} and {second}")

    def _judge(self, out: Path, code: int, what: str) -> None:
        self.runs += 1
        name = f"{self.case.algorithm}, {what}"
        if code != 0:
            self.failures.append(f"{name}: exit code {code}: {self._said.read_text()[-500:]}")
        else:
            found = content_of(out)
            different = [key for key in {**self.whole, **found} if self.whole.get(key) != found.get(key)]
            if different:
                self.failures.append(f"{name}: differs in {', '.join(different[:5])}")
        left = [path.name for path in out.rglob(".*")]
        if left:
            self.failures.append(f"{name}: left {', '.join(left)}")
        shutil.rmtree(out, ignore_errors=True)


def main() -> int:
    """Run campaigns in turn until there were enough kills, or time is up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="kills in all (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60.0, help="end after so long, whatever the count")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seed", type=int, default=0, help="of the instants")
    options = parser.parse_args()
    th.set_num_threads(1)
    checkpoints.IN_CHUNKS = 1000  # so that small arrays go into chunks, too
    random_times = random.Random(options.seed)
    deadline = time.monotonic() + 60 * options.minutes
    campaigns: list[Campaign] = []
    with tempfile.TemporaryDirectory(prefix="greendc-crashes-") as folder:

        def enough() -> bool:
            kills = sum(sum(one.kills.values()) for one in campaigns)
            return kills >= options.count or time.monotonic() > deadline

        try:
            campaigns += [Campaign(CASES[name], Path(folder) / name) for name in options.cases]
            points: dict[int, int] = dict.fromkeys(range(len(campaigns)), 0)
            while not enough():
                for i, campaign in enumerate(campaigns):
                    campaign.at_instants(random_times)
                    if points[i] >= 0:
                        points[i] = points[i] + 1 if campaign.at_change(points[i]) else -1
                    else:
                        campaign.at_pair(random_times)
                    if enough():
                        break
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
    for campaign in campaigns:
        for failure in campaign.failures:
            print(failure, file=sys.stderr)
    result = {
        "kills": {kind: sum(one.kills[kind] for one in campaigns) for kind in KINDS},
        "trainings": sum(one.runs for one in campaigns),
        "by_case": {one.case.algorithm: one.kills for one in campaigns},
        "failures": sum(len(one.failures) for one in campaigns),
    }
    print(json.dumps(result))
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
