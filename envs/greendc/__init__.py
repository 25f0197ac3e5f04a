"""Simulators and Gymnasium environments of datacenters on renewable power and a changing grid.

Importing this package registers the environments with Gymnasium. It never imports torch, so that
environment workers start quickly.
"""

from typing import TYPE_CHECKING, Any

from greendc.registration import (
    family,
    make_simulator,
    make_vec,
    register_all,
    register_variant,
    resolve_env_id,
    training_kwargs,
)

if TYPE_CHECKING:
    from greendc.shipped import load_policy

register_all()

__all__ = [
    "family",
    "load_policy",
    "make_simulator",
    "make_vec",
    "register_variant",
    "resolve_env_id",
    "training_kwargs",
]


def __getattr__(name: str) -> Any:
    """Import what most users of environments do not need when it is asked for."""
    if name == "load_policy":
        from greendc.shipped import load_policy

        return load_policy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
