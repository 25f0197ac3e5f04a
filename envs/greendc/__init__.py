"""Simulators and Gymnasium environments of datacenters on renewable power and a changing grid.

Importing this package registers the environments with Gymnasium. It never imports torch, so that
environment workers start quickly.
"""

from greendc.registration import (
    family,
    make_simulator,
    make_vec,
    register_all,
    register_variant,
    resolve_env_id,
    training_kwargs,
)

register_all()

__all__ = ["family", "make_simulator", "make_vec", "register_variant", "resolve_env_id", "training_kwargs"]
