"""Advise a live cluster; see ``--help`` and :mod:`sb3_greendc.cli.decide`."""

import sys

from sb3_greendc.cli.launch import run

if __name__ == "__main__":
    sys.exit(run("decide"))
