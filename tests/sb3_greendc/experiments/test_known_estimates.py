"""How long problems that others made take: speeds, and all of them on the results page, installed or not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pandas as pd
import pytest

from sb3_greendc.core.progress import duration
from sb3_greendc.experiments import pages
from sb3_greendc.experiments.experiment import Budget, Experiment, unique_tasks
from sb3_greendc.experiments.known import common, limits, offline, online
from sb3_greendc.experiments.known.installed import as_if_installed, counted_as_installed
from sb3_greendc.experiments.known.plans import OR_TOOLS, ROLLOUTS
from sb3_greendc.experiments.known.problems import (
    CARTPOLE,
    HALF_CHEETAH,
    JOB_SHOP_LARGEST,
    LUNAR_LANDER,
    MINATAR,
    PENDULUM,
    PROBLEMS,
    Problem,
)
from sb3_greendc.experiments.known.tasks import KnownTraining, Played
from sb3_greendc.experiments.runner import estimate
from sb3_greendc.runs.hyperparameters import load_hyperparameters

RUN = {
    "experiment": "toy",
    "title": "toy",
    "budget": "full",
    "seeds": None,
    "problems": [],
    "notes": [],
    "test_episodes": None,
}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let none of the packages be there, whatever is installed."""
    without = tuple(replace(one, package=one.package and "no_such_package") for one in PROBLEMS)
    monkeypatch.setattr(common, "PROBLEMS", without)
    for problem in PROBLEMS:
        if problem.package in ("minatar", "job_shop_lib", "minigrid"):
            monkeypatch.delitem(gym.registry, problem.env_id, raising=False)


def minutes(module: Any, problem: Problem) -> float:
    with as_if_installed():
        items = module.EXPERIMENT.items(Budget(problems=(problem.name,)))
        return sum(task.seconds() for task in unique_tasks(items)) / 60


# ------------------------------------------------------------------ all problems


@pytest.mark.parametrize("module", [online, offline, limits])
def test_problems_of_missing_packages_can_be_counted(module: Any, bare: None) -> None:
    def names() -> set[str]:
        return {str(item.labels["series"]).partition(",")[0] for item in module.EXPERIMENT.items(Budget())}

    known = {online: online.FULL, offline: offline.DATA}.get(module, limits.LIMITS)
    before = dict(gym.registry)
    here = names()
    with as_if_installed():
        assert counted_as_installed()
        every = names()
        assert all(task.seconds() > 0 for task in unique_tasks(module.EXPERIMENT.items(Budget())))
    assert every == {*known}
    assert here < every
    assert names() == here
    assert not counted_as_installed()
    assert dict(gym.registry) == before


