"""CoCoRL, Fig. 12: what the limit does to the accrued cost, by arrival rate, on the log.

Beside the paper's two limits there is none: what such an agent costs is how the paper finds its limits (V-H).
"""

from __future__ import annotations

import math

from sb3_greendc.experiments.cocorl.cost import cost_experiment
from sb3_greendc.experiments.printed import COCORL_LIMITS, COCORL_UNLIMITED, cocorl

HIGH, LOW = COCORL_LIMITS

EXPERIMENT = cost_experiment(
    "cocorl-fig12",
    "accrued cost under limits of 7000 and 2000 by arrival rate on the HPC log",
    [
        (cocorl(LOW), LOW),
        (cocorl(HIGH, name="CoCoRL as printed, limit 7000"), HIGH),
        (COCORL_UNLIMITED, math.inf),
    ],
)
