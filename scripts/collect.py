"""Record a data set; see ``--help`` and :mod:`sb3_greendc.cli.collect`."""

import sys

from sb3_greendc.cli.collect import main

if __name__ == "__main__":
    sys.exit(main())
