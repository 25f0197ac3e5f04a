"""Train an algorithm; see ``--help`` and :mod:`sb3_greendc.cli.train`."""

import sys

from sb3_greendc.cli.train import main

if __name__ == "__main__":
    sys.exit(main())
