"""Value against carbon on other sites: how large a battery, and what the grid may serve.

CoCoRL (VII) would select among "power sources to minimize brown energy and battery usage", RARE (3.2) would
give a little brown energy to urgent jobs. Where the grid serves everything, machines and battery are
commanded; where it does not, machines follow sun, wind and battery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from greendc.resource_pool.presets import CARBON as PRESET
from sb3_greendc.experiments.carbon.comparison import (
    CARBON,
    SOURCES,
    VALUE,
    gain,
    hull,
    on_hull,
    policy_means,
    value_at,
    with_totals,
    written,
)
from sb3_greendc.experiments.carbon.distillation import STUDENT
from sb3_greendc.experiments.carbon.envelope import (
    BOUND_PRICES,
    QUICK_BOUND_PRICES,
    Envelope,
    bound_share,
)
from sb3_greendc.experiments.carbon.frontier import (
    ASKED_PRICES,
    FULL_SEEDS,
    QUICK_ASKED_PRICES,
    student,
)
from sb3_greendc.experiments.carbon.learners import StudentPlay
from sb3_greendc.experiments.carbon.lineup import (
    CHANCE,
    ENV_ID,
    GREEDY,
    LIMITS,
    PLAN,
    PRICES,
    QUICK_PRICES,
    QUICK_RULES,
    RANDOM_ORDER,
    RULES,
    YEARS,
    Plans,
)
from sb3_greendc.experiments.episodes import Baselines, Variant, all_variants
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import color_of, panels
from sb3_greendc.experiments.rollouts import NAME as ROLLOUT
from sb3_greendc.experiments.tasks import Item, Scenario, Task

BATTERIES = {"no battery": 0.0, "500 kWh": 500.0, "1,000 kWh": 1_000.0, "2,000 kWh": 2_000.0}
"""Of the sites whose grid serves everything; RARE's battery has 1,000 kWh."""
DEFAULT = "1,000 kWh"
"""Whose policies the limits are shares of: the site of ``carbon-frontier``."""
GRIDS: dict[str, dict[str, Any]] = {
    "no grid": {"grid": "off"},
    "grid for critical load": {"grid": "critical"},
    "grid for that and QoS > .7": {"grid": "qos_above", "grid_qos_above": 0.7},
    "grid for that and QoS > .4": {"grid": "qos_above", "grid_qos_above": 0.4},
}
"""What the grid serves at the other sites, with the default battery."""
CHOSEN_ON, JUDGED_ON = "2019", "2021"
FOLLOWING = {
    "power_levels": None,
    "switch_delay": 0,
    "switch_hours": 0.0,
    "suspend": False,
    "pausing": False,
}
"""Machines that nobody commands; rollouts know no pauses."""
METRICS = [VALUE, CARBON, *SOURCES, "critical_unserved_kwh"]


def scenario(name: str, year: str) -> Scenario:
    """Return a site with the emissions of a year.

    :param name: of :data:`BATTERIES` or :data:`GRIDS`
    :param year: of :data:`~sb3_greendc.experiments.carbon.lineup.YEARS`
    """
    site, carbon = PRESET["site"], {"carbon": YEARS[year]}
    if name == DEFAULT:
        return Scenario(ENV_ID, carbon)
    if name in BATTERIES:
        return Scenario(ENV_ID, {**carbon, "site": {**site, "battery": {"energy_kwh": BATTERIES[name]}}})
    return Scenario(ENV_ID, {**carbon, **FOLLOWING, "site": {**site, **GRIDS[name]}})


def items(budget: Budget) -> list[Item]:
    """Return rules, plans, chance and the distilled plan on every site; rules are chosen in 2019."""
    found: list[Item] = []
    for name in (*BATTERIES, *GRIDS):
        for year in (CHOSEN_ON, JUDGED_ON):
            found += labelled([_rules(budget, name, year)], series=name, year=year)
        found += labelled(_ahead(budget, name), series=name, year=JUDGED_ON)
    return found


