"""Learners where power is commanded: the distilled plan, and PPO under a limit on carbon from there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

import greendc
from greendc.resource_pool.config import ENERGY_COST_UNIT
from sb3_greendc.bc.warm_start import CriticsFirst, start_from
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.policy_sources import Policy, policy_sources, takes_masks
from sb3_greendc.experiments.carbon.distillation import STUDENT, PlanStudent, at_price
from sb3_greendc.experiments.carbon.start import StartsOn
from sb3_greendc.experiments.distillation import RECORDING_SEED, loaded
from sb3_greendc.experiments.episodes import play
from sb3_greendc.experiments.tasks import Files, Outcome, Scenario, Task
from sb3_greendc.experiments.training import Learner

WARMING_UP = 20
"""Decisions that are not timed."""
EPISODE_SECONDS = 0.08
"""Of an episode that a network plays."""


@dataclass(frozen=True)
class _OfStudent(Task):
    """Something done with the distilled plan.

    :param student: the network
    :param network: files of ``student``; without them it is trained here
    """

    student: PlanStudent
    network: Files | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def needs(self) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return (self.student,)

    def given(self, *files: Files) -> _OfStudent:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return replace(self, network=files[0])

    def model(self) -> Any:
        """Return the network."""
        return loaded(self.network or self.student.compute().files)


@dataclass(frozen=True)
class StudentPlay(_OfStudent):
    """Judge the distilled plan at several prices of carbon, which may lie between those that it saw.

    :param kg_prices: values of a kg
    :param scenario: what it is judged on
    :param episodes: test episodes
    """

    kg_prices: tuple[float, ...]
    scenario: Scenario
    episodes: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{STUDENT} {self.scenario.env_id} seed {self.student.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 3.0 + EPISODE_SECONDS * self.episodes * len(self.kg_prices)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        model = self.model()
        head = {"baseline": STUDENT, "train_seed": self.student.seed}
        rows = [
            {"policy": f"{STUDENT}/{price:g}", **head, **row}
            for price in self.kg_prices
            for row in play(at_price(model, price), self.scenario, self.episodes)
        ]
        return Outcome({"episodes": pd.DataFrame(rows)})


@dataclass(frozen=True)
class StudentAtLimits(_OfStudent):
    """Judge the distilled plan at the prices of carbon at which it keeps limits in training episodes.

    :param shares: limits, as shares of what ``greedy`` emits
    :param greedy: name of that rule
    :param tests: what it is judged on, by name
    :param episodes: test episodes
    :param pricing_episodes: training episodes by which prices are chosen
    """

    shares: tuple[float, ...]
    greedy: str
    tests: Mapping[str, Scenario]
    episodes: int
    pricing_episodes: int = 40

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{AT_LIMIT} seed {self.student.seed}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        judged = self.episodes * len(self.tests) * len(self.shares)
        return 5.0 + EPISODE_SECONDS * (self.pricing_episodes * (len(PRICING) + 1) + judged)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        model = self.model()
        rows: list[dict[str, Any]] = []
        for share, price in zip(self.shares, self._prices(model), strict=True):
            head = {"policy": named(AT_LIMIT, share), "limit_share": share, "kg_price": price}
            rows += [
                {**head, "train_seed": self.student.seed, "test": name, **row}
                for name, scenario in self.tests.items()
                for row in play(at_price(model, price), scenario, self.episodes)
            ]
        return Outcome({"episodes": pd.DataFrame(rows)})

    def _prices(self, model: Any) -> list[float]:
        """Return the price of each limit, between those of :data:`PRICING` by linear interpolation."""
        greedy = self._emitted(self.greedy)
        emitted = np.minimum.accumulate([self._emitted(at_price(model, price)) for price in PRICING])
        return [float(np.interp(-share, -emitted / greedy, PRICING)) for share in self.shares]

    def _emitted(self, policy: Policy) -> float:
        """Return the carbon of a policy in the training episodes."""
        rows = play(policy, self.student.scenario, self.pricing_episodes, first_seed=PRICING_SEED)
        return float(sum(row["carbon_kg"] + row["settled_carbon_kg"] for row in rows))


@dataclass(frozen=True)
class DecisionTimes(_OfStudent):
    """Measure what a decision of the plan and one of the network take, each asked alone on one core.

    :param kg_price: of both
    :param decisions: of each
    """

    kg_price: float
    decisions: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return "times of a decision"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 2.0 + 0.02 * self.decisions

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        model = at_price(self.model(), self.kg_price)
        policies = {"plan": f"power_plan:kg_price={self.kg_price:g}", STUDENT: model}
        rows = [{"policy": name, "ms": self._milliseconds(policy)} for name, policy in policies.items()]
        return Outcome({"times": pd.DataFrame(rows)})

    def _milliseconds(self, policy: Policy) -> float:
        scenario = self.student.scenario
        (actor,) = policy_sources({"policy": policy}, greendc.resolve_env_id(scenario.env_id))
        env = actor.prepare_env(make_vec_env(scenario.env_id, 1, RECORDING_SEED, **scenario.env_kwargs))
        acting, observations, spent = actor.policy_for(env), env.reset(), 0.0
        masked = takes_masks(acting)
        for k in range(self.decisions + WARMING_UP):
            masks = {"action_masks": get_action_masks(env)} if masked else {}
            began = time.process_time()
            actions, _ = acting.predict(observations, deterministic=True, **masks)
            spent += (time.process_time() - began) * (k >= WARMING_UP)
            observations, *_ = env.step(actions)
        env.close()
        return 1000.0 * spent / self.decisions


@dataclass(frozen=True)
class CarbonLearner(Learner):
    """A learner whose actor starts as the distilled plan at a price of carbon.

    :param prices: of :class:`PlanStudent`, as the other four
    :param plan_decisions: at each price, in each round
    :param epochs: passes over the data
    :param rounds: of labels
    :param kg_price: of the policy that it starts as
    :param sharpness: factor of the logits: draws keep close to the most likely action
    :param critic_rollouts: rollouts in which the critics alone are trained
    """

    prices: tuple[float, ...] = ()
    plan_decisions: int = 0
    epochs: int = 0
    rounds: int = 1
    kg_price: float = 0.1
    sharpness: float = 1.0
    critic_rollouts: int = 2

    def needs(self, scenario: Scenario, seed: int) -> tuple[Task, ...]:
        """See :class:`~sb3_greendc.experiments.training.Learner`."""
        return (PlanStudent(scenario, self.prices, self.plan_decisions, self.epochs, seed, self.rounds),)

    def start(self, model: BaseAlgorithm, *files: Files) -> list[BaseCallback]:
        """See :class:`~sb3_greendc.experiments.training.Learner`."""
        start_from(model, at_price(loaded(files[0]), self.kg_price), self.sharpness)
        return [CriticsFirst(self.critic_rollouts)]


GREEDY_KG = 10_700.0
"""What the greedy schedule, every unit on, emits in an episode of 2019 (mean of the training seeds 20,000 to
20,039, ± 700); limits in training are shares of it."""
PRICING_SEED = 20_000
"""Of the episodes of the training year in which :data:`GREEDY_KG` was measured, and prices are chosen."""
PRICING = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
"""Values of a kg that are tried for a limit."""
START_PRICES = {0.45: 0.27, 0.60: 0.19, 0.75: 0.05}
"""Price of carbon at which the distilled plan of seed 0 keeps each limit in them: training starts there."""
REWARD_PRICE = 0.1
"""Of a kg in the reward of the learner that has no limit."""
AT_LIMIT = "distilled plan at a limit"
PID = "PID-PPO, distilled start"
PID_SCRATCH = "PID-PPO, from scratch"
SCALARISED = "MaskablePPO, carbon in the reward"
SCALARISED_SAC = "DiscreteSAC, carbon in the reward"
RECURRENT = "recurrent PID-PPO, from scratch"

SHAPED = {"on_time": 1.0, "potential": 1.0}
"""What learners without the plan are paid: the value of jobs, credited when they are placed. With the credit
DiscreteSAC earns .70 of the value at 9.3 t after 16,384 decisions, and nothing without (10 episodes, one seed
each)."""
_PID: dict[str, Any] = {
    "policy": "CostJobSetPolicy",
    "learning_rate": "lin_5e-4",
    "callback": "DiscountByTime",
    "target_kl": 0.02,
    "init": 0.4,
    "min_episodes": 8,
    "cost_vf_coef": 0.5,
    "cost_gamma": 1.0,
    "policy_kwargs": {
        "features_extractor": "job_set",
        "share_cost_features_extractor": False,
        "normalize_returns": True,
    },
}
_BUDGET: dict[str, Any] = {
    "decisions": 1_000_000,
    "quick_decisions": 65_536,
    "quick_seeds": 1,
    "speed": 5_500.0,
}


SHARPNESS = 3.0
"""Draws from the distilled plan earn 6 % less than its most likely actions, at as much carbon."""


def named(learner: str, share: float) -> str:
    """Return what a learner is called under a limit."""
    return f"{learner}, {100 * share:.0f} %"


def pid_from_plan(student: PlanStudent, share: float) -> CarbonLearner:
    """Return PIDLagrangianPPO under a limit on carbon, from the distilled plan at a price near that limit.

    :param student: the network; each run has that of its own seed
    :param share: limit, as a share of :data:`GREEDY_KG`
    """
    return CarbonLearner(
        named(PID, share),
        "pid_ppo",
        {**_PID, "cost_limit": share * GREEDY_KG / ENERGY_COST_UNIT},
        deterministic=False,
        **_BUDGET,
        prices=student.prices,
        plan_decisions=student.decisions,
        epochs=student.epochs,
        rounds=student.rounds,
        kg_price=START_PRICES[share],
        sharpness=SHARPNESS,
    )


def pid_from_scratch(share: float) -> Learner:
    """Return the same algorithm on the same networks, that begins with every unit on."""
    limit = {"cost_limit": share * GREEDY_KG / ENERGY_COST_UNIT}
    return StartsOn(
        named(PID_SCRATCH, share),
        "pid_ppo",
        {**_PID, **limit},
        {"reward": SHAPED},
        deterministic=False,
        **_BUDGET,
    )


def recurrent_pid(share: float) -> Learner:
    """Return CoCoRL's algorithm, two layers before an LSTM, under a limit on carbon, from scratch.

    Other settings are those of ``zoo_hparams/recurrent_pid_ppo.yml``; the costs' are those of PID-PPO here.
    """
    own = {key: _PID[key] for key in ("callback", "init", "min_episodes", "cost_vf_coef", "cost_gamma")}
    limit = {"cost_limit": share * GREEDY_KG / ENERGY_COST_UNIT}
    return StartsOn(
        named(RECURRENT, share),
        "recurrent_pid_ppo",
        {**own, **limit},
        {"reward": SHAPED},
        deterministic=False,
        **{**_BUDGET, "speed": 3_500.0},
    )


SHORT_ROLLOUTS: dict[str, Any] = {"n_envs": 16, "n_steps": 128, "batch_size": 512, "learning_rate": 6e-4}
"""In place of those of ``zoo_hparams/maskable_ppo.yml``: for few decisions, and for turns, in each of which a
falling learning rate would begin again."""
PRICED: dict[str, Any] = {"reward": {**SHAPED, "carbon": REWARD_PRICE}, "cost": "delayed"}
"""The environment of learners that pay for carbon in the reward; it is charged once, so that no cost is."""


def scalarised(share: float) -> Learner:
    """Return MaskablePPO that pays the price of carbon at which the plan keeps near the limit of 60 %."""
    return StartsOn(
        named(SCALARISED, share),
        "maskable_ppo",
        {**SHORT_ROLLOUTS, "callback": "DiscountByTime"},
        PRICED,
        deterministic=False,
        **{**_BUDGET, "quick_decisions": 61_440, "speed": 5_000.0},
    )


def scalarised_sac(share: float) -> Learner:
    """Return DiscreteSAC, with the mask, that pays the same price.

    Other settings are those of ``zoo_hparams/discrete_sac.yml``. It takes two updates for 32 decisions, which
    are slow: its decisions are fewer than those of PPO, and its updates many more.
    """
    return Learner(
        named(SCALARISED_SAC, share),
        "discrete_sac",
        {"callback": "DiscountByTime"},
        PRICED,
        decisions=200_000,
        quick_decisions=24_576,
        quick_seeds=1,
        speed=1_250.0,
    )
