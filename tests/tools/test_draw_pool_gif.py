"""The README's moving picture: real frames of an episode, in colours that survive the palette."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from draw_pool_gif import frames, write_gif
from PIL import Image

pytestmark = pytest.mark.default_row


def test_a_colour_that_only_later_frames_have_is_kept(tmp_path: Path) -> None:
    grey, red = np.full((20, 40, 3), 200, np.uint8), np.zeros((20, 40, 3), np.uint8)
    red[..., 0] = 230
    path = tmp_path / "x.gif"
    write_gif(path, iter([grey, grey, grey, grey, red]), width=40, colors=8)
    with Image.open(path) as image:
        image.seek(image.n_frames - 1)
        assert image.size == (40, 20)
        assert np.abs(np.asarray(image.convert("RGB"))[10, 20] - np.array([230.0, 0.0, 0.0])).max() < 8


def test_frames_are_steps_of_an_episode() -> None:
    first, second, third = frames(seed=4, first=1, count=3)
    assert first.shape == (700, 1000, 3) and first.dtype == np.uint8
    assert all((a != b).any() for a, b in itertools.pairwise((first, second, third)))
