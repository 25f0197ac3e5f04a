"""The global random generators of Python, NumPy and torch, which trainings draw from."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch as th


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Leave the global generators as they were, whatever the block draws from them or seeds them with.

    Stable-Baselines3 seeds them when it builds a model of a seed, and draws new weights from torch's. Where
    the model is only to be judged or copied, that must not reach a training that goes on around it.
    """
    devices = list(range(th.cuda.device_count())) if th.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with th.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)  # noqa: NPY002
