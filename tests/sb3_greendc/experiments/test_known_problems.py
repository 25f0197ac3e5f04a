"""Problems that others made: environments, who plays without learning, settings, tables, a quick form."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from gymnasium.spaces import Box, Discrete
from rich.console import Console
from stable_baselines3.common.env_checker import check_env

from sb3_greendc.discrete_sac import DiscreteSAC
from sb3_greendc.experiments.distillation import loaded
from sb3_greendc.experiments.experiment import Budget, Experiment
from sb3_greendc.experiments.known import common, limits, offline, online, problems
from sb3_greendc.experiments.known.players import PLAYERS, RANDOM, RULES, Uniform, player
from sb3_greendc.experiments.known.problems import (
    CARTPOLE,
    CARTPOLE_COST,
    GRID,
    JOB_SHOP,
    LANDER_FUEL,
    LANDER_POSITION,
    LAVA,
    LIMITS,
    PENDULUM,
    PROBLEMS,
    Problem,
)
from sb3_greendc.experiments.known.tasks import KnownTraining, OnData, constructor_defaults
from sb3_greendc.experiments.runner import run_tasks, write_analysis
from sb3_greendc.experiments.store import Store
from sb3_greendc.runs.hyperparameters import load_hyperparameters

NAMES = [problem.name for problem in PROBLEMS]


def named(name: str) -> Problem:
    problem = next(one for one in PROBLEMS if one.name == name)
    if (reason := problem.missing()) is not None:
        pytest.skip(reason)
    return problem


# ------------------------------------------------------------------ problems


@pytest.mark.parametrize("name", NAMES)
def test_environments_keep_the_rules_of_gymnasium_and_of_sb3(name: str) -> None:
    problem = named(name)
    for more in ({}, problem.test_kwargs):
        env = gym.make(problem.env_id, **{**problem.env_kwargs, **more})
        if problem.package != "minatar":  # whose rewards are whatever NumPy type the game has at hand
            check_env(env, skip_render_check=True)
        first, _ = env.reset(seed=3)
        again, _ = env.reset(seed=3)
        np.testing.assert_equal(first, again)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("learners", [online.QUICK, online.FULL])
def test_every_learner_has_settings_for_its_problem(name: str, learners: dict[str, tuple[Any, ...]]) -> None:
    problem = named(name)
    for learner in learners.get(name, ()):
        heading = load_hyperparameters(learner.algorithm, problem.env_id).settings
        default = load_hyperparameters(learner.algorithm, "Unknown-v0").settings
        assert heading != default


def test_sizes_of_job_shops_share_settings_but_for_the_penalty_of_the_larger() -> None:
    small, *larger = (
        load_hyperparameters("crr", problem.env_ids[0]).settings for problem in problems.JOB_SHOPS
    )
    assert len(larger) == 2
    for settings in larger:
        assert settings == {**small, "cql_alpha": 1.0}
    for algorithm in ("discrete_sac", "maskable_ppo"):
        first, *others = (
            load_hyperparameters(algorithm, one.env_ids[0]).settings for one in problems.JOB_SHOPS
        )
        assert others == [first, first]
        assert first["gamma"] == 1.0


def test_what_is_missing_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(CARTPOLE, name="absent", package="no_such_package")
    assert 'pip install "sb3-greendc[learners]"' in str(absent.missing())
    assert "no_such_package" in str(absent.missing())
    elsewhere = replace(CARTPOLE, example=("no_such_file.py", "Env"))
    assert "examples/no_such_file.py" in str(elsewhere.missing())
    assert CARTPOLE.missing() is None
    monkeypatch.setattr(common, "PROBLEMS", (CARTPOLE, absent))
    both, alone = [CARTPOLE.name, "absent"], Budget(problems=("absent",))
    assert common.asked_for(Budget(), (), both) == [CARTPOLE]
    assert common.left_out(Budget(), (), both) == [f"Left out: {absent.missing()}."]
    assert common.left_out(Budget(), (), [CARTPOLE.name]) == []
    assert common.left_out(alone, (), [CARTPOLE.name]) == []
    with pytest.raises(ValueError, match="--problems absent: the package no_such_package is not installed"):
        common.asked_for(alone, (), both)


def test_the_quick_budget_has_problems_of_its_own_and_those_that_are_asked_for() -> None:
    quick, full = (CARTPOLE.name,), (CARTPOLE.name, PENDULUM.name)
    assert common.asked_for(Budget(quick=True), quick, full) == [CARTPOLE]
    assert common.asked_for(Budget(), quick, full) == [CARTPOLE, PENDULUM]
    assert common.asked_for(Budget(quick=True, problems=(PENDULUM.name,)), quick, full) == [PENDULUM]
    assert common.asked_for(Budget(problems=("another experiment's",)), quick, full) == []


@pytest.mark.parametrize("name", ["LunarLander", "Acrobot"])
def test_learners_share_a_budget_on_problems_that_are_asked_for(name: str) -> None:
    problem = named(name)
    for quick, steps in ((True, problem.quick_steps), (False, problem.full_steps)):
        items = online.EXPERIMENT.items(Budget(quick=quick, seeds=1, problems=(name,)))
        trained = [item.task for item in items if isinstance(item.task, KnownTraining)]
        assert [task.learner.name for task in trained] == [one.name for one in online.CLASSIC]
        assert {task.decisions for task in trained} == {steps}


@pytest.mark.parametrize("problem", [LANDER_FUEL, LANDER_POSITION])
def test_a_lander_with_a_cost_has_a_quick_form_when_it_is_asked_for(problem: Problem) -> None:
    named(problem.name)
    items = limits.EXPERIMENT.items(Budget(quick=True, problems=(problem.name,)))
    trained = [item.task for item in items if isinstance(item.task, KnownTraining)]
    assert {task.decisions for task in trained} == {problem.quick_steps}
    assert len(trained) == len(limits.GAINS) + len(limits.PENALTIES) + 2  # with an LSTM one of each
    assert not {problem.name} & {
        item.labels["series"] for item in limits.EXPERIMENT.items(Budget(quick=True))
    }


def test_on_the_grid_the_wet_way_is_shorter_and_costs_five() -> None:
    env = gym.make(named("grid with a cost").env_id).unwrapped
    up, down, right = 0, 1, 3
    found = {}
    for way, actions in {
        "wet": [right] * 6,
        "dry": [up] * 2 + [right] * 6 + [down] * 2,
    }.items():
        env.reset(seed=0)
        env.np_random = SureFooted()
        steps = [env.step(action) for action in actions]
        assert [step[2] for step in steps] == [False] * (len(actions) - 1) + [True]
        found[way] = [sum(step[1] for step in steps), sum(step[4]["cost"] for step in steps)]
    assert found["wet"] == pytest.approx([0.4, 5.0])
    assert found["dry"] == pytest.approx([0.0, 0.0])


class SureFooted:
    """Never leads astray."""

    def random(self) -> float:
        return 1.0


def test_a_penalty_takes_its_price_for_each_unit_of_cost() -> None:
    for name in LIMITS:
        problem = named(name)
        totals = []
        for penalty in (0.0, 2.0):
            env = gym.make(problem.env_id, penalty=penalty, **problem.env_kwargs)
            env.reset(seed=0)
            rows = [env.step(ACTIONS.get(name, 2)) for _ in range(60 if "Lander" in name else 6)]
            totals.append((sum(row[1] for row in rows), sum(row[4]["cost"] for row in rows)))
        (free, cost), (paid, same) = totals
        assert cost == same
        assert paid == pytest.approx(free - 2.0 * cost)
        assert name == CARTPOLE_COST.name or cost > 0


ACTIONS = {GRID.name: 3, CARTPOLE_COST.name: 1, LANDER_POSITION.name: 0}
"""What leads to a cost: to the right, or to drift; elsewhere ahead or up."""


def test_lava_costs_and_does_not_end_the_episode() -> None:
    env = gym.make(named(LAVA.name).env_id, size=5)
    env.reset(seed=0)
    left, right, ahead = 0, 1, 2
    world = env.unwrapped
    gap = next(y for y in (1, 2, 3) if world.grid.get(2, y) is None)
    way = [ahead] if gap != 1 else [right, ahead, left, ahead]
    *before, last = [env.step(action) for action in way]
    assert [step[4]["cost"] for step in before] == [0.0] * len(before)
    assert (last[4]["cost"], last[1], last[2]) == (1.0, 0.0, False)
    way_on = env.step(ahead)
    assert (way_on[4]["cost"], way_on[2]) == (0.0, False)
    env.step(right)
    *_, goal = [env.step(ahead) for _ in range(3 - world.agent_pos[1])]
    assert goal[2]
    assert goal[1] > 0.8


def test_fuel_is_free_in_the_reward_of_a_lander_and_counts_as_its_cost() -> None:
    plain = gym.make(named("LunarLander").env_id)
    ours = gym.make(named(LANDER_FUEL.name).env_id, cost="fuel")
    for action, fuel in enumerate((0.0, 0.1, 1.0, 0.1)):
        plain.reset(seed=4)
        ours.reset(seed=4)
        (_, reward, *_), (_, free, _, _, info) = plain.step(action), ours.step(action)
        assert info["cost"] == fuel
        assert free == pytest.approx(reward + 0.3 * fuel)
    plain.reset(seed=4)
    ours.reset(seed=4)
    over = False
    while not over:
        (_, reward, over, *_), (_, free, *_) = plain.step(2), ours.step(2)
    assert reward == free == -100


def test_a_lander_pays_for_each_step_off_the_middle() -> None:
    env = gym.make(named(LANDER_POSITION.name).env_id, cost="position")
    env.reset(seed=0)
    rows = [env.step(0) for _ in range(60)]
    assert [row[4]["cost"] for row in rows] == [float(abs(row[0][0]) > 0.2) for row in rows]
    assert 0 < sum(row[4]["cost"] for row in rows) < 60


def test_the_rewards_of_a_job_shop_are_the_makespan_and_the_gap_is_to_the_best_known() -> None:
    problem = named(JOB_SHOP.name)
    env = gym.make(problem.env_id, **problem.test_kwargs).unwrapped
    observation, _ = env.reset(seed=common.TEST_SEED)
    total, over = 0.0, False
    while not over:
        action, _ = PLAYERS["earliest start"].predict(
            {key: value[None] for key, value in observation.items()}
        )
        assert observation["action_mask"][action[0]]
        observation, reward, over, _, _ = env.step(action[0])
        total += reward
    makespan = env.shop.schedule.makespan()
    assert total == pytest.approx(-makespan / 100)
    best = env.shop.instance.metadata["upper_bound"]
    rows = pd.DataFrame({"series": [problem.name], "episode": [0], "return": [total]})
    assert common.job_shop_gap(rows) == pytest.approx(100 * (makespan / best - 1))
    assert makespan > best
    assert common.job_shop_gap(rows.assign(series="CartPole")) is None


# ------------------------------------------------------------------ who plays without learning


def test_chance_chooses_valid_actions_equally_often() -> None:
    masks = np.tile([1, 0, 1, 1], (9000, 1))
    actions, _ = Uniform(Discrete(4)).predict({"action_mask": masks})
    assert np.bincount(actions, minlength=4) / 9000 == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3], abs=0.02)
    actions, _ = Uniform(Discrete(3)).predict(np.zeros((9000, 4)))
    assert np.bincount(actions) / 9000 == pytest.approx([1 / 3] * 3, abs=0.02)
    assert player(RANDOM, Discrete(3), seed=1) == Uniform(Discrete(3), seed=1)
    box = Box(np.array([-2.0, 0.0]), np.array([2.0, 1.0]))
    actions, _ = Uniform(box).predict(np.zeros((9000, 4)))
    assert actions.dtype == np.float32
    assert actions.min(axis=0) == pytest.approx([-2, 0], abs=0.01)
    assert actions.mean(axis=0) == pytest.approx([0, 0.5], abs=0.05)


def test_rules_of_job_shops_choose_among_unfinished_jobs() -> None:
    jobs = np.array([[[9.0, 9, 0, 9], [3, 4, 2, 1], [2, 8, 5, 1]]])
    observation = {"jobs": jobs, "action_mask": np.array([[0, 1, 1]])}
    chosen = {name: int(PLAYERS[name].predict(observation)[0][0]) for name in RULES}
    assert chosen == {"most work left": 2, "shortest operation": 2, "earliest start": 1}


def test_controllers_are_of_the_quality_that_their_data_are_called_by() -> None:
    found = {}
    for name in (RANDOM, "weak controller", "good controller"):
        task = OnData("", CARTPOLE, "", (name,), 4_000, 0, 0, 1)
        data = task.record()
        found[name] = data.rewards.sum() / (data.episode_id.max() + 1)
    assert found[RANDOM] < 30 < 80 < found["weak controller"] < 200 < 450 < found["good controller"]


def test_data_of_a_trained_player_are_its_actions() -> None:
    task = OnData("", PENDULUM, "", (RANDOM, "SAC, early"), 400, 0, 3, 1)
    (training,) = task.needs
    assert (training.learner.algorithm, training.decisions, training.seed) == ("sac", 2_500, 3)
    early = replace(training, decisions=150, episodes=1)
    data = task.given(early.compute().files).record()
    assert data.sources == (RANDOM, "SAC, early")
    assert np.bincount(data.source_id).tolist() == [200, 200]
    model = loaded(early.compute().files)
    of_model = data.source_id == 1
    expected, _ = model.predict(data.observations[of_model], deterministic=True)
    np.testing.assert_allclose(data.actions[of_model], expected, atol=1e-5)
    assert task.key == task.given(early.compute().files).key
    assert task.key != replace(task, sources=(RANDOM, "SAC, late")).key


# ------------------------------------------------------------------ settings


def test_defaults_are_the_constructors_whatever_the_file_says() -> None:
    overrides = constructor_defaults("discrete_sac", "CartPole-v1")
    chosen = load_hyperparameters("discrete_sac", "CartPole-v1", overrides)
    assert chosen.n_envs == 1
    ours = DiscreteSAC(
        chosen.policy,
        "CartPole-v1",
        buffer_size=10,
        device="cpu",
        **{name: value for name, value in chosen.arguments.items() if name != "buffer_size"},
    )
    plain = DiscreteSAC("MlpPolicy", "CartPole-v1", buffer_size=10, device="cpu")
    for name in load_hyperparameters("discrete_sac", "CartPole-v1").arguments:
        if name not in ("policy_kwargs", "buffer_size"):
            assert getattr(ours, name) == getattr(plain, name), name
    assert str(ours.policy) == str(plain.policy)
    assert chosen.arguments["buffer_size"] == 1_000_000


def test_the_controller_and_the_penalty_have_as_many_trials_and_the_same_settings() -> None:
    assert len(limits.GAINS) == len(limits.PENALTIES)
    for name in LIMITS:
        env_id = next(problem.env_id for problem in PROBLEMS if problem.name == name)
        theirs = load_hyperparameters("ppo", env_id).settings
        ours = dict(load_hyperparameters("pid_ppo", env_id).settings)
        assert ours.pop("cost_limit") == LIMITS[name]
        assert ours == theirs


def test_with_an_lstm_the_penalty_has_as_many_trials_as_the_controller_and_the_same_settings() -> None:
    problem = named(CARTPOLE_COST.name)
    found = [
        task.learner for task in limits.tasks(problem, Budget(seeds=1)) if isinstance(task, KnownTraining)
    ]
    ours, theirs = (one for one in found if one.name.startswith("Recurrent"))
    assert ours.hyperparameters == {"cost_limit": LIMITS[problem.name]}
    assert theirs.hyperparameters == {"cost_limit": math.inf}
    named_alike = {"name": ours.name, "hyperparameters": ours.hyperparameters, "choice": {}}
    assert replace(theirs, **named_alike) == ours
    assert theirs.choice == {"penalty": limits.RECURRENT_PENALTY}


# ------------------------------------------------------------------ tables


def test_the_table_has_the_last_checkpoint_and_the_worst_seed() -> None:
    head = {"series": "A", "policy": "learner", "trained_seconds": 2.0}
    rows = [
        {**head, "train_seed": seed, "trained_decisions": steps, "episode": k, "return": value}
        for steps, values in ((10, (0.0, 0.0)), (20, (4.0, 8.0)))
        for seed, value in enumerate(values)
        for k in range(2)
    ]
    rows += [{"series": "A", "policy": "random", "episode": k, "return": 1.0} for k in range(2)]
    table = common.at_the_end(pd.DataFrame(rows)).set_index("policy")
    assert table.loc["learner", ["steps", "seeds", "return", "worst seed"]].tolist() == [20, 2, 6.0, 4.0]
    assert table.loc["random", ["steps", "seeds", "return"]].tolist() == [0, 0, 1.0]
    alone = pd.DataFrame(rows[-2:])  # as where rules play and nobody has trained
    assert common.at_the_end(alone)["return"].tolist() == [1.0]


def test_what_is_published_stands_beside_with_its_source() -> None:
    names = [CARTPOLE.name, "job shop 15 × 15", "job shop 20 × 20", "LunarLander"]
    table = common.references(names).set_index("series")
    assert set(table.index) == {*names}
    assert table.loc[names[1:3], "gap, %"].tolist() == [26.0, 31.6]
    assert table.loc["LunarLander", "policy"].tolist() == ["published: PPO", "published: SAC"]
    assert table.loc["LunarLander", "±"].tolist()[0] == 31.8
    assert table["source"].notna().all()


# ------------------------------------------------------------------ a quick form


def small(task: Any) -> Any:
    if isinstance(task, KnownTraining):
        return replace(task, decisions=150, checkpoints=2, episodes=2, episodes_along=1)
    if isinstance(task, OnData):
        return replace(task, steps=10, transitions=300, episodes=2)
    return replace(task, episodes=2)


@pytest.mark.parametrize("module", [online, offline, limits])
def test_the_experiment_runs_and_says_what_was_left_out(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = replace(CARTPOLE, name="absent", package="no_such_package")
    for where in (common, problems):
        monkeypatch.setattr(where, "PROBLEMS", (*PROBLEMS, absent))
    monkeypatch.setitem(online.QUICK, "absent", ())
    monkeypatch.setattr(limits, "QUICK", (*limits.QUICK, "absent"))
    monkeypatch.setattr(limits, "GAINS", limits.GAINS[1:2])
    monkeypatch.setattr(limits, "PENALTIES", limits.PENALTIES[:1])

    def items(budget: Budget) -> list[Any]:
        found = module.EXPERIMENT.items(budget)
        first = found[0].labels["series"]
        return [replace(item, task=small(item.task)) for item in found if item.labels["series"] == first]

    experiment = Experiment("test", "test", items, module.EXPERIMENT.analyze)
    if not module.EXPERIMENT.items(Budget(quick=True)):
        pytest.skip("nothing of it can be played here")
    budget, store = Budget(quick=True), Store(tmp_path / "tasks")
    run_tasks(experiment.items(budget), store, "serial", None, Console(quiet=True))
    analysis = write_analysis(experiment, budget, store, tmp_path / "test")
    written = pd.read_csv(tmp_path / "test" / "results.csv")
    learners = {item.task.learner.name for item in items(budget) if isinstance(item.task, KnownTraining)}
    assert learners <= set(written["policy"])
    assert written["return"].notna().all()
    assert module is offline or any("no_such_package" in note for note in analysis.notes)
