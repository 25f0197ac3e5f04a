"""Means, interquartile means and paired differences with bootstrap intervals.

The statistics are those that Agarwal et al., "Deep Reinforcement Learning at the Edge of the
Statistical Precipice" (NeurIPS 2021), recommend: percentile bootstrap intervals, resampled within each
stratum (a task, an environment id), and the interquartile mean, which outliers cannot move and which
wastes less data than the median.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from greendc.config import require, require_one_of

STATISTICS = ("mean", "iqm")
"""Arithmetic mean; mean of the middle half of the values."""

_CHUNK = 4_000_000  # resampled values held at once: 32 MB


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its confidence interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"


def iqm(values: ArrayLike) -> float:
    """Return the interquartile mean: the mean of what is left without a quarter of the values at each end."""
    return float(stats.trim_mean(np.asarray(values, dtype=np.float64).ravel(), 0.25))


def bootstrap(
    values: ArrayLike | Sequence[ArrayLike],
    statistic: str = "mean",
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Return a statistic with its percentile bootstrap interval.

    Each resample draws as many values as there are, with replacement, from each stratum by itself; the
    statistic is taken over all strata together. Of a single value the interval is that value: one
    episode says nothing about its spread.

    :param values: values, or a list of arrays, one per stratum
    :param statistic: one of :data:`STATISTICS`
    :param confidence: coverage of the interval
    :param n_resamples: number of resamples
    :param seed: the resamples are the same each time
    :raises ValueError: for no values, values that are not finite, or wrong parameters
    """
    require_one_of("statistic", statistic, STATISTICS)
    require(0 < confidence < 1, "confidence", confidence, "between 0 and 1")
    require(n_resamples >= 1, "n_resamples", n_resamples, "1 or more")
    strata = _strata(values)
    rng = np.random.default_rng(seed)
    chunk = max(1, _CHUNK // sum(len(stratum) for stratum in strata))
    sizes = [min(chunk, n_resamples - done) for done in range(0, n_resamples, chunk)]
    estimates = np.concatenate([_resample(strata, size, statistic, rng) for size in sizes])
    tail = (1 - confidence) / 2
    low, high = np.quantile(estimates, [tail, 1 - tail])
    estimate = _statistic(np.concatenate(strata)[None], statistic)[0]
    return Interval(float(estimate), float(low), float(high))


def paired_difference(
    a: ArrayLike, b: ArrayLike, confidence: float = 0.95, n_resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Return the mean of ``a - b`` with its bootstrap interval, pairs kept together.

    :param a: values of one policy, episode by episode
    :param b: values of another on the same episodes
    :raises ValueError: if the two are not of one shape
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"pairs of {a.shape} and {b.shape} values")
    return bootstrap(a - b, "mean", confidence, n_resamples, seed)


def summarize(
    results: pd.DataFrame,
    metrics: Sequence[str],
    statistic: str = "mean",
    reference: str | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Reduce a table of episodes to one row for each environment, policy and metric.

    Episodes in which a metric is undefined (NaN) are left out of it.

    :param results: what :func:`~sb3_greendc.common.evaluation.evaluate` returns, for one or several
        environments
    :param metrics: columns of it
    :param statistic: one of :data:`STATISTICS`
    :param reference: a policy; adds ``difference``, ``difference_low`` and ``difference_high``, the paired
        mean difference to it
    :param confidence: coverage of the intervals
    :return: columns ``env_id``, ``policy``, ``metric``, ``n``, ``estimate``, ``low``, ``high``
    :raises ValueError: for an unknown metric or reference
    """
    for metric in metrics:
        require_one_of("metric", metric, [str(column) for column in results.columns])
    if reference is not None:
        require_one_of("reference", reference, results["policy"].unique())
    rows = []
    for env_id, of_env in results.groupby("env_id", sort=False):
        tables = {metric: of_env.pivot(index="seed", columns="policy", values=metric) for metric in metrics}
        for policy in of_env["policy"].unique():
            for metric, table in tables.items():
                row = {"env_id": env_id, "policy": policy, "metric": metric}
                row |= _columns(table[policy], statistic, confidence)
                if reference is not None:
                    pairs = table[policy] - table[reference]
                    difference = _columns(pairs, "mean", confidence)
                    row["difference"] = difference["estimate"]
                    row |= {f"difference_{end}": difference[end] for end in ("low", "high")}
                rows.append(row)
    return pd.DataFrame(rows)


def _columns(values: pd.Series[float], statistic: str, confidence: float) -> dict[str, float]:
    finite = values.dropna().to_numpy(dtype=np.float64)
    if len(finite) == 0:
        return {"n": 0, "estimate": np.nan, "low": np.nan, "high": np.nan}
    interval = bootstrap(finite, statistic, confidence)
    return {"n": len(finite), "estimate": interval.estimate, "low": interval.low, "high": interval.high}


def _strata(values: ArrayLike | Sequence[ArrayLike]) -> list[NDArray[np.float64]]:
    nested = isinstance(values, list | tuple) and any(np.ndim(stratum) > 0 for stratum in values)
    strata = [np.asarray(stratum, dtype=np.float64).ravel() for stratum in (values if nested else [values])]  # type: ignore[union-attr]
    for stratum in strata:
        if len(stratum) == 0:
            raise ValueError("no values to take a statistic of")
        if not np.isfinite(stratum).all():
            raise ValueError("values must be finite")
    return strata


def _resample(
    strata: list[NDArray[np.float64]], n_resamples: int, statistic: str, rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = [stratum[rng.integers(len(stratum), size=(n_resamples, len(stratum)))] for stratum in strata]
    return _statistic(np.concatenate(drawn, axis=1), statistic)


def _statistic(values: NDArray[np.float64], statistic: str) -> NDArray[np.float64]:
    """Reduce ``(resamples, values)`` to ``(resamples,)``."""
    result = values.mean(axis=1) if statistic == "mean" else stats.trim_mean(values, 0.25, axis=1)
    return np.asarray(result, dtype=np.float64)
