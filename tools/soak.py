"""Random steps over presets and random configurations of every family, with laws checked from outside.

``python tools/soak.py --steps 10000000`` plays so many steps and writes its count to ``soak.json`` in
``--out`` as it goes. A case is one simulator (a preset, or a configuration with every option drawn at random)
played for some episodes with random actions; its seed alone fixes everything in it. What a step told is
checked after every step, the tables of jobs of a few environments at resets, at ends and in a sample of the
steps. Batches are large, since a check of a batch takes about as long as one of an environment. The first law
that is broken ends the run: the message names the case, and ``--first SEED --cases 1`` plays it again.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from soak_cluster import ClusterWatch
from soak_pool import BrokenLawError, PoolWatch
from soak_vcc import VCCWatch

import greendc
from greendc.cluster.presets import presets as cluster_presets
from greendc.cluster.simulator import ClusterSimulator
from greendc.resource_pool.presets import presets as pool_presets
from greendc.resource_pool.simulator import ResourcePoolSimulator
from greendc.simulator import Simulator
from greendc.vcc import VCCSimulator
from greendc.vcc.presets import presets as vcc_presets

TESTS = Path(__file__).resolve().parents[1] / "tests" / "greendc"
sys.path[:0] = [str(TESTS / name) for name in ("resource_pool", "vcc", "cluster")]

import cluster_cases  # noqa: E402
import pool_cases  # noqa: E402
import vcc_cases  # noqa: E402

FAMILIES = ("pool", "vcc", "cluster")
PRESETS = {"pool": pool_presets, "vcc": vcc_presets, "cluster": cluster_presets}
LOOK_EVERY = 24
"""Steps between two looks at the tables of jobs, of a few environments in turn."""
BLOCK = 100
"""Steps that compiled code takes in each pool between two steps of the public interface."""
LOOKS = 4
"""Environments looked at, and at most of those that end or begin in one step."""

Fault = Callable[[Any], None]
"""Breaks something in a simulator after each step, for tests of this check."""


def make_case(family: str, seed: int, num_envs: int | None = None) -> tuple[str, Simulator]:
    """Return a name and a simulator: of a preset in half of the cases (pools: a third), else a random one.

    :param family: one of :data:`FAMILIES`
    :param seed: of the case
    :param num_envs: size of the batch, default: by the case
    """
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    if rng.random() < (1.0 / 3.0 if family == "pool" else 0.5):
        return _preset(family, rng, num_envs)
    if family == "vcc":
        days, jobs = int(rng.integers(1, 31)), int(rng.integers(1, 60))
        trace = vcc_cases.random_trace(rng, int(rng.integers(1, 9)), jobs, rng.choice([0.1, 0.6, 1.0]))
        levels = [None, None, 2, 11][rng.integers(4)]
        config = vcc_cases.random_config(rng, days=days, workload=trace, discrete_actions=levels)
        return "random", VCCSimulator(config, num_envs or 512)
    if family == "cluster":
        most = int(rng.choice([40, 40, 400]))
        return "random", ClusterSimulator(
            cluster_cases.random_config(rng, most // 5, most), num_envs or 20_480 // most
        )
    if rng.random() < 0.2:
        return "commanded", ResourcePoolSimulator(pool_cases.random_commanded(rng), num_envs or 512)
    fixed: dict[str, Any] = {}
    if rng.random() < 0.8:  # long episodes, with jobs of their own each
        steps, hours = int(rng.integers(50, 1_500)), float(rng.choice([0.5, 1.0, 2.0]))
        fixed = {"workload": "synthetic", "episode_steps": steps, "step_hours": hours}
        fixed["offered_load"] = float(rng.uniform(0.2, 1.6))
        fixed["power"] = str(rng.choice(["constant", "on_off", "markov", "random", "trace", "trace"]))
        if fixed["power"] == "trace":
            fixed["trace"] = pool_cases.random_trace(rng, steps + 200, hours)
    return "random", ResourcePoolSimulator(pool_cases.random_config(rng, **fixed), num_envs or 512)


def _preset(family: str, rng: np.random.Generator, num_envs: int | None) -> tuple[str, Simulator]:
    name = str(rng.choice(list(PRESETS[family]())))
    options: dict[str, Any] = {}
    size = 128
    if family == "pool":
        size = 64 if "300" in name or "100" in name else 512
        options = {"offered_load": float(rng.uniform(0.2, 1.4)), "episode_steps": 300}
    elif family == "cluster":
        options = {"episode_jobs": int(rng.choice([64, 256])), "workload_jobs": 2_000}
        options["workload_seed"] = int(rng.integers(1_000))
    elif rng.random() < 0.5 and PRESETS[family]()[name].get("month") is None:
        options = {"split": str(rng.choice(["train", "validation", "heldout", "test"]))}
    return name, greendc.make_simulator(name, num_envs or size, **options)


def random_actions(
    simulator: Simulator, rng: np.random.Generator, lazy: float, out: Any = None
) -> NDArray[Any]:
    """Return an action for each environment, of a pool or a cluster mostly a valid one.

    :param simulator: the batch
    :param rng: draws them
    :param lazy: how seldom jobs are placed; how steady a virtual capacity is
    :param out: the present observations, where a family has masks in them
    """
    n = simulator.num_envs
    if isinstance(simulator, ResourcePoolSimulator | ClusterSimulator):
        is_pool = isinstance(simulator, ResourcePoolSimulator)
        masks = simulator.action_masks() if is_pool else out["action_mask"]
        draws = rng.random(masks.shape, np.float32) * masks
        draws[:, -1] *= 1.0 + lazy
        actions: NDArray[Any] = draws.argmax(axis=1)
        if rng.random() < 0.05:
            odd = int(rng.integers(n))
            actions[odd] = rng.integers(masks.shape[1])
        return actions
    levels = getattr(simulator.action_space, "n", None)
    if levels is not None:
        return rng.integers(levels, size=n)
    fractions = rng.random((n, 1))
    return fractions.round() if lazy > 0.5 else fractions


def watch_of(simulator: Simulator, lazy: float, seed: int) -> PoolWatch | VCCWatch | ClusterWatch:
    """Return what checks the laws of a simulator's family."""
    if isinstance(simulator, ClusterSimulator):
        return ClusterWatch(simulator)
    if isinstance(simulator, ResourcePoolSimulator):
        return PoolWatch(simulator, lazy, seed)
    assert isinstance(simulator, VCCSimulator)
    return VCCWatch(simulator)


