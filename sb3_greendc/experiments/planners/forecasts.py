"""Virtual capacity curves: what each forecast is worth to the planner that plans again every hour."""

from __future__ import annotations

import pandas as pd

from sb3_greendc.evaluation.bounds import SHARE, add_share_of_bound
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.evaluation.statistics import bootstrap, paired_difference
from sb3_greendc.experiments.planners.common import interval, markdown

ENV_IDS = ("VCC-2019", "VCC-2021")
FORECASTS = ("oracle", "noisy", "sgip", "persistence")
POLICY = "rolling"
NO_DELAY = "always_on"
COST = "total_cost"


def study(episodes: int) -> pd.DataFrame:
    """Return a row for each month and forecast.

    Columns: ``env_id``, ``forecast``, ``cost`` (carbon and overdue work) with ``low`` and ``high``,
    ``carbon``, ``overdue``, ``saving`` against ``always_on`` in per cent, what perfect information would be
    ``worth`` in per cent of that policy's cost, with ``worth_low`` and ``worth_high``, the ``bound``, and the
    ``share`` of the greatest saving that it leaves possible.

    :param episodes: of each, seeded from 0 on: the emissions are those of the month, the days of jobs are
        drawn anew
    """
    rows = []
    for env_id in ENV_IDS:
        played = {}
        for forecast in FORECASTS:
            results = evaluate(
                [POLICY, NO_DELAY], env_id, episodes, env_kwargs={"forecast": forecast}, progress=True
            )
            results = add_share_of_bound(results, "lp", {"forecast": forecast}, progress=True)
            played[forecast] = results[results["policy"] == POLICY]
            base = float(results.loc[results["policy"] == NO_DELAY, COST].mean())  # no forecast changes it
        for forecast, planned in played.items():
            cost = bootstrap(planned[COST])
            worth = paired_difference(planned[COST], played["oracle"][COST])
            rows.append(
                {
                    "env_id": env_id,
                    "forecast": forecast,
                    "cost": cost.estimate,
                    "low": cost.low,
                    "high": cost.high,
                    "carbon": planned["carbon_kg"].mean(),
                    "overdue": planned["overdue_work"].mean(),
                    "saving": 100.0 * (1.0 - cost.estimate / base),
                    "worth": 100.0 * worth.estimate / base,
                    "worth_low": 100.0 * worth.low / base,
                    "worth_high": 100.0 * worth.high / base,
                    "share": planned[SHARE].mean(),
                    "bound": planned["bound"].mean(),
                    NO_DELAY: base,
                }
            )
    return pd.DataFrame(rows)


def describe(table: pd.DataFrame) -> str:
    """Return the Markdown of :func:`study`."""
    rows = [
        [
            row["env_id"],
            row["forecast"],
            interval(row, "cost", form=".1f"),
            f"{row['carbon']:.1f}",
            f"{row['overdue']:.1f}",
            f"{row['saving']:.1f}",
            f"{100 * row['share']:.0f}",
            interval(row, "worth", "worth_low", "worth_high", ".2f"),
        ]
        for _, row in table.iterrows()
    ]
    heads = ["month", "forecast", "cost", "carbon", "overdue", "saved, %", "of the bound, %", "would save, %"]
    return markdown(heads, rows)
