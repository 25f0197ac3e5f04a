"""Value against carbon on a site whose grid serves everything, where machines and battery are commanded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from greendc.resource_pool import ResourcePoolConfig
from greendc.resource_pool.presets import CARBON as PRESET
from greendc.traces.power import read_carbon
from sb3_greendc.evaluation.plots import TEXT_WIDTH, styled
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
from sb3_greendc.experiments.carbon.envelope import (
    BOUND_PRICES,
    QUICK_BOUND_PRICES,
    Envelope,
    bound_share,
)
from sb3_greendc.experiments.carbon.lineup import (
    CHANCE,
    GREEDY,
    LIMITS,
    PLAN,
    PRICES,
    QUICK_PRICES,
    QUICK_RULES,
    RULES,
    Plans,
)
from sb3_greendc.experiments.episodes import Baselines, Variant
from sb3_greendc.experiments.experiment import LONG_QUEUES, Budget, Results
from sb3_greendc.experiments.figures import color_of
from sb3_greendc.experiments.tasks import Item, Scenario

PART = {"part": "frontier"}
"""Labels of the tasks."""
COMMANDED = ("switch_delay", "switch_hours", "placement", "mask", "late_jobs", "suspend", "pausing", "cost")
"""What makes power a decision, as in the preset ``ResourcePoolCarbon-10``."""
ENERGIES = [VALUE, CARBON, *SOURCES, "switching_kwh", "grid_cost"]
"""Columns of the table of energies."""
STEPS_OF_UNITS = 5
PRESET_UNIT_KG = 4.4
"""kg that a unit of the preset emits on the grid in a step in 2019: prices of the carbon are about it."""


def commands(site: Scenario) -> bool:
    """Return whether carbon is a decision on a site: whether its grid serves everything, and emits any."""
    return dict(site.env_kwargs.get("site") or {}).get("grid") == "open" and unit_kg(site) > 0


def commanded(site: Scenario) -> Scenario:
    """Return a site with units and battery commanded, and as many jobs to choose among as a log needs."""
    units = int(site.settings.get("units", ResourcePoolConfig.units))
    levels = np.unique(np.round(np.linspace(0, units, STEPS_OF_UNITS + 1)).astype(int))
    more = {**{name: PRESET[name] for name in COMMANDED}, **LONG_QUEUES}
    return site.with_kwargs(**more, power_levels=tuple(levels.tolist()))


def items(site: Scenario, budget: Budget) -> list[Item]:
    """Return rules, plans, bounds and chance on the commanded site; half of the episodes choose among rules.

    :param site: whose grid serves everything
    :param budget: of the rules; plans and bounds, which take their time, are of fewer episodes
    """
    scenario = commanded(site).with_kwargs(episode_steps=budget.test_steps)
    scale = PRESET_UNIT_KG / unit_kg(scenario)
    rules = tuple(_priced(rule, scale) for rule in budget.pick(QUICK_RULES, RULES))
    planned = min(budget.pick(8, 24), budget.episodes)
    plans = [Variant(PLAN, {"kg_price": price}) for price in budget.pick(QUICK_PRICES, PRICES)]
    bounds = tuple(_rounded(price * scale) for price in budget.pick(QUICK_BOUND_PRICES, BOUND_PRICES))
    tasks = [
        Baselines(scenario, (*rules, Variant(CHANCE)), budget.episodes),
        *(Plans(scenario, (_priced(plan, scale),), planned) for plan in plans),
        Envelope(scenario, bounds, planned),
    ]
    return [Item(task, {**PART, "series": "my site"}) for task in tasks]


def unit_kg(scenario: Scenario) -> float:
    """Return the kg that a unit emits in a step on the grid alone, on average."""
    config = ResourcePoolConfig(**{**scenario.settings, "workload": "synthetic"})
    kw = config.site_config.pool_kw / (config.units * config.resource_types)
    return kw * config.step_hours * float(read_carbon(str(scenario.env_kwargs["carbon"])).kg_per_kwh.mean())


def _priced(rule: Variant, scale: float) -> Variant:
    """Return a rule with its price of carbon in the site's scale."""
    if "kg_price" not in rule.options:
        return rule
    return Variant(rule.name, {**rule.options, "kg_price": _rounded(rule.options["kg_price"] * scale)})


def _rounded(price: float) -> float:
    return float(f"{price:.3g}")


def apart(results: Results) -> tuple[Results, Results]:
    """Return the results of everything else, and those of the frontier."""
    ours = [item for item in results.items if "part" in item.labels]
    others = [item for item in results.items if "part" not in item.labels]
    return Results(others, results.store), Results(ours, results.store)


