"""Make a release of a trained model; see ``--help`` and ``tools/make_release.py``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from sb3_greendc.cli.launch import run

if __name__ == "__main__":
    sys.exit(run("release", module="make_release"))
