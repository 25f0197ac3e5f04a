"""Margins of learners over heuristics, with intervals over training seeds and paired episodes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sb3_greendc.evaluation.statistics import Interval
from sb3_greendc.experiments.bounds import BOUND
from sb3_greendc.experiments.claims import BEST_OF_PAPER
from sb3_greendc.experiments.controls import CONTROLS, UNIFORM_MASKED, masked
from sb3_greendc.experiments.episodes import HEURISTICS, PAPER
from sb3_greendc.experiments.tasks import ALL_WAITING, FIRST_SLOT, NO_OVERTAKING

VALUE = "total_job_value"
BEST_OF_ALL = "best non-learning baseline"
BEST_MASKED = "best of the papers', masked"
FORMS: Mapping[str, Mapping[str, str]] = {
    "": {"dispatch": "skip"},
    ALL_WAITING: {"dispatch": "skip", "scope": "queue"},
    NO_OVERTAKING: {"dispatch": "block"},
    FIRST_SLOT: {"dispatch": "reserve", "scope": "queue"},
}
"""Ends of the names of the papers' heuristics, and parts of their variants: the better form of those that
start any job that fits, RARE's, the better form without overtaking, and that with the agents' action rule,
which quick budgets leave out."""
BESTS_OF_PAPER = tuple(BEST_OF_PAPER + ending for ending in FORMS)
_PARTS = {"dispatch": 1, "scope": 2}
_RESAMPLES = 4000


def final(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each training's last checkpoint, and those of baselines, as they are."""
    if "trained_decisions" not in rows or "train_seed" not in rows:
        return rows
    last = rows.groupby(["policy", "train_seed"])["trained_decisions"].transform("max")
    return rows[last.isna() | (rows["trained_decisions"] == last)]


def matrix(rows: pd.DataFrame, metric: str) -> NDArray[np.float64]:
    """Return a policy's results ``(training seeds, episodes)``; a baseline has one row."""
    seeds = rows["train_seed"].fillna(-1) if "train_seed" in rows else pd.Series(-1, rows.index)
    table = rows.assign(train_seed=seeds).pivot(index="train_seed", columns="episode", values=metric)
    return table.to_numpy(dtype=np.float64)


