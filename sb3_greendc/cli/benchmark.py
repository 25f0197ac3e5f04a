"""``benchmark envs``: how fast the environments are, as multiples of CartPole in the same process.

``scripts/benchmark.py`` adds ``train``, which compares the algorithms with their relatives; it is in
``benchmarks/`` of the repository.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

import greendc
from sb3_greendc.cli.common import Parser, one_line_errors
from sb3_greendc.cli.timing import Case, measure, ratio
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.files import write_json
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.runs.hyperparameters import load_hyperparameters, read_hyperparameters

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Parser]

FAMILIES = {
    "vcc": "VCC-2021",
    "resource_pool": "ResourcePool",
    "resource_pool_green": "ResourcePoolGreen-10",
    "resource_pool_carbon": "ResourcePoolCarbon-10",
    "cluster": "Cluster-Lublin",
}
"""The environment that stands for each family; the pool also where power follows a site, and where it is
commanded."""
REFERENCE = "cartpole"
_SAMPLES = 256  # actions drawn beforehand, used over and over


def single_case(name: str, env_id: str) -> Case:
    """Time one environment of ``gym.make``."""
    env = gym.make(env_id)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(_SAMPLES)]
    env.reset(seed=0)

    def run(calls: int) -> None:
        for k in range(calls):
            _, _, terminated, truncated, _ = env.step(actions[k % _SAMPLES])
            if terminated or truncated:
                env.reset()

    return Case(name, run, 1)


def batch_case(name: str, env_id: str, num_envs: int) -> Case:
    """Time Gymnasium's vector environment, which resets by itself."""
    env = greendc.make_vec(env_id, num_envs)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(_SAMPLES)]
    env.reset(seed=0)

    def run(calls: int) -> None:
        for k in range(calls):
            env.step(actions[k % _SAMPLES])

    return Case(name, run, num_envs)


def vec_env_case(name: str, env_id: str, num_envs: int) -> Case:
    """Time SB3's ``VecEnv``, which resets by itself."""
    env = make_vec_env(env_id, num_envs, seed=0)
    env.action_space.seed(0)
    actions = [np.stack([env.action_space.sample() for _ in range(num_envs)]) for _ in range(_SAMPLES)]
    env.reset()

    def run(calls: int) -> None:
        for k in range(calls):
            env.step(actions[k % _SAMPLES])

    return Case(name, run, num_envs)


def cases_of(families: Sequence[str], num_envs: int) -> list[Case]:
    """Return the cases of the families, CartPole first."""
    cases = [single_case(REFERENCE, "CartPole-v1")]
    for family in families:
        env_id = greendc.resolve_env_id(FAMILIES[family])
        cases.append(single_case(f"{family}_single", env_id))
        cases.append(batch_case(f"{family}_batch", env_id, num_envs))
        cases.append(vec_env_case(f"{family}_vecenv", env_id, num_envs))
    return cases


def times_reference(rates: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return each case's speed over CartPole's: the median over rounds of the ratio within a round."""
    return {name: ratio(rates, name, REFERENCE) for name in rates if name != REFERENCE}


class TimedVecEnv(VecEnvWrapper):
    """Adds up the seconds that are spent in the environment."""

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self.seconds = 0.0

    def reset(self) -> Any:
        """Reset, timed."""
        started = time.perf_counter()
        observations = self.venv.reset()
        self.seconds += time.perf_counter() - started
        return observations

    def step_wait(self) -> VecEnvStepReturn:
        """Step, timed."""
        started = time.perf_counter()
        result = self.venv.step_wait()
        self.seconds += time.perf_counter() - started
        return result


def ppo_share(env_id: str, rollouts: int = 4, plain: bool = False) -> float:
    """Return the share of PPO's training time that the environment takes.

    The first rollout warms up and is not counted.

    :param plain: SB3's own hyperparameters and networks (batches of 64, 10 epochs, 2048 transitions in a
        rollout, here of 8 environments) instead of the zoo's, which go through the data more quickly
    """
    env_id = greendc.resolve_env_id(env_id)
    settings = {"n_envs": 8, "n_steps": 256} if plain else load_hyperparameters("ppo", env_id).settings
    hyperparameters = read_hyperparameters("ppo", settings)
    env = TimedVecEnv(make_vec_env(env_id, hyperparameters.n_envs, seed=0))
    model = hyperparameters.build(env, seed=0)
    steps = hyperparameters.n_envs * int(hyperparameters.arguments["n_steps"])
    model.learn(steps)
    env.seconds = 0.0
    started = time.perf_counter()
    model.learn(rollouts * steps, reset_num_timesteps=False)
    return env.seconds / (time.perf_counter() - started)


def new_parser() -> tuple[argparse.ArgumentParser, Subparsers]:
    """Return the command without options, and where its parts go."""
    parser = Parser(prog=how_to_start("benchmark"), description="Measure how fast things are.")
    return parser, parser.add_subparsers(dest="what", required=True)


def add_envs(parts: Subparsers) -> None:
    """Add the part ``envs``."""
    envs = parts.add_parser("envs", help="steps per second of the environments, against CartPole-v1")
    envs.add_argument(
        "--families", nargs="+", choices=tuple(FAMILIES), default=list(FAMILIES), help="what to time"
    )
    envs.add_argument("--num-envs", type=whole_number, default=64, help="environments in a batch")
    envs.add_argument("--rounds", type=whole_number, default=7, help="repeats, of which medians are shown")
    envs.add_argument("--seconds", type=float, default=0.4, help="length of one measurement")
    envs.add_argument("--no-ppo", action="store_true", help="leave out the share of PPO's training time")
    envs.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    envs.set_defaults(run=run_envs)


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser, parts = new_parser()
    add_envs(parts)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run(build_parser().parse_args(argv))


def run(options: argparse.Namespace) -> int:
    """Check what all parts share, run the part that was asked for, and return the exit code."""
    with one_line_errors("benchmark"):
        if "seconds" in options and not options.seconds > 0:
            raise ValueError(f"--seconds {options.seconds}: must be above 0")
    part: Callable[[argparse.Namespace], int] = options.run
    return part(options)


def run_envs(options: argparse.Namespace) -> int:
    """Time the environments and print a table."""
    with one_line_errors("benchmark"):
        cases = cases_of(options.families, options.num_envs)
    rates = measure(cases, options.rounds, options.seconds, time.process_time)
    times = times_reference(rates)
    shares = {
        f"{family}_{kind}": ppo_share(FAMILIES[family], plain=kind == "plain")
        for family in ([] if options.no_ppo else options.families)
        for kind in ("zoo", "plain")
    }
    _print(rates, times, shares)
    if options.json is not None:
        figures = {
            "x_cartpole": times,
            "steps_per_second": {name: float(np.median(values)) for name, values in rates.items()},
            "ppo_env_share": shares,
            "num_envs": options.num_envs,
        }
        write_json(options.json, {**figures, **provenance()})
    return 0


def _print(
    rates: Mapping[str, Sequence[float]], times: Mapping[str, float], shares: Mapping[str, float]
) -> None:
    table = Table(title="environment steps per second (median)", title_justify="left")
    for column in ("case", "steps/s", "µs/step", "× CartPole"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for name, values in rates.items():
        rate = float(np.median(values))
        multiple = f"{times[name]:.2f}" if name in times else "1"
        table.add_row(name, f"{rate:,.0f}", f"{1e6 / rate:.2f}", multiple)
    console = Console()
    console.print(table)
    for case, share in shares.items():
        console.print(f"environment's share of PPO's training time, {case}: {share:.1%}")


if __name__ == "__main__":
    sys.exit(main())
