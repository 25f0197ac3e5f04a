"""The tasks of the experiment: exact values, policies that are played, networks and what they learn from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from gymnasium.utils import seeding

import greendc
from greendc.baselines.resource_pool.divisible import divisible_schedule
from greendc.baselines.resource_pool.exact import ExactPool, Ints
from greendc.baselines.resource_pool.instance import recorded_instance
from greendc.baselines.resource_pool.lp_bound import lp_bound
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator
from sb3_greendc.bc.distill import distill
from sb3_greendc.evaluation.collection import Collection
from sb3_greendc.evaluation.policy_sources import ModelSource, ObjectSource, PolicySource, policy_sources
from sb3_greendc.experiments.distillation import RECORDING_SEED, pack, unpacked
from sb3_greendc.experiments.episodes import TEST_SEED, Variant
from sb3_greendc.experiments.exact.judging import ExactContestant, UniformlyRandom, judge
from sb3_greendc.experiments.exact.pools import POOLS, USUAL_RULES, VIEW, solved
from sb3_greendc.experiments.tasks import Files, Outcome, Task

OPTIMUM, NO_CLOCK, RULE = "optimum", "optimum, no clock", "deadline_never"
RANDOM_RULES = "random, usual rules"
CLAIRVOYANT, DIVISIBLE = "clairvoyant bound", "divisible jobs"


@dataclass(frozen=True)
class Values(Task):
    """The exact values of policies that are tables: no episode is played.

    :param pool: name of the tiny pool
    :param improvements: steps of exact policy improvement over ``deadline_never``
    """

    pool: str
    improvements: int = 2

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"exact values {self.pool}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 20.0

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        started = time.process_time()
        model, optimum = solved.__wrapped__(self.pool)  # anew: what another task has solved takes no time
        seconds = time.process_time() - started
        policies = {OPTIMUM: optimum, NO_CLOCK: model.evaluate(optimum.actions[0])}
        policies |= {name: model.evaluate(actions) for name, actions in rules(model).items()}
        improved = policies[RULE]
        for step in range(1, self.improvements + 1):
            improved = model.improve(improved)
            policies[f"improvement {step}"] = improved
        best = model.first_value(optimum)
        head = {"states": len(model), "seconds": seconds, "load": POOLS[self.pool].load}
        rows = [
            {"policy": name, "value": value, "percent": 100 * value / best, **head}
            for name, played in policies.items()
            for value in (model.first_value(played),)
        ]
        return Outcome({"exact": pd.DataFrame(rows)})


def rules(model: ExactPool) -> dict[str, Ints]:
    """Return the papers' orders, and some others, as policies of the states."""
    kinds, ages = model.kinds, model.ages
    qos = np.array([one.qos for one in model.workload.classes])
    found = {
        RULE: -qos[kinds],
        "sjf": model.duration[kinds].astype(np.float64),
        "hvf": -model.value[kinds],
        "fcfs": -ages.astype(np.float64),
        "edf": (model.slack + model.duration)[kinds] - ages.astype(np.float64),
    }
    return {name: model.by_rule(keys) for name, keys in found.items()}


@dataclass(frozen=True)
class Lines(Task):
    """What lies above the optimum of whole jobs: the clairvoyant bound, and divisible jobs.

    :param pool: name of the tiny pool
    :param episodes: number of the first test episodes
    :param futures: sampled futures of each programme of divisible jobs
    :param depth: steps that it looks ahead
    """

    pool: str
    episodes: int
    futures: int = 12
    depth: int = 20

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"bounds {self.pool}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 2.0 + 0.2 * self.futures * self.episodes

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        simulator = ResourcePoolSimulator(ResourcePoolConfig(**POOLS[self.pool].scenario().env_kwargs))
        rows = []
        for k in range(self.episodes):
            simulator.reset_env(0, seeding.np_random(TEST_SEED + k)[0])
            instance = recorded_instance(simulator)
            divided = divisible_schedule(simulator, futures=self.futures, depth=self.depth)
            for policy, value in (
                (CLAIRVOYANT, lp_bound(instance).value),
                (DIVISIBLE, divided.value(instance)),
            ):
                rows.append({"policy": policy, "episode": k, "total_job_value": value})
        return Outcome({"episodes": pd.DataFrame(rows)})


@dataclass(frozen=True)
class Plays(Task):
    """Policies that do not learn, judged on the test episodes.

    :param pool: name of the tiny pool
    :param policy: :data:`OPTIMUM`, ``"random"``, :data:`RANDOM_RULES`, or a baseline with its options
    :param episodes: number of episodes
    """

    pool: str
    policy: str | Variant
    episodes: int

    @property
    def label(self) -> str:
        """The policy's name in tables."""
        return self.policy if isinstance(self.policy, str) else self.policy.label

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{self.label} {self.pool}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        futures = 0 if isinstance(self.policy, str) else int(self.policy.options.get("futures", 0))
        return 15.0 + self.episodes * (0.01 + 1.5e-4 * futures)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        view: dict[str, Any] = {"skip_forced": True}
        if self.policy == RANDOM_RULES:
            view = USUAL_RULES
        rows = judge(self._contestant(), self.pool, self.episodes, **view)
        return Outcome({"episodes": pd.DataFrame(rows).assign(policy=self.label)})

    def _contestant(self) -> PolicySource:
        if isinstance(self.policy, Variant):
            env_id = greendc.resolve_env_id(POOLS[self.pool].scenario().env_id)
            return policy_sources({self.label: self.policy.spec}, env_id)[0]
        if self.policy == OPTIMUM:
            return ExactContestant(OPTIMUM, self.pool)
        return ObjectSource(self.policy, 0, UniformlyRandom())


