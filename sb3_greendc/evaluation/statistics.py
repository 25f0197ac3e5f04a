"""Means, interquartile means and paired differences with bootstrap intervals.

The statistics are those that Agarwal et al., "Deep Reinforcement Learning at the Edge of the
Statistical Precipice" (NeurIPS 2021), recommend: percentile bootstrap intervals, resampled within each
stratum (a task, an environment id), and the interquartile mean, which outliers cannot move and which
wastes less data than the median. :mod:`sb3_greendc.evaluation.comparisons` has the others of that paper.

What is drawn again is what a repetition would draw again. Of a policy that is not trained, episodes. Of
one that was trained several times, training runs and episodes, each by itself: all runs meet the same
episodes, so that runs and seeds of episodes are the two sides of a table, and rows and columns of it are
drawn (the pigeonhole bootstrap of Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 2007).
An interval over the episodes of given runs alone would say nothing of the next training run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from greendc.config import require, require_one_of
from greendc.lazy import LazyModule

if TYPE_CHECKING:
    from scipy import stats
else:
    stats = LazyModule("scipy.stats")


STATISTICS = ("mean", "iqm")
"""Arithmetic mean; mean of the middle half of the values."""

Table: TypeAlias = NDArray[np.float64]
"""Values ``(runs, episodes)`` of a policy in one environment; all runs have the same episodes."""

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

    :param values: a stratum, or a list of arrays, one per stratum. A stratum is ``(n,)`` values, or
        ``(runs, episodes)`` of several runs on the same episodes, of which both are drawn
    :param statistic: one of :data:`STATISTICS`
    :param confidence: coverage of the interval
    :param n_resamples: number of resamples
    :param seed: the resamples are the same each time
    :raises ValueError: for no values, values that are not finite, or wrong parameters
    """
    require_one_of("statistic", statistic, STATISTICS)
    check_resampling(confidence, n_resamples)
    tables = strata(values)
    rng = np.random.default_rng(seed)
    chunk = max(1, _CHUNK // sum(table.size for table in tables))
    sizes = [min(chunk, n_resamples - done) for done in range(0, n_resamples, chunk)]
    estimates = np.concatenate([_resample(tables, size, statistic, rng) for size in sizes])
    estimate = _statistic(np.concatenate([table.ravel() for table in tables])[None], statistic)[0]
    return percentile_interval(float(estimate), estimates, confidence)


def paired_difference(
    a: ArrayLike | Sequence[ArrayLike],
    b: ArrayLike | Sequence[ArrayLike],
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Return the mean of ``a - b`` with its bootstrap interval, pairs kept together.

    :param a: values of one policy, episode by episode: ``(episodes,)`` or ``(runs, episodes)``, or a list
        of such, one per stratum
    :param b: values of another on the same episodes; the numbers of runs may differ
    :param confidence: coverage of the interval
    :param n_resamples: number of resamples
    :param seed: the resamples are the same each time
    :raises ValueError: if the two are not of the same episodes, or as :func:`bootstrap`
    """
    check_resampling(confidence, n_resamples)
    of_a, of_b = strata(a), strata(b)
    check_pairs(of_a, of_b)
    rng = np.random.default_rng(seed)
    total = sum(one.shape[1] for one in of_a)
    estimate, resampled = 0.0, np.zeros(n_resamples)
    for one, other in zip(of_a, of_b, strict=True):
        episodes = draw_counts(rng, one.shape[1], n_resamples)
        difference = one.mean(axis=0) - other.mean(axis=0)
        estimate += difference.sum() / total
        drawn = _drawn_means(rng, one, n_resamples) - _drawn_means(rng, other, n_resamples)
        resampled += (drawn * episodes).sum(axis=1) / total
    return percentile_interval(float(estimate), resampled, confidence)


def summarize(
    results: pd.DataFrame,
    metrics: Sequence[str],
    statistic: str = "mean",
    reference: str | None = None,
    confidence: float = 0.95,
    pooled: str | None = None,
) -> pd.DataFrame:
    """Reduce a table of episodes to one row for each environment, policy and metric.

    Episodes in which a metric is undefined (NaN) in any run are left out of it.

    :param results: what :func:`~sb3_greendc.evaluation.paired.evaluate` returns, for one or several
        environments
    :param metrics: columns of it
    :param statistic: one of :data:`STATISTICS`
    :param reference: a policy; adds its name as ``reference``, and ``difference``, ``difference_low`` and
        ``difference_high``, the paired mean difference to it
    :param confidence: coverage of the intervals
    :param pooled: adds rows over all environments under this ``env_id``, each environment a stratum, in which
        all values count alike: policies should have as many runs in each. Undefined for a policy that lacks
        an environment in which others have the metric. The metrics should be on one scale in all
    :return: columns ``env_id``, ``policy``, ``metric``, ``n`` (values), ``runs``, ``estimate``, ``low``,
        ``high``
    :raises ValueError: for an unknown metric or reference, or an episode that a run has twice
    """
    check_columns(results, metrics)
    if reference is not None:
        require_one_of("reference", reference, results["policy"].unique())
    groups = {str(env_id): [str(env_id)] for env_id in results["env_id"].unique()}
    if pooled is not None:
        groups[pooled] = list(groups)
    rows = []
    for title, env_ids in groups.items():
        of_group = results[results["env_id"].isin(env_ids)]
        for policy in of_group["policy"].unique():
            for metric in metrics:
                tables = [episodes_of(results, env_id, policy, metric) for env_id in env_ids]
                if title == pooled and _lacks_an_environment(tables, of_group, metric, env_ids):
                    tables = [table.iloc[:, :0] for table in tables]
                row = {"env_id": title, "policy": policy, "metric": metric}
                row |= _columns(tables, statistic, confidence)
                if reference == policy:
                    names = ("difference", "difference_low", "difference_high")
                    row |= {"reference": reference, **dict.fromkeys(names, 0.0 if row["n"] else np.nan)}
                elif reference is not None:
                    others = [episodes_of(results, env_id, reference, metric) for env_id in env_ids]
                    row |= {"reference": reference, **_difference_columns(tables, others, confidence)}
                rows.append(row)
    return pd.DataFrame(rows)


def check_columns(results: pd.DataFrame, metrics: Sequence[str]) -> None:
    """Raise a ``ValueError`` unless a table is one of episodes, and has numbers of each metric.

    :param results: what may be none
    :param metrics: columns of it
    """
    known = [str(column) for column in results.columns]
    for column in ("policy", "env_id", "seed"):
        if column not in known:
            raise ValueError(
                f"results: no column {column!r}; every table of episodes has policy, env_id, seed"
            )
        if results[column].isna().any():
            raise ValueError(f"results: {column} is missing in {int(results[column].isna().sum())} rows")
    if isinstance(metrics, str):
        raise ValueError(f"metrics={metrics!r}: must be a list of columns")
    for metric in metrics:
        require_one_of("metric", metric, known)
        try:
            results[metric].to_numpy(dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"metric={metric!r}: must be a column of numbers ({error})") from error


def episodes_of(results: pd.DataFrame, env_id: str, policy: str, metric: str) -> pd.DataFrame:
    """Return a policy's values of a metric: a row per run, a column per seed; NaN where there is none.

    :param results: a table of episodes; without a column ``run``, each policy has one run
    :raises ValueError: if a run has an episode twice, the runs have none in common, or a value is infinite
    """
    chosen = results[(results["env_id"] == env_id) & (results["policy"] == policy)]
    runs = chosen["run"] if "run" in chosen else pd.Series(0, index=chosen.index)
    keys = pd.MultiIndex.from_arrays([runs, chosen["seed"]], names=["run", "seed"])
    if keys.has_duplicates:
        run, seed = keys[keys.duplicated()][0]
        raise ValueError(
            f"policy {policy!r} has the episode of seed {seed} twice in {env_id}, run {run}: "
            "name policies of different results apart"
        )
    shared = keys.get_level_values("seed").value_counts().max() if len(keys) else 0
    if shared < len(runs.unique()):
        raise ValueError(
            f"policy {policy!r}: its {len(runs.unique())} runs have no episode in common in {env_id}: "
            "runs of one policy must have the same seeds; name policies of different results apart"
        )
    values = pd.Series(chosen[metric].to_numpy(dtype=np.float64), index=keys)
    infinite = np.isinf(values)
    if infinite.any():
        run, seed = values.index[infinite][0]
        raise ValueError(
            f"policy {policy!r} has {metric}={values[run, seed]} in the episode of seed {seed} of {env_id}, "
            f"run {run}: must be finite, or empty where it is undefined"
        )
    return values.unstack("seed")


def strata(values: ArrayLike | Sequence[ArrayLike]) -> list[Table]:
    """Return each stratum as ``(runs, episodes)``; single values are episodes of one run.

    :raises ValueError: for no values, values that are not finite, or more than two dimensions
    """
    nested = isinstance(values, list | tuple) and any(np.ndim(stratum) > 0 for stratum in values)
    tables = []
    for stratum in values if nested else [values]:  # type: ignore[union-attr]
        table = np.atleast_2d(np.asarray(stratum, dtype=np.float64))
        if table.ndim > 2:
            raise ValueError(f"values of shape {table.shape}: must be (episodes,) or (runs, episodes)")
        if table.size == 0:
            raise ValueError("no values to take a statistic of")
        if not np.isfinite(table).all():
            raise ValueError("values must be finite")
        tables.append(table)
    if not tables:
        raise ValueError("no values to take a statistic of")
    return tables


def check_pairs(a: Sequence[Table], b: Sequence[Table]) -> None:
    """Raise a ``ValueError`` unless two policies have the same strata with as many episodes."""
    episodes = [[table.shape[1] for table in tables] for tables in (a, b)]
    if episodes[0] != episodes[1]:
        raise ValueError(f"pairs of {episodes[0]} and {episodes[1]} episodes")


def check_resampling(confidence: float, n_resamples: int) -> None:
    """Raise a ``ValueError`` for a confidence or a number of resamples that makes no sense."""
    require(0 < confidence < 1, "confidence", confidence, "between 0 and 1")
    require(n_resamples >= 1, "n_resamples", n_resamples, "1 or more")


def draw_counts(rng: np.random.Generator, n: int, n_resamples: int) -> NDArray[np.float64]:
    """Return how often each of ``n`` things is drawn in each resample, ``(n_resamples, n)``."""
    return rng.multinomial(n, np.full(n, 1 / n), size=n_resamples).astype(np.float64)


def percentile_interval(estimate: float, resampled: NDArray[np.float64], confidence: float) -> Interval:
    """Return an estimate with the quantiles of its resampled values that enclose ``confidence``."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Interval(estimate, float(low), float(high))


def _columns(tables: Iterable[pd.DataFrame], statistic: str, confidence: float) -> dict[str, float]:
    whole = [table.dropna(axis="columns").to_numpy() for table in tables]
    whole = [table for table in whole if table.size]
    if not whole:
        return {"n": 0, "runs": 0, "estimate": np.nan, "low": np.nan, "high": np.nan}
    interval = bootstrap(whole, statistic, confidence)
    return {
        "n": sum(table.size for table in whole),
        "runs": max(len(table) for table in whole),
        "estimate": interval.estimate,
        "low": interval.low,
        "high": interval.high,
    }


def _lacks_an_environment(
    tables: Sequence[pd.DataFrame], results: pd.DataFrame, metric: str, env_ids: Sequence[str]
) -> bool:
    """Tell whether a policy has no value of a metric in one of the environments where others have some."""
    there = results.groupby("env_id")[metric].count()
    return any(
        there[env_id] and not table.notna().any(axis=None)
        for table, env_id in zip(tables, env_ids, strict=True)
    )


def _difference_columns(
    tables: Iterable[pd.DataFrame], others: Iterable[pd.DataFrame], confidence: float
) -> dict[str, float]:
    pairs = list(common_episodes(tables, others))
    if not pairs:
        return {"difference": np.nan, "difference_low": np.nan, "difference_high": np.nan}
    interval = paired_difference([a for a, _ in pairs], [b for _, b in pairs], confidence)
    return {
        "difference": interval.estimate,
        "difference_low": interval.low,
        "difference_high": interval.high,
    }


def common_episodes(
    tables: Iterable[pd.DataFrame], others: Iterable[pd.DataFrame]
) -> Iterable[tuple[Table, Table]]:
    """Yield, for each stratum with any, the values of two policies in episodes defined for both."""
    for one, other in zip(tables, others, strict=True):
        a, b = one.dropna(axis="columns"), other.dropna(axis="columns")
        seeds = a.columns.intersection(b.columns)
        if len(seeds):
            yield a[seeds].to_numpy(), b[seeds].to_numpy()


def _resample(
    tables: Sequence[Table], n_resamples: int, statistic: str, rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = [_draw(table, n_resamples, rng) for table in tables]
    return _statistic(np.concatenate(drawn, axis=1), statistic)


def _draw(table: Table, n_resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw rows and columns of a table, ``(n_resamples, runs * episodes)``."""
    runs, episodes = table.shape
    columns = rng.integers(episodes, size=(n_resamples, episodes))
    if runs == 1:
        of_one: NDArray[np.float64] = table[0, columns]
        return of_one
    rows = rng.integers(runs, size=(n_resamples, runs))
    return table[rows[:, :, None], columns[:, None, :]].reshape(n_resamples, -1)


def _drawn_means(rng: np.random.Generator, table: Table, n_resamples: int) -> NDArray[np.float64]:
    """Return the mean of each episode over runs that are drawn, ``(n_resamples or 1, episodes)``."""
    runs = len(table)
    if runs == 1:
        return table
    means: NDArray[np.float64] = draw_counts(rng, runs, n_resamples) @ table / runs
    return means


def _statistic(values: NDArray[np.float64], statistic: str) -> NDArray[np.float64]:
    """Reduce ``(resamples, values)`` to ``(resamples,)``."""
    result = values.mean(axis=1) if statistic == "mean" else stats.trim_mean(values, 0.25, axis=1)
    return np.asarray(result, dtype=np.float64)
