"""carbon-site: sites of other batteries and other grids, who acts there, values at equal carbon."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.core.spaces import same_kind
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.experiments.carbon import frontier, site
from sb3_greendc.experiments.carbon.envelope import Envelope
from sb3_greendc.experiments.carbon.learners import StudentPlay
from sb3_greendc.experiments.carbon.lineup import LIMITS, YEARS
from sb3_greendc.experiments.episodes import Baselines, Variant
from sb3_greendc.experiments.experiment import Budget, unique_tasks
from sb3_greendc.experiments.figures import MOST_SERIES
from sb3_greendc.experiments.registry import load_experiment

EVERY = (*site.BATTERIES, *site.GRIDS)
# policy, baseline, kg and value at the default site; elsewhere less of the value.
POLICIES = (
    ("grid_off/0", "grid_off", 2_000.0, 0.2),
    ("grid_on", "grid_on", 10_000.0, 0.8),
    ("power_plan/0.1", "power_plan", 4_000.0, 0.6),
    ("power_plan/0.25", "power_plan", 8_000.0, 0.8),
    ("distilled plan/0.12", "distilled plan", 6_000.0, 0.6),
    ("random_actions", "random_actions", 5_000.0, 0.0),
    ("random", "random", 10_000.0, 0.5),
)
FOLLOWING = (
    ("hvf/skip/ready", "hvf", 4_000.0, 0.3),
    ("rollout/16", "rollout", 4_000.0, 0.33),
    ("random", "random", 4_000.0, 0.2),
)


class Fake:
    """Results of policies that do the same in every episode."""

    def table(self, name: str = "episodes") -> pd.DataFrame:
        if name == "bounds":
            return pd.DataFrame(
                {"series": name, "episode": k, "kg_price": price, "bound": 90.0 - 5_000.0 * price}
                for name in site.BATTERIES
                for k in range(2)
                for price in (0.001, 0.01)
            )
        rows: list[dict[str, Any]] = []
        for name in EVERY:
            less, cleaner = (0.9 if name == "no battery" else 1.0), (0.5 if name == "2,000 kWh" else 1.0)
            for policy, baseline, kg, value in POLICIES if name in site.BATTERIES else FOLLOWING:
                ahead = baseline in ("power_plan", "rollout", "distilled plan")
                known = ("2021",) if ahead else ("2019", "2021")
                rows += [
                    {
                        **dict.fromkeys(site.METRICS, 1.0),
                        "series": name,
                        "year": year,
                        "policy": policy,
                        "baseline": baseline,
                        "episode": k,
                        "carbon_kg": cleaner * kg - (100.0 if name in site.BATTERIES else 0.0),
                        "settled_carbon_kg": 100.0 if name in site.BATTERIES else np.nan,
                        site.VALUE: less * value,
                        "total_job_value": 100.0 * less * value,
                        "solar_kwh": 5.0,
                        "wind_kwh": 3.0,
                        "curtailed_kwh": 2.0,
                        "critical_unserved_kwh": 700.0 if name == "no grid" else 0.0,
                    }
                    for year in known
                    for k in range(3)
                ]
        return pd.DataFrame(rows)


def test_sites_are_compared_at_the_same_carbon():
    analysis = site.analyze(Fake(), Budget(quick=True))  # type: ignore[arg-type]
    table = analysis.tables["comparison"].set_index(["series", "limit_share"])
    assert list(table.index.unique("series")) == list(EVERY)
    assert (table["limit_kg"].groupby("limit_share").nunique() == 1).all()
    row = table.loc[(site.DEFAULT, 0.6)]
    assert row["limit_kg"] == pytest.approx(6_000.0)
    assert row["rules"] == pytest.approx(0.5)  # half grid_off, half grid_on
    assert row["plan"] == pytest.approx(0.7)
    assert row["plan_over_rules_percent"] == pytest.approx(40.0)
    assert row["distilled"] == pytest.approx(0.6)
    assert row["distilled_over_rules_percent"] == pytest.approx(20.0)
    assert row["chance"] == pytest.approx(0.1)  # a fifth of the way from any action to every unit on
    assert table.loc[("no battery", 0.6), "plan"] == pytest.approx(0.63)
    assert row["bound"] == pytest.approx((90.0 - 5.0 + 6.0) / 100.0)
    assert (analysis.tables["results"]["green_kwh"] == 6.0).all()
    closed = table.loc[("no grid", 0.6)]
    assert np.isnan(closed["bound"])
    assert closed["rules"] == pytest.approx(0.3)  # below the limit whatever it does
    assert closed["plan_over_rules_percent"] == pytest.approx(10.0)
    assert np.isnan(closed["distilled"])
    assert "no grid 700 kWh" in analysis.notes[-1]
    assert "figure" in analysis.figures


def test_no_panel_has_more_series_than_can_be_told_apart():
    figure = site.analyze(Fake(), Budget(quick=True)).figures["figure"]  # type: ignore[arg-type]
    for panel in figure.axes:
        assert len(panel.get_legend_handles_labels()[1]) <= MOST_SERIES


@pytest.mark.parametrize("quick", [True, False])
def test_rules_are_chosen_in_2019_and_everything_else_is_of_2021(quick):
    items = load_experiment("carbon-site").items(Budget(quick=quick))
    for item in items:
        assert item.task.scenario.env_kwargs["carbon"] == YEARS[item.labels["year"]]
        looks_ahead = isinstance(item.task, StudentPlay) or any(
            variant.name in ("power_plan", "rollout") for variant in getattr(item.task, "variants", ())
        )
        assert not looks_ahead or item.labels["year"] == site.JUDGED_ON
    at = {name: [item.task for item in items if item.labels["series"] == name] for name in EVERY}
    for name, tasks in at.items():
        acts = any(isinstance(task, StudentPlay) for task in tasks)
        assert acts == (site.BATTERIES.get(name, 0.0) > 0.0)
        assert any(isinstance(task, Envelope) for task in tasks) == (name in site.BATTERIES)
    if quick:
        assert sum(task.seconds() for task in unique_tasks(items)) < 8 * 60


def test_the_network_is_that_of_the_frontier():
    ours, theirs = (
        {task.key for task in unique_tasks(load_experiment(name).items(Budget(quick=True)))}
        for name in ("carbon-site", "carbon-frontier")
    )
    assert frontier.student(Budget(quick=True), 0).key in ours & theirs


@pytest.mark.parametrize("name", EVERY)
def test_rules_and_chance_act_on_every_site(name):
    short = site.scenario(name, "2021").with_kwargs(episode_steps=48)
    commanded = name in site.BATTERIES
    names = ("grid_qos", "random_actions", "power_plan") if commanded else ("hvf", "random", "rollout")
    played = Baselines(short, tuple(map(Variant, names)), 2).compute().tables["episodes"]
    assert played["policy"].unique().tolist() == list(names)
    env = make_vec_env(short.env_id, 1, **short.env_kwargs)
    if site.BATTERIES.get(name, 0.0) > 0.0:
        known = site.scenario(site.DEFAULT, "2019")
        theirs = make_vec_env(known.env_id, 1, **known.env_kwargs)
        assert same_kind(env.observation_space, theirs.observation_space)  # so that the network can act
    assert (env.get_attr("config")[0].power_levels is not None) == commanded
    energy = env.get_attr("config")[0].site_config.battery.energy_kwh
    assert energy == site.BATTERIES.get(name, 1_000.0)
    if name == "no grid":
        assert (played["carbon_kg"] == 0.0).all()
    if energy == 0.0:
        assert (played["battery_discharged_kwh"] == 0.0).all()


def test_limits_are_those_of_the_frontier():
    table = site.analyze(Fake(), Budget(quick=True)).tables["comparison"]  # type: ignore[arg-type]
    assert sorted(table["limit_share"].unique()) == list(LIMITS)
