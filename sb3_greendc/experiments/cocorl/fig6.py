"""CoCoRL, Fig. 6: completion by load."""

from __future__ import annotations

from sb3_greendc.experiments.cocorl.loads import levels_experiment

EXPERIMENT = levels_experiment(
    "cocorl-fig6",
    "share of jobs completed at loads of 20 to 120 %",
    "completion_ratio",
    "finished, late or not, of the jobs that arrived",
)
