"""Train, judge and show in minutes; see ``--help`` and :mod:`sb3_greendc.cli.demo`."""

import sys

from sb3_greendc.cli.launch import run

if __name__ == "__main__":
    sys.exit(run("demo"))
