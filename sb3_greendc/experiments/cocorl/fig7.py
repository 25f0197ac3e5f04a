"""CoCoRL, Fig. 7: utilization by load."""

from __future__ import annotations

from sb3_greendc.experiments.cocorl.loads import levels_experiment

EXPERIMENT = levels_experiment(
    "cocorl-fig7", "utilization at loads of 20 to 120 %", "utilization", "units in use"
)
