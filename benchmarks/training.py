"""``scripts/benchmark.py train``: how fast the algorithms learn, next to relatives in the same process.

Each part has cases that are timed in turn (:mod:`sb3_greendc.cli.timing`) and comparisons of their rates:

- ``discrete_sac``: updates of DiscreteSAC against SB3's DQN with the same network, on full replay buffers
- ``pid_ppo``: rollouts with their updates, PIDLagrangianPPO against PPO, MaskablePPO and RecurrentPPO at
  equal settings; the last also where an episode ends in every sequence of the LSTM (``_cut``)
- ``offline``: updates of CRR and of behavioral cloning against DQN's, sampling included
- ``collection``: transitions a minute of ``scripts/collect.py``
- ``decisions``: what a million decisions of DiscreteSAC on ResourcePool-10 would take, from a shorter run
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from rich.console import Console
from rich.table import Table
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

import greendc
from sb3_greendc.bc.cloning import Cloning
from sb3_greendc.cli.timing import Case, measure, ratio
from sb3_greendc.core.algorithms import hyperparameters_of
from sb3_greendc.core.arguments import whole_number
from sb3_greendc.core.files import write_json
from sb3_greendc.core.provenance import provenance
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.crr import CRR
from sb3_greendc.crr.data import BatchStream, TrainingData
from sb3_greendc.datasets import OfflineDataset, from_replay_buffer
from sb3_greendc.discrete_sac import DiscreteSAC
from sb3_greendc.evaluation.collection import Collection
from sb3_greendc.runs.hyperparameters import load_hyperparameters, read_hyperparameters

if TYPE_CHECKING:
    from sb3_greendc.cli.benchmark import Subparsers

BATCH = 256
_BUFFERED = 20_000  # transitions in a replay buffer, or in a data set


@dataclass(frozen=True)
class Comparison:
    """A figure made of two rates.

    :param name: key of the figure
    :param case: the case that is compared
    :param reference: the case that it is compared with
    :param target: what the figure is meant to be, for the table
    :param of_time: compare the time that a step takes instead of the steps in a time
    """

    name: str
    case: str
    reference: str
    target: str
    of_time: bool = False

    def figure(self, rates: dict[str, list[float]]) -> float:
        """Return the figure: a median over rounds."""
        if self.of_time:
            return ratio(rates, self.reference, self.case)
        return ratio(rates, self.case, self.reference)


@dataclass(frozen=True)
class Part:
    """Cases that are timed in turn, and what is compared."""

    cases: list[Case]
    comparisons: list[Comparison]


@dataclass
class Figures:
    """What was measured."""

    per_second: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    other: dict[str, float] = field(default_factory=dict)
    rows: list[tuple[str, str, str]] = field(default_factory=list)


# --- updates of algorithms with a replay buffer, or with data -------------------------------------------


def filled(cls: type[DQN] | type[DiscreteSAC], net_arch: list[int]) -> OffPolicyAlgorithm:
    """Return a model for CartPole with a buffer of transitions, no update made yet."""
    model = cls(
        "MlpPolicy",
        make_vec_env("CartPole-v1", 1, seed=0),
        batch_size=BATCH,
        buffer_size=_BUFFERED,
        learning_starts=_BUFFERED + 1,
        policy_kwargs={"net_arch": net_arch},
        seed=0,
        device="cpu",
    )
    return model.learn(_BUFFERED)


def updates(name: str, model: OffPolicyAlgorithm) -> Case:
    """Time the updates of a model."""
    return Case(name, lambda calls: model.train(calls, BATCH))


def sampling(name: str, sample: Callable[[], object]) -> Case:
    """Time the drawing of batches alone."""

    def run(calls: int) -> None:
        for _ in range(calls):
            sample()

    return Case(name, run)


def discrete_sac_part() -> Part:
    """Compare DiscreteSAC with DQN, both with heads of two layers of 64."""
    dqn, sac = filled(DQN, [64, 64]), filled(DiscreteSAC, [64, 64])
    buffer = sac.replay_buffer
    assert buffer is not None
    return Part(
        [updates("dqn", dqn), updates("discrete_sac", sac), sampling("replay", lambda: buffer.sample(BATCH))],
        [
            Comparison("discrete_sac_x_dqn", "discrete_sac", "dqn", "≥ 0.40"),
            Comparison("discrete_sac_replay_share", "replay", "discrete_sac", "≤ 0.05", of_time=True),
        ],
    )


def offline_part() -> Part:
    """Compare CRR, and behavioral cloning if it is installed, with DQN: two layers of 256."""
    dqn = filled(DQN, [256, 256])
    assert dqn.replay_buffer is not None
    data = from_replay_buffer(dqn.replay_buffer)
    crr = CRR("MlpPolicy", dataset=data, policy_kwargs={"net_arch": [256, 256]}, seed=0, device="cpu")
    stream = BatchStream(TrainingData(data, crr.gamma, None, crr.device), 0, BATCH, 1.0)
    numbers = itertools.count()
    cases = [
        updates("dqn_256", dqn),
        Case("crr", lambda calls: learn(crr, calls)),
        sampling("crr_batches", lambda: stream.batch(next(numbers))),
    ]
    comparisons = [
        Comparison("crr_x_dqn", "crr", "dqn_256", "≥ 1.0"),
        Comparison("crr_batches_share", "crr_batches", "crr", "≤ 0.05", of_time=True),
    ]
    if importlib.util.find_spec("imitation") is not None:
        cases += cloning_cases(data)
        comparisons += [
            Comparison("bc_x_dqn", "bc", "dqn_256", "≥ 4"),
            Comparison("bc_batches_share", "bc_batches", "bc", "≤ 0.05", of_time=True),
        ]
    return Part(cases, comparisons)


def cloning_cases(data: OfflineDataset) -> list[Case]:
    """Time behavioral cloning, and the drawing of its batches alone."""
    cloning = Cloning(
        data, "mlp", policy_kwargs={"net_arch": [256, 256]}, batch_size=BATCH, validation_fraction=0.0
    )

    def run(calls: int) -> None:
        with warnings.catch_warnings():  # imitation turns a loss with a gradient into a number
            warnings.filterwarnings("ignore", "Converting a tensor with requires_grad")
            cloning.trainer.train(n_batches=calls, progress_bar=False)

    batches = (batch for _ in itertools.count() for batch in cloning.batches)
    return [Case("bc", run), sampling("bc_batches", lambda: next(batches))]


# --- training on-policy ------------------------------------------------------------------------------------


def pid_ppo_part() -> Part:
    """Compare each form of PIDLagrangianPPO with its relative.

    Both have the hyperparameters that the zoo gives the former, without early stopping, so that they do
    the same work.
    """
    vcc = {"constrained": True}
    short = {"n_envs": 8, "n_steps": 96, "n_epochs": 2}  # an LSTM takes its time
    cut = {**short, "policy": "MultiInputLstmPolicy", "policy_kwargs": {"lstm_hidden_size": 64}}
    cases = [
        *on_policy_pair("pid_ppo", "ppo", "VCC-2019", vcc, {}),
        *on_policy_pair("pid_ppo", "maskable_ppo", "ResourcePool-10", {}, {"n_steps": 32}),
        *on_policy_pair("recurrent_pid_ppo", "recurrent_ppo", "VCC-2019", vcc, short),
        *on_policy_pair(
            "recurrent_pid_ppo", "recurrent_ppo", "ResourcePool-10", {"episode_steps": 100}, cut, "_cut"
        ),
    ]
    relatives = ("ppo", "maskable_ppo", "recurrent_ppo", "recurrent_ppo_cut")
    return Part(
        cases,
        [
            Comparison(f"pid_time_x_{name}", f"pid_as_{name}", name, "≤ 1.3", of_time=True)
            for name in relatives
        ],
    )


def on_policy_pair(
    ours: str,
    theirs: str,
    env_id: str,
    env_kwargs: dict[str, Any],
    changes: dict[str, Any],
    suffix: str = "",
) -> list[Case]:
    """Time rollouts, each with its update, of two algorithms with the hyperparameters of the first.

    :param ours: the algorithm that is compared
    :param theirs: its relative
    :param env_id: an environment id
    :param env_kwargs: keyword arguments of the environment
    :param changes: hyperparameters in place of the zoo's
    :param suffix: of the names of the two cases
    """
    env_id = greendc.resolve_env_id(env_id)
    settings = {**load_hyperparameters(ours, env_id).settings, "target_kl": None, **changes}
    known = {*hyperparameters_of(theirs), "policy", "n_envs", "n_timesteps"}
    shared = {key: value for key, value in settings.items() if key in known}
    return [
        rollouts(f"{theirs}{suffix}", theirs, shared, env_id, env_kwargs),
        rollouts(f"pid_as_{theirs}{suffix}", ours, settings, env_id, env_kwargs),
    ]


def rollouts(
    name: str, algorithm: str, settings: dict[str, Any], env_id: str, env_kwargs: dict[str, Any]
) -> Case:
    """Time rollouts, each with its update."""
    hyperparameters = read_hyperparameters(algorithm, settings)
    env = make_vec_env(env_id, hyperparameters.n_envs, seed=0, **env_kwargs)
    model = hyperparameters.build(env, seed=0, device="cpu")
    steps = hyperparameters.n_envs * int(hyperparameters.arguments["n_steps"])
    return Case(name, lambda calls: learn(model, calls * steps), steps)


def learn(model: BaseAlgorithm, steps: int) -> None:
    """Go on learning for so many steps: of the environment, or of CRR's gradient."""
    with warnings.catch_warnings():  # that no episode has ended yet, say
        warnings.simplefilter("ignore")
        model.learn(steps, reset_num_timesteps=False)


