"""CoCoRL, Fig. 11: what the integral gain does to the accrued cost, by arrival rate, on the log."""

from __future__ import annotations

from sb3_greendc.experiments.cocorl.cost import cost_experiment
from sb3_greendc.experiments.printed import COCORL_KI, COCORL_LIMITS, cocorl

LIMIT = COCORL_LIMITS[1]
"""The paper does not print the limit of this figure: that of Fig. 10."""

EXPERIMENT = cost_experiment(
    "cocorl-fig11",
    "accrued cost with Ki 1 and 0.01 by arrival rate on the HPC log (Kp 2, Kd 1)",
    [(cocorl(LIMIT), LIMIT), (cocorl(LIMIT, COCORL_KI[1], "CoCoRL as printed, Ki 0.01"), LIMIT)],
)
