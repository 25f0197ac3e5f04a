"""``scripts/benchmark.py``: how fast environments and algorithms are, as ratios within one process."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.cold import add_cold
from benchmarks.devices import add_devices
from benchmarks.scratch import add_scratch
from benchmarks.training import add_train
from sb3_greendc.cli.benchmark import add_envs, new_parser, run


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser, parts = new_parser()
    add_envs(parts)
    add_train(parts)
    add_devices(parts)
    add_scratch(parts)
    add_cold(parts)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run(build_parser().parse_args(argv))
