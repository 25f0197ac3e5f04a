"""What commands show of each family's metrics: which first, in what unit, and whether more is better."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

MAIN_METRICS = {
    "vcc": ("return", "carbon_kg", "carbon_per_work", "overdue_work", "mean_delay", "p97_delay"),
    "resource_pool": (
        "return",
        "total_job_value_ratio",
        "on_time_ratio",
        "completion_ratio",
        "utilization",
        "accrued_cost",
    ),
    "cluster": (
        "return",
        "mean_bounded_slowdown",
        "p95_wait_h",
        "longest_wait_h",
        "utilization",
        "carbon_kg",
    ),
}
"""What tables and figures show by default; result files have every metric."""

OTHER_METRICS = ("return", "cost", "length")
"""The same for environments of other packages."""

TRADE_OFFS = {
    "vcc": ("carbon_kg", "overdue_work"),
    "resource_pool": ("total_job_value", "cost"),
    "cluster": ("mean_bounded_slowdown", "carbon_kg"),
}
"""Objective and constraint of each family."""

LOWER_IS_BETTER = frozenset(
    {
        *("cost", "accrued_cost", "accrued_cost_per_step", "total_cost", "page_shortfall"),
        *("carbon_kg", "carbon_per_work", "carbon_change", "brown_kwh", "curtailed_kwh"),
        *("critical_unserved_kwh", "overdue_work", "days_violated", "mean_delay", "p97_delay"),
        *("evictions", "lost_work", "queued_work", "outside_jobs", "qos_violations", "mean_slowdown"),
        *("mean_bounded_slowdown", "mean_wait_h", "p95_wait_h", "longest_wait_h", "energy_kwh", "span_h"),
        *("wasted_processor_hours", "excess_processor_hours", "preemptions", "decisions"),
        *("mean_wait", "left_jobs", "invalid_actions", "power_suspensions", "broken_reservations"),
        *("agent_suspensions", "grid_cost", "settled_carbon_kg", "battery_shortfall_kwh"),
        *("switched_units", "switching_kwh"),
    }
)
"""Metrics of which less is better; of all others more is."""

UNITS = {
    "carbon_kg": "kg CO₂",
    "carbon_no_delay_kg": "kg CO₂",
    "carbon_per_work": "kg CO₂ / unit-hour",
    "carbon_change": "%",
    "overdue_work": "unit-hours",
    "page_shortfall": "unit-hours",
    "queued_work": "unit-hours",
    "lost_work": "unit-hours",
    "mean_delay": "h",
    "p97_delay": "h",
    "mean_wait": "steps",
    "mean_wait_h": "h",
    "p95_wait_h": "h",
    "longest_wait_h": "h",
    "span_h": "h",
}


CARBON = ("carbon_kg", "brown_kwh")
"""What is shown besides, where power from the grid was used or carbon was emitted."""


def main_metrics(results: pd.DataFrame) -> tuple[str, ...]:
    """Return the metrics that are shown by default of a table of episodes: carbon, too, if there is any.

    :param results: what :func:`~sb3_greendc.evaluation.paired.evaluate` returns
    """
    family = _family(results.columns)
    if family is None:
        return OTHER_METRICS
    emitted = [metric for metric in CARBON if _has(results, metric)]
    usual = [metric for metric in MAIN_METRICS[family] if metric not in CARBON or metric in emitted]
    return (*usual, *(metric for metric in emitted if metric not in usual))


def trade_off(results: pd.DataFrame) -> tuple[str, str]:
    """Return the objective and what policies trade against it: a cost, or else carbon.

    :param results: what :func:`~sb3_greendc.evaluation.paired.evaluate` returns
    """
    family = _family(results.columns)
    objective, cost = ("return", "cost") if family is None else TRADE_OFFS[family]
    if family is not None and not _has(results, cost) and _has(results, CARBON[0]):
        return objective, CARBON[0]
    return objective, cost


def _has(results: pd.DataFrame, metric: str) -> bool:
    """Tell whether any episode has a value other than 0 of a metric."""
    return metric in results and bool((results[metric].fillna(0) != 0).any())


def label(metric: str, unit: str | None = None) -> str:
    """Return a metric's name as axes show it, with its unit, or with one that is given instead."""
    words = metric.replace("_kwh", "").replace("_kg", "").removesuffix("_h").replace("_", " ")
    unit = unit or UNITS.get(metric, "kWh" if metric.endswith("_kwh") else None)
    return words if unit is None else f"{words} ({unit})"


def _family(columns: Iterable[str]) -> str | None:
    """Return the family whose objective and constraint are there: ids may have been replaced by titles."""
    present = set(columns)
    return next((family for family, pair in TRADE_OFFS.items() if present.issuperset(pair)), None)
