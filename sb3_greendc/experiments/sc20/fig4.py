"""SC20, Fig. 4: reward and slowdown over training with 90 % of the power."""

from __future__ import annotations

from sb3_greendc.experiments.sc20.training import over_training

EXPERIMENT = over_training(
    "sc20-fig4", "A2C over training with 90 % of the power", ("accrued_reward", "mean_slowdown"), 0.9
)
