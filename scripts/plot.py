"""Draw results and training logs; see ``--help`` and :mod:`sb3_greendc.cli.plot`."""

import sys

from sb3_greendc.cli.plot import main

if __name__ == "__main__":
    sys.exit(main())
