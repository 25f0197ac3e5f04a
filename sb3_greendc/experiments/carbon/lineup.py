"""Who competes where power is commanded without having learned: rules, plans, chance; and rows of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from greendc.baselines.resource_pool.outlooks import OUTLOOKS
from sb3_greendc.experiments.episodes import Baselines, Variant

if TYPE_CHECKING:
    import pandas as pd

ENV_ID = "ResourcePoolCarbon-10-v0"
YEARS = {"2019": "PGE-2019", "2021": "PGE-2021"}
GREEDY, PLAN = "grid_on", "power_plan"
CHANCE, RANDOM_ORDER = "random_actions", "random"
"""Any valid action; and jobs in a random order, every unit on where power is commanded."""
LIMITS = (0.45, 0.60, 0.75)
"""Carbon limits, as shares of what the greedy schedule, every unit on, emits in 2019."""
SHOWN_FORECAST = "oracle"
RULES = (
    Variant(GREEDY),
    *(Variant("grid_off", {"spares": spares}) for spares in (0, 2)),
    *(Variant("as_needed", {"spares": spares}) for spares in (2, 4, 6)),
    *(Variant("arbitrage", {"spares": spares}) for spares in (4, 6)),
    *(
        Variant("grid_qos", {"min_qos": qos, "spares": spares})
        for qos in (0.2, 0.4, 0.5, 0.6, 0.7)
        for spares in (2, 6)
    ),
    *(
        Variant("carbon_threshold", {"kg_price": price, "battery": battery, "spares": spares})
        for price in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
        for battery in ("auto", "arbitrage")
        for spares in (2, 6)
    ),
)
QUICK_RULES = tuple(
    rule
    for rule in RULES
    if rule.options.get("spares", 0) < 6 and rule.options.get("kg_price", 0.1) in (0.1, 0.2, 0.3)
)
PRICES = (0.05, 0.1, 0.15, 0.2, 0.3)
"""Values of a kg at which plans are made."""
QUICK_PRICES = (0.1, 0.25)
_PLAN_SECONDS = 4.2  # of an episode


@dataclass(frozen=True)
class Plans(Baselines):
    """Rolling plans: :class:`~sb3_greendc.experiments.episodes.Baselines` that take their time."""

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 5.0 + _PLAN_SECONDS * self.episodes * len(self.variants)


def is_plan(rows: pd.DataFrame) -> pd.Series[bool]:
    """Tell which rows are of the plan in both halves of the decisions, whatever its forecast."""
    return rows["baseline"] == PLAN


def is_rule(rows: pd.DataFrame) -> pd.Series[bool]:
    """Tell which rows are of rules."""
    return rows["baseline"].isin([rule.name for rule in RULES])


def has_shown_forecast(rows: pd.DataFrame) -> pd.Series[bool]:
    """Tell which rows are of policies whose name has none of the other forecasts."""
    others = [kind for kind in OUTLOOKS if kind != SHOWN_FORECAST]
    return ~rows["policy"].apply(lambda name: any(kind in name for kind in others))


def shown_plans(means: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of plans with exact forecasts."""
    return means[is_plan(means) & has_shown_forecast(means)]
