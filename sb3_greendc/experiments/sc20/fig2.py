"""SC20, Fig. 2: reward over training, by arrival rate."""

from __future__ import annotations

from sb3_greendc.experiments.sc20.training import over_training

EXPERIMENT = over_training(
    "sc20-fig2", "A2C's reward over training at 20 to 100 % arrivals", ("accrued_reward",)
)
