"""``scripts/benchmark.py devices``: whether a GPU pays, for each algorithm with the zoo's hyperparameters.

Each case is trained on the CPU and on the device in turn, in one process, with collection where the algorithm
collects: what a user waits for. Clocks are on the wall, since a process's own time leaves out the device's.
The CPU's side has the threads that torch takes (``OMP_NUM_THREADS``).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.base_class import BaseAlgorithm

from benchmarks.training import learn
from sb3_greendc.cli.common import one_line_errors
from sb3_greendc.cli.timing import Case, measure, ratio
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.files import write_json
from sb3_greendc.core.provenance import provenance
from sb3_greendc.crr import CRR
from sb3_greendc.discrete_sac import DiscreteSAC
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.runs.training import prepare

if TYPE_CHECKING:
    from sb3_greendc.cli.benchmark import Subparsers

COLLECTED = 4000
"""Transitions that CRR learns from."""


@dataclass(frozen=True)
class Setting:
    """What is trained: the zoo's hyperparameters, but for ``changes``."""

    algorithm: str
    env_id: str
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)


_CONSTRAINED = {"constrained": True}
_IMAGES = {"buffer_size": 4000, "policy_kwargs": {"features_extractor": "resource_image"}}
SETTINGS = {
    "maskable_ppo": Setting("maskable_ppo", "ResourcePool-10"),
    "pid_ppo": Setting("pid_ppo", "VCC-2019", _CONSTRAINED),
    "recurrent_pid_ppo": Setting("recurrent_pid_ppo", "VCC-2019", _CONSTRAINED),
    "discrete_sac": Setting("discrete_sac", "ResourcePool-10"),
    "discrete_sac_cnn": Setting("discrete_sac", "ResourcePool-10", changes=_IMAGES),
    "discrete_sac_cnn_300": Setting("discrete_sac", "ResourcePool-300", changes=_IMAGES),
    "crr": Setting("crr", "ResourcePool-10"),
    "crr_batch_2048": Setting("crr", "ResourcePool-10", changes={"batch_size": 2048}),
}
"""The cases. ``cnn`` is the papers' convolutional encoder of the image in place of the zoo's network."""


def build(setting: Setting, device: str, data: Path) -> BaseAlgorithm:
    """Return a model whose next steps come with updates.

    :param setting: what is trained
    :param device: of the model
    :param data: file of the data that CRR learns from
    """
    source = {"data": data} if setting.algorithm == "crr" else {"env_kwargs": setting.env_kwargs}
    run = prepare(setting.algorithm, setting.env_id, hyperparameters=setting.changes, device=device, **source)
    model = run.model
    if isinstance(model, DiscreteSAC):
        learn(model, model.learning_starts + model.n_envs)
    return model


def timed(name: str, setting: Setting, device: str, data: Path) -> Case:
    """Time updates of CRR, or rollouts with their updates: transitions a second."""
    model = build(setting, device, data)
    steps = 1 if isinstance(model, CRR) else model.n_envs * int(getattr(model, "n_steps", 1))

    def run(calls: int) -> None:
        learn(model, calls * steps)
        if model.device.type == "cuda":
            th.cuda.synchronize()

    return Case(name, run, steps)


def compare(names: Sequence[str], device: str, rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Return for each case the steps a second of ``cpu`` and ``device``, and how many ``times`` the CPU's."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        if any(SETTINGS[name].algorithm == "crr" for name in names):
            collect(["hvf"], "ResourcePool-10", COLLECTED).save(data)
        for name in names:
            sides = {"cpu": "cpu", "device": device}.items()
            cases = [timed(side, SETTINGS[name], where, data) for side, where in sides]
            rates = measure(cases, rounds, seconds)
            figures[name] = {side: float(np.median(values)) for side, values in rates.items()}
            figures[name]["times"] = ratio(rates, "device", "cpu")
    return figures


def add_devices(parts: Subparsers) -> None:
    """Add the part ``devices`` to the command."""
    devices = parts.add_parser("devices", help="training on a GPU against the CPU")
    devices.add_argument("--device", default="cuda", help="what is compared with the CPU")
    devices.add_argument("--cases", nargs="+", choices=tuple(SETTINGS), default=list(SETTINGS))
    devices.add_argument("--rounds", type=whole_number, default=3, help="repeats, of which medians are shown")
    devices.add_argument("--seconds", type=float, default=2.0, help="length of one measurement, about")
    devices.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    devices.set_defaults(run=run_devices)


def run_devices(options: argparse.Namespace) -> int:
    """Time the cases on both devices and print a table."""
    with one_line_errors("benchmark"):
        figures = compare(options.cases, options.device, options.rounds, options.seconds)
    table = Table("case", title=f"steps a second (median); torch has {th.get_num_threads()} threads")
    for column in ("cpu", options.device, f"{options.device} × cpu"):
        table.add_column(column, justify="right")
    for name, row in figures.items():
        table.add_row(name, f"{row['cpu']:,.0f}", f"{row['device']:,.0f}", f"{row['times']:.2f}")
    Console().print(table)
    if options.json is not None:
        settings = {"torch_threads": th.get_num_threads(), "device": options.device}
        write_json(options.json, {"cases": figures, **settings, **provenance()})
    return 0
