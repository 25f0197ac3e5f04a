"""Part ``datasets``: arrays of data sets that are collected, joined, saved and loaded."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from golden_parts.digest import Case, Value, digest_of
from golden_parts.names import call, find

SEED = 30
POOL = {"episode_steps": 40}


def cases() -> list[Case]:
    """Return all cases."""
    choices: dict[str, Any] = {
        "heuristics": lambda: pool_data(),
        "heuristics, lookahead": lambda: pool_data(outlook=12, mask="now_on_time"),
        "heuristics, flat": lambda: pool_data(observation="flat"),
        "rollouts with advantages": lambda: advantages(),
        "day_ahead": lambda: month_data(),
        "joined": lambda: find("concatenate")([pool_data(), pool_data(offered_load=0.5)]),
    }
    found = [Case(name, partial(_arrays, make)) for name, make in choices.items()]
    return [*found, Case("saved and loaded", saved_and_loaded)]


def pool_data(transitions: int = 400, **options: Any) -> Any:
    """Return what two heuristics do in small pools."""
    settings = {**POOL, **options}
    return _collect(["qos", "hvf:dispatch=easy"], "ResourcePool-10", transitions, settings)


def month_data(transitions: int = 400, env_id: str = "VCC-2019") -> Any:
    """Return what the day-ahead plan does in short training months."""
    return _collect(["day_ahead"], env_id, transitions, {"days": 3, "split": "train"})


def advantages(transitions: int = 300, **options: Any) -> Any:
    """Return what rollouts do, with their valuation of every action."""
    settings = {**POOL, "mask": "now_on_time", "outlook": 12, **options}
    policies = ["rollout:futures=2,depth=8"]
    return _collect(policies, "ResourcePool-10", transitions, settings, labels=("advantages",))


def _collect(
    policies: list[str], env_id: str, transitions: int, settings: dict[str, Any], **options: Any
) -> Any:
    """Collect, with the settings of the environment by their old names."""

    def run(**env_kwargs: Any) -> Any:
        return find("collect")(
            policies, env_id, transitions, SEED, env_kwargs=env_kwargs, n_envs=4, **options
        )

    return call(run, **settings)


def _arrays(make: Any) -> dict[str, Value]:
    """Return the digests of a data set's arrays, by name."""
    data = make()
    arrays = data.batch(np.arange(len(data)))
    return {name: digest_of(array) for name, array in {**arrays, "sources": list(data.sources)}.items()}


def saved_and_loaded() -> dict[str, Value]:
    """Return the digests of a data set that comes from a file, in memory and mapped."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        pool_data().save(path)
        load = find("OfflineDataset").load
        plain = _arrays(lambda: load(path))
        mapped = _arrays(lambda: load(path, mmap=True))
    return {**plain, **{f"{name}, mapped": value for name, value in mapped.items()}}