def _rules(budget: Budget, name: str, year: str) -> Baselines:
    """Return every rule, and chance, in the episodes of a year."""
    if name in BATTERIES:
        variants = (*budget.pick(QUICK_RULES, RULES), Variant(CHANCE), Variant(RANDOM_ORDER))
    else:
        variants = (*all_variants(dispatches=("skip",), scopes=("ready",)), Variant(RANDOM_ORDER))
    return Baselines(scenario(name, year), variants, budget.pick(5, 24))


def _ahead(budget: Budget, name: str) -> list[Task]:
    """Return what looks ahead: the plan, the network distilled from it and the bound, or rollouts."""
    site, episodes = scenario(name, JUDGED_ON), budget.pick(4, 24)
    if name not in BATTERIES:
        return [Baselines(site, (Variant(ROLLOUT, {"futures": budget.pick(16, 64)}),), budget.pick(5, 24))]
    plans = [Variant(PLAN, {"kg_price": price}) for price in budget.pick(QUICK_PRICES, PRICES)]
    asked = budget.pick(QUICK_ASKED_PRICES, ASKED_PRICES)
    return [
        *(Plans(site, (plan,), episodes) for plan in plans),
        Envelope(site, budget.pick(QUICK_BOUND_PRICES, BOUND_PRICES), episodes),
        *(
            StudentPlay(student(budget, seed), asked, site, budget.pick(5, 24))
            for seed in budget.seeds_of(STUDENT, full=FULL_SEEDS)
            if BATTERIES[name] > 0.0  # observations tell the charge where there is a battery, and only there
        ),
    ]


def analyze(results: Results, _form: Budget) -> Analysis:
    """Return what policies earned and emitted on each site, and the value at each limit."""
    rows = with_totals(results.table())
    judged = rows[rows["year"].astype(str) == JUDGED_ON]
    greedy = judged[(judged["series"] == DEFAULT) & (judged["baseline"] == GREEDY)][CARBON].mean()
    sites = dict(list(judged.groupby("series", sort=False)))
    chosen = {
        str(name): on_hull(policy_means(of_site))
        for name, of_site in _choosing(rows).groupby("series", sort=False)
    }
    bounds = results.table("bounds")
    comparison = [
        row
        for name, at in sites.items()
        for row in _at_limits(str(name), at, chosen[str(name)], bounds[bounds["series"] == name], greedy)
    ]
    means = judged.groupby(["series", "policy", "baseline"], sort=False)
    table = means[METRICS].mean().assign(episodes=means["episode"].nunique()).reset_index()
    notes = [
        f"A limit is a share of what {GREEDY} emits at the site with {DEFAULT} in {JUDGED_ON}: in kg the "
        "same at all sites. An empty cell: no policy that was tried emits so little.",
        f"Rules are those on the hull of the episodes of {CHOSEN_ON}. Where the grid serves everything they "
        "and the plan command machines and battery; elsewhere the heuristics of the pool stand for rules, "
        "and rollouts, which know no carbon, for the plan. The plan plays fewer episodes: what it earns is "
        "what rules do, times its gain over them in these.",
        f"The {STUDENT} has learned from plans at the site with {DEFAULT}, and acts only where there are "
        "commands and a battery. The plan has the truth of the next 36 hours, the network that of 24.",
        "Chance is any valid action, jobs in a random order with every unit on, and mixtures of both. The "
        "bound knows the arrivals, too; it is there where power is commanded.",
        "Machines that nobody commands follow sun, wind, battery and the jobs that the grid may serve at "
        "once and for nothing. Commanded ones start an hour later, and draw power for it. What refilling the "
        "battery would emit is counted for these alone.",
        _kept(judged),
    ]
    tables = {"comparison": pd.DataFrame(comparison), "results": table}
    return Analysis(tables, {"figure": _figure(table, chosen)}, notes)


