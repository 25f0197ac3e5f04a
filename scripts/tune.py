"""Search for hyperparameters; see ``--help`` and :mod:`sb3_greendc.cli.tune`."""

import sys

from sb3_greendc.cli.launch import run

if __name__ == "__main__":
    sys.exit(run("tune"))