@pytest.mark.parametrize("name", ["learners", "learners-offline", "learners-limits"])
def test_the_results_page_counts_problems_of_missing_packages(name: str, bare: None, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    record = {**RUN, "experiment": name, "budget": "quick"}
    (tmp_path / name / "run.json").write_text(json.dumps(record))
    said = pages._not_in_full(tmp_path, [name])
    experiment = pages.load_experiment(name)
    with as_if_installed():
        every = estimate(unique_tasks(experiment.items(Budget())), pages.CORES)
    here = estimate(unique_tasks(experiment.items(Budget())), pages.CORES)
    assert f"| {duration(every)} |" in said
    assert every > 3 * here
    assert "for all problems of an experiment" in said


@pytest.mark.parametrize(
    ("differs", "listed"),
    [
        ({}, False),
        ({"budget": "quick"}, True),
        ({"problems": ["CartPole"]}, True),
        ({"notes": ["Left out: Acrobot: the package is not installed."]}, True),
        ({"notes": ["Something else."]}, False),
    ],
)
def test_a_full_run_without_some_problems_is_not_whole(
    differs: dict[str, Any], listed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def items(budget: Budget) -> list[Any]:
        return limits.EXPERIMENT.items(Budget(quick=True))[: 1 if budget.problems else None]

    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "run.json").write_text(json.dumps({**RUN, **differs}))
    toy = Experiment("toy", "toy", items, limits.EXPERIMENT.analyze, by_problem=True)
    monkeypatch.setattr(pages, "load_experiment", lambda name: toy)
    assert ("`toy`" in pages._not_in_full(tmp_path, ["toy"])) == listed


# ------------------------------------------------------------------ speeds


def test_every_learner_has_a_speed_on_each_of_its_problems() -> None:
    for learners in (online.QUICK, online.FULL):
        for name, of_problem in learners.items():
            assert {one.name for one in of_problem} <= {*online.SPEEDS[name]}


@pytest.mark.parametrize(
    ("problem", "learner", "steps", "measured"),
    [
        (LUNAR_LANDER, online.DISCRETE_SAC, 300_000, 69),
        (LUNAR_LANDER, online.DEFAULTS, 300_000, 71),
        (LUNAR_LANDER, online.PPO, 300_000, 10.5),
        (LUNAR_LANDER, online.DQN, 300_000, 77),
        (LUNAR_LANDER, online.QRDQN, 300_000, 113),
        (MINATAR[1], online.DISCRETE_SAC, 1_000_000, 320),
        (MINATAR[1], online.PPO, 1_000_000, 34),
        (MINATAR[1], online.DQN, 1_000_000, 155),
        (MINATAR[1], online.QRDQN, 1_000_000, 190),
    ],
)
def test_trainings_are_estimated_as_five_of_them_were_measured(
    problem: Problem, learner: Any, steps: int, measured: float
) -> None:
    """Minutes on one core."""
    with as_if_installed():
        tasks = online.tasks(problem, [learner], Budget())
    trained = [task for task in tasks if isinstance(task, KnownTraining)]
    assert len(trained) == 5
    assert sum(replace(task, decisions=steps).seconds() for task in trained) / 60 == pytest.approx(
        measured, rel=0.05
    )


def test_learning_from_data_is_estimated_as_it_was_measured() -> None:
    """CRR with continuous actions takes six times as long as cloning. Minutes on one core, five seeds."""
    assert minutes(offline, PENDULUM) == pytest.approx(160, rel=0.05)
    assert minutes(offline, HALF_CHEETAH) == pytest.approx(250, rel=0.05)


def test_planners_are_estimated_without_their_package(bare: None) -> None:
    """An episode of 20 × 20 took 21 s of OR-Tools' and 6 s of rollouts'."""
    with as_if_installed():
        items = offline.EXPERIMENT.items(Budget(problems=(JOB_SHOP_LARGEST.name,)))
        tasks: list[Any] = [item.task for item in items]
        recorded = {task.planner: task for one in tasks for task in getattr(one, "planned", {}).values()}
    seconds = {name: replace(task, episodes=100).seconds() / 100 for name, task in recorded.items()}
    assert 12 < seconds[OR_TOOLS] < 24
    assert 4 < seconds[ROLLOUTS] < 8


# ------------------------------------------------------------------ what the full form has


def test_minatar_has_the_frames_that_fit() -> None:
    assert {problem.full_steps for problem in MINATAR} == {200_000}
    assert {one.steps for problem in MINATAR for one in problem.published} == {10_000_000}


def test_qr_dqn_has_as_many_quantiles_on_lunar_lander_as_fit() -> None:
    settings = load_hyperparameters("qrdqn", "LunarLander-v3").settings
    assert settings["policy_kwargs"] == {"net_arch": [256, 256], "n_quantiles": 25}
    assert settings["batch_size"] == 128  # as in RL Baselines3 Zoo, with all else


def test_on_the_largest_shop_rules_play_alone() -> None:
    with as_if_installed():
        items = online.EXPERIMENT.items(Budget(problems=(JOB_SHOP_LARGEST.name,)))
    assert all(isinstance(item.task, Played) for item in items)
    assert [item.task.policy for item in items if isinstance(item.task, Played)] == [
        *common.without_learning(JOB_SHOP_LARGEST)
    ]
    (scenario,) = {str(item.task.scenario) for item in items if isinstance(item.task, Played)}
    assert "ta21" in scenario
    assert "ta30" in scenario
    assert "'jobs': 20, 'machines': 20" in scenario


def test_rules_alone_have_a_table_and_no_curves() -> None:
    rows = [{"series": "A", "policy": "rule", "episode": k, "return": -1.0} for k in range(2)]
    given = SimpleNamespace(table=lambda: pd.DataFrame(rows))
    analysis = online.EXPERIMENT.analyze(given, Budget(problems=(CARTPOLE.name,)))  # type: ignore[arg-type]
    assert not analysis.figures
    assert analysis.tables["results"]["return"].tolist() == [-1.0]
