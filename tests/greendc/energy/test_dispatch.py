"""Dispatch at a site: conservation, priorities, grid modes, and the monotonicity that forecasts rest on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greendc.energy import BatteryConfig, SiteConfig
from greendc.energy.kernel import dispatch, markov_levels

NAMES = ("critical", "pool", "charge", "discharge", "grid", "curtailed", "stored")
POWER = st.floats(0.0, 500.0)


def flows(site, stored, generation, demand, brown=0.0, hours=1.0):
    return dict(zip(NAMES, dispatch(site.to_record(), stored, generation, demand, brown, hours), strict=True))


@st.composite
def sites(draw):
    low, high = sorted((draw(st.floats(0, 1)), draw(st.floats(0, 1))))
    battery = BatteryConfig(
        energy_kwh=draw(st.sampled_from([0.0, 50.0, 1000.0])),
        charge_kw=draw(POWER),
        discharge_kw=draw(POWER),
        efficiency=draw(st.floats(0.5, 1.0)),
        min_charge=low,
        max_charge=high,
        initial_charge=low,
    )
    grid = draw(st.sampled_from(["critical", "off", "capped", "qos_above"]))
    return SiteConfig(
        battery=battery,
        grid=grid,
        grid_cap_kw=draw(POWER) if grid == "capped" else None,
        grid_qos_above=0.5 if grid == "qos_above" else None,
    )


def stored_in(site, share):
    battery = site.battery
    return battery.energy_kwh * (battery.min_charge + share * (battery.max_charge - battery.min_charge))


@settings(max_examples=300, deadline=None)
@given(sites(), st.floats(0, 1), POWER, st.floats(0, 160), st.sampled_from([0.25, 1.0]))
def test_energy_is_conserved_within_all_limits(site, share, generation, demand, hours):
    battery, stored = site.battery, stored_in(site, share)
    f = flows(site, stored, generation, demand, 0.0, hours)
    sources = generation + f["discharge"] + f["grid"]
    sinks = f["critical"] + f["pool"] + f["charge"] + f["curtailed"]
    assert sources == pytest.approx(sinks, abs=1e-9)
    change = (battery.efficiency * f["charge"] - f["discharge"]) * hours
    assert f["stored"] - stored == pytest.approx(change, abs=1e-9)
    assert min(f.values()) >= -1e-9
    assert f["charge"] <= battery.charge_kw
    assert f["discharge"] <= battery.discharge_kw
    assert f["charge"] == 0.0 or f["discharge"] == 0.0
    assert battery.min_charge * battery.energy_kwh - 1e-9 <= f["stored"]
    assert f["stored"] <= battery.max_charge * battery.energy_kwh + 1e-9
    assert f["critical"] <= site.critical_kw + 1e-9
    assert f["pool"] <= demand + 1e-9
    if f["pool"] > 1e-9:  # the critical load goes first
        assert f["critical"] == pytest.approx(site.critical_kw)


@settings(max_examples=300, deadline=None)
@given(sites(), st.floats(0, 1), st.floats(0, 1), POWER, st.floats(0, 160), st.floats(0, 160))
def test_more_stored_or_less_drawn_never_leaves_less(site, a, b, generation, less, more):
    low, high = sorted((stored_in(site, a), stored_in(site, b)))
    less, more = sorted((less, more))
    full = flows(site, low, generation, more)
    assert flows(site, high, generation, more)["pool"] >= full["pool"] - 1e-9
    assert flows(site, high, generation, more)["stored"] >= full["stored"] - 1e-9
    assert flows(site, low, generation, less)["stored"] >= full["stored"] - 1e-9


def test_green_first_then_battery_then_grid():
    site = SiteConfig(battery=BatteryConfig(energy_kwh=100, discharge_kw=50, efficiency=0.9))
    # 60 kW of wind and 50 kW of battery: 80 kW critical, and what is left for the pool.
    f = flows(site, 100.0, 60.0, 160.0)
    assert f["critical"] == 80.0 and f["pool"] == 30.0 and f["discharge"] == 50.0 and f["grid"] == 0.0
    # An empty battery: the grid steps in for the critical load alone.
    f = flows(site, 0.0, 60.0, 160.0)
    assert f["critical"] == 80.0 and f["pool"] == 0.0 and f["grid"] == 20.0
    # 300 kW: 240 used, 60 left over, of which the battery takes what it has room for.
    f = flows(site, 55.0, 300.0, 160.0)
    assert f["pool"] == 160.0 and f["charge"] == pytest.approx(50.0) and f["curtailed"] == pytest.approx(10.0)
    assert f["stored"] == pytest.approx(100.0)


def test_grid_modes():
    dead = BatteryConfig(energy_kwh=0.0)
    off = flows(SiteConfig(grid="off", battery=dead), 0.0, 30.0, 100.0)
    assert off["critical"] == 30.0 and off["pool"] == 0.0 and off["grid"] == 0.0
    capped = flows(SiteConfig(grid="capped", grid_cap_kw=70.0, battery=dead), 0.0, 30.0, 100.0)
    assert capped["critical"] == 80.0 and capped["pool"] == 20.0 and capped["grid"] == 70.0
    brown = SiteConfig(grid="qos_above", grid_qos_above=0.8, battery=dead)
    f = flows(brown, 0.0, 100.0, 20.0, brown=48.0)
    assert f["pool"] == 68.0 and f["grid"] == 48.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"critical_kw": 240.0}, "site.critical_kw=240.0"),
        ({"total_kw": float("nan")}, "site.total_kw=nan"),
        ({"idle_fraction": 1.5}, "site.idle_fraction=1.5"),
        ({"grid": "brown"}, "site.grid='brown'"),
        ({"grid": "capped"}, "site.grid_cap_kw=None"),
        ({"grid_cap_kw": 5.0}, "site.grid_cap_kw=5.0"),
        ({"grid": "qos_above", "grid_qos_above": 2.0}, "site.grid_qos_above=2.0"),
    ],
)
def test_a_wrong_site_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        SiteConfig(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"efficiency": 0.0}, "battery.efficiency=0.0"),
        ({"energy_kwh": -1.0}, "battery.energy_kwh=-1.0"),
        ({"min_charge": 0.6, "initial_charge": 0.5}, "battery.initial_charge=0.5"),
        ({"min_charge": 0.6, "max_charge": 0.4}, "battery.max_charge=0.4"),
    ],
)
def test_a_wrong_battery_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        BatteryConfig(**options)


def test_a_site_from_nested_mappings_names_unknown_keys():
    site = SiteConfig.from_mapping({"grid": "off", "battery": {"energy_kwh": 10.0}})
    assert site.battery.energy_kwh == 10.0
    for battery in (None, 1000.0):
        for build in (SiteConfig, lambda **values: SiteConfig.from_mapping(values)):
            with pytest.raises(TypeError, match=r"site\.battery: must be a BatteryConfig or"):
                build(battery=battery)
    with pytest.raises(TypeError, match="battery: unknown option 'energy'; did you mean 'energy_kwh'"):
        SiteConfig.from_mapping({"battery": {"energy": 10.0}})


def test_markov_levels_have_the_stated_chain():
    levels = np.empty(200_000)
    markov_levels(levels, np.random.default_rng(0).random(len(levels)), 0.9, 0.2, 0.8, 0.5)
    high = levels == 0.9
    assert set(np.unique(levels)) == {0.2, 0.9} and high[0]
    assert high[1:][high[:-1]].mean() == pytest.approx(0.8, abs=0.01)
    assert (~high)[1:][~high[:-1]].mean() == pytest.approx(0.5, abs=0.01)
