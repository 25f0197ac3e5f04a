"""The experiments by name, each imported when it is asked for."""

from __future__ import annotations

import importlib

from greendc.config import nearest
from sb3_greendc.experiments.experiment import Experiment

EXPERIMENTS: dict[str, str] = {
    "rare-fig3": "rare.fig3",
    "rare-fig4": "rare.fig4",
    "rare-fig5": "rare.fig5",
    "rare-fig6": "rare.fig6",
    "rare-fig7": "rare.fig7",
    "rare-fig8": "rare.fig8",
    "rare-large": "rare.large",
    "rare-table1": "rare.table1",
    "rare-mixed": "rare.mixed",
    **{f"sc20-fig{number}": f"sc20.fig{number}" for number in range(2, 7)},
    **{f"cocorl-fig{number}": f"cocorl.fig{number}" for number in range(5, 13)},
    "as-printed": "as_printed",
    "discrete-sac-curves": "curves",
    "pid-ppo-limits": "pid_limits",
    "vcc-shift": "vcc_shift",
    "crr-online": "online",
    "what-earns-the-margin": "ladder",
    "rlscheduler": "rlscheduler.table",
    "rlscheduler-power": "rlscheduler.power",
    "exact": "exact.experiment",
    "learners": "known.online",
    "learners-offline": "known.offline",
    "learners-limits": "known.limits",
    "carbon-frontier": "carbon.frontier",
    "carbon-site": "carbon.site",
}
"""Module of each experiment in this package; it defines ``EXPERIMENT``."""


def experiment_names() -> tuple[str, ...]:
    """Return the names of all experiments."""
    return tuple(EXPERIMENTS)


def load_experiment(name: str) -> Experiment:
    """Return an experiment.

    :raises ValueError: for an unknown name; the message names the nearest known one
    """
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise ValueError(f"unknown experiment {name!r}{nearest(name, EXPERIMENTS)} (known: {known})")
    module = importlib.import_module(f"sb3_greendc.experiments.{EXPERIMENTS[name]}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