# --- whole runs --------------------------------------------------------------------------------------------


def collected_per_minute(transitions: int, repeats: int = 3) -> float:
    """Return the transitions a minute of ``scripts/collect.py``, of four heuristics on ResourcePool-20."""
    policies = ["sjf", "qos", "hvf", "fcfs"]
    Collection(policies, "ResourcePool-20", 1000).run()  # compiles
    collection = Collection(policies, "ResourcePool-20", transitions)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        collection.run()
        seconds.append(time.perf_counter() - started)
    return 60 * transitions / float(np.median(seconds))


def minutes_of_a_million(decisions: int) -> tuple[float, float]:
    """Return the minutes that a million decisions of DiscreteSAC on ResourcePool-10 would take.

    With the zoo's hyperparameters, collection and updates together, from a run of ``decisions`` after the
    first updates.

    :return: on the clock, and of processor time, which is the one to trust on a busy machine
    """
    env_id = greendc.resolve_env_id("ResourcePool-10")
    hyperparameters = load_hyperparameters("discrete_sac", env_id)
    env = make_vec_env(env_id, hyperparameters.n_envs, seed=0, mask="now_on_time")
    model = hyperparameters.build(env, seed=0, device="cpu")
    model.learn(int(hyperparameters.arguments["learning_starts"]) + 20 * hyperparameters.n_envs)
    first = model.num_timesteps
    started, processor_started = time.perf_counter(), time.process_time()
    learn(model, decisions)
    seconds, processor_seconds = time.perf_counter() - started, time.process_time() - processor_started
    scale = 1e6 / (model.num_timesteps - first) / 60
    return seconds * scale, processor_seconds * scale


