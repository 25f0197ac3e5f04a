"""Advise a partition of Slurm; see ``--help`` and :mod:`sb3_greendc.cli.slurm`."""

import sys

from sb3_greendc.cli.launch import run

if __name__ == "__main__":
    sys.exit(run("slurm"))
