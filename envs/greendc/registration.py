"""Registration with Gymnasium, and making simulators and batches by id."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from greendc.cluster.presets import presets as cluster_presets
from greendc.config import nearest, require_class
from greendc.environments import SimulatorVectorEnv
from greendc.resource_pool.presets import TRAINING_CARBON
from greendc.resource_pool.presets import presets as resource_pool_presets
from greendc.simulator import Simulator
from greendc.vcc.presets import presets as vcc_presets
from greendc.vcc.splits import SPLITS


@dataclass(frozen=True)
class Family:
    """A family of environments: where its classes are, and its ids.

    :param name: what the package calls it: ``"vcc"``
    :param module: module of the environment classes
    :param prefix: their common name: ``VCC`` for ``VCCEnv`` and ``VCCVectorEnv``
    :param presets: ids with a version, and their keyword arguments
    :param training: keyword arguments that turn an id into its training split
    """

    name: str
    module: str
    prefix: str
    presets: dict[str, dict[str, Any]]
    training: Mapping[str, Any]


FAMILIES = (
    Family("vcc", "greendc.vcc.env", "VCC", vcc_presets(), {"split": "train"}),
    Family("resource_pool", "greendc.resource_pool.env", "ResourcePool", resource_pool_presets(), {}),
    Family("cluster", "greendc.cluster.env", "Cluster", cluster_presets(), {}),
)


def register_all() -> None:
    """Register every id with Gymnasium; ids that are registered already are left alone."""
    for entry in FAMILIES:
        for env_id, kwargs in entry.presets.items():
            if env_id not in gym.registry:
                _register(entry, env_id, kwargs)


def register_variant(env_id: str, base: str, **kwargs: Any) -> None:
    """Register an id of your own: an environment of this package with other defaults.

    The new id works wherever the package's own do, and keeps the compiled batches, which an id that is
    registered with Gymnasium alone does not.

    :param env_id: the new id, with a version: ``"MyPool-v0"``
    :param base: the id that it varies, with or without a version
    :param kwargs: keyword arguments of the environment that differ from those of ``base``
    :raises ValueError: if the new id has no version or is taken, ``base`` is unknown or of another package,
        or a keyword has a wrong value
    :raises TypeError: for an id that is no text, an unknown keyword, or one that ids have no default of
    """
    require_class("env_id", env_id, (str,), "a name with a version, such as 'MyPool-v0'")
    if re.fullmatch(r"[\w./-]+-v\d+", env_id) is None:
        raise ValueError(f"env_id={env_id!r}: must be a name with a version, such as 'MyPool-v0'")
    if env_id in gym.registry:
        raise ValueError(f"env_id={env_id!r}: must be a new id; this one is registered already")
    entry = family_of(base)
    if entry is None:
        raise ValueError(f"base={base!r}: must be an environment of greendc")
    for name in ("render_mode", "threads"):
        if name in kwargs:
            raise TypeError(f"{name}: an id has no default of it; give it where an environment is made")
    preset = {**entry.presets[resolve_env_id(base)], **kwargs}
    importlib.import_module(entry.module).make_config(None, preset)  # refuses wrong keywords now
    entry.presets[env_id] = preset
    _register(entry, env_id, preset)


def _register(entry: Family, env_id: str, kwargs: dict[str, Any]) -> None:
    gym.register(
        env_id,
        entry_point=f"{entry.module}:{entry.prefix}Env",
        vector_entry_point=_vector_entry_point(entry, env_id),
        kwargs=kwargs,
    )


def _vector_entry_point(entry: Family, env_id: str) -> str:
    if int(gym.__version__.split(".")[0]) >= 1:
        return f"{entry.module}:{entry.prefix}VectorEnv"
    return f"greendc.vector_entry_points:{env_id}"


def resolve_env_id(env_id: str) -> str:
    """Return the id with its version: ``VCC-2021`` means the latest, ``VCC-2021-v1``.

    :raises ValueError: for an id that neither this package nor Gymnasium has; names the nearest
    :raises TypeError: for an environment in place of its id
    """
    require_class("env_id", env_id, (str,), "the id of a registered environment")
    if env_id in gym.registry:
        return env_id
    stem = f"{env_id}-v"
    versions = [known[len(stem) :] for known in gym.registry if known.startswith(stem)]
    numbers = [int(version) for version in versions if version.isdecimal()]
    if numbers:
        return f"{stem}{max(numbers)}"
    ours = [known for entry in FAMILIES for known in entry.presets]
    raise ValueError(
        f"unknown environment {env_id!r}{nearest(env_id, [*ours, *gym.registry])} "
        "(one of your own must be registered first, for commands by a module that --import names)"
    )


def family_of(env_id: str) -> Family | None:
    """Return the family of an id, ``None`` for environments of other packages."""
    resolved = resolve_env_id(env_id)
    return next((entry for entry in FAMILIES if resolved in entry.presets), None)


def family(env_id: str) -> str | None:
    """Return ``"vcc"``, ``"resource_pool"`` or ``"cluster"``, ``None`` for environments of other packages."""
    entry = family_of(env_id)
    return entry.name if entry else None


def training_kwargs(env_id: str) -> dict[str, Any]:
    """Return the keyword arguments that turn an id into the split that it may be trained on.

    Training for ``VCC-2021`` uses the months of the training split, never its own (``month=None`` says so),
    and a resource pool with the emissions of 2021 is trained on those of 2019.
    """
    entry = family_of(env_id)
    if entry is None:
        return {}
    kwargs, preset = dict(entry.training), entry.presets[resolve_env_id(env_id)]
    month, carbon = preset.get("month"), TRAINING_CARBON.get(str(preset.get("carbon")))
    if "split" in kwargs and month is not None and month not in SPLITS[kwargs["split"]]:
        kwargs["month"] = None
    if carbon is not None:
        kwargs["carbon"] = carbon
    return kwargs


def make_vec(env_id: str, num_envs: int, **kwargs: Any) -> SimulatorVectorEnv:
    """Make a batch of environments by id (with or without a version).

    :raises ValueError: for an id that this package does not have
    """
    entry = family_of(env_id)
    if entry is None:
        raise ValueError(f"{env_id!r} is not an environment of greendc; use gymnasium.make_vec")
    vector_class = getattr(importlib.import_module(entry.module), f"{entry.prefix}VectorEnv")
    made: SimulatorVectorEnv = vector_class(num_envs, **{**entry.presets[resolve_env_id(env_id)], **kwargs})
    return made


def make_simulator(env_id: str, num_envs: int = 1, **kwargs: Any) -> Simulator:
    """Make the simulator behind :func:`make_vec`."""
    return make_vec(env_id, num_envs, **kwargs).simulator
