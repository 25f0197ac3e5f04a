"""``scripts/benchmark.py scratch``: what it takes from nothing to a policy of a given value.

Every learner has a ladder of budgets. Each budget is a training of its own from the first weight on, with
every seed, judged on the same test episodes; the first budget whose mean value reaches the goal is the
learner's answer, chosen on these episodes for all learners alike. Seconds are those of the process (all its
threads), judging and compilation left out.

- ``distillation``: rollouts are recorded with what they think of every action, and distilled
- ``maskable_ppo``: the zoo's hyperparameters, the same mask, with and without the lookahead that the
  distilled network has
- ``sbx_ppo``: PPO of SBX (JAX), if it is installed; it knows no masks and no dicts, so that observations are
  flattened and an action that is not possible waits
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.vec_env import VecEnvWrapper

from sb3_greendc.cli.common import one_line_errors
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.files import write_json
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.policy_sources import Policy
from sb3_greendc.experiments.distillation import distill_rollouts
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.experiment import LOOKAHEAD, ON_TIME, student_view
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.runs.training import prepare

if TYPE_CHECKING:
    from sb3_greendc.cli.benchmark import Subparsers

PROBLEM = Scenario("ResourcePool-10", {"offered_load": 1.0})
SHOWN = "total_job_value_ratio"


@dataclass(frozen=True)
class Rung:
    """One training: how long it took, and what plays.

    :param seconds: of the process
    :param policy: what has been trained
    :param scenario: what it acts in
    """

    seconds: float
    policy: Policy
    scenario: Scenario


@dataclass(frozen=True)
class Contender:
    """A learner with its ladder.

    :param budgets: from the smallest on: decisions that are recorded, or environment steps
    :param train: trains with a budget and a seed
    """

    budgets: tuple[int, ...]
    train: Callable[[int, int], Rung]


def distillation(budget: int, seed: int) -> Rung:
    """Record rollouts and distill them."""
    scenario = PROBLEM.with_kwargs(**student_view(PROBLEM))
    distill_rollouts((scenario,), 1000, futures=FUTURES, epochs=1, seed=seed)  # compiles
    started = time.process_time()
    clone = distill_rollouts((scenario,), budget, FUTURES, PASSES, seed)
    return Rung(time.process_time() - started, clone.model, scenario)


def maskable_ppo(budget: int, seed: int, **view: Any) -> Rung:
    """Train MaskablePPO with the zoo's hyperparameters for the family."""
    scenario = PROBLEM.with_kwargs(**ON_TIME, **view)
    run = prepare(
        "maskable_ppo", scenario.env_id, budget, 1000 * (seed + 1), scenario.env_kwargs, device="cpu"
    )
    prepare("maskable_ppo", scenario.env_id, 1, 0, scenario.env_kwargs, device="cpu").model.learn(
        1
    )  # compiles
    started = time.process_time()
    run.model.learn(budget)
    return Rung(time.process_time() - started, run.model, scenario)


def sbx_ppo(budget: int, seed: int) -> Rung:
    """Train SBX's PPO with the numbers of the zoo's MaskablePPO that it has, too."""
    from sbx import PPO

    scenario = PROBLEM.with_kwargs(**ON_TIME)
    settings = {"n_steps": 128, "batch_size": 2048, "n_epochs": 4, "gamma": 0.995, "gae_lambda": 0.9}
    env = FlatVecEnv(make_vec_env(scenario.env_id, 64, 1000 * (seed + 1), **scenario.env_kwargs))
    PPO("MlpPolicy", env, **settings).learn(8192)  # compiles
    model = PPO("MlpPolicy", env, learning_rate=6e-4, clip_range=0.15, seed=seed, **settings)
    started = time.process_time()
    model.learn(budget)
    return Rung(time.process_time() - started, Flattening(model), scenario)


FUTURES, PASSES = 16, 10
CONTENDERS = {
    "distillation": Contender((2_000, 4_000, 8_000, 16_000, 32_000, 64_000), distillation),
    "maskable_ppo": Contender((250_000, 500_000, 1_000_000, 2_000_000), maskable_ppo),
    "maskable_ppo_lookahead": Contender(
        (62_500, 125_000, 250_000, 500_000, 1_000_000),
        lambda budget, seed: maskable_ppo(budget, seed, **LOOKAHEAD),
    ),
    "sbx_ppo": Contender((500_000, 1_000_000, 2_000_000), sbx_ppo),
}