def play(
    family: str, seed: int, episodes: int = 2, num_envs: int | None = None, fault: Fault | None = None
) -> tuple[str, int]:
    """Play a case and check every law.

    Pools take most of their steps in compiled code, which checks each of them.

    :param family: one of :data:`FAMILIES`
    :param seed: of the case
    :param episodes: how many begin in each environment
    :param num_envs: size of the batch, default: by the case
    :param fault: done to the simulator after each step
    :return: name of the case, and the number of steps, those of all environments together
    :raises BrokenLawError: if a law is broken; the message names the case
    """
    name, simulator = make_case(family, seed, num_envs)
    rng = np.random.default_rng([seed, 99])
    lazy, out = float(rng.random()), simulator.empty_observations()
    watch = watch_of(simulator, lazy, seed)
    generators = [np.random.default_rng([seed, i]) for i in range(simulator.num_envs)]
    begun, moves, turn = np.zeros(simulator.num_envs, np.int64), 0, 0
    pending = list(range(simulator.num_envs))
    try:
        with np.errstate(invalid="raise", over="raise", divide="raise"):
            while True:
                looked = LOOKS if moves else simulator.num_envs
                for k, i in enumerate(pending):
                    simulator.reset_env(i, generators[i])
                    watch.reset(i, look=k < looked)
                    begun[i] += 1
                    if family == "cluster":
                        simulator.observe(out, i)
                simulator.step(random_actions(simulator, rng, lazy, out), out)
                if fault is not None:
                    fault(simulator)
                moves += 1
                watch.step()
                if isinstance(watch, PoolWatch) and isinstance(out, dict) and fault is None:
                    watch.play(BLOCK, out)
                ended = np.flatnonzero(simulator.truncated)
                watch.look(ended[:: max(1, len(ended) // LOOKS)])
                if moves % LOOK_EVERY == 0 or isinstance(watch, PoolWatch):
                    watch.look((turn + k) % simulator.num_envs for k in range(LOOKS))
                    turn += LOOKS
                if len(ended) and begun[ended].min() >= episodes:
                    return name, watch.steps if isinstance(watch, PoolWatch) else moves * simulator.num_envs
                pending = ended.tolist()
    except (BrokenLawError, ArithmeticError) as error:
        raise BrokenLawError(f"{family} {name}, seed {seed}, step {moves}: {error}") from error


def soak(
    steps: int,
    first: int,
    out: Path,
    families: Sequence[str] = FAMILIES,
    seconds: float = np.inf,
    cases: int | None = None,
    episodes: int = 2,
) -> dict[str, Any]:
    """Play cases of the seeds from ``first`` on, families in turn, until ``steps`` are done.

    :param steps: of all cases together
    :param first: the first seed
    :param out: folder of ``soak.json``, which is written after every case
    :param families: whose cases
    :param seconds: no case begins after so many
    :param cases: how many seeds at most
    :param episodes: that begin in each environment of a case
    :return: what ``soak.json`` holds: steps, seconds, seeds, and the steps by family and name
    """
    out.mkdir(parents=True, exist_ok=True)
    done: collections.Counter[str] = collections.Counter()
    began, seed = time.perf_counter(), first
    told: dict[str, Any] = {"steps": 0, "seconds": 0.0, "seeds": [first, first], "by": done}
    while told["steps"] < steps and told["seconds"] < seconds and (cases is None or seed - first < cases):
        for family in families:
            # A step of a datacenter or of a cluster takes as long as several of a pool, and a case has more.
            name, played = play(family, seed, 10 * episodes if family == "pool" else episodes)
            done[f"{family} {name}"] += played
            told["steps"] += played
        seed += 1
        told["seconds"], told["seeds"] = round(time.perf_counter() - began, 1), [first, seed - 1]
        (out / "soak.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return told


def main(argv: Sequence[str] | None = None) -> int:
    """Soak, print what was done, and return 1 if a law was broken."""
    parser = argparse.ArgumentParser(prog="soak", description=str(__doc__).splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000_000, help="in all (default: %(default)s)")
    parser.add_argument(
        "--first", type=int, default=0, metavar="SEED", help="first seed (default: %(default)s)"
    )
    parser.add_argument("--cases", type=int, help="at most so many seeds")
    parser.add_argument("--seconds", type=float, default=np.inf, help="no case begins after so many")
    parser.add_argument("--episodes", type=int, default=2, help="of each environment (default: %(default)s)")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--out", type=Path, default=Path("runs/soak"), help="folder of soak.json")
    options = parser.parse_args(argv)
    warnings.filterwarnings("ignore", message=".*above 0.8.*")
    try:
        told = soak(**vars(options))
    except BrokenLawError as error:
        print(f"broken: {error}")
        return 1
    rate = told["steps"] / max(told["seconds"], 1e-9)
    seeds = "seeds {} to {}".format(*told["seeds"])
    print(f"{told['steps']:,} steps, {seeds}, {told['seconds']:.0f} s, {rate:,.0f} a second: every law held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
