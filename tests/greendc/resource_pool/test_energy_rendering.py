"""Pictures of energy: under the resource image, and of a week."""

from __future__ import annotations

import gymnasium as gym
import matplotlib as mpl
import numpy as np
import pytest

import greendc  # noqa: F401 (registers the ids)
from greendc.baselines import make_policy
from greendc.resource_pool import ResourcePoolEnv
from greendc.resource_pool.energy_recording import EnergyRecorder
from greendc.resource_pool.rendering import pool_figure
from greendc.resource_pool.rendering_energy import power_figure


def test_pictures_show_sources_battery_units_and_emissions() -> None:
    mpl.use("Agg")
    env = EnergyRecorder(
        gym.make("ResourcePoolCarbon-10-v0", episode_steps=200, carbon="PGE-2019", render_mode="rgb_array")
    )
    rule = make_policy("grid_qos", env)
    observation, _ = env.reset(seed=0)
    truncated = False
    while not truncated:
        observation, _, _, truncated, _ = env.step(int(rule.predict(observation)[0]))
    picture = env.render()
    assert picture.shape == (700, 1000, 3)
    record = env.record()
    figure = power_figure(record, "a week", 24, 192)
    power = figure.axes[0]
    assert power.get_legend_handles_labels()[1][:4] == ["wind", "sun", "battery", "grid"]
    served = power.patches[3].get_data().values  # the top of the stack: all that came from anywhere
    spent = record.of("critical") + record.of("pool") + record.of("charged")
    np.testing.assert_allclose(served, spent[24:192], atol=1e-6)
    assert power.get_xlim() == (24, 192)
    with pytest.raises(ValueError, match="first=0, last=201: must be steps"):
        power_figure(record, last=201)


def test_the_outlook_stands_under_the_image_where_power_is_commanded() -> None:
    env = gym.make("ResourcePoolCarbon-10-v0").unwrapped
    env.reset(seed=0)
    view = env.simulator.view()
    series = env.simulator.power_series()[0][:48]
    assert len(pool_figure(view, "").axes) + 2 == len(pool_figure(view, "", outlook=series).axes)


def test_energy_is_recorded_at_sites_alone() -> None:
    with pytest.raises(ValueError, match="power='trace'"):
        EnergyRecorder(ResourcePoolEnv())
