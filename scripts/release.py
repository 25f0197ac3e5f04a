"""Make a release of a trained model; see ``--help`` and :mod:`sb3_greendc.cli.release`."""

import sys

from sb3_greendc.cli.launch import run

if __name__ == "__main__":
    sys.exit(run("release"))