EXACT = "exact"


@dataclass(frozen=True)
class Distillation(Task):
    """A network that learns what each action is worth: to rollouts, or exactly.

    :param pool: name of the tiny pool
    :param teacher: :data:`EXACT`, or rollouts
    :param labels: decisions that it learns from
    :param epochs: passes over them
    :param seed: number of the run: another one has other data, too
    :param policy_kwargs: of the network
    """

    pool: str
    teacher: str | Variant
    labels: int
    epochs: int
    seed: int
    policy_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        label = self.teacher if isinstance(self.teacher, str) else self.teacher.label
        return f"distillation of {label} {self.pool} seed {self.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        futures = 0 if isinstance(self.teacher, str) else int(self.teacher.options["futures"])
        return 20.0 + self.labels * (1e-4 + 4e-6 * futures + 3.5e-5 * self.epochs)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        started = time.perf_counter()
        scenario = POOLS[self.pool].scenario(**VIEW)
        source = self.teacher if isinstance(self.teacher, str) else self.teacher.spec
        data = _Labels(
            {"teacher": source},
            scenario.env_id,
            self.labels,
            RECORDING_SEED + 100 * self.seed,
            env_kwargs=scenario.env_kwargs,
            n_envs=32,
            labels=("advantages",),
            pool=self.pool,
        ).run()
        clone = distill(
            data,
            policy_kwargs=network(self.pool, **self.policy_kwargs),
            n_epochs=self.epochs,
            seed=self.seed,
        )
        seconds = round(time.perf_counter() - started, 2)
        return Outcome({"history": clone.history}, pack(clone, labels=self.labels, seconds=seconds))


def network(pool: str, **more: Any) -> dict[str, Any]:
    """Return the shape of networks: they see each unit for itself, where larger pools' see sums over units.

    :param pool: name of the tiny pool
    :param more: further keyword arguments of the features extractor
    """
    units = POOLS[pool].units
    sizes = {"job_dim": 64, "context_dim": 64, "n_resource_types": units, "block": 1}
    return {"features_extractor_kwargs": {**sizes, **more}, "net_arch": [64, 64]}


@dataclass(frozen=True)
class _Labels(Collection):
    """Records the exact optimum, where the teacher is that.

    :param pool: name of the tiny pool
    """

    pool: str = ""

    def actors(self) -> list[PolicySource]:
        """See the base class."""
        if self.policies == {"teacher": EXACT}:
            return [ExactContestant("teacher", self.pool)]
        return super().actors()


@dataclass(frozen=True)
class Judged(Task):
    """A network, or rollouts that it guides, on the test episodes.

    :param source: the task that makes the network
    :param pool: name of the tiny pool
    :param policy: its name in tables
    :param episodes: number of episodes
    :param guided: futures of the rollouts that it guides; 0: it decides by itself
    :param files: of ``source``; without them the task is done here
    """

    source: Task
    pool: str
    policy: str
    episodes: int
    guided: Variant | None = None
    files: Files | None = field(default=None, repr=False, compare=False)

    @property
    def seed(self) -> int:
        """Number of the network's run."""
        return int(getattr(self.source, "seed"))  # noqa: B009 - every task that trains has one

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{self.policy} {self.pool} seed {self.seed}"

    @property
    def needs(self) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return (self.source,)

    def given(self, *files: Files) -> Judged:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return replace(self, files=files[0])

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        futures = int(self.guided.options["futures"]) if self.guided else 0
        return 15.0 + self.episodes * (0.01 + 1.5e-4 * futures)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        with unpacked(self.files or self.source.compute().files) as folder:
            source: PolicySource = ModelSource(self.policy, 0, folder)
            if self.guided is not None:
                spec = replace(self.guided, options={**self.guided.options, "prior": folder}).spec
                env_id = greendc.resolve_env_id(POOLS[self.pool].scenario().env_id)
                source = policy_sources({self.policy: spec}, env_id)[0]
            rows = judge(source, self.pool, self.episodes, **self._view())
        return Outcome({"episodes": pd.DataFrame(rows).assign(policy=self.policy, train_seed=self.seed)})

    def _view(self) -> dict[str, Any]:
        """Return how the network acts in the pool."""
        choice: Mapping[str, Any] | None = getattr(getattr(self.source, "learner", None), "choice", None)
        return dict(VIEW if choice is None else choice)
