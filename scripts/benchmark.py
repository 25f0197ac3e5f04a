"""Measure speeds; see ``--help`` and :mod:`benchmarks.command`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sb3_greendc.cli.launch import run

if __name__ == "__main__":
    sys.exit(run("benchmark", module="benchmarks.command"))
