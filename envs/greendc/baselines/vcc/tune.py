"""Tune ``moer_threshold`` on the training months: ``python -m greendc.baselines.vcc.tune``."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from greendc.baselines.vcc.policy import VCCPolicy
from greendc.baselines.vcc.rules import MoerThreshold
from greendc.config import require
from greendc.registration import make_simulator
from greendc.vcc import SPLITS, VCCSimulator

QUANTILES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
LOWS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
HIGHS = (0.9, 1.0)


def tune_threshold(
    env_id: str = "VCC-2019",
    seeds: Sequence[int] = (0, 1, 2, 3),
    quantiles: Sequence[float] = QUANTILES,
    lows: Sequence[float] = LOWS,
    highs: Sequence[float] = HIGHS,
    **kwargs: Any,
) -> pd.DataFrame:
    """Try a grid of thresholds on every month of the training split, each with every seed.

    :param env_id: an id of the family; its own month plays no part
    :param seeds: seeds of the job days drawn
    :param kwargs: keyword arguments of the environment
    :return: a row a threshold, best first: ``quantile``, ``low``, ``high``; means over the episodes of
        ``total_cost``, ``carbon_kg`` and ``overdue_work``; ``carbon_change`` and ``total_change``, mean
        changes against the no-delay schedule's carbon (shares)
    :raises ValueError: for an id of another family, or no seeds
    """
    require(len(seeds) > 0, "seeds", seeds, "at least one")
    episodes = list(itertools.product(SPLITS["train"], seeds))
    simulator = make_simulator(env_id, len(episodes), **{**kwargs, "split": "train", "month": None})
    if not isinstance(simulator, VCCSimulator):
        raise ValueError(f"env_id={env_id!r}: must be a VCC environment")
    rows = []
    for quantile, low, high in itertools.product(quantiles, lows, highs):
        policy = MoerThreshold(simulator, quantile, low, high)
        rows.append({"quantile": quantile, "low": low, "high": high, **_score(policy, episodes)})
    return pd.DataFrame(rows).sort_values("total_cost", ignore_index=True)


def _score(policy: VCCPolicy, episodes: Sequence[tuple[str, int]]) -> dict[str, float]:
    simulator = policy.simulator
    for i, (month, seed) in enumerate(episodes):
        simulator.reset_env(i, np.random.default_rng(seed), {"month": month})
    observations = simulator.empty_observations()
    simulator.observe(observations)
    for _ in range(simulator.hours):
        simulator.step(policy.predict(observations)[0], observations)
    table = pd.DataFrame([simulator.episode_metrics(i) for i in range(simulator.num_envs)])
    scores = {name: float(table[name].mean()) for name in ("total_cost", "carbon_kg", "overdue_work")}
    for name, metric in (("carbon_change", "carbon_kg"), ("total_change", "total_cost")):
        scores[name] = float((table[metric] / table["carbon_no_delay_kg"]).mean() - 1)
    return scores


def main() -> None:
    """Print the ten best thresholds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="VCC-2019", help="environment id")
    parser.add_argument("--seeds", type=int, default=4, help="seeds of each training month")
    parser.add_argument("--workload", default="google_like", help="as in VCCConfig")
    arguments = parser.parse_args()
    table = tune_threshold(arguments.env, range(arguments.seeds), workload=arguments.workload)
    print(table.head(10).to_string(float_format="{:.3f}".format))


if __name__ == "__main__":
    main()
