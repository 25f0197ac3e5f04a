"""What holds for the package of environments as a whole."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import pytest

import greendc

WITHOUT_TORCH = """
import importlib, importlib.abc, pkgutil, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "stable_baselines3", "sb3_contrib"):
            raise ImportError(f"{name} must not be imported")

sys.meta_path.insert(0, Refuse())
import greendc
modules = [module.name for module in pkgutil.walk_packages(greendc.__path__, "greendc.")]
assert len(modules) > 20, modules
for module in modules:
    if not module.endswith("__main__"):
        importlib.import_module(module)
"""


def test_everything_imports_without_torch():
    child = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr


def test_registration_happens_once_however_often_it_is_asked_for():
    before = dict(gym.registry)
    greendc.registration.register_all()
    assert dict(gym.registry) == before


@pytest.mark.parametrize(("env_id", "name"), [("VCC-2021", "vcc"), ("ResourcePool-10", "resource_pool")])
def test_ids_work_with_and_without_a_version(env_id, name):
    assert greendc.family(env_id) == greendc.family(greendc.resolve_env_id(env_id)) == name
    assert greendc.family("CartPole-v1") is None
    assert greendc.make_simulator(env_id, 2).num_envs == 2