def flattened(observation: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    """Return a batch of dicts as one matrix."""
    parts = [np.asarray(observation[key], np.float32) for key in sorted(observation)]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


class FlatVecEnv(VecEnvWrapper):
    """A vector environment whose dicts are matrices, for learners that know no dicts."""

    def __init__(self, venv: Any) -> None:
        size = sum(int(np.prod(space.shape)) for space in venv.observation_space.spaces.values())
        super().__init__(venv, spaces.Box(-np.inf, np.inf, (size,), np.float32))

    def reset(self) -> NDArray[np.float32]:
        """Return the first observations."""
        return flattened(self.venv.reset())

    def step_wait(self) -> Any:
        """Return the next observations, rewards, ends and infos."""
        observations, rewards, dones, infos = self.venv.step_wait()
        for info in infos:
            if "terminal_observation" in info:
                last = {key: np.asarray(part)[None] for key, part in info["terminal_observation"].items()}
                info["terminal_observation"] = flattened(last)[0]
        return flattened(observations), rewards, dones, infos


@dataclass(frozen=True)
class Flattening:
    """A policy of flat observations that is shown dicts."""

    model: Any

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """See :class:`~sb3_greendc.evaluation.policy_sources.Predictor`."""
        actions, _ = self.model.predict(flattened(observation), deterministic=deterministic)
        return actions, None


def climb(name: str, goal: float, seeds: int, episodes: int) -> list[dict[str, Any]]:
    """Return each budget of a learner up to the first that reaches the goal, with its seconds and values."""
    contender, rows = CONTENDERS[name], []
    for budget in contender.budgets:
        rungs = [contender.train(budget, seed) for seed in range(seeds)]
        values = [
            float(np.mean([episode[SHOWN] for episode in play(rung.policy, judged(rung.scenario), episodes)]))
            for rung in rungs
        ]
        seconds = [rung.seconds for rung in rungs]
        rows.append({"budget": budget, "seconds": seconds, "values": values})
        if np.mean(values) >= goal:
            break
    return rows


def judged(scenario: Scenario) -> Scenario:
    """Return a scenario with the length of test episodes."""
    return scenario.with_kwargs(episode_steps=500)


def add_scratch(parts: Subparsers) -> None:
    """Add the part ``scratch`` to the command."""
    scratch = parts.add_parser("scratch", help="the time from nothing to a policy of a given value")
    scratch.add_argument("--learners", nargs="+", choices=tuple(CONTENDERS), default=list(CONTENDERS)[:3])
    scratch.add_argument("--goal", type=float, default=0.66, help="share of the arrived value at load 1.0")
    scratch.add_argument("--seeds", type=whole_number, default=3, help="trainings of each budget")
    scratch.add_argument("--episodes", type=whole_number, default=128, help="test episodes of 500 steps")
    scratch.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    scratch.set_defaults(run=run_scratch)


def run_scratch(options: argparse.Namespace) -> int:
    """Train every learner on its ladder and print a table."""
    figures = {}
    with one_line_errors("benchmark"):
        for name in options.learners:
            figures[name] = climb(name, options.goal, options.seeds, options.episodes)
    table = Table(
        "learner", title=f"to {options.goal:g} of the value; torch has {th.get_num_threads()} threads"
    )
    for column in ("budget", "seconds", "value", ""):
        table.add_column(column, justify="right")
    for name, rows in figures.items():
        for row in rows:
            value = np.mean(row["values"])
            reached = "reached" if value >= options.goal else ""
            seconds = f"{np.mean(row['seconds']):.1f}"
            table.add_row(name, f"{row['budget']:,}", seconds, f"{value:.3f}", reached)
    Console().print(table)
    if options.json is not None:
        settings = {"goal": options.goal, "episodes": options.episodes, "torch_threads": th.get_num_threads()}
        write_json(options.json, {"learners": figures, **settings, **provenance()})
    return 0
