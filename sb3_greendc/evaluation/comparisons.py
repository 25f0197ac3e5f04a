"""Probability of improvement and performance profiles, with bootstrap intervals.

Both are recommended by Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (NeurIPS 2021), sections 4.2 and 4.3, and given by their package rliable, with whose results
ours are compared in the tests. We cannot depend on it: it brings arch, statsmodels and seaborn, and arch
cannot be imported beside pandas 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from greendc.config import require_one_of
from sb3_greendc.evaluation.metrics import LOWER_IS_BETTER
from sb3_greendc.evaluation.statistics import (
    Interval,
    Table,
    check_columns,
    check_pairs,
    check_resampling,
    common_episodes,
    draw_counts,
    episodes_of,
    percentile_interval,
    strata,
)

PROFILE_POINTS = 101


def probability_of_improvement(
    a: ArrayLike | Sequence[ArrayLike],
    b: ArrayLike | Sequence[ArrayLike],
    paired: bool = False,
    confidence: float = 0.95,
    n_resamples: int = 2_000,
    seed: int = 0,
) -> Interval:
    """Return the probability that a value of ``a`` exceeds one of ``b``; a tie counts half.

    Unpaired, as in the paper (its equation 2): any value of ``a`` against any of ``b`` (Mann and
    Whitney's U over the number of pairs), averaged over strata. Paired: values of the same episode only,
    which tells apart policies that differ less than episodes do.

    :param a: values ``(n,)``, or a list of arrays, one per stratum; paired also ``(runs, episodes)``
    :param b: values of the other policy
    :param paired: compare within episodes, every run of ``a`` with every run of ``b``
    :param confidence: coverage of the interval
    :param n_resamples: number of resamples
    :param seed: the resamples are the same each time
    :raises ValueError: for values that are not finite, or not of the same strata (paired: episodes)
    """
    check_resampling(confidence, n_resamples)
    of_a, of_b = strata(a), strata(b)
    if len(of_a) != len(of_b):
        raise ValueError(f"{len(of_a)} and {len(of_b)} strata")
    if paired:
        check_pairs(of_a, of_b)
    rng = np.random.default_rng(seed)
    compare = _compare_paired if paired else _compare
    each = [compare(one, other, rng, n_resamples) for one, other in zip(of_a, of_b, strict=True)]
    estimate = float(np.mean([stratum for stratum, _ in each]))
    return percentile_interval(estimate, np.mean([drawn for _, drawn in each], axis=0), confidence)


def performance_profile(
    values: ArrayLike | Sequence[ArrayLike],
    thresholds: ArrayLike,
    lower_is_better: bool = False,
    confidence: float = 0.95,
    n_resamples: int = 2_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the share of values better than each threshold, with pointwise intervals.

    :param values: as for :func:`~sb3_greendc.evaluation.statistics.bootstrap`
    :param thresholds: ``(k,)``
    :param lower_is_better: count values below a threshold, not those above
    :param confidence: coverage of each interval
    :param n_resamples: number of resamples
    :param seed: the resamples are the same each time
    :return: columns ``threshold``, ``share``, ``low``, ``high``
    """
    check_resampling(confidence, n_resamples)
    taus = np.asarray(thresholds, dtype=np.float64)
    rng = np.random.default_rng(seed)
    tables = strata(values)
    total = sum(table.size for table in tables)
    share, resampled = np.zeros(len(taus)), np.zeros((n_resamples, len(taus)))
    for table in tables:
        better = (table[..., None] < taus if lower_is_better else table[..., None] > taus).astype(np.float64)
        share += better.sum(axis=(0, 1)) / total
        rows = draw_counts(rng, len(table), n_resamples)
        columns = draw_counts(rng, table.shape[1], n_resamples)
        resampled += np.einsum("br,be,ret->bt", rows, columns, better, optimize=True) / total
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], axis=0)
    return pd.DataFrame({"threshold": taus, "share": share, "low": low, "high": high})


