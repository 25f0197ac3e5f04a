"""Make or fetch data files; see ``--help`` and :mod:`sb3_greendc.cli.fetch_traces`."""

import sys

from sb3_greendc.cli.launch import run

if __name__ == "__main__":
    sys.exit(run("fetch_traces"))
