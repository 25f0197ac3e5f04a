"""Train, judge and show in minutes; see ``--help`` and :mod:`sb3_greendc.cli.demo`."""

import sys

from sb3_greendc.cli.demo import main

if __name__ == "__main__":
    sys.exit(main())
