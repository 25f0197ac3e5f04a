"""One thread for each test process: several, on two cores, would wait for each other most of the time.

Tests of maintainers' commands import them from ``tools/``.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
