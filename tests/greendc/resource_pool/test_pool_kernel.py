"""The compiled kernel equals the plain-Python reference bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pool_cases import random_commanded, random_config, reference_of, sensible_or_any
from pool_reference_shown import episode_metrics, observe

from greendc.resource_pool.config import ResourcePoolConfig
from greendc.resource_pool.simulator import ResourcePoolSimulator

CASES = 1200
CHUNKS = 8


def play_both(
    case: int, draw: Callable[[np.random.Generator], ResourcePoolConfig] = random_config
) -> dict[str, float]:
    rng = np.random.default_rng(case)
    config = draw(rng)
    simulator = ResourcePoolSimulator(config)
    simulator.reset_env(0, np.random.default_rng(case))
    reference = reference_of(simulator)
    out = simulator.empty_observations()
    simulator.observe(out)
    truncated = False
    while not truncated:
        expected = observe(reference)
        for key, values in expected.items():
            np.testing.assert_array_equal(out[key][0], values, err_msg=f"case {case}: {key}")
        action = sensible_or_any(rng, expected["action_mask"])
        reward, cost, advanced, truncated = reference.step(action)
        simulator.step(np.array([action]), out)
        told = (
            simulator.rewards[0],
            simulator.step_info["cost"][0],
            simulator.step_info["time_advanced"][0],
            simulator.truncated[0],
        )
        assert told == (reward, cost, advanced, truncated), f"case {case}"
        assert simulator.view().queue.tolist() == [job.id for job in reference.queue()]
        if config.power == "trace":
            assert simulator.view().stored_kwh == reference.stored
    metrics = simulator.episode_metrics(0)
    assert metrics == episode_metrics(reference), f"case {case}"
    return metrics


def surprised_by_power(rng: np.random.Generator) -> ResourcePoolConfig:
    return random_config(rng, forecast_error=0.3)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_kernel_equals_the_reference_bit_for_bit(chunk: int) -> None:
    totals: dict[str, float] = {}
    for case in range(chunk, CASES, CHUNKS):
        # Every other case has power that falls short of its forecast, which alone suspends running jobs.
        draw = random_config if case // CHUNKS % 2 else surprised_by_power
        for name, value in play_both(case, draw).items():
            totals[name] = totals.get(name, 0.0) + value
    # The cases are worth nothing if they leave a rule out.
    for name in (
        "completed_jobs",
        "qos_violations",
        "invalid_actions",
        "agent_suspensions",
        "power_suspensions",
        "broken_reservations",
        "left_jobs",
        "brown_kwh",
        "battery_charged_kwh",
        "battery_discharged_kwh",
        "curtailed_kwh",
        "critical_unserved_kwh",
    ):
        assert totals[name] > 0, name


COMMANDED_CASES = (range(300), pytest.param(range(300, 3000), marks=pytest.mark.slow))


@pytest.mark.parametrize("cases", COMMANDED_CASES, ids=("small", "large"))
def test_kernel_equals_the_reference_where_power_is_commanded(cases: range) -> None:
    totals: dict[str, float] = {}
    for case in cases:
        for name, value in play_both(case, random_commanded).items():
            totals[name] = totals.get(name, 0.0) + value
    for name in (
        "agent_suspensions",
        "power_suspensions",
        "invalid_actions",
        "switched_units",
        "switching_kwh",
        "grid_cost",
        "battery_shortfall_kwh",
        "settled_carbon_kg",
        "battery_charged_kwh",
        "curtailed_kwh",
    ):
        assert totals[name] > 0, name
