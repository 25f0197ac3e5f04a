"""Repeat the papers' experiments; see ``--help`` and :mod:`sb3_greendc.cli.reproduce`."""

import sys

from sb3_greendc.cli.reproduce import main

if __name__ == "__main__":
    sys.exit(main())
