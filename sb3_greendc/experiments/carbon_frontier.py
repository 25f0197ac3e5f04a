"""Value against carbon where power is commanded: rules, rolling plans, chance, and what no policy exceeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from greendc.baselines.resource_pool.energy_programme import carbon_bound
from greendc.baselines.resource_pool.outlooks import OUTLOOKS
from greendc.resource_pool import ResourcePoolSimulator
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.experiments.episodes import TEST_SEED, Baselines, Variant
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import outer_legend, panels
from sb3_greendc.experiments.tasks import Item, Outcome, Scenario, Task

ENV_ID = "ResourcePoolCarbon-10-v0"
CHOOSING, HELD_OUT, SHIFTED = "2019, for choosing", "2019, held out", "2021"
YEARS = {"2019": "PGE-2019", "2021": "PGE-2021"}
GREEDY, PLAN, CHANCE = "grid_on", "power_plan", "random_actions"
LIMITS = (0.45, 0.60, 0.75)
"""Carbon limits, as shares of what the greedy schedule, every unit on, emits in 2019."""
SHOWN_FORECAST = "oracle"
VALUE, CARBON = "total_job_value_ratio", "carbon_total_kg"
ENERGY = (
    "solar_kwh",
    "wind_kwh",
    "brown_kwh",
    "battery_charged_kwh",
    "battery_discharged_kwh",
    "curtailed_kwh",
    "switching_kwh",
    "switched_units",
    "grid_cost",
)
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
BOUND_PRICES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
OTHER_FORECAST_PRICES = (0.1, 0.2)
_PLAN_SECONDS = 12.0  # of an episode


@dataclass(frozen=True)
class Plans(Baselines):
    """Rolling plans: :class:`~sb3_greendc.experiments.episodes.Baselines` that take their time."""

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 5.0 + _PLAN_SECONDS * self.episodes * len(self.variants)


@dataclass(frozen=True)
class Envelope(Task):
    """The bound on value less the price of carbon, at several prices, in the first test episodes.

    :param scenario: of a pool whose power is commanded
    :param prices: values of a kg
    :param episodes: number of episodes
    """

    scenario: Scenario
    prices: tuple[float, ...]
    episodes: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"bounds {self.scenario.env_id}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 2.0 + 0.6 * self.episodes * len(self.prices)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        env = make_vec_env(self.scenario.env_id, self.episodes, TEST_SEED, **self.scenario.env_kwargs)
        env.reset()
        assert isinstance(env, SimulatorVecEnv)
        assert isinstance(env.simulator, ResourcePoolSimulator)
        rows = [
            {"episode": k, "kg_price": price, "bound": carbon_bound(env.simulator, price, k).value}
            for k in range(self.episodes)
            for price in self.prices
        ]
        env.close()
        return Outcome({"bounds": pd.DataFrame(rows)})


def items(budget: Budget) -> list[Item]:
    """Return rules, plans, chance and bounds in both years; in the first, half of the episodes choose."""
    held_out = budget.pick(4, 24)
    prices = budget.pick(QUICK_PRICES, PRICES)
    found: list[Item] = []
    for year, carbon in YEARS.items():
        scenario = Scenario(ENV_ID, {"carbon": carbon})
        episodes = 2 * held_out if year == "2019" else held_out
        rules = Baselines(scenario, (*budget.pick(QUICK_RULES, RULES), Variant(CHANCE)), episodes)
        planned: list[Task] = [
            Plans(scenario, (Variant(PLAN, {"kg_price": price}),), episodes) for price in prices
        ]
        if year == "2021":
            planned += [
                Plans(scenario, (Variant(PLAN, {"kg_price": price, "forecast": kind}),), episodes)
                for kind in OUTLOOKS
                if kind != SHOWN_FORECAST
                for price in budget.pick(OTHER_FORECAST_PRICES[:1], OTHER_FORECAST_PRICES)
            ]
        bounds = Envelope(scenario, BOUND_PRICES, episodes)
        found += labelled([rules, *planned, bounds], year=year)
    return found


def split(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the column ``test``: even episodes of 2019 choose, odd ones are held out."""
    even = rows["episode"] % 2 == 0
    of_2019 = np.where(even, CHOOSING, HELD_OUT)
    return rows.assign(test=np.where(rows["year"] == "2019", of_2019, SHIFTED))


def hull(points: pd.DataFrame) -> NDArray[np.float64]:
    """Return the corners ``(n, 2)`` of the upper hull of carbon and value, the carbon rising.

    Between two corners lies what playing one policy in some episodes and the other in the rest gives.
    """
    found: list[tuple[float, float]] = []
    for point in sorted(zip(points[CARBON], points[VALUE], strict=True)):
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


def value_at(corners: NDArray[np.float64], kg: float) -> float:
    """Return the value at some carbon, NaN below the least of the corners."""
    if kg < corners[0, 0]:
        return float("nan")
    return float(np.interp(kg, corners[:, 0], corners[:, 1]))


