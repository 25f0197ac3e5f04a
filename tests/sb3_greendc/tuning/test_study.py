"""Studies: the same results whatever interrupts or runs them, and one clear error for what does not fit."""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState
from postgres_server import wait_until
from stable_baselines3 import PPO
from tuning_cases import counted, find, journal, owners, results, search, small_objective

from sb3_greendc.core.engine import TaskError
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.tuning import (
    Order,
    Search,
    create_or_load,
    load,
    make_objective,
    models,
    run_search,
    training,
    worker,
)
from sb3_greendc.tuning.objective import TEST_SEED, VALIDATION_SEED
from sb3_greendc.tuning.score import Score
from sb3_greendc.tuning.storage import open_storage
from sb3_greendc.tuning.study import set_excess_cost


@pytest.fixture
def url(tmp_path: Path) -> str:
    return journal(tmp_path / "journal.log")


def test_search_goes_on_as_if_it_had_not_been_interrupted(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = results(search(url, 3))
    assert len(whole) == 3

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    other = journal(tmp_path / "other.log")
    search(other, 1)
    with monkeypatch.context() as patch:
        patch.setattr(worker, "train_and_score", interrupt)
        with pytest.raises(KeyboardInterrupt):
            search(other, 3)
    parts = search(other, 3)
    assert results(parts) == whole
    assert len(parts.study.trials) == 4  # the interrupted one, closed, and its retry
    assert search(other, 3).study.trials == parts.study.trials  # the total is reached


def test_stored_trial_trains_again_to_the_same_value(url: str) -> None:
    made = search(url, 1)
    [trial] = counted(load("small", url))
    hyperparameters = made.objective.hyperparameters(trial.params)
    assert trial.user_attrs["settings"] == hyperparameters.settings
    again = training.train_and_score(
        made.objective, hyperparameters, lambda step, score: False, lambda: False
    )
    assert again.score is not None
    assert again.score.value == trial.value


def test_processes_share_a_study_and_its_total(url: str, tmp_path: Path) -> None:
    """A process of the engine, and this one."""
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(search, url, 3, "process")
        wait_until(lambda: running.done() or ((made := find(url)) is not None and bool(owners(made))))
        worker.work(Order(url, "small", 3))
    shared = running.result()
    assert len(counted(shared)) == 3
    assert len(owners(shared)) == 2
    first = results(search(journal(tmp_path / "other.log"), 1))
    tried = [trial.params for trial in shared.study.trials]
    assert first[0][0] in tried
    value = {str(params): value for params, value, _ in results(shared)}
    assert value[str(first[0][0])] == first[0][1]  # the same parameters have the same value anywhere


def test_hopeless_trials_are_pruned(url: str) -> None:
    made = create_or_load(small_objective(), "small", url)
    for _ in range(5):
        trial = made.ask(100)
        assert trial is not None
        for step in range(1, 5):
            trial.report(0.0, step)
        made.study.tell(trial, 0.0)
    outcomes: list[worker.Outcome] = []
    run_search(made, Order(url, "small", 6), on_outcome=outcomes.append)
    [outcome] = outcomes
    assert outcome.state == "pruned"
    assert outcome.share < 1
    assert outcome.score is not None
    assert outcome.score.value < 0
    assert made.study.trials[-1].state == TrialState.PRUNED


def test_diverged_trial_counts_as_a_bad_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(model: PPO) -> None:
        for parameter in model.policy.parameters():
            parameter.data.fill_(math.nan)

    monkeypatch.setattr(PPO, "train", explode)
    outcomes: list[worker.Outcome] = []
    made = create_or_load(small_objective(), "small", url)
    run_search(made, Order(url, "small", 1), on_outcome=outcomes.append)
    assert [outcome.state for outcome in outcomes] == ["diverged"]
    assert made.best() is None
    assert len(made.finished()) == 1


def test_trial_whose_actions_have_no_distribution_counts_as_a_bad_one(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are finite: the scale is the exponential of one of them, and 0."""

    def shrink(model: PPO) -> None:
        model.policy.log_std.data.fill_(-1e3)  # type: ignore[operator, union-attr]

    monkeypatch.setattr(PPO, "train", shrink)
    outcomes: list[worker.Outcome] = []
    made = create_or_load(small_objective(), "small", url)
    run_search(made, Order(url, "small", 1), on_outcome=outcomes.append)
    assert [outcome.state for outcome in outcomes] == ["diverged"]
    assert [trial.state for trial in made.study.trials] == [TrialState.PRUNED]


def test_error_in_a_trial_is_told_and_closes_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: PPO) -> None:
        raise LookupError("a mistake")

    monkeypatch.setattr(PPO, "train", fail)
    with pytest.raises(RuntimeError, match="LookupError: a mistake"):
        search(url, 1)
    assert [trial.state for trial in load("small", url).study.trials] == [TrialState.FAIL]


def test_worker_that_lost_its_trial_drops_its_result(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_or_load(small_objective(), "small", url)

    def take_away(*_: object) -> training.Training:
        running = made.trials(TrialState.RUNNING)
        for trial in running:
            worker.leases.close(made.study, trial)
            worker.leases.requeue(made.study, trial)
        return training.Training(None, Score(1e9))  # type: ignore[arg-type]

    monkeypatch.setattr(worker, "train_and_score", take_away)
    outcome = worker.work(Order(url, "small", 1))
    assert outcome is not None
    assert outcome.state == "lost"
    assert [trial.state for trial in made.study.trials] == [TrialState.FAIL, TrialState.WAITING]


def test_workers_that_ask_at_once_try_different_parameters(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_or_load(small_objective(), "small", url)
    other = load("small", url)
    create, asked = made.study._storage.create_new_trial, []

    def create_after_another(*arguments: Any, **keywords: Any) -> int:
        monkeypatch.undo()
        asked.append(other.ask(2))  # between looking at the trials and making one
        return create(*arguments, **keywords)

    monkeypatch.setattr(made.study._storage, "create_new_trial", create_after_another)
    asked.append(made.ask(2))
    first, second = (trial.params for trial in asked if trial is not None)
    assert first != second


def test_last_trial_is_given_to_one_of_two_who_ask(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_or_load(small_objective(), "small", url)
    first = made.ask(1)
    assert first is not None
    assert made.ask(1) is None
    asked = iter([[], made.trials(TrialState.RUNNING)])
    monkeypatch.setattr(Search, "trials", lambda self, *states: next(asked, []))
    assert made.ask(1) is None  # both saw room; the lower number keeps it
    states = [trial.state for trial in made.study.trials]
    assert states == [TrialState.RUNNING, TrialState.FAIL]


def test_best_trial_is_within_the_limit() -> None:
    asked = {"env_id": "VCC-2021", "algorithm": "pid_ppo", "timesteps": 48}
    objective = make_objective(**asked, fixed={"n_envs": 2}, env_kwargs={"days": 1, "constrained": True})
    assert objective.cost_limit == 0.9
    assert objective.pruner == "none"
    with pytest.raises(ValueError, match="pruner='median': must be 'none' with a cost_limit"):
        make_objective(**asked, pruner="median")
    search = Search(optuna.create_study(direction="maximize"), objective, objective.space)
    for value, excess, best_so_far in ((5.0, 0.2, 5.0), (9.0, 3.0, 5.0), (1.0, -0.1, 1.0), (2.0, 0.0, 2.0)):
        trial = search.ask(100)
        assert trial is not None
        set_excess_cost(trial, excess)
        search.study.tell(trial, value)
        best = search.best()
        assert best is not None
        assert best.value == best_so_far


def test_search_under_a_limit(url: str) -> None:
    options = {"algorithm": "pid_ppo", "env_kwargs": {"days": 1, "constrained": True}}
    fixed = {"n_envs": 2, "n_steps": 24, "batch_size": 24, "n_epochs": 2, "cost_limit": 0.01}
    made = search(url, 2, **options, fixed=fixed)
    assert all(trial.user_attrs["excess_cost"] >= -0.01 for trial in counted(made))
    assert all(trial.user_attrs["settings"]["cost_limit"] <= 0.01 for trial in counted(made))


def test_search_never_sees_the_test_months() -> None:
    for env_id, own in (("VCC-2020", "2020-05"), ("VCC-2021", "2021-05"), ("DiscreteVCC-2019", "2019-05")):
        objective = make_objective(env_id, "ppo", 100)
        trained_on = objective.training_kwargs
        assert trained_on.get("split") == "train" or own not in trained_on["month"]
        assert own not in objective.validation_kwargs["month"]
        assert all("2020-05" <= month <= "2020-08" for month in objective.validation_kwargs["month"])
    assert make_objective("VCC-2021", "ppo", 100).training_kwargs == {"split": "train", "month": None}
    pool = make_objective("ResourcePool-10", timesteps=100, fixed={"n_envs": 2})
    assert pool.algorithm == "maskable_ppo"
    assert pool.validation_kwargs == {}
    assert 0 <= pool.seed < VALIDATION_SEED < VALIDATION_SEED + pool.episodes < TEST_SEED


def test_search_on_emissions_never_sees_those_of_the_test(url: str) -> None:
    asked = {"env_id": "ResourcePoolCarbon-10", "algorithm": "maskable_ppo", "timesteps": 16, "episodes": 1}
    small = {"fixed": {"n_envs": 1, "n_steps": 16, "batch_size": 16}, "env_kwargs": {"episode_steps": 4}}
    objective = make_objective(**asked, **small)  # type: ignore[arg-type]
    assert objective.training_kwargs == {"carbon": "PGE-2019", "episode_steps": 4}
    assert objective.validation_kwargs == {"carbon": "PGE-2020", "episode_steps": 4}
    judged = training.Validation(objective).env
    tested = make_vec_env(objective.env_id, 1, **objective.env_kwargs)
    assert isinstance(judged, SimulatorVecEnv) and isinstance(tested, SimulatorVecEnv)
    assert judged.simulator.config.carbon == "PGE-2020"  # type: ignore[attr-defined]
    assert tested.simulator.config.carbon == "PGE-2021"  # type: ignore[attr-defined]
    assert objective.validation_of == "emissions of PGE-2020"
    chosen = make_objective(**asked, fixed=small["fixed"], env_kwargs={"carbon": "SCE-2020"})  # type: ignore[arg-type]
    assert chosen.validation_kwargs == {"carbon": "SCE-2020"}
    before = dataclasses.replace(objective, validation_carbon=None)  # as studies were made by version 0.6
    create_or_load(before, "small", url)
    with pytest.raises(ValueError, match="made with validation_carbon None, not 'PGE-2020'; --study names"):
        create_or_load(objective, "small", url)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.npz"
    kwargs = {"split": "train", "month": None, "days": 1}
    collect(["always_on", "moer_threshold"], "VCC-2021", 480, env_kwargs=kwargs).save(path)
    return path


def offline(data: Path | None, **changes: Any) -> dict[str, Any]:
    fixed = {"batch_size": 16, "policy_kwargs": {"net_arch": [16]}}
    return {"algorithm": "crr", "timesteps": 40, "fixed": fixed, "data": data, **changes}


def test_search_on_data(url: str, data: Path) -> None:
    made = search(url, 2, **offline(data))
    assert [sorted(trial.intermediate_values) for trial in counted(made)] == [[1, 2, 3, 4]] * 2
    [trial, _] = counted(made)
    hyperparameters = made.objective.hyperparameters(trial.params)
    again = training.train_and_score(
        made.objective, hyperparameters, lambda step, score: False, lambda: False
    )
    assert again.score is not None
    assert again.score.value == trial.value
    assert again.model.num_timesteps == 40
    stopped = training.train_and_score(
        made.objective, hyperparameters, lambda step, _: step == 2, lambda: False
    )
    assert stopped.model.num_timesteps == 20


def test_data_must_fit(data: Path, tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="crr learns from data: --data FILE"):
        small_objective(**offline(None))
    with pytest.raises(ValueError, match="ppo learns from an environment, not from data"):
        small_objective(algorithm="ppo", data=data)
    assert make_objective("VCC-2021", data=data, env_kwargs={"days": 1}).algorithm == "crr"
    with pytest.raises(ValueError, match=r"data\.npz, recorded in VCC-2021-v1 with .*: dataset: its action"):
        small_objective(**offline(data, env_id="DiscreteVCC-2021"))
    other = tmp_path / "test.npz"
    collect(["always_on"], "VCC-2021", 48, env_kwargs={"days": 1}).save(other)
    with pytest.raises(ValueError, match=r"test\.npz: recorded in 2021-05, which trials are judged on"):
        small_objective(**offline(other))
    made = search(url, 1, **offline(data))
    other.replace(data)
    models._read_data.cache_clear()
    with pytest.raises(TaskError, match=r"data\.npz: is no longer what it was when the study was made"):
        run_search(made, Order(url, "small", 2))
    with pytest.raises(FileNotFoundError):
        small_objective(**offline(tmp_path / "missing.npz"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timesteps": 96}, r"study 'small' was made with timesteps 240, not 96; --study"),
        ({"fixed": {"n_envs": 2, "n_steps": 24, "gamma": 0.9}}, r"made with fixed .*; --study"),
        ({"algorithm": "trpo", "fixed": {"n_envs": 2}}, r"made with algorithm 'ppo', not 'trpo'"),
    ],
)
def test_study_of_another_problem_is_refused(url: str, changes: dict[str, Any], message: str) -> None:
    create_or_load(small_objective(), "small", url)
    with pytest.raises(ValueError, match=message):
        create_or_load(small_objective(**changes), "small", url)


def test_study_of_another_space_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create_or_load(small_objective(), "small", url)
    monkeypatch.setitem(
        __import__("sb3_greendc.tuning.spaces", fromlist=["SPACES"]).SPACES,
        "ppo",
        lambda setting: {"clip_range": optuna.distributions.FloatDistribution(0.1, 0.2)},
    )
    with pytest.raises(ValueError, match=r"another search space \(it differs in learning_rate.*clip_range"):
        create_or_load(small_objective(), "small", url)


def test_study_of_another_program_is_refused(url: str) -> None:
    study = optuna.create_study(storage=open_storage(url), study_name="small")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    with pytest.raises(ValueError, match="another program"):
        create_or_load(small_objective(), "small", url)
