"""CoCoRL, Fig. 10: the accrued cost of delay by arrival rate, on the log, limit 2000."""

from __future__ import annotations

from sb3_greendc.experiments.cocorl.cost import cost_experiment
from sb3_greendc.experiments.printed import COCORL_LIMITS, cocorl

LIMIT = COCORL_LIMITS[1]

EXPERIMENT = cost_experiment(
    "cocorl-fig10",
    "accrued cost of delay by arrival rate on the HPC log, limit 2000",
    [(cocorl(LIMIT), LIMIT)],
)
