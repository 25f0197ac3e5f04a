"""The papers' figures, repeated: an experiment each, run by ``scripts/reproduce.py``."""

from sb3_greendc.experiments.registry import experiment_names, load_experiment

__all__ = ["experiment_names", "load_experiment"]