def _choosing(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the episodes by which rules are chosen."""
    chance = rows["baseline"].isin([CHANCE, RANDOM_ORDER])
    return rows[(rows["year"].astype(str) == CHOSEN_ON) & ~chance]


def _at_limits(
    name: str, rows: pd.DataFrame, chosen: list[str], bounds: pd.DataFrame, greedy: float
) -> Iterator[dict[str, Any]]:
    means = policy_means(rows)
    ahead = means[means["baseline"].isin([PLAN, ROLLOUT])]
    students = means[means["baseline"] == STUDENT]
    chance = hull(means[means["baseline"].isin([CHANCE, RANDOM_ORDER])])
    for share in LIMITS:
        kg = share * greedy
        found: dict[str, Any] = {"series": name, "limit_share": share, "limit_kg": kg}
        found["rules"] = earned = value_at(hull(means[means["policy"].isin(chosen)]), kg)
        for side, of_side in (("plan", ahead), ("distilled", students)):
            if len(of_side):
                gained = gain(rows, list(of_side["policy"]), chosen, kg)
                found[side] = earned * (1.0 + gained.estimate / 100.0)
                found |= written(f"{side}_over_rules", gained)
        if len(bounds):
            found["bound"] = bound_share(bounds, rows[rows["baseline"] == GREEDY], kg)
        yield found | {"chance": value_at(chance, kg)}


def _kept(judged: pd.DataFrame) -> str:
    """Say how much of the critical load goes without power where the grid is closed."""
    of_site = (
        judged[judged["series"].isin(GRIDS)].groupby("series", sort=False)["critical_unserved_kwh"].mean()
    )
    said = ", ".join(f"{name} {kwh:,.0f} kWh" for name, kwh in of_site.items())
    return f"Critical load without power, an episode: {said}."


def _figure(table: pd.DataFrame, chosen: Mapping[str, list[str]]) -> Figure:
    """Draw a panel for batteries and one for what the grid serves; colors are sites."""
    figure, axes = panels(["battery", "what the grid serves"], columns=1)
    for panel, names in zip(axes, (list(BATTERIES), list(GRIDS)), strict=True):
        for name in names:
            _draw(panel, name, table[table["series"] == name], chosen[name], color_of(name, names))
        panel.plot([], [], "o:", color="#555555", ms=3.5, label="rules")
        panel.plot([], [], "s-", color="#555555", ms=4.5, label="plan, or rollouts")
        if names == list(BATTERIES):
            panel.plot([], [], "^", color="#555555", ms=5, label=STUDENT)
        panel.plot([], [], "x", color="#555555", ms=5, label="chance")
        panel.set_xlabel("kg CO2 an episode of 30 days")
        panel.set_ylabel("share of the value")
        panel.set_ylim(-0.03, 1.0)
        panel.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize="small", frameon=False)
    return figure


def _draw(panel: Axes, name: str, means: pd.DataFrame, chosen: list[str], color: str) -> None:
    """Draw a site: rules on the hull, what looks ahead, chance."""
    panel.plot([], [], "-", color=color, lw=4, label=name)
    rules = hull(means[means["policy"].isin(chosen)])
    panel.plot(*rules.T, "o:", color=color, ms=3.5, lw=1.0)
    ahead = means[means["baseline"].isin([PLAN, ROLLOUT])].sort_values(CARBON)
    panel.plot(ahead[CARBON], ahead[VALUE], "s-", color=color, ms=4.5, lw=1.2)
    students = means[means["baseline"] == STUDENT]
    panel.plot(students[CARBON], students[VALUE], "^", color=color, ms=5)
    chance = means[means["baseline"].isin([CHANCE, RANDOM_ORDER])]
    panel.plot(chance[CARBON], chance[VALUE], "x", color=color, ms=5)


EXPERIMENT = Experiment(
    "carbon-site",
    "value against carbon by the site: battery sizes, no grid, the grid for high-QoS jobs alone",
    items,
    analyze,
)