def at_limits(rows: pd.DataFrame, bounds: pd.DataFrame) -> pd.DataFrame:
    """Return what rules, plan and chance earn at each limit, in episodes that chose nothing, and the bound.

    The plan plays fewer episodes: what it earns is what rules do, times its gain over them in these. The
    bound is of these, too.

    :param rows: episodes of :func:`items`
    :param bounds: of the same
    :return: a row for each of :data:`~sb3_greendc.experiments.carbon.frontier.LIMITS`, a share of the carbon
        of every unit on
    """
    return pd.DataFrame(_at_limits(with_totals(rows), bounds[bounds["episode"] % 2 == 1]))


def _at_limits(rows: pd.DataFrame, bounds: pd.DataFrame) -> Iterator[dict[str, Any]]:
    choosing, judged = (rows[rows["episode"] % 2 == odd] for odd in (0, 1))
    chosen = on_hull(policy_means(choosing[~choosing["baseline"].isin([PLAN, CHANCE])]))
    plans = [str(name) for name in judged.loc[judged["baseline"] == PLAN, "policy"].unique()]
    with_plan = judged[judged["episode"].isin(judged.loc[judged["baseline"] == PLAN, "episode"])]
    means = policy_means(judged)
    greedy = means[means["baseline"] == GREEDY].iloc[0]
    for share in LIMITS:
        kg = share * float(greedy[CARBON])
        earned = value_at(hull(means[means["policy"].isin(chosen)]), kg)
        gained = gain(with_plan, plans, chosen, kg)
        yield {
            "limit_share": share,
            "limit_kg": kg,
            "every unit on": float(greedy[VALUE]),
            "rules": earned,
            "plan": earned * (1.0 + gained.estimate / 100.0),
            **written("plan_over_rules", gained),
            "bound": bound_share(bounds, judged[judged["baseline"] == GREEDY], kg),
            "chance": float(means.loc[means["baseline"] == CHANCE, VALUE].iloc[0]),
        }


def energies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return where each policy's energy came from, the most valuable first, in episodes that chose nothing.

    :param rows: episodes of :func:`items`
    """
    judged = with_totals(rows[rows["episode"] % 2 == 1])
    means = judged.groupby("policy", sort=False)[ENERGIES].mean()
    return means.sort_values(VALUE, ascending=False).reset_index()


def verdicts(table: pd.DataFrame) -> list[str]:
    """Return a sentence for each limit: what is left of the value at a share of the carbon.

    :param table: of :func:`at_limits`
    """
    found = []
    for row in table.to_dict("records"):
        share = f"{100 * row['limit_share']:.0f} % of the carbon of every unit on"
        parts = [
            f"{name} {100 * row[key] / row['every unit on']:.0f} %"
            for key, name in (("rules", "rules earn"), ("plan", "the plan earns"))
            if np.isfinite(row[key])
        ]
        known = f"{' and '.join(parts)} of its value" if parts else "no policy that was tried is left"
        kg = f"{row['limit_kg']:,.4g} kg an episode"
        found.append(f"Machines and battery commanded, at {share} ({kg}): {known}.")
    return found


@styled
def draw(rows: pd.DataFrame, policies: pd.DataFrame, learners: Sequence[str]) -> Figure:
    """Draw the commanded site's rules and plans, and what was trained where every unit is on.

    :param rows: episodes of :func:`items`
    :param policies: means of the policies of the site without commands
    :param learners: those of them that are drawn
    """
    figure = Figure(figsize=(TEXT_WIDTH * 0.72, 3.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    means = policy_means(with_totals(rows))
    rules = means[~means["baseline"].isin([PLAN, CHANCE])]
    axes.plot(rules[CARBON], rules[VALUE], "o", ms=3.5, color="#9aa7b0", label="rules that command")
    axes.plot(*hull(rules).T, "-", lw=0.8, color="#555555", label="mixtures of the best", zorder=1)
    plans = means[means["baseline"] == PLAN].sort_values(CARBON)
    axes.plot(plans[CARBON], plans[VALUE], "-s", ms=4, color="#a04a00", label="plan")
    chance = means[means["baseline"] == CHANCE]
    axes.plot(chance[CARBON], chance[VALUE], "kx", ms=5, label="chance")
    for row in policies[policies["policy"].isin(learners)].to_dict("records"):
        name = str(row["policy"])
        color = color_of(name, list(learners))
        axes.plot(row["carbon_kg"], row[VALUE], "D", ms=5, color=color, label=f"{name}, every unit on")
    axes.set_xlabel("kg CO$_2$ an episode, what refilling the battery adds included")
    axes.set_ylabel("share of the arrived value")
    axes.grid()
    axes.set_axisbelow(True)
    axes.legend(loc="lower right")
    return figure