def analyze(results: Results, _form: Budget) -> Analysis:
    """Return what each policy earned and emitted, and the value at each limit."""
    rows = split(results.table())
    rows[CARBON] = rows["carbon_kg"] + rows["settled_carbon_kg"]
    bounds = split(results.table("bounds"))
    metrics = [VALUE, "total_job_value_ratio_inside", "total_job_value", CARBON, *ENERGY]
    means = rows.groupby(["test", "policy", "baseline"], sort=False)[metrics].mean().reset_index()
    greedy = rows[rows["baseline"] == GREEDY]
    worth = (greedy["total_job_value"] / greedy[VALUE]).groupby(greedy["test"]).mean()
    chosen = _chosen(means)
    frontier = pd.DataFrame(_at_limits(means, chosen, bounds, worth))
    episodes = rows.groupby("test", sort=False)["episode"].nunique()
    notes = [
        f"Episodes: {', '.join(f'{count} of {test}' for test, count in episodes.items())}.",
        f"A limit is a share of what {GREEDY} emits in {CHOOSING}. Rules are those on the hull of its "
        f"even episodes ({', '.join(chosen)}); at a limit their mixture counts.",
        "The plan knows run times and, unless another forecast is named, the truth of the next 36 hours; the "
        "bound knows the arrivals, too.",
        "Weather is generated after that of Texas, emissions are California's: no real correlation.",
    ]
    table = means.rename(columns={"test": "series"})
    return Analysis(
        {"comparison": frontier, "results": table}, {"figure": _figure(means, bounds, worth)}, notes
    )


def _is_plan(means: pd.DataFrame) -> pd.Series[bool]:
    return means["baseline"] == PLAN


def _shown_plan(means: pd.DataFrame) -> pd.DataFrame:
    others = [kind for kind in OUTLOOKS if kind != SHOWN_FORECAST]
    named = means["policy"].apply(lambda name: any(kind in name for kind in others))
    return means[_is_plan(means) & ~named]


def _chosen(means: pd.DataFrame) -> list[str]:
    """Return the rules on the hull of the choosing episodes."""
    rules = means[(means["test"] == CHOOSING) & ~_is_plan(means) & (means["baseline"] != CHANCE)]
    corners = hull(rules)
    on_hull = [
        any(np.allclose(corner, point) for corner in corners) for point in rules[[CARBON, VALUE]].to_numpy()
    ]
    return list(rules.loc[on_hull, "policy"])


def _at_limits(
    means: pd.DataFrame, chosen: Sequence[str], bounds: pd.DataFrame, worth: pd.Series[float]
) -> Iterator[dict[str, object]]:
    choosing = means[(means["test"] == CHOOSING) & (means["baseline"] == GREEDY)]
    greedy = float(choosing[CARBON].iloc[0])
    for test, of_test in means.groupby("test", sort=False):
        rules = of_test[of_test["policy"].isin(chosen)]
        lines = list(_bound_lines(bounds, str(test)))
        for share in LIMITS:
            kg = share * greedy
            rule, plan = value_at(hull(rules), kg), value_at(hull(_shown_plan(of_test)), kg)
            most = min(bound + price * kg for price, bound in lines) / worth[test]
            yield {
                "series": test,
                "limit_share": share,
                "limit_kg": kg,
                "rules": rule,
                "plan": plan,
                "plan_over_rules_percent": 100.0 * (plan / rule - 1.0),
                "bound": most,
                "chance": float(of_test.loc[of_test["baseline"] == CHANCE, VALUE].iloc[0]),
            }


def _bound_lines(bounds: pd.DataFrame, test: str) -> Iterator[tuple[float, float]]:
    """Yield each price of carbon, for a kg, and the mean bound on value less that price's cost."""
    of_test = bounds[bounds["test"] == test]
    for price in sorted(of_test["kg_price"].unique()):
        yield float(price), float(of_test.loc[of_test["kg_price"] == price, "bound"].mean())


def _figure(means: pd.DataFrame, bounds: pd.DataFrame, worth: pd.Series[float]) -> Figure:
    tests = [test for test in (HELD_OUT, SHIFTED) if (means["test"] == test).any()]
    figure, axes = panels(tests)
    for panel, test in zip(axes, tests, strict=True):
        _draw(panel, means[means["test"] == test])
        kg = np.linspace(2_000.0, 16_000.0, 60)
        most = (
            np.min([bound + price * kg for price, bound in _bound_lines(bounds, test)], axis=0) / worth[test]
        )
        panel.plot(kg, np.minimum(most, 1.0), color="#333333", lw=1.0, ls="--", label="no policy is above")
        panel.set_xlabel("kg CO2 an episode of 30 days")
        panel.set_ylabel("share of the value")
        panel.set_ylim(0.0, 1.05)
    outer_legend(figure, axes[-1])  # which has the other forecasts
    return figure


def _draw(panel: Axes, means: pd.DataFrame) -> None:
    rules = means[~_is_plan(means) & (means["baseline"] != CHANCE)]
    for name, of_name in rules.groupby("baseline", sort=False):
        panel.plot(of_name[CARBON], of_name[VALUE], "o", ms=4, label=name)
    shown = _shown_plan(means).sort_values(CARBON)
    panel.plot(shown[CARBON], shown[VALUE], "-s", color="#a04a00", ms=5, label="plan, exact forecasts")
    others = means[_is_plan(means) & ~means["policy"].isin(shown["policy"])]
    for kind in OUTLOOKS:
        of_kind = others[others["policy"].str.contains(kind)]
        if len(of_kind):
            panel.plot(of_kind[CARBON], of_kind[VALUE], "d", ms=5, label=f"plan, {kind}")
    chance = means[means["baseline"] == CHANCE]
    panel.plot(chance[CARBON], chance[VALUE], "kx", ms=6, label="chance")


EXPERIMENT = Experiment(
    "carbon-frontier",
    "value against carbon where power is commanded: rules, plans and the envelope, 2019 and 2021",
    items,
    analyze,
)
