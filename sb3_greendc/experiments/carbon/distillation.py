"""The rolling plan of jobs, units and battery distilled into one network, for every price of carbon."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO

from greendc.config import require
from sb3_greendc.bc.cloning import Clone
from sb3_greendc.bc.distill import distill
from sb3_greendc.bc.models import make_model
from sb3_greendc.datasets import OfflineDataset, concatenate
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.experiments.distillation import RECORDING_SEED, loaded, pack, unpacked
from sb3_greendc.experiments.tasks import Files, Outcome, Scenario, Task

DATA_FILE = "labels.npz"
KG_PRICE = "kg_price"
"""Key of the observations from which the network that is trained reads the price of carbon."""
LARGEST_PRICE = 0.3
"""The network sees prices as shares of it."""
SCALE = 8.0
"""Logits by which what the plan would do is above everything else."""
BATCH = 128
STUDENT = "distilled plan"


@dataclass(frozen=True)
class PlanLabels(Task):
    """What the rolling plan would do, at several prices of carbon, in states of training episodes.

    In the first round the plan itself acts. In each later one the network of the rounds before does, and the
    plan says what it would do there (DAgger: Ross, Gordon and Bagnell, AISTATS 2011).

    :param scenario: of the training year
    :param prices: values of a kg at which plans are made
    :param decisions: at each price
    :param epochs: passes of the network that acts
    :param seed: number of the run
    :param round: 0, or the number of networks before
    :param network: files of the network that acts; without them it is trained here
    """

    scenario: Scenario
    prices: tuple[float, ...]
    decisions: int
    epochs: int
    seed: int
    round: int = 0
    network: Files | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        require(0 <= self.seed < 15, "seed", self.seed, "in 0 .. 14: the next ones would reach test episodes")
        require(0 <= self.round < 5, "round", self.round, "in 0 .. 4: the next ones are another run's")
        require(self.n_envs <= 40, "decisions", self.decisions, f"at most {41 * DECISIONS_AN_EPISODE - 1:,}")
        require(1 <= len(self.prices) <= 10, "prices", self.prices, "1 to 10 prices")

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"plans to learn from, round {self.round} seed {self.seed}"

    @property
    def needs(self) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return () if self.round == 0 else (self._student(),)

    def given(self, *files: Files) -> PlanLabels:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return replace(self, network=files[0]) if files else self

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 3.0 + 0.005 * self.decisions * len(self.prices)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        started = time.perf_counter()
        if self.round == 0:
            data = concatenate([self._record(k, None) for k in range(len(self.prices))])
        else:
            student = loaded(self.network or self._student().compute().files)
            data = concatenate(
                [self._record(k, at_price(student, price)) for k, price in enumerate(self.prices)]
            )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / DATA_FILE
            data.save(path)
            files = {DATA_FILE: path.read_bytes()}
        seconds = round(time.perf_counter() - started, 2)
        record = {"decisions": len(data), "seconds": seconds, "first_seed": self.first_seed(0)}
        return Outcome({"recorded": pd.DataFrame([record])}, files)

    @property
    def n_envs(self) -> int:
        """Environments at each price: about an episode in each."""
        return max(self.decisions // DECISIONS_AN_EPISODE, 1)

    def first_seed(self, k: int) -> int:
        """Return the seed of the first of :attr:`n_envs` environments at a price, by its number."""
        return RECORDING_SEED + 2_000 * self.seed + 400 * self.round + 40 * k

    def _student(self) -> PlanStudent:
        return PlanStudent(
            self.scenario, self.prices, self.decisions, self.epochs, self.seed, rounds=self.round
        )

    def _record(self, k: int, student: MaskablePPO | PPO | None) -> OfflineDataset:
        plan = f"power_plan:kg_price={self.prices[k]:g}"
        return collect(
            {source_name(self.prices[k]): student or plan},
            self.scenario.env_id,
            self.decisions,
            self.first_seed(k),
            env_kwargs=self.scenario.env_kwargs,
            n_envs=self.n_envs,
            labels=("advantages",),
            teacher=plan if student is not None else None,
        )


DECISIONS_AN_EPISODE = 930
"""About how many an episode of 720 steps has."""


def source_name(price: float) -> str:
    """Return what data of a plan at a price are called."""
    return f"{price:g}"


@dataclass(frozen=True)
class PlanStudent(Task):
    """One network that has learned what the plan would do at every price of carbon.

    :param scenario: of the training year
    :param prices: values of a kg at which plans are made
    :param decisions: at each price, in each round
    :param epochs: passes over the data
    :param seed: number of the run
    :param rounds: of :class:`PlanLabels`
    :param data: files of the rounds; without them these are recorded here
    """

    scenario: Scenario
    prices: tuple[float, ...]
    decisions: int
    epochs: int
    seed: int
    rounds: int
    data: tuple[Files, ...] = field(default=(), repr=False, compare=False)

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{STUDENT} of {self.rounds} rounds, seed {self.seed}"

    @property
    def needs(self) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return tuple(
            PlanLabels(self.scenario, self.prices, self.decisions, self.epochs, self.seed, k)
            for k in range(self.rounds)
        )

    def given(self, *files: Files) -> PlanStudent:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return replace(self, data=files)

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 3.0 + 5e-5 * self.epochs * self.rounds * self.decisions * len(self.prices)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        started = time.perf_counter()
        parts = []
        for files in self.data or tuple(task.compute().files for task in self.needs):
            with unpacked(files) as folder:
                parts.append(OfflineDataset.load(Path(folder) / DATA_FILE))
        clone = distill_plans(concatenate(parts), self.epochs, self.seed)
        seconds = round(time.perf_counter() - started, 2)
        labels = sum(map(len, parts))
        return Outcome({"history": clone.history}, pack(clone, labels=labels, seconds=seconds))


def distill_plans(data: OfflineDataset, epochs: int, seed: int, **options: Any) -> Clone:
    """Return a network that does what plans do at the prices after which the data's sources are named.

    :param data: recorded from plans, or relabelled by them
    :param epochs: passes over the data
    :param seed: of the network
    :param options: further parameters of :class:`~sb3_greendc.bc.distill.Distillation`
    """
    settings = {"batch_size": BATCH, "logit_scale": SCALE, "loss": "divergence", **options}
    return distill(with_prices(data), n_epochs=epochs, seed=seed, **settings)


def with_prices(data: OfflineDataset) -> OfflineDataset:
    """Return data whose observations tell the price, :data:`KG_PRICE`, that their source is named after."""
    assert isinstance(data.observations, dict)
    assert isinstance(data.final_observations, dict)
    assert isinstance(data.observation_space, spaces.Dict)
    of_source = np.array([float(name) / LARGEST_PRICE for name in data.sources], np.float32)
    following = np.zeros((len(next(iter(data.final_observations.values()))), 1), np.float32)
    space = spaces.Dict(
        {**data.observation_space.spaces, KG_PRICE: spaces.Box(0.0, np.inf, (1,), np.float32)}
    )
    return replace(
        data,
        observation_space=space,
        observations={**data.observations, KG_PRICE: of_source[data.source_id][:, None]},
        final_observations={**data.final_observations, KG_PRICE: following},
    )


def at_price(model: PPO | MaskablePPO, price: float) -> PPO | MaskablePPO:
    """Return the policy at one price of carbon: the same network, its input for the price a constant.

    What a constant adds to the first layer goes into that layer's bias, so that the policy reads the
    observations of the environment as they are.

    :param model: trained on observations with :data:`KG_PRICE`
    :param price: value of a kg of CO2
    :raises ValueError: for a model that reads no price
    """
    space = model.observation_space
    if not isinstance(space, spaces.Dict) or KG_PRICE not in space.spaces:
        raise ValueError(f"model: its observations have no {KG_PRICE!r}")
    plain = spaces.Dict({key: part for key, part in space.spaces.items() if key != KG_PRICE})
    policy_class: Any = type(model.policy)
    fixed = make_model(plain, model.action_space, policy_class, "maskable_ppo", model.policy_kwargs)
    extractor: Any = model.policy.features_extractor
    column = extractor.situation[0].in_features - _columns_after(extractor)
    weights = dict(model.policy.state_dict())
    for name in [name for name in weights if name.endswith("situation.0.weight")]:
        weight, bias = weights[name], name.replace("weight", "bias")
        weights[bias] = weights[bias] + weight[:, column] * (price / LARGEST_PRICE)
        weights[name] = th.cat([weight[:, :column], weight[:, column + 1 :]], dim=1)
    fixed.policy.load_state_dict(weights)
    fixed.policy.set_training_mode(False)
    return fixed


def _columns_after(extractor: Any) -> int:
    """Return how many inputs of the situation stand from the price on."""
    keys = extractor.inputs.vector_keys
    sizes = [int(np.prod(extractor._observation_space[key].shape)) for key in keys]
    return sum(sizes[keys.index(KG_PRICE) :])
