"""Trained policies that ship with the package, run by NumPy alone."""

from greendc.shipped.policy import ShippedPolicy, load_policy
from greendc.shipped.release import Release, release_for, releases

__all__ = ["Release", "ShippedPolicy", "load_policy", "release_for", "releases"]
