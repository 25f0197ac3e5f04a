"""Behavioral cloning; see ``--help`` and :mod:`sb3_greendc.cli.clone`."""

import sys

from sb3_greendc.cli.clone import main

if __name__ == "__main__":
    sys.exit(main())