# --- the command -------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[], Part]] = {
    "discrete_sac": discrete_sac_part,
    "pid_ppo": pid_ppo_part,
    "offline": offline_part,
}
ALL_PARTS = (*PARTS, "collection", "decisions")


def add_train(parts: Subparsers) -> None:
    """Add the part ``train`` to the command."""
    train = parts.add_parser("train", help="updates per second and training time, against other algorithms")
    train.add_argument("--parts", nargs="+", choices=ALL_PARTS, default=list(ALL_PARTS), help="what to time")
    train.add_argument("--rounds", type=whole_number, default=7, help="repeats, of which medians are shown")
    train.add_argument("--seconds", type=float, default=1.0, help="length of one measurement, about")
    train.add_argument("--transitions", type=whole_number, default=100_000, help="of a collection")
    train.add_argument(
        "--decisions", type=whole_number, default=16_000, help="timed, of which a million are extrapolated"
    )
    train.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    train.set_defaults(run=run_train)


def run_train(options: argparse.Namespace) -> int:
    """Time the algorithms and print a table."""
    figures = Figures()
    for name in options.parts:
        if name in PARTS:
            time_part(PARTS[name](), options, figures)
        elif name == "collection":
            rate = collected_per_minute(options.transitions)
            figures.other["collected_per_minute"] = rate
            figures.rows.append(("transitions collected a minute", f"{rate:,.0f}", "≥ 200,000"))
        else:
            minutes, processor_minutes = minutes_of_a_million(options.decisions)
            figures.other["minutes_of_a_million_decisions"] = minutes
            figures.other["processor_minutes_of_a_million_decisions"] = processor_minutes
            what = f"minutes of a million decisions, from {options.decisions:,}"
            figures.rows.append((what, f"{minutes:.1f}", "≤ 30"))
            figures.rows.append(("  of processor time", f"{processor_minutes:.1f}", ""))
    _print(figures)
    if options.json is not None:
        settings = {"torch_threads": th.get_num_threads(), "decisions_timed": options.decisions}
        measured = {"per_second": figures.per_second, "ratios": figures.ratios, **figures.other}
        write_json(options.json, {**measured, **settings, **provenance()})
    return 0


def time_part(part: Part, options: argparse.Namespace, figures: Figures) -> None:
    """Time the cases of a part and add what follows to the figures.

    With one thread (``OMP_NUM_THREADS=1``) by processor time, which other programs do not disturb.
    """
    one_thread = th.get_num_threads() == 1
    clock = time.process_time if one_thread else time.perf_counter
    rates = measure(part.cases, options.rounds, options.seconds, clock)
    for name, values in rates.items():
        figures.per_second[name] = float(np.median(values))
    for comparison in part.comparisons:
        figure = comparison.figure(rates)
        figures.ratios[comparison.name] = figure
        figures.rows.append((comparison.name, f"{figure:.3f}", comparison.target))


def _print(figures: Figures) -> None:
    console = Console()
    if figures.per_second:
        table = Table("case", title="a second (median)", title_justify="left")
        table.add_column("updates, or environment steps", justify="right")
        for name, rate in figures.per_second.items():
            table.add_row(name, f"{rate:,.0f}")
        console.print(table)
    table = Table("figure", title="within one process (median)", title_justify="left")
    table.add_column("measured", justify="right")
    table.add_column("meant to be", justify="right")
    for row in figures.rows:
        table.add_row(*row)
    console.print(table)
