"""CoCoRL, Fig. 5: total job value by load."""

from __future__ import annotations

from sb3_greendc.experiments.cocorl.loads import SWEEP

EXPERIMENT = SWEEP.experiment(
    "cocorl-fig5", "total job value at loads of 20 to 120 % (10 units, synthetic jobs)"
)
