"""One thread for each test process: several, on two cores, would wait for each other most of the time.

Maintainers' commands are imported from ``tools/``, what measures speed from ``benchmarks/``.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tools")]
