"""Study planners; see ``--help`` and :mod:`sb3_greendc.cli.planners`."""

import sys

from sb3_greendc.cli.planners import main

if __name__ == "__main__":
    sys.exit(main())
