"""What a start leaves of the free blocks, against what the image shows before and after it."""

import numpy as np
import pytest

from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator
from greendc.resource_pool.observation import FRAGMENTATION_ROWS, STARTS_NOW, UNITS, VALID


def largest_blocks(cells):
    """Return the two largest numbers of adjacent free cells, cell by cell."""
    lengths, run = [0, 0], 0
    for cell in [*cells, 1]:
        if cell == 0:
            run += 1
        else:
            lengths.append(run)
            run = 0
    return sorted(lengths)[::-1][:2]


def blocks_of(image, types, units):
    """Return ``(R, rows, 2)``: the largest free blocks of the rows that are told."""
    return np.array(
        [
            [largest_blocks(image[row, k * units : (k + 1) * units]) for row in FRAGMENTATION_ROWS]
            for k in range(types)
        ]
    )


CASES = {
    "ten units": {"units": 10},
    "two words a row": {"units": 100, "ready_pool_size": 30, "offered_load": 1.2},
    "one type, with overheads": {"units": 12, "resource_types": 1, "start_delay": 1, "end_delay": 2},
    "units without power": {"units": 10, "power": "markov", "power_low": 0.5},
    "lookahead behind it": {"units": 10, "lookahead": 24},
    "suspend": {"units": 10, "suspend": True, "lookahead": 24},
}


@pytest.mark.parametrize("case", CASES)
def test_columns_are_what_the_image_shows_after_a_start(case):
    """Every start that is tried, tried: the blocks of the image before it, less those after it."""
    options = {"mask": "now_on_time", "episode_steps": 60, **CASES[case]}
    simulator = ResourcePoolSimulator(ResourcePoolConfig(fragmentation=True, **options), 1)
    config = simulator.config
    types, units, n = config.resource_types, config.units, config.ready_pool_size
    width = 2 * types * len(FRAGMENTATION_ROWS)
    first = UNITS + types
    observation = simulator.empty_observations()
    assert observation["jobs"].shape[2] == first + width + (config.lookahead > 0)
    rng = np.random.default_rng(0)
    simulator.reset_env(0, rng)
    simulator.observe(observation)
    tried = grown = 0
    while not simulator.truncated[0]:
        mask = observation["action_mask"][0]
        told = observation["jobs"][0][:, first : first + width].reshape(n, types, -1, 2) * units
        before = blocks_of(observation["resources"][0], types, units)
        for slot in range(n):
            row = observation["jobs"][0][slot]
            if not (row[VALID] and row[STARTS_NOW]):
                assert (told[slot] == 0).all()
                continue
            copied = simulator.alone(0)
            after = copied.empty_observations()
            copied.step(np.array([slot]), after)
            image = after["resources"][0]
            np.testing.assert_allclose(told[slot], before - blocks_of(image, types, units), atol=1e-4)
            tried += 1
            grown += (told[slot][..., 1] < 0).any()
        action = rng.choice(np.flatnonzero(mask))
        simulator.step(np.array([action]), observation)
    assert tried > 10
    if types == 2:
        assert grown > 0
