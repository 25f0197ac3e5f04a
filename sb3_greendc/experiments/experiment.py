"""What an experiment is: a list of tasks, and an analysis of all their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pandas as pd
from matplotlib.figure import Figure

from greendc.config import require
from sb3_greendc.experiments.bounds import Bounds
from sb3_greendc.experiments.controls import controls
from sb3_greendc.experiments.distillation import Distillation
from sb3_greendc.experiments.distilled import NAME, Evaluation
from sb3_greendc.experiments.episodes import (
    PAPER,
    Baselines,
    all_variants,
    likely_variants,
    suspending_variants,
)
from sb3_greendc.experiments.rollouts import DEPTH, plain, strong
from sb3_greendc.experiments.tasks import LOG_SERIES, Item, Scenario, Task
from sb3_greendc.experiments.training import Learner, Training

if TYPE_CHECKING:
    from sb3_greendc.experiments.store import Store

T = TypeVar("T")


MODELLED_LOG = f"{LOG_SERIES} (modelled)"

MOST_SEEDS = 20
"""Training seeds of a learner; what is recorded for the next one would begin with the first test episode."""


@dataclass(frozen=True)
class Budget:
    """How much of an experiment is done.

    :param quick: small budgets: the right shape within minutes
    :param seeds: training seeds, in place of the budget's own number
    :param seeds_by_learner: the same for single learners, by name
    :param job_log: a log (SWF, or an export of ``sacct``) for experiments on "the HPC log", beside a model of
        such logs (Lublin and Feitelson); the papers' log is no part of this package
    :param weather: weather files for RARE's Fig. 3, beside the generated year
    :param google: folder of real days of Google jobs for the page's scenario of ``vcc-shift``
    :param test_episodes: episodes that policies are judged on, in place of the budget's own number
    :param rollouts: let rollouts compete wherever heuristics do, also where they take minutes a point
    :param problems: names of problems, in place of all that an experiment has (:meth:`wants`)
    :param device: that learners of the resource pool are trained on
    """

    quick: bool = False
    seeds: int | None = None
    job_log: str | None = None
    weather: tuple[str, ...] = ()
    google: str | None = None
    seeds_by_learner: Mapping[str, int] = field(default_factory=dict)
    test_episodes: int | None = None
    rollouts: bool = False
    problems: tuple[str, ...] = ()
    device: str = "cpu"

    def pick(self, quick: T, full: T) -> T:
        """Return one of two values, by the budget."""
        return quick if self.quick else full

    @property
    def name(self) -> str:
        """The form's name in records."""
        return "quick" if self.quick else "full"

    @property
    def logs(self) -> dict[str, str]:
        """Workloads of experiments on the HPC log, by what figures call them."""
        found = {MODELLED_LOG: "hpc"}
        if self.job_log:
            found[f"{LOG_SERIES} ({Path(self.job_log).name.partition('.')[0]})"] = self.job_log
        return found

    @property
    def episodes(self) -> int:
        """Episodes that policies are judged on."""
        return self.episodes_of(32, 256)

    def episodes_of(self, quick: int, full: int) -> int:
        """Return how many episodes policies are judged on, where an experiment has its own numbers."""
        return self.test_episodes or self.pick(quick, full)

    @property
    def test_steps(self) -> int:
        """Time steps of an episode that policies of the resource pool are judged on."""
        return 500 if self.quick else 1000

    @property
    def futures(self) -> int:
        """Sampled futures of a decision of rollouts that compete, and of the search on top of a network."""
        return self.pick(32, 100)

    def wants(self, series: str) -> bool:
        """Tell whether the budget has a series: all, or those of the problems that are asked for.

        :param series: a problem's name, alone or with more behind a comma
        """
        return not self.problems or any(f"{series},".startswith(f"{name},") for name in self.problems)

    def labels(self, long_queues: bool) -> int:
        """Return how many decisions a network is distilled from, all training tasks together.

        :param long_queues: whether hundreds of jobs wait at times, which makes each of them slow
        """
        return self.pick(80_000, 400_000) if long_queues else self.pick(84_000, 560_000)

    def baselines(self, scenario: Scenario, steps: int | None = None, rollouts: bool = False) -> list[Task]:
        """Return every heuristic of the resource pool in every form on the test episodes, and the bound.

        :param scenario: the scenario
        :param steps: steps of a test episode, in place of the budget's own number
        :param rollouts: and the planner that tries each action in sampled futures, with the choice that the
            distilled policy has
        """
        tested = scenario.with_kwargs(episode_steps=steps or self.test_steps)
        variants = self.pick(likely_variants(), all_variants())
        found: list[Task] = [Baselines(tested, variants, self.episodes), Bounds(tested, self.pick(8, 64))]
        if self.quick:  # all variants have these
            without_overtaking = all_variants((*PAPER, "edf"), dispatches=("block",))
            found.append(Baselines(tested, without_overtaking, self.episodes))
        found += controls(tested, student_choice(scenario), self.episodes)
        if scenario.may_suspend:
            # Under the ordinary mask ``suspend`` starts late jobs, too, and is of no use where many wait.
            asked_always = tested.with_kwargs(**{**student_choice(scenario), "skip_forced": False})
            found.append(Baselines(asked_always, suspending_variants(), self.episodes))
        if rollouts or self.rollouts:
            # Where many jobs wait a rollout is slow: the stronger form stands for both.
            weaker = () if scenario.has_long_queues else (plain(self.futures),)
            choosing = tested.with_kwargs(**student_choice(scenario))
            found.append(Baselines(choosing, (*weaker, strong(self.futures)), self.episodes))
        return found

    def seeds_of(self, learner: str, quick: int = 1, full: int = 10) -> range:
        """Return the training seeds of a learner.

        :param learner: its name
        :param quick: how many the quick budget has by itself
        :param full: and the full budget
        :raises ValueError: for more seeds than do not meet those of the test episodes
        """
        number = self.seeds_by_learner.get(learner) or self.seeds or self.pick(quick, full)
        require(
            number <= MOST_SEEDS, "--seeds", number, f"at most {MOST_SEEDS}: more would meet test episodes"
        )
        return range(number)

    def trainings(
        self,
        scenario: Scenario,
        learner: Learner,
        checkpoints: int = 1,
        full_seeds: int = 10,
        test_steps: int | None = None,
    ) -> list[Training]:
        """Return a learner's runs on a scenario of the resource pool, one per seed.

        :param scenario: the scenario
        :param learner: the learner
        :param checkpoints: how often it is judged; on a quarter of the episodes before the end
        :param full_seeds: seeds of the full budget
        :param test_steps: steps of a test episode, in place of the budget's own number
        """
        decisions = learner.quick_decisions if self.quick else learner.decisions
        judged_at = tuple(at for at in learner.judged_at if at < decisions)
        along = self.episodes // 4 if checkpoints > 1 else None
        run = Training(
            scenario,
            learner,
            decisions,
            0,
            self.episodes,
            checkpoints,
            test_kwargs={"episode_steps": test_steps or self.test_steps},
            judged_at=judged_at,
            episodes_along=self.pick(8, 64) if judged_at else along,
            device=self.device,
        )
        return [
            replace(run, seed=seed) for seed in self.seeds_of(learner.name, learner.quick_seeds, full_seeds)
        ]

    def distilled(
        self,
        scenario: Scenario,
        training_tasks: Sequence[Scenario] = (),
        steps: int | None = None,
        search: bool = False,
        depth: int = DEPTH,
    ) -> list[Evaluation]:
        """Return the networks distilled from rollouts, one per seed, on a scenario of the resource pool.

        :param scenario: what they are judged on
        :param training_tasks: what they are trained on, from :mod:`~sb3_greendc.experiments.curricula`;
            default: the scenario itself
        :param steps: steps of a test episode, in place of the budget's own number
        :param search: whether they are judged with a search on top, too
        :param depth: steps that the teacher looks ahead, and that the network sees ahead
        """
        view = {**student_view(scenario), "lookahead": depth}
        acting = scenario.with_kwargs(**view, episode_steps=steps or self.test_steps)
        return [
            Evaluation(
                self.distillation(training_tasks or (scenario,), seed, depth),
                acting,
                self.episodes,
                searching,
            )
            for seed in self.seeds_of(NAME)
            for searching in ((None, strong(self.futures)) if search else (None,))
        ]

    def distillation(self, training_tasks: Sequence[Scenario], seed: int, depth: int = DEPTH) -> Distillation:
        """Return the training of a network distilled from rollouts.

        :param training_tasks: what it is trained on
        :param seed: number of the run
        :param depth: steps that the teacher looks ahead, and that the network sees ahead
        """
        long = any(training_task.has_long_queues for training_task in training_tasks)
        return Distillation(
            tuple(
                training_task.with_kwargs(**{**student_view(training_task), "lookahead": depth})
                for training_task in training_tasks
            ),
            labels=self.labels(long),
            futures=self.pick(2, 8) if long else 16,
            epochs=5,
            seed=seed,
            depth=depth,
        )


