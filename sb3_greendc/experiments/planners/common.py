"""What the studies share: how learned policies see the scenario, estimates with intervals, Markdown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.policy_sources import PolicySource, takes_masks
from sb3_greendc.evaluation.statistics import Interval, summarize
from sb3_greendc.experiments.comparison import margin
from sb3_greendc.experiments.rollouts import strong

ENV_ID = "ResourcePool-10"
VALUE = "total_job_value"
RATIO = "total_job_value_ratio"
REFERENCE = "deadline_never"
BACKFILLED = f"{REFERENCE}:dispatch=easy,scope=queue"
CHANCE = "random"
LEARNED = "distilled"
ROLLOUTS = strong(512).spec
"""The best that does not learn."""
STUDENT: dict[str, Any] = {
    "mask": "now_on_time",
    "skip_forced": True,
    "lookahead": 24,
    "fragmentation": True,
}
"""Options of the environment for learned policies: what they choose from, and see. They narrow what is chosen
from, not what is earned."""


def estimates(results: pd.DataFrame, metric: str, reference: str) -> pd.DataFrame:
    """Return mean and paired gain of each policy, with 95 % intervals bootstrapped over runs and episodes.

    :param results: episodes of one environment
    :param metric: whose mean is taken
    :param reference: a policy; gains are per cent of its mean
    :return: columns ``policy``, ``mean``, ``low``, ``high``, ``gain``, ``gain_low``, ``gain_high``
    """
    table = summarize(results, [metric], reference=reference)
    base = float(table.loc[table["policy"] == reference, "estimate"].iloc[0])
    gains = 100.0 * table[["difference", "difference_low", "difference_high"]] / base
    gains.columns = pd.Index(["gain", "gain_low", "gain_high"])
    means = table[["policy", "estimate", "low", "high"]].rename(columns={"estimate": "mean"})
    return pd.concat([means, gains], axis=1)


def share_of(earned: pd.Series, bound: pd.Series) -> Interval:
    """Return the sum of some values in per cent of that of their bounds, with its 95 % interval.

    :param earned: one value an episode
    :param bound: of the same episodes, which are resampled with what was earned in them
    """
    found = margin(earned.to_numpy()[None], bound.to_numpy()[None])
    return Interval(100 + found.estimate, 100 + found.low, 100 + found.high)


def decision_time(source: PolicySource, scenario: dict[str, Any], decisions: int = 60) -> float:
    """Return the processor time in ms that a policy takes for a decision, asked alone."""
    env = source.prepare_env(make_vec_env(ENV_ID, 1, **scenario))
    policy: Any = source.policy_for(env)
    masked = takes_masks(policy)
    env.seed(10_000)
    observations: Any = env.reset()
    taken = []
    for _ in range(decisions + 1):
        masks = {"action_masks": np.array(env.env_method("action_masks"))} if masked else {}
        began = time.process_time()
        actions, _ = policy.predict(observations, deterministic=True, **masks)
        taken.append(time.process_time() - began)
        observations = env.step(actions)[0]
    env.close()
    return 1000.0 * float(np.mean(taken[1:]))  # the first one compiles


def interval(row: Any, name: str = "mean", low: str = "low", high: str = "high", form: str = ".3f") -> str:
    """Return ``estimate [low, high]`` of a row of a table."""
    return f"{row[name]:{form}} [{row[low]:{form}}, {row[high]:{form}}]"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
