"""Propose limits on cost; see ``--help`` and :mod:`sb3_greendc.cli.calibrate_cost_limit`."""

import sys

from sb3_greendc.cli.launch import run

if __name__ == "__main__":
    sys.exit(run("calibrate_cost_limit"))