ON_TIME = {"mask": "now_on_time"}
"""What learners of the resource pool choose from: jobs that can start now and finish on time. Heuristics have
the environment's ordinary mask, as in the papers; jobs and power are the same."""

CHOICE = {**ON_TIME, "skip_forced": True}
"""The same, asked only where there is a choice: for distilled policies, and for DiscreteSAC and DQN,
which learn more from fewer decisions (DiscreteSAC's value ratio after 12,000 of them at ten units and a load
of 1: 0.628, and 0.540 without; 64 episodes, one seed). PPO, which discounts by decisions, it harms, unless
:class:`~sb3_greendc.core.discounting.DiscountByTime` lets it discount by time."""

LONG_QUEUES = {"ready_pool_size": 32}
"""How many jobs a distilled network chooses from on job logs. Of the hundreds that wait there nearly all
are late; those that can still be on time are more than ten for a quarter of the time, and more than 34 in
one step of a hundred. Heuristics on the whole queue see all of them anyway. The network scores jobs one by
one: its weights do not know how many there are."""


SOONEST = {"queue_order": "latest_start"}
"""Which jobs these are, where more wait: those that must start soonest to be on time. Of the value of a log
(Mira, 2018) a network on ten units then earns 2 per cent more than the best heuristic on the whole queue with
five jobs to choose among, 3 with ten and with 32; in order of arrival it earns 16 and 9 less, and 2 more
(24 training episodes; on a model of logs 4, 6, 6, and 11 and 3 less, and 6)."""


