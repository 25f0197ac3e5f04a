"""SC20, Fig. 3: slowdown over training, by arrival rate."""

from __future__ import annotations

from sb3_greendc.experiments.sc20.training import over_training

EXPERIMENT = over_training(
    "sc20-fig3", "A2C's mean slowdown over training at 20 to 100 % arrivals", ("mean_slowdown",)
)
