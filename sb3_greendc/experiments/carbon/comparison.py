"""Value at equal carbon: hulls of policies that emit more or less, and gains of one hull over another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sb3_greendc.evaluation.statistics import Interval, percentile_interval

Floats = NDArray[np.float64]

VALUE, CARBON = "total_job_value_ratio", "carbon_total_kg"
GREEN = "green_kwh"
"""Energy of sun and wind that was used or stored."""
SOURCES = (GREEN, "brown_kwh", "battery_charged_kwh", "battery_discharged_kwh", "switched_units")
"""Columns that say where an episode's energy came from."""
_RESAMPLES = 1_000


def with_totals(rows: pd.DataFrame) -> pd.DataFrame:
    """Return episodes with :data:`CARBON`, what refilling the battery adds included, and :data:`GREEN`.

    :param rows: of pools with a site; where power is not commanded nothing is settled
    """
    settled = rows["settled_carbon_kg"].fillna(0.0)
    green = rows["solar_kwh"] + rows["wind_kwh"] - rows["curtailed_kwh"]
    return rows.assign(**{CARBON: rows["carbon_kg"] + settled, GREEN: green})


def hull(points: pd.DataFrame) -> Floats:
    """Return the corners ``(n, 2)`` of the upper hull of carbon and value, the carbon rising.

    Between two corners lies what playing one policy in some episodes and the other in the rest gives.
    """
    return _hull(points[CARBON].to_numpy(), points[VALUE].to_numpy())


def _hull(kg: Floats, value: Floats) -> Floats:
    found: list[tuple[float, float]] = []
    for point in sorted(zip(kg.tolist(), value.tolist(), strict=True)):
        while len(found) > 1 and _is_below(found[-2], found[-1], point):
            found.pop()
        if found and point[0] == found[-1][0]:
            found.pop()
        found.append(point)
    best = int(np.argmax([value for _, value in found]))
    return np.array(found[: best + 1])


def _is_below(first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> bool:
    rise = (last[1] - first[1]) * (middle[0] - first[0])
    return bool((middle[1] - first[1]) * (last[0] - first[0]) <= rise)


def on_hull(means: pd.DataFrame) -> list[str]:
    """Return the policies on the hull of value over carbon, one row of ``means`` each."""
    corners = hull(means).tolist()
    return [str(row["policy"]) for _, row in means.iterrows() if [row[CARBON], row[VALUE]] in corners]


def policy_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean value and carbon of each policy, with its ``baseline``."""
    return rows.groupby(["policy", "baseline"], sort=False)[[VALUE, CARBON]].mean().reset_index()


def value_at(corners: Floats, kg: float) -> float:
    """Return the value at some carbon, NaN below the least of the corners."""
    if kg < corners[0, 0]:
        return float("nan")
    return float(np.interp(kg, corners[:, 0], corners[:, 1]))


def gain(rows: pd.DataFrame, ours: Sequence[str], rivals: Sequence[str], kg: float | None = None) -> Interval:
    """Return by how many per cent some policies earn more than others at equal carbon, with a 95 % interval.

    Of each side a mixture counts. Episodes are drawn again, and runs of what was trained several times; what
    a limit or the choice of rules owes to other episodes is not.

    :param rows: of one test; episodes that a policy did not play are left out for all
    :param ours: policies
    :param rivals: policies
    :param kg: the carbon, by default what the first of ``ours`` emits
    """
    rng = np.random.default_rng(0)
    kept = rows[rows["policy"].isin([*ours, *rivals])]
    played = kept.groupby("episode")["policy"].nunique()
    episodes = played.index[played == kept["policy"].nunique()]
    draws = rng.multinomial(len(episodes), np.full(len(episodes), 1.0 / len(episodes)), _RESAMPLES)
    weights = np.vstack([np.ones(len(episodes)), draws])
    means = [_means(kept[kept["policy"].isin(side)], episodes, weights, rng) for side in (ours, rivals)]
    first = list(dict.fromkeys(kept.loc[kept["policy"].isin(ours), "policy"])).index(ours[0])
    gains = []
    for (our_kg, our_value), (rival_kg, rival_value) in zip(*means, strict=True):
        at = our_kg[first] if kg is None else kg
        earned = our_value[first] if kg is None else value_at(_hull(our_kg, our_value), at)
        gains.append(100.0 * (earned / value_at(_hull(rival_kg, rival_value), at) - 1.0))
    return percentile_interval(gains[0], np.array(gains[1:]), 0.95)


def _means(rows: pd.DataFrame, episodes: pd.Index[int], weights: Floats, rng: np.random.Generator) -> Floats:
    """Return mean carbon and value ``(resamples, 2, policies)``; the first resample has every run once."""
    runs = rows.assign(run=rows["train_seed"].fillna(0)) if "train_seed" in rows else rows.assign(run=0)
    table = runs.pivot_table(index=["policy", "run"], columns="episode", values=[CARBON, VALUE], sort=False)
    values = np.stack([table[metric][episodes].to_numpy() for metric in (CARBON, VALUE)])
    counts = table.groupby(level="policy", sort=False).size().tolist()
    by_run = values @ weights.T / len(episodes)  # (2, policies and runs, resamples)
    found = []
    for part in np.split(by_run, np.cumsum(counts)[:-1], axis=1):
        size = part.shape[1]
        drawn = rng.multinomial(size, np.full(size, 1.0 / size), len(weights)) / size
        drawn[0] = 1.0 / size
        found.append(np.einsum("mrs,sr->sm", part, drawn))
    return np.stack(found, axis=2)


def interval_columns(name: str) -> tuple[str, str, str]:
    """Return the columns of an estimate and of its interval, as pages read them."""
    return f"{name}_percent", f"{name}_low", f"{name}_high"


def written(name: str, found: Interval) -> dict[str, float]:
    """Return an estimate and its interval by column."""
    ends = (found.estimate, found.low, found.high)
    return dict(zip(interval_columns(name), ends, strict=True))


def learners_at_limits(
    rows: pd.DataFrame, rules: Sequence[str], greedy: str, greedy_kg: float
) -> Iterator[dict[str, object]]:
    """Yield what each learner under a limit earned and emitted in each test, and against rules.

    :param rows: episodes; those of learners have a ``limit_share``
    :param rules: whose mixtures they are compared with, at the carbon that they emit
    :param greedy: policy of which the limit is a share
    :param greedy_kg: what it emits, as training took it
    """
    if "limit_share" not in rows:
        return
    for (learner, share, test), of_learner in rows.groupby(["policy", "limit_share", "test"], sort=False):
        of_test, kg = rows[rows["test"] == test], float(of_learner[CARBON].mean())
        yield {
            "series": test,
            "learner": learner,
            "seeds": of_learner["train_seed"].nunique(),
            "limit_share": share,
            "value": of_learner[VALUE].mean(),
            "carbon": kg,
            "carbon_over_limit_percent": 100.0 * (kg / (cast("float", share) * greedy_kg) - 1.0),
            "share_of_greedy": kg / of_test.loc[of_test["policy"] == greedy, CARBON].mean(),
            **written("over_rules", gain(of_test, [str(learner)], rules)),
        }
