"""Problems whose packages are missing can be counted all the same, to say how long all of them would take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import gymnasium as gym

LEFT_OUT = "Left out: "
"""How notes on problems begin that were not run for want of a package."""

_COUNTED: ContextVar[bool] = ContextVar("_COUNTED", default=False)


@contextmanager
def as_if_installed() -> Iterator[None]:
    """Let experiments have the tasks of all their problems; those of missing packages can only be counted."""
    from sb3_greendc.experiments.known.problems import PROBLEMS

    absent = {problem.env_id for problem in PROBLEMS if problem.env_id not in gym.registry}
    for env_id in absent:  # tasks look up the names of their environments
        gym.register(env_id, entry_point=__name__)
    token = _COUNTED.set(True)
    try:
        yield
    finally:
        _COUNTED.reset(token)
        for env_id in absent:
            del gym.registry[env_id]


def counted_as_installed() -> bool:
    """Tell whether this is within :func:`as_if_installed`."""
    return _COUNTED.get()
