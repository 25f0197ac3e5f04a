"""``python -m sb3_greendc``: the same as the command ``greendc``."""

import sys

from sb3_greendc.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
