"""Power as a decision: units ordered, the battery's modes, pauses, what energy costs, and what is refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_cases import FixedWorkload, job_arrays, random_commanded, sensible_or_any

import greendc
from greendc.energy import BatteryConfig, SiteConfig
from greendc.energy.kernel import AUTO, CHARGE, HOLD, dispatch_under
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolEnv, ResourcePoolSimulator
from greendc.resource_pool.energy_recording import EnergyRecorder
from greendc.resource_pool.observation import context_features
from greendc.traces.power import CarbonTrace, PowerTrace
from greendc.traces.prices import PriceTrace

START = datetime(2021, 1, 1)
STEPS = 60


def pool(*jobs: tuple[int, int, tuple[int, ...], float], **options: Any) -> ResourcePoolEnv:
    """Ten units of two types, 8 kW each, under no sun and no wind, and 0.5 kg/kWh."""
    dark = PowerTrace(np.zeros(STEPS), np.zeros(STEPS), 1.0, START)
    kwargs: dict[str, Any] = {
        "horizon": 30,
        "episode_steps": 12,
        "power": "trace",
        "trace": dark,
        "site": {"grid": "open", "idle_fraction": 0.25},
        "carbon": 0.5,
        "price": 0.2,
        "power_levels": (0, 4, 10),
        "placement": "now",
        "suspend": True,
        "reward": "completion",
        "workload": FixedWorkload(job_arrays(*jobs)),
    }
    env = ResourcePoolEnv(**{**kwargs, **options})
    env.reset(seed=0)
    return env


def order(
    env: ResourcePoolEnv, level: int, mode: int = AUTO
) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    return env.step(env.config.ready_pool_size + 1 + 3 * level + mode)


def test_a_battery_that_holds_serves_nothing_and_one_that_charges_buys() -> None:
    site = SiteConfig(grid="open", battery=BatteryConfig(1000.0, 250.0, 250.0, 0.9)).to_record()
    names = ("critical", "pool", "charge", "discharge", "grid", "curtailed", "stored")
    flows = {
        mode: dict(zip(names, dispatch_under(site, 500.0, 100.0, 60.0, 0.0, 1.0, mode), strict=True))
        for mode in (AUTO, HOLD, CHARGE)
    }
    assert flows[AUTO]["discharge"] == 40.0
    assert flows[AUTO]["grid"] == 0.0
    assert (flows[HOLD]["discharge"], flows[HOLD]["grid"], flows[HOLD]["stored"]) == (0.0, 40.0, 500.0)
    assert (flows[CHARGE]["charge"], flows[CHARGE]["grid"]) == (250.0, 290.0)
    assert flows[CHARGE]["stored"] == 500.0 + 0.9 * 250.0
    nearly_full = dispatch_under(site, 991.0, 100.0, 60.0, 0.0, 1.0, CHARGE)
    assert nearly_full[2] == pytest.approx(10.0)
    assert nearly_full[6] == pytest.approx(1000.0)


@pytest.mark.parametrize("delay", [0, 1])
def test_units_come_on_as_ordered_and_draw_their_switching_energy(delay: int) -> None:
    battery = BatteryConfig(energy_kwh=0.0)
    env = pool(switch_delay=delay, switch_hours=0.5, site=SiteConfig(grid="open", battery=battery))
    units = [int(env.simulator.view().levels[0])]
    for level in (0, 2, 2, 1, 1):
        order(env, level)
        units.append(int(env.simulator.view().levels[0]))
    assert units == ([10, 0, 10, 10, 4, 4] if delay == 0 else [10, 0, 0, 10, 4, 4])
    metrics = env.simulator.episode_metrics(0)
    assert metrics["switched_units"] == 20
    assert metrics["switching_kwh"] == 20 * 8.0 * 0.5
    assert metrics["brown_kwh"] == 5 * 80.0 + 80.0  # idle units draw nothing here
    assert metrics["carbon_kg"] == 0.5 * metrics["brown_kwh"]
    assert metrics["grid_cost"] == pytest.approx(0.2 * metrics["brown_kwh"])


def test_units_ordered_by_the_last_decision_never_start_and_do_not_count() -> None:
    env = pool(switch_hours=0.5, reward={"on_time": 1.0, "switching": 3.0}, episode_steps=3)
    rewards = [order(env, level)[1] for level in (0, 1, 2)]
    assert rewards == [0.0, 0.0, -3.0 * 8]
    metrics = env.simulator.episode_metrics(0)
    assert metrics["switched_units"] == 8
    assert metrics["switching_kwh"] == 8 * 8.0 * 0.5


def test_jobs_on_units_that_are_switched_off_are_suspended_and_keep_their_work() -> None:
    env = pool((0, 4, (6, 1), 0.4))
    env.step(0)
    order(env, 2)
    order(env, 1)
    view = env.simulator.view()
    assert env.simulator.episode_metrics(0)["power_suspensions"] == 1
    assert view.ready_jobs()[0, 3] == 2  # of four steps, two are done
    assert not env.action_masks()[0]  # six units are not on


def test_pausing_suspends_without_a_successor() -> None:
    jobs = ((0, 4, (6, 1), 0.4),)
    env, without = pool(*jobs, pausing=True), pool(*jobs)
    for one in (env, without):
        one.step(0)
    pause = env.config.ready_pool_size
    assert env.action_masks()[pause]
    assert not without.action_masks()[pause]
    order(env, 2)
    _, _, _, _, info = env.step(pause)
    assert info["time_advanced"] == 0
    assert env.simulator.view().queue.tolist() == [0]
    assert not env.action_masks()[0]  # it cannot start again in this step
    order(env, 2)
    assert env.action_masks()[0]


def test_commands_that_do_nothing_are_masked() -> None:
    full = BatteryConfig(100.0, 50.0, 50.0, 1.0, initial_charge=1.0)
    env = pool(site=SiteConfig(grid="open", battery=full))
    commands = slice(env.config.ready_pool_size + 1, None)
    assert env.action_masks()[commands].reshape(3, 3).tolist() == [[True, True, False]] * 3
    for _ in range(2):
        order(env, 2)
    assert env.action_masks()[commands].reshape(3, 3).tolist() == [[True, False, True]] * 3
    order(env, 1, HOLD)  # invalid: acts on the units alone
    assert env.simulator.episode_metrics(0)["invalid_actions"] == 1
    assert env.simulator.view().levels[0] == 4


def test_an_invalid_placement_keeps_the_order() -> None:
    env = pool()
    order(env, 1)
    env.step(0)
    assert env.simulator.view().levels[0] == 4


def test_energy_is_paid_once_and_the_battery_settled() -> None:
    """Per kg 2, per kWh 1, per unit of money 4, per unit switched on 3; mean job value 1."""
    weights = {"on_time": 1.0, "carbon": 2.0, "brown": 1.0, "price": 4.0, "switching": 3.0}
    battery = BatteryConfig(100.0, 50.0, 50.0, 1.0)
    env = pool(reward=weights, site=SiteConfig(grid="open", battery=battery), episode_steps=3)
    rewards = [order(env, level)[1] for level in (0, 1, 1)]
    worth = 2.0 * 0.5 + 1.0 + 4.0 * 0.2
    assert rewards[0] == pytest.approx(-30.0 * worth)  # 80 kW critical, 50 from the battery
    assert rewards[1] == pytest.approx(-80.0 * worth)
    assert rewards[2] == pytest.approx(-(80.0 + 0.6 * 50.0) * worth - 3.0 * 8)
    metrics = env.simulator.episode_metrics(0)
    assert metrics["battery_shortfall_kwh"] == 50.0
    assert metrics["settled_carbon_kg"] == pytest.approx(0.6 * 50.0 * 0.5)
    assert metrics["carbon_kg"] == pytest.approx(190.0 * 0.5)


@pytest.mark.parametrize(("cost", "scale"), [("carbon", 0.5 / 100.0), ("brown", 1.0 / 100.0)])
def test_costs_of_energy(cost: str, scale: float) -> None:
    env = pool(cost=cost, episode_steps=3)
    costs = [order(env, 0)[4]["cost"] for _ in range(3)]
    metrics = env.simulator.episode_metrics(0)
    bought = metrics["brown_kwh"] + 0.6 * metrics["battery_shortfall_kwh"]
    assert sum(costs) == pytest.approx(bought * scale)
    assert metrics["accrued_cost"] == pytest.approx(sum(costs))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_energy_is_conserved_in_every_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = EnergyRecorder(ResourcePoolEnv(random_commanded(rng)))
    env.reset(seed=seed % 1000)
    truncated = False
    while not truncated:
        mask = env.unwrapped.action_masks()
        _, _, _, truncated, _ = env.step(sensible_or_any(rng, mask))
    record = env.record()
    sources = record.of("solar") + record.of("wind") + record.of("discharged") + record.of("grid")
    sinks = record.of("critical") + record.of("pool") + record.of("charged") + record.of("curtailed")
    np.testing.assert_allclose(sources, sinks, atol=1e-9, rtol=0)
    assert (record.kwh >= -1e-9).all()
    assert (record.of("unserved") <= 1e-9).all()
    efficiency = record.config.site_config.battery.efficiency
    stored = np.append(record.stored_kwh, env.unwrapped.simulator.view().stored_kwh)
    change = efficiency * record.of("charged") - record.of("discharged")
    np.testing.assert_allclose(np.diff(stored), change, atol=1e-9, rtol=0)
    metrics = env.unwrapped.simulator.episode_metrics(0)
    emitted = float(record.of("grid") @ record.carbon)
    assert metrics["carbon_kg"] == pytest.approx(emitted, abs=1e-9)
    assert metrics["grid_cost"] == pytest.approx(float(record.of("grid") @ record.price), abs=1e-9)


def test_the_observation_shows_carbon_price_and_green_share() -> None:
    steps = np.arange(float(STEPS))
    trace = PowerTrace(steps, 2 * steps, 1.0, START)
    carbon = CarbonTrace(steps / 100, 1.0, START)
    price = PriceTrace(np.where(steps < 30, 0.1, 0.3), 1.0, START)
    env = pool(trace=trace, carbon=carbon, price=price, switch_delay=1, episode_steps=30)
    order(env, 1)
    observation, *_ = order(env, 2)
    seen = dict(zip(context_features(env.config), observation["context"].tolist(), strict=True))
    first = round(env.simulator.power_series()[0][2, 2] * 100)  # the episode starts at any midnight
    assert (seen["units_on"], seen["units_next"]) == (pytest.approx(0.4), 1.0)
    assert seen["carbon_0"] == pytest.approx(first / 100)
    assert seen["carbon_23"] == pytest.approx((first + 23) / 100)
    assert seen["green_share_5"] == pytest.approx(3 * (first + 5) / (3 * (first + 5) + 240))
    assert seen["price_0"] == pytest.approx(0.1 / (0.1 + 0.2) if first < 30 else 0.3 / 0.5)


def test_training_has_the_emissions_of_2019_and_tests_those_of_2021() -> None:
    assert greendc.training_kwargs("ResourcePoolCarbon-10") == {"carbon": "PGE-2019"}
    assert greendc.training_kwargs("ResourcePoolGreen-10") == {}
    tested = gym.make("ResourcePoolCarbon-10-v0").unwrapped.simulator.power
    trained = gym.make("ResourcePoolCarbon-10-v0", carbon="PGE-2019").unwrapped.simulator.power
    assert tested.carbon.mean() == pytest.approx(0.284, abs=0.001)
    assert trained.carbon.mean() == pytest.approx(0.274, abs=0.001)
    assert (tested.trace.start.year, trained.trace.start.year) == (2021, 2019)
    assert tested.trace.wind_kw.max() <= 450.0


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no unit": ({"power_levels": (0, 11)}, r"power_levels=\(0, 11\): must be .* in 0 \.\. units=10"),
    "half a unit": ({"power_levels": (0, 2.5)}, "power_levels"),
    "falling": ({"power_levels": (4, 2)}, "ascending"),
    "never a unit": ({"power_levels": (0,)}, r"power_levels=\(0,\): must be .*the last above 0"),
    "an array": ({"power_levels": np.array([0, 4])}, "power_levels=.*: must be a tuple of"),
    "none": ({"power_levels": ()}, "power_levels"),
    "reservations": ({"placement": "earliest"}, "placement='earliest': must be 'now'"),
    "skipping": ({"skip_forced": True}, "skip_forced=True"),
    "grid": ({"site": {"grid": "critical"}}, "site.grid='critical': must be 'open'"),
    "delay": ({"switch_delay": 2}, "switch_delay=2: must be 0 or 1"),
    "hours": ({"switch_hours": -1.0}, "switch_hours=-1.0"),
    "idle option": ({"power_levels": None, "switch_delay": 1}, "switch_delay=1: must be 0 without"),
    "pausing": ({"pausing": True, "suspend": False}, "suspend=False: must be True with pausing"),
    "price": ({"price": -0.1}, "price=-0.1"),
    "carbon": ({"carbon": -0.1}, "carbon=-0.1"),
    "twice": ({"cost": "carbon", "reward": {"carbon": 1.0}}, "reward.carbon=1.0: .* charged once"),
    "cost": (
        {"power": "constant", "site": None, "trace": None, "carbon": 0.37, "price": 0.0, "cost": "brown"},
        "cost='brown'",
    ),
    "weight": ({"reward": {"brown": -1.0}}, "reward.brown=-1.0"),
    "battery": ({"site": {"grid": "open", "battery": {"min_charge": 0.6}}}, "battery.initial_charge"),
    "short carbon": (
        {"carbon": CarbonTrace(np.ones(9), 1.0, START)},
        "carbon='9 steps of 1 h from 2021.*covers",
    ),
    "short price": ({"price": PriceTrace(np.ones(9), 1.0, START)}, "price='9 steps of 1 h from 2021.*covers"),
    "year": ({"carbon": "PGE-2017"}, "carbon='PGE-2017': must be a year that the series holds"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_field(case: str) -> None:
    options, says = BAD[case]
    with pytest.raises(ValueError, match=says):
        pool(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"site": [1]}, "site: must be a SiteConfig, a mapping or None, not list"),
        ({"site": "GLEAMM"}, "site: must be a SiteConfig, a mapping or None, not str"),
        ({"site": {"battery": 3}}, "site.battery: must be a BatteryConfig or a mapping, not int"),
        ({"carbon": None}, "carbon: must be a number, a CarbonTrace, a path or .*, not NoneType"),
        ({"carbon": [0.3, 0.4]}, "carbon: must be a number, a CarbonTrace, a path or .*, not list"),
        ({"trace": np.ones(9000)}, "trace: must be a PowerTrace, a path or None, not ndarray"),
        ({"trace": 123}, "trace: must be a PowerTrace, a path or None, not int"),
    ],
)
def test_what_is_of_another_class_is_refused_by_name(options: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=f"^{says}$"):
        ResourcePoolEnv(power="trace", **options)


def test_prices_are_prices() -> None:
    with pytest.raises(TypeError, match="price: must be a number or a PriceTrace, not CarbonTrace"):
        pool(price=CarbonTrace(np.ones(STEPS), 1.0, START))
    with pytest.raises(ValueError, match=r"PriceTrace.per_kwh\[1\]=-1.0"):
        PriceTrace(np.array([0.0, -1.0]))
    halves = PriceTrace(np.array([0.1, 0.3]), 0.5, START).resample(1.0)
    assert halves.per_kwh.tolist() == [0.2]


def test_one_level_and_no_battery_is_a_pool_on_the_grid() -> None:
    """With every unit on, and no battery, a commanded pool is one whose grid is open."""
    common = {"power_levels": None, "pausing": False}
    free = ResourcePoolConfig(
        **{**_settings(), **common, "site": SiteConfig(grid="open", battery=BatteryConfig(energy_kwh=0.0))}
    )
    ordered = ResourcePoolConfig(
        **{**_settings(), "site": SiteConfig(grid="open", battery=BatteryConfig(energy_kwh=0.0))}
    )
    found = []
    for config in (free, ordered):
        simulator = ResourcePoolSimulator(config)
        simulator.reset_env(0, np.random.default_rng(3))
        out = simulator.empty_observations()
        simulator.observe(out)
        while not simulator.truncated[0]:
            slots = np.flatnonzero(simulator.action_masks()[0][: config.ready_pool_size])
            simulator.step(np.array([slots[0] if len(slots) else config.no_op]), out)
        found.append(simulator.episode_metrics(0))
    assert {name: found[1][name] for name in found[0]} == found[0]


def _settings() -> dict[str, Any]:
    return {
        "episode_steps": 100,
        "power": "trace",
        "power_levels": (10,),
        "placement": "now",
        "offered_load": 0.8,
    }


@pytest.mark.parametrize("carbon", [0.0, 0.4])
def test_a_constant_carbon_intensity_is_taken_with_generated_weather(carbon):
    env = gym.make("ResourcePoolCarbon-10-v0", carbon=carbon, episode_steps=48)
    env.reset(seed=0)
    series, _ = env.unwrapped.simulator.power_series()
    assert (series[:, 2] == carbon).all()
    assert series[:, 1].max() <= 450.0 and series[:, 0].max() <= 150.0
    assert series[:, 1].max() > 100.0