def improvements(
    results: pd.DataFrame,
    metrics: Sequence[str],
    reference: str,
    lower_is_better: frozenset[str] = LOWER_IS_BETTER,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return, for each environment and metric, how probably each policy does better than a reference.

    Policies are compared within episodes: both met the same ones.

    :param results: what :func:`~sb3_greendc.evaluation.paired.evaluate` returns
    :param metrics: columns of it
    :param reference: a policy
    :param lower_is_better: metrics of which less is better
    :param confidence: coverage of the intervals
    :return: columns ``env_id``, ``policy``, ``metric``, ``estimate``, ``low``, ``high``
    :raises ValueError: for an unknown metric or reference
    """
    check_columns(results, metrics)
    require_one_of("reference", reference, results["policy"].unique())
    rows = []
    for env_id, of_env in results.groupby("env_id", sort=False):
        for metric in metrics:
            sign = -1.0 if metric in lower_is_better else 1.0
            other = episodes_of(results, str(env_id), reference, metric)
            for policy in of_env["policy"].unique():
                table = episodes_of(results, str(env_id), policy, metric)
                pairs = list(common_episodes([table], [other]))
                if policy == reference or not pairs:
                    continue
                ((one, another),) = pairs
                found = probability_of_improvement(sign * one, sign * another, True, confidence)
                row = {"env_id": env_id, "policy": policy, "metric": metric}
                rows.append(row | {"estimate": found.estimate, "low": found.low, "high": found.high})
    return pd.DataFrame(rows, columns=["env_id", "policy", "metric", "estimate", "low", "high"])


def profiles(
    results: pd.DataFrame,
    metrics: Sequence[str],
    lower_is_better: frozenset[str] = LOWER_IS_BETTER,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return the performance profile of each policy, for each environment and metric.

    The thresholds are :data:`PROFILE_POINTS` from the least to the greatest value of any policy.

    :param results: what :func:`~sb3_greendc.evaluation.paired.evaluate` returns
    :param metrics: columns of it
    :param lower_is_better: metrics of which less is better
    :param confidence: coverage of the intervals
    :return: columns ``env_id``, ``policy``, ``metric``, ``threshold``, ``share``, ``low``, ``high``
    :raises ValueError: for an unknown metric
    """
    check_columns(results, metrics)
    parts = []
    for env_id, of_env in results.groupby("env_id", sort=False):
        for metric in metrics:
            least, most = of_env[metric].min(), of_env[metric].max()
            if np.isnan(least):
                continue
            margin = 0.02 * (most - least) or 1.0
            thresholds = np.linspace(least - margin, most + margin, PROFILE_POINTS)
            for policy in of_env["policy"].unique():
                table = episodes_of(results, str(env_id), policy, metric).dropna(axis="columns").to_numpy()
                if table.size:
                    part = performance_profile(table, thresholds, metric in lower_is_better, confidence)
                    parts.append(part.assign(env_id=env_id, policy=policy, metric=metric))
    columns = ["env_id", "policy", "metric", "threshold", "share", "low", "high"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


def relative_to(results: pd.DataFrame, metrics: Sequence[str], reference: str) -> pd.DataFrame:
    """Return the table with metrics as per cent change against a policy on the same episode.

    So metrics of different environments are on one scale. A reference of several runs is taken by its
    mean over runs. A change from 0 is undefined (NaN).

    :param results: what :func:`~sb3_greendc.evaluation.paired.evaluate` returns
    :param metrics: columns of it
    :param reference: a policy
    :raises ValueError: for an unknown metric or reference
    """
    check_columns(results, metrics)
    require_one_of("reference", reference, results["policy"].unique())
    changed = results.copy()
    of_reference = results[results["policy"] == reference].groupby(["env_id", "seed"])[list(metrics)].mean()
    keys = pd.MultiIndex.from_frame(results[["env_id", "seed"]])
    base = of_reference.reindex(keys).to_numpy(dtype=np.float64)
    values = results[list(metrics)].to_numpy(dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = 100 * (values - base) / np.abs(base)
    changed[list(metrics)] = np.where(base == 0, np.nan, change)
    return changed


def _compare(
    a: Table, b: Table, rng: np.random.Generator, n_resamples: int
) -> tuple[float, NDArray[np.float64]]:
    """Return the share of all pairs that ``a`` wins, and the same of resamples."""
    wins = _wins(a.ravel()[:, None], b.ravel()[None, :])
    drawn_a, drawn_b = (draw_counts(rng, n, n_resamples) for n in wins.shape)
    return float(wins.mean()), ((drawn_a @ wins) * drawn_b).sum(axis=1) / wins.size


def _compare_paired(
    a: Table, b: Table, rng: np.random.Generator, n_resamples: int
) -> tuple[float, NDArray[np.float64]]:
    """Return the share of pairs within episodes that ``a`` wins, and the same of resamples."""
    wins = _wins(a[:, None, :], b[None, :, :])
    drawn = [draw_counts(rng, n, n_resamples) for n in wins.shape]
    shares: NDArray[np.float64] = np.einsum("br,bs,be,rse->b", *drawn, wins, optimize=True) / wins.size
    return float(wins.mean()), shares


def _wins(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    wins: NDArray[np.float64] = (a > b) + 0.5 * (a == b)
    return wins