def margin(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> Interval:
    """Return by how many per cent our mean exceeds theirs, with a 95 % bootstrap interval.

    Training seeds and episodes are resampled independently of each other (both are samples of what one
    would like to know); an episode keeps its pair.

    :param ours: ``(training seeds, episodes)``
    :param theirs: ``(training seeds or 1, episodes)``, the same episodes
    """
    episodes, our_seeds, their_seeds = _resamples(ours.shape[1], len(ours), len(theirs))
    mean_ours = _means(ours, our_seeds, episodes)
    mean_theirs = _means(theirs, their_seeds, episodes)
    low, high = np.quantile(100 * (mean_ours / mean_theirs - 1), [0.025, 0.975])
    return Interval(float(100 * (ours.mean() / theirs.mean() - 1)), float(low), float(high))


def mean_interval(values: NDArray[np.float64]) -> Interval:
    """Return the mean over seeds and episodes with the interval that :func:`margin` draws."""
    episodes, seeds = _resamples(values.shape[1], len(values))
    low, high = np.quantile(_means(values, seeds, episodes), [0.025, 0.975])
    return Interval(float(values.mean()), float(low), float(high))


@functools.lru_cache
def _resamples(*numbers: int) -> tuple[NDArray[np.float64], ...]:
    """Return, for each number, resamples of so many things as shares ``(resamples, n)``."""
    rng = np.random.default_rng(0)
    return tuple(rng.multinomial(n, np.full(n, 1 / n), _RESAMPLES) / n for n in numbers)


def _means(
    values: NDArray[np.float64], seeds: NDArray[np.float64], episodes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean of ``(training seeds, episodes)`` in each resample."""
    means: NDArray[np.float64] = (seeds * (episodes @ values.T)).sum(axis=1)
    return means


def best_form(rows: pd.DataFrame, names: Sequence[str], metric: str, **only: str) -> str | None:
    """Return the variant of some baselines with the best mean, ``None`` if there is none.

    :param rows: episodes at one point
    :param names: names of baselines
    :param metric: the higher the better
    :param only: values that parts of the variant must have: ``dispatch="skip"``, ``scope="queue"``
    """
    of_names = rows[rows["baseline"].isin(names)]
    for name, value in only.items():
        parts, k = of_names["policy"].str.split("/"), _PARTS[name]
        of_names = of_names[np.array([len(part) <= k or part[k] == value for part in parts], np.bool_)]
    if of_names.empty:
        return None
    return str(of_names.groupby("policy")[metric].mean().idxmax())


def papers_forms(rows: pd.DataFrame, papers: Sequence[str], metric: str) -> list[tuple[str, str | None]]:
    """Return the variant that stands for each of the papers' heuristics, and for the best: in both forms.

    Parameters as for :func:`best_form`.
    """
    return [
        (name + ending, best_form(rows, names, metric, **only))
        for ending, only in FORMS.items()
        for name, names in (*((name, (name,)) for name in papers), (BEST_OF_PAPER, papers))
    ]


def compare(
    rows: pd.DataFrame,
    learners: Sequence[str],
    metric: str = VALUE,
    papers: Sequence[str] = PAPER,
) -> pd.DataFrame:
    """Return a row for each point, learner and rival, and one for each control.

    Rivals are the papers' heuristics (each in the better of its ready-pool and whole-queue forms, and in the
    other :data:`FORMS`), the best of them, the best of them under the learners'
    mask, chance under that mask, the best heuristic in any form, and the best of all policies that do not
    learn, rollouts among them. The best is chosen on the very episodes that decide, to its advantage.
    Controls, that is chance in its forms and the papers' best under the learners' mask, are compared with the
    papers' best alone.

    :param rows: episodes with columns ``series``, ``x``, ``policy``, ``baseline``, ``episode``
    :param learners: names of learners
    :param metric: the higher the better
    :param papers: heuristics that the paper has
    """
    return pd.DataFrame(
        row
        for (series, x), at_point in rows.groupby(["series", "x"], sort=False)
        for row in _compare_at(final(at_point), series, x, learners, metric, papers)
    )


def _compare_at(
    rows: pd.DataFrame,
    series: Any,
    x: Any,
    learners: Sequence[str],
    metric: str,
    papers: Sequence[str],
) -> Iterator[dict[str, Any]]:
    rivals = papers_forms(rows, papers, metric)
    best_masked = best_form(rows, masked(tuple(papers)), metric)
    rivals += [(BEST_MASKED, best_masked), (UNIFORM_MASKED, best_form(rows, [UNIFORM_MASKED], metric))]
    rivals.append(("best heuristic", best_form(rows, (*HEURISTICS, *masked(HEURISTICS)), metric)))
    policies = [name for name in rows["baseline"].dropna().unique() if name != BOUND]
    rivals.append((BEST_OF_ALL, best_form(rows, policies, metric)))
    bound = rows[rows["policy"] == BOUND]
    forms = {variant: rows[rows["policy"] == variant] for _, variant in rivals if variant is not None}
    theirs = {variant: matrix(of, metric) for variant, of in forms.items()}
    room = {variant: _bound_over(of, bound) if metric == VALUE else None for variant, of in forms.items()}
    compared = [(name, name, rivals) for name in learners]
    over_papers = [rival for rival in rivals if rival[0] in BESTS_OF_PAPER]
    compared += [(name, name, over_papers) for name in CONTROLS]
    if best_masked is not None:
        compared.append((BEST_MASKED, best_masked, over_papers))
    for learner, policy, against in compared:
        ours = rows[rows["policy"] == policy]
        if ours.empty:
            continue
        values = matrix(ours, metric)
        share = _percent_of_bound(ours, bound) if metric == VALUE else None
        for name, variant in against:
            if variant is None:
                continue
            found = margin(values, theirs[variant])
            yield {
                "series": series,
                "x": x,
                "metric": metric,
                "learner": learner,
                "kind": "learner" if learner in learners else "control",
                "seeds": len(values),
                "against": name,
                "form": variant,
                "ours": values.mean(),
                "theirs": theirs[variant].mean(),
                "margin_percent": found.estimate,
                "low": found.low,
                "high": found.high,
                "percent_of_bound": share,
                "bound_percent": room[variant],
            }


def _percent_of_bound(rows: pd.DataFrame, bound: pd.DataFrame) -> float | None:
    """Return a policy's mean over the bound's, in the episodes that have one: some of the first."""
    if bound.empty:
        return None
    bounded = rows[rows["episode"].isin(bound["episode"])]
    return float(100 * bounded[VALUE].mean() / bound[VALUE].mean())


def _bound_over(rows: pd.DataFrame, bound: pd.DataFrame) -> float | None:
    """Return by how many per cent the bound exceeds a policy: no policy can exceed it by more."""
    share = _percent_of_bound(rows, bound)
    return None if share is None else 100 * (100 / share - 1)


def summary(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return mean and interval of each metric, for each point and policy."""
    found = []
    for (series, x, policy), of_policy in rows.groupby(["series", "x", "policy"], sort=False):
        last = final(of_policy)
        for metric in metrics:
            values = matrix(last, metric)
            if np.isnan(values).any():
                continue
            interval = mean_interval(values)
            found.append(
                {
                    "series": series,
                    "x": x,
                    "policy": policy,
                    "metric": metric,
                    "seeds": len(values),
                    "episodes": values.shape[1],
                    "estimate": interval.estimate,
                    "low": interval.low,
                    "high": interval.high,
                }
            )
    return pd.DataFrame(found)
