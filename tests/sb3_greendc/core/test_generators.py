"""The global random generators stay as they were."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.utils import set_random_seed

from sb3_greendc.bc.models import make_model
from sb3_greendc.core.generators import generators_kept


def draw() -> tuple[float, float, float]:
    return random.random(), np.random.rand(), th.rand(()).item()  # noqa: NPY002


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_block_seeds_or_draws_is_undone(fails: bool) -> None:
    set_random_seed(1)
    draw()
    expected = [draw(), draw()]
    set_random_seed(1)
    draw()
    found = []
    for _ in range(2):
        try:
            with generators_kept():
                set_random_seed(0)
                draw()
                if fails:
                    raise OSError
        except OSError:
            pass
        found.append(draw())
    assert found == expected


def test_a_model_of_a_seed_is_built_beside_them_and_one_without_from_them() -> None:
    box, two = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)
    set_random_seed(1)
    expected = draw()
    set_random_seed(1)
    models = [make_model(box, two, seed=5), make_model(box, two, seed=5)]
    assert draw() == expected
    models += [make_model(box, two), make_model(box, two)]
    first, second, third, fourth = (next(model.policy.parameters()) for model in models)
    assert th.equal(first, second)
    assert not th.equal(third, fourth)
