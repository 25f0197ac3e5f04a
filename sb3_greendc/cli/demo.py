"""``make demo``: train, judge against honest baselines, and show what was learned, in minutes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from sb3_greendc.cli import demo_vcc
from sb3_greendc.cli.common import whole_number


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="demo", description="Train and judge a scheduler on real emissions."
    )
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder for results and figures")
    parser.add_argument("--timesteps", type=whole_number, default=400_000, help="hours to train for")
    parser.add_argument("--episodes", type=whole_number, default=10, help="episodes a policy and period")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    console = Console()
    started = time.perf_counter()
    demo_vcc.run(options.out, options.timesteps, options.episodes, options.seed, console)
    console.print(f"Results and figures are in {options.out} ({time.perf_counter() - started:.0f} s).")
    return 0
