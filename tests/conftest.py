"""One thread for each test process: several, on two cores, would wait for each other most of the time."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
