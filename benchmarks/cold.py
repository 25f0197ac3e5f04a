"""``scripts/benchmark.py cold``: the first use of an environment, where everything has to be compiled.

Each figure is the processor time of a process of its own, from ``import`` done to the first observation after
a step, with an empty cache of compiled code; and of a second process, which finds the cache full. What a
machine is worth shows the time of a step of ``CartPole-v1``, taken in the first process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sb3_greendc.cli.common import one_line_errors
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.files import write_json
from sb3_greendc.core.provenance import provenance

if TYPE_CHECKING:
    from sb3_greendc.cli.benchmark import Subparsers

CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "pool": ("ResourcePool-10", {}),
    "pool_lookahead": ("ResourcePool-10", {"mask": "now_on_time", "lookahead": 24}),
    "vcc": ("VCC-2021", {}),
    "cluster": ("Cluster-Lublin-v0", {}),
}
"""Ids and arguments of environments."""

CHILD = """
import json, sys, time
import gymnasium, greendc
env_id, kwargs, envs = json.loads(sys.argv[1])
began = time.process_time()
env = greendc.make_vec(env_id, envs, **kwargs) if envs else gymnasium.make(env_id, **kwargs)
env.reset(seed=0)
env.action_space.seed(0)
env.step(env.action_space.sample())
first = time.process_time() - began
cart = gymnasium.make("CartPole-v1")
cart.reset(seed=0)
began = time.process_time()
for step in range(20_000):
    if cart.step(step % 2)[2]:
        cart.reset()
print(json.dumps([first, (time.process_time() - began) / 20_000]))
"""


def first_use(case: str, envs: int | None, cache: Path) -> tuple[float, float]:
    """Return the processor seconds to the first step in a new process, and those of a step of CartPole.

    :param case: of :data:`CASES`
    :param envs: how many environments in a batch; ``None`` for one by itself
    :param cache: folder of the compiled code
    :raises ValueError: if the process fails; what it said is on standard error
    """
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHILD, json.dumps([*CASES[case], envs])]
    done = subprocess.run(command, env=variables, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ValueError(f"{case}: the process that was to take its first step ended with {done.returncode}")
    seconds, cart_pole = json.loads(done.stdout)
    return seconds, cart_pole


def compare(cases: Sequence[str], envs: int | None, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of the ``first`` and the ``next`` process of each case, and CartPole's, by round."""
    figures: dict[str, dict[str, list[float]]] = {
        case: {"first": [], "next": [], "cart_pole": []} for case in cases
    }
    for _ in range(rounds):
        for case in cases:
            with tempfile.TemporaryDirectory() as cache:
                first, cart_pole = first_use(case, envs, Path(cache))
                again, _ = first_use(case, envs, Path(cache))
            for name, value in (("first", first), ("next", again), ("cart_pole", cart_pole)):
                figures[case][name].append(value)
    return figures


def add_cold(parts: Subparsers) -> None:
    """Add the part ``cold`` to the command."""
    cold = parts.add_parser("cold", help="the first use of an environment, compiling")
    cold.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES))
    cold.add_argument("--envs", type=whole_number, help="environments in a batch (default: one by itself)")
    cold.add_argument("--rounds", type=whole_number, default=3, help="repeats, of which medians are shown")
    cold.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    cold.set_defaults(run=run_cold)


def run_cold(options: argparse.Namespace) -> int:
    """Time the first uses and print a table."""
    with one_line_errors("benchmark"):
        figures = compare(options.cases, options.envs, options.rounds)
    table = Table("environment", title="processor seconds to the first step (median)")
    for column in ("empty cache", "full cache", "a step of CartPole, µs"):
        table.add_column(column, justify="right")
    for case, row in figures.items():
        middle = {name: float(np.median(values)) for name, values in row.items()}
        cart_pole = f"{1e6 * middle['cart_pole']:.1f}"
        table.add_row(case, f"{middle['first']:.1f}", f"{middle['next']:.2f}", cart_pole)
    Console().print(table)
    if options.json is not None:
        write_json(options.json, {"cases": figures, "envs": options.envs, **provenance()})
    return 0
