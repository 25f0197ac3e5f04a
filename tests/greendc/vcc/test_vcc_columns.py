"""What the columns of observations and reports mean, and the reward that follows from an hour."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from vcc_cases import random_config

from greendc.records import columns_of
from greendc.vcc import VCCSimulator, columns
from greendc.vcc.kernel_report import reward_of

PAIRS = [
    (0, "vcc"),
    (1, "load"),
    (2, "waiting"),
    (27, "sine"),
    (28, "cosine"),
    (29, "vcc_spent"),
    (30, "demand"),
]
PAIRS += [(31, "overdue"), (32, "moer_rank"), (33, "moer_mean"), (34, "moer_gap"), (41, "pending")]
PAIRS += [(42, "pause_charge")]


def test_columns_are_where_the_environment_says():
    assert (columns.PAGE_SIZE, columns.EXTENDED_SIZE) == (27, 43)
    assert [columns_of(columns.Observation, name) for _, name in PAIRS] == [[index] for index, _ in PAIRS]
    assert (
        columns_of(columns.Observation, "forecast") == list(range(43))[columns.FORECAST] == list(range(3, 27))
    )
    assert columns_of(columns.Observation, "delayed") == list(range(35, 41))
    names = ("cost", "carbon", "slo", "overdue", "vcc", "load", "inflexible_load", "waiting", "moer")
    assert names == columns.INFO


def test_numbers_and_names_are_the_same_memory():
    simulator = VCCSimulator(random_config(np.random.default_rng(0)))
    simulator.report.observation["moer_gap"] = 5.0
    assert simulator.report.raw[0, 34] == 5.0


@pytest.mark.parametrize(
    ("baseline", "constrained", "reward"),
    [
        (0, 0, -2 * (0.5 * 6 * 0.25) - 3 * 4),
        (1, 0, -2 * (0.5 * 2 * 0.25) - 3 * 4),
        (1, 1, -2 * (0.5 * 2 * 0.25)),
    ],
)
def test_the_reward_of_an_hour(baseline, constrained, reward):
    hour = SimpleNamespace(load=6.0, moer=0.25, slo=4.0)
    settings = SimpleNamespace(
        carbon_weight=2.0, slo_weight=3.0, kw_per_unit=0.5, baseline=baseline, constrained=constrained
    )
    assert reward_of.py_func(hour, 4.0, settings) == reward
