"""The window of the render mode ``"human"``: one for each kind of environment."""

from __future__ import annotations

import sys
from typing import Any

from numpy.typing import NDArray


def show_picture(title: str, picture: NDArray[Any]) -> None:
    """Show a picture in the window of this title, which is opened where there is none.

    :param title: of the window
    :param picture: ``(height, width, 3)``, of 100 pixels an inch
    """
    import matplotlib.pyplot as plt

    height, width = picture.shape[:2]
    window = plt.figure(title, figsize=(width / 100, height / 100))
    window.clear()
    axes = window.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.axis("off")
    axes.imshow(picture)
    plt.pause(0.001)


def close_window(title: str) -> None:
    """Close the window of this title, if there is one."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(title)
