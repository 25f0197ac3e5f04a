"""``make demo``: train, judge against honest baselines, and show what was learned, in minutes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch as th
from rich.console import Console

from sb3_greendc.cli import demo_pool, demo_vcc
from sb3_greendc.core.arguments import whole_number

TABLE_WIDTH = 150
"""Columns that a table needs to stay in one piece; narrower terminals wrap its lines."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="demo", description="Train and judge a scheduler on real emissions."
    )
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder for results and figures")
    parser.add_argument("--timesteps", type=whole_number, default=400_000, help="hours to train for")
    parser.add_argument("--decisions", type=whole_number, default=500_000, help="decisions to train for")
    parser.add_argument("--episodes", type=whole_number, default=10, help="months a policy and period")
    parser.add_argument("--pool-episodes", type=whole_number, default=32, help="episodes a policy")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    started = time.perf_counter()
    th.set_num_threads(1)  # networks this small gain little from more, and lose much on a busy machine
    demo_vcc.run(options.out / "vcc", options.timesteps, options.episodes, options.seed, console)
    demo_pool.run(
        options.out / "resource_pool", options.decisions, options.pool_episodes, options.seed, console
    )
    seconds = time.perf_counter() - started
    console.print(f"Results and figures are in {options.out} ({seconds:.0f} s).", markup=False)
    return 0