def student_choice(scenario: Scenario) -> dict[str, object]:
    """Return what a distilled network chooses from.

    :param scenario: one that says how large its ready pool is keeps it: the figure may be about just that
    """
    if not scenario.has_long_queues:
        return dict(CHOICE)
    wider = {} if "ready_pool_size" in scenario.env_kwargs else LONG_QUEUES
    return {**CHOICE, **SOONEST, **wider}


LOOKAHEAD = {"lookahead": DEPTH}
"""What a distilled network sees beyond what all see: what each action is worth if no more jobs came.
What starting a job does to the others that wait is hard to read from an image; so only the jobs to come are
left to learn about. Distilled from 112,000 decisions at all loads it earns .741, .688, .627 of the value at
loads of 0.8, 1.0, 1.2 (rollouts in 32 futures .742, .688 at the first two), and .736, .672, .616 without
(128 training episodes, standard error of differences .003)."""


def student_view(scenario: Scenario) -> dict[str, object]:
    """Return what a distilled network chooses from, and sees.

    :param scenario: as for :func:`student_choice`
    """
    return {**student_choice(scenario), **LOOKAHEAD}


@dataclass(frozen=True)
class Results:
    """The results of all items of an experiment.

    :param items: the items
    :param store: where their tasks' tables are
    """

    items: Sequence[Item]
    store: Store

    def table(self, name: str = "episodes") -> pd.DataFrame:
        """Return the rows of every item, with the item's labels as columns; empty if none has the table."""
        parts = [(item, self.store.table(item.task, name)) for item in self.items]
        labelled = [part.assign(**item.labels) for item, part in parts if len(part)]
        return pd.concat(labelled, ignore_index=True) if labelled else pd.DataFrame()


@dataclass(frozen=True)
class Analysis:
    """What an experiment has to show.

    :param tables: by name; ``"comparison"`` sets our margins beside the printed ones
    :param figures: by name
    :param notes: sentences for the results page: what was chosen, what is lower and why
    """

    tables: Mapping[str, pd.DataFrame]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """An experiment.

    :param name: its name on the command line
    :param title: what it shows, in a line
    :param items: gives its tasks in a budget
    :param analyze: turns results into tables and figures
    :param by_problem: whether it can do some of its problems alone
    """

    name: str
    title: str
    items: Callable[[Budget], Sequence[Item]]
    analyze: Callable[[Results, Budget], Analysis]
    by_problem: bool = False


def unique_tasks(items: Sequence[Item]) -> list[Task]:
    """Return each task once, and what it needs; the longest first, so that no long one is left to the end."""
    tasks: dict[tuple[str, str], Task] = {}
    waiting = [item.task for item in items]
    while waiting:
        task = waiting.pop()
        tasks[task.identity] = task
        waiting += task.needs
    return sorted(tasks.values(), key=lambda task: -task.seconds())


def labelled(tasks: Sequence[Task], **labels: object) -> list[Item]:
    """Return tasks as items with the same labels."""
    return [Item(task, dict(labels)) for task in tasks]
