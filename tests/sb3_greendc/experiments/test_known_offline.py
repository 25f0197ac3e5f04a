"""Learners on data of known quality: LunarLander's players, the figure, d3rlpy's learners."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from gymnasium.spaces import Discrete

from sb3_greendc import CRR
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.known import common, offline, players
from sb3_greendc.experiments.known import tasks as known_tasks
from sb3_greendc.experiments.known.players import LANDERS, RANDOM, Lander, player
from sb3_greendc.experiments.known.problems import CARTPOLE, EXAMPLES, LUNAR_LANDER, PENDULUM, PROBLEMS
from sb3_greendc.experiments.known.tasks import KnownTraining, OnData
from sb3_greendc.runs.hyperparameters import load_hyperparameters

GOOD, WEAK = LANDERS


def recordable() -> None:
    if (reason := offline.missing(LUNAR_LANDER)) is not None:
        pytest.skip(reason)


# ------------------------------------------------------------------ LunarLander's players


def test_a_lander_steers_by_gymnasium_s_controller_and_draws_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def heuristic(env: Any, state: np.ndarray) -> int:
        assert not env.continuous  # asked by Gymnasium 0.29
        assert not env.unwrapped.continuous  # and by Gymnasium 1
        return 2 if state[1] < 0 else 1

    steering = SimpleNamespace(heuristic=heuristic)
    monkeypatch.setattr(players.importlib, "import_module", lambda name: steering)
    states = np.tile([[0.0, -1.0], [0.0, 1.0]], (6_000, 1))
    always, _ = Lander(0.0).predict(states)
    assert always.tolist() == [2, 1] * 6_000
    often, _ = Lander(0.3, seed=1).predict(states)
    # Of the drawn actions, a quarter are those that the controller would have taken.
    assert np.mean(often == always) == pytest.approx(0.7 + 0.3 / 4, abs=0.02)
    assert np.bincount(often, minlength=4)[[0, 3]] / 12_000 == pytest.approx([0.3 / 4] * 2, abs=0.02)
    assert Lander(0.3, seed=2).predict(states)[0].tolist() != often.tolist()
    assert player(WEAK, Discrete(4), seed=5) == Lander(0.3, seed=5)


def test_landers_are_of_the_quality_that_their_data_are_called_by() -> None:
    recordable()
    found = {}
    for name in (RANDOM, WEAK, GOOD):
        data = OnData("", LUNAR_LANDER, "", (name,), 6_000, 0, 0, 1).record()
        found[name] = data.rewards.sum() / (data.episode_id.max() + 1)
    assert found[RANDOM] < -120 < -60 < found[WEAK] < 100 < 180 < found[GOOD]


def test_landers_data_are_random_medium_expert_and_mixed() -> None:
    recordable()
    items = offline.EXPERIMENT.items(Budget(problems=(LUNAR_LANDER.name,)))
    tasks: list[Any] = [item.task for item in items if isinstance(item.task, OnData)]
    sources = {task.data: task.sources for task in tasks}
    assert sources == {
        "random": (RANDOM,),
        "medium": (WEAK,),
        "expert": (GOOD,),
        "mixed": (RANDOM, WEAK, GOOD),
    }
    assert {(task.name, task.seed) for task in tasks} == {
        (name, seed) for name in ("CRR", "cloning") for seed in range(5)
    }
    mixed = replace(next(task for task in tasks if task.data == "mixed"), transitions=900)
    data = mixed.record()
    assert data.sources == (RANDOM, WEAK, GOOD)
    assert np.bincount(data.source_id).tolist() == [300] * 3
    assert not np.array_equal(data.actions, replace(mixed, seed=1).record().actions)


def test_data_of_gymnasium_0_29_s_lander_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    old = replace(LUNAR_LANDER, env_ids=("LunarLander-v2",), package=None)
    monkeypatch.setattr(common, "PROBLEMS", (old,))
    asked = Budget(problems=(old.name,))
    with pytest.raises(ValueError, match="--problems LunarLander: states of LunarLander-v2 lie outside"):
        offline.EXPERIMENT.items(asked)
    assert offline.EXPERIMENT.items(Budget()) == []
    said = "Left out: LunarLander: states of LunarLander-v2 lie outside its observation space: gymnasium>=1."
    assert common.left_out(asked, (), offline.DATA, offline.missing) == [said]
    new = replace(old, env_ids=("LunarLander-v3",))
    assert offline.missing(new) is None
    assert offline.missing(replace(old, package="no_such_package")) is not None
    assert common.asked_for(asked, (), offline.DATA) == [old]  # to learn in it without data is no matter


def test_what_crr_s_critics_choose_is_judged_beside_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the same training; cloning has no critics, and discrete actions are not drawn."""
    monkeypatch.setattr(known_tasks, "SAC_STEPS", {"Pendulum": {"SAC, early": 110}})
    task = OnData("CRR", PENDULUM, "medium", ("SAC, early",), 300, 30, 0, 2)
    episodes = task.compute().tables["episodes"]
    returns = episodes.groupby("policy", sort=False)["return"].apply(list)
    assert returns.index.tolist() == ["CRR", "CRR, the best of 4", "CRR, the best of 16"]
    assert len({tuple(one) for one in returns}) == 3
    assert set(episodes["trained_decisions"]) == {30}
    others = (replace(task, name="cloning", options=offline.CLONING), replace(task, problem=CARTPOLE))
    for one in (others[0], replace(others[1], sources=(RANDOM,))):
        assert set(one.compute().tables["episodes"]["policy"]) == {one.name}


# ------------------------------------------------------------------ the figure


def results() -> pd.DataFrame:
    """Return a table as of two problems, of which the shop alone has rules and a distilled policy."""
    rows = []
    for problem, kinds, extra in (
        ("CartPole", ("random", "mixed"), ()),
        ("job shop 10 × 5", ("rules'", "OR-Tools'"), (*players.RULES, "OR-Tools")),
    ):
        for n, kind in enumerate(kinds):
            learners = ["CRR", "cloning", *(["distillation"] if kind == "OR-Tools'" else [])]
            for k, policy in enumerate((RANDOM, *extra, *learners)):
                value = {"return": 10.0 * n + k, "low": 10.0 * n + k - 1, "high": 10.0 * n + k + 2}
                head = {"series": f"{problem}, {kind} data", "policy": policy}
                rows.append({**head, "return of the data": 100.0 + n, **value})
    return pd.DataFrame(rows)


def test_the_figure_has_learners_beside_the_data_by_kind_of_data() -> None:
    figure = offline.draw(results())
    cartpole, shop = figure.axes
    assert [panel.get_title() for panel in figure.axes] == ["CartPole", "job shop 10 × 5"]
    assert [label.get_text() for label in cartpole.get_xticklabels()] == ["random", "mixed"]
    drawn = {
        container.get_label(): container.lines[0].get_data()[1].tolist() for container in shop.containers
    }
    np.testing.assert_equal(
        drawn, {"CRR": [5.0, 15.0], "cloning": [6.0, 16.0], "distillation": [np.nan, 17.0]}
    )
    assert [container.get_label() for container in cartpole.containers] == ["CRR", "cloning"]
    levels = {line.get_label(): line.get_ydata()[0] for line in shop.lines if line.get_label()[0] != "_"}
    assert levels == {"chance": 0.0, "the best rule": 3.0}
    (bars,) = [one for one in shop.collections if one.get_label() == "return of the data"]
    assert [segment[0, 1] for segment in bars.get_segments()] == [100.0, 101.0]
    (legend,) = figure.legends
    said = [text.get_text() for text in legend.get_texts()]
    assert said == ["CRR", "cloning", "distillation", *offline.LEVELS]


def test_the_figure_has_what_critics_choose_apart_from_the_mean() -> None:
    rows = [
        {"series": "Pendulum, mixed data", "policy": policy, "return": value, "low": value, "high": value}
        for value, policy in enumerate((RANDOM, *offline.LEARNERS[:4]))
    ]
    (panel,) = offline.draw(pd.DataFrame(rows).assign(**{"return of the data": 9.0})).axes
    heights = {one.get_label(): one.lines[0].get_ydata().tolist() for one in panel.containers}
    names = ["CRR", "CRR, the best of 4", "CRR, the best of 16", "cloning"]
    assert heights == {name: [place + 1.0] for place, name in enumerate(names)}
    assert len({one.lines[0].get_color() for one in panel.containers}) == 4


def test_results_have_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "at_the_end", lambda rows: results().drop(columns="return of the data"))
    quality = pd.DataFrame({"series": ["CartPole, random data"], "data_return": [22.0]})
    given = SimpleNamespace(table=lambda name="episodes": quality)
    analysis = offline.EXPERIMENT.analyze(given, Budget(quick=True))  # type: ignore[arg-type]
    assert list(analysis.figures) == ["figure"]
    assert analysis.tables["results"]["return of the data"].iloc[0] == 22.0


@pytest.mark.parametrize("name", offline.DATA)
@pytest.mark.parametrize("options", [{}, offline.CLONING])
def test_every_block_of_the_file_makes_a_learner_and_a_clone(name: str, options: dict[str, Any]) -> None:
    env_id = next(problem.env_id for problem in PROBLEMS if problem.name == name)
    arguments = load_hyperparameters("crr", env_id, options).arguments
    model = CRR("MlpPolicy", gym.make("CartPole-v1"), **arguments)
    assert model.config.has_critic == (not options)


# ------------------------------------------------------------------ beside d3rlpy


class Theirs:
    """In place of an algorithm of d3rlpy: the same action everywhere."""

    def __init__(self, **_: Any) -> None:
        pass

    def create(self, device: str) -> Theirs:
        return self

    def fit(self, *_: Any, **__: Any) -> None:
        pass

    def predict(self, observation: np.ndarray) -> np.ndarray:
        return np.ones(len(observation), np.int64)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return ``examples/beside_d3rlpy.py`` with a stand-in for d3rlpy, which wants a Gymnasium of its own."""
    algos = SimpleNamespace(CRRConfig=Theirs, DiscreteBCQConfig=Theirs, DiscreteCQLConfig=Theirs)
    package = SimpleNamespace(
        algos=algos,
        seed=lambda seed: None,
        ActionSpace=SimpleNamespace(DISCRETE="discrete", CONTINUOUS="continuous"),
        dataset=SimpleNamespace(MDPDataset=lambda *arrays, action_space: arrays),
        logging=SimpleNamespace(NoopAdapterFactory=lambda: None),
    )
    log = SimpleNamespace(configure=lambda **_: None, make_filtering_bound_logger=lambda level: None)
    for name, module in {"d3rlpy": package, "d3rlpy.algos": algos, "structlog": log}.items():
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("beside_d3rlpy_tested", EXAMPLES / "beside_d3rlpy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_found_beside_d3rlpy_is_written_and_not_done_again(
    example: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    sizes = {"problems": ("CartPole",), "transitions": 300, "updates": 2, "tests": 1}
    out = tmp_path / "all.csv"
    out.write_text("seed,problem,data,learner,updates,return\n")  # its order is kept
    learners = ["CRR", "cloning", "DiscreteCQL", "DiscreteBCQ"]
    for seed in range(2):
        example.main(**sizes, seeds=seed + 1, out=str(out))
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert [line[2] for line in lines] == 4 * learners
        assert {line[-1] for line in lines} == {str(seed)}
    table = pd.read_csv(out)
    assert list(table.columns) == ["seed", "problem", "data", "learner", "updates", "return"]
    assert table["seed"].tolist() == 16 * [0] + 16 * [1]
    assert [float(line[3]) for line in lines] == pytest.approx(table["return"].tolist()[16:])
    example.main(**{**sizes, "updates": 3}, out=str(out))  # another budget is not what the file has
    assert pd.read_csv(out)["updates"].tolist() == 32 * [2] + 16 * [3]


def test_beside_d3rlpy_players_that_are_trained_already_are_taken_up(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Those of ``reproduce.py`` and of an example that was interrupted; so both learn from the same data."""
    pendulum, _ = example.THEIRS[1]
    trained: list[KnownTraining] = []
    compute = KnownTraining.compute
    monkeypatch.setattr(known_tasks, "SAC_STEPS", {"Pendulum": {"SAC, early": 110, "SAC, late": 120}})
    monkeypatch.setattr(KnownTraining, "compute", lambda self: trained.append(self) or compute(self))
    monkeypatch.setattr(example, "THEIRS", [(pendulum, {})])
    sizes = {"problems": ("Pendulum",), "transitions": 300, "updates": 1, "tests": 1}
    for _ in range(2):
        example.main(**sizes, tasks=str(tmp_path))
    assert [task.decisions for task in trained] == [110, 120]
    assert len([*tmp_path.iterdir()]) == 2


def test_beside_d3rlpy_crr_has_the_settings_of_the_file_and_cloning_has_no_critic(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    models: list[CRR] = []
    learn = OnData.learned
    monkeypatch.setattr(OnData, "learned", lambda self, data: models.append(learn(self, data)) or models[-1])
    example.main(problems=("CartPole",), transitions=300, updates=2, tests=1)
    assert [model.config.has_critic for model in models] == 4 * [True, False]
    settings = load_hyperparameters("crr", "CartPole-v1").settings
    assert {model.tau for model in models} == {settings["tau"]}
    assert {model.num_timesteps for model in models} == {2}


@pytest.mark.parametrize(
    ("text", "said"), [("a,b\n1,2\n", "columns expected but not found"), ("", "No columns to parse")]
)
def test_a_file_of_another_program_is_refused(
    example: ModuleType, tmp_path: Any, text: str, said: str
) -> None:
    (tmp_path / "other.csv").write_text(text)
    with pytest.raises(SystemExit, match=rf"--out .*other.csv: .*{said}"):
        example.main(out=str(tmp_path / "other.csv"))
    assert (tmp_path / "other.csv").read_text() == text


@pytest.mark.parametrize("out", ["", "nowhere/all.csv"])
def test_a_file_that_cannot_be_written_is_named(example: ModuleType, tmp_path: Any, out: str) -> None:
    with pytest.raises(SystemExit, match=rf"--out {tmp_path / out}: .*"):
        example.main(out=str(tmp_path / out))


def test_all_four_problems_have_learners_of_d3rlpy_and_a_missing_package_is_named_first(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [problem.name for problem, _ in example.THEIRS]
    assert names == ["CartPole", "Pendulum", "LunarLander", "HalfCheetah"]
    assert {*names} <= {*offline.DATA}
    absent = replace(example.THEIRS[2][0], package="no_such_package")
    monkeypatch.setattr(example, "THEIRS", [*example.THEIRS[:2], (absent, {})])
    with pytest.raises(SystemExit, match="LunarLander: the package no_such_package is not installed"):
        example.main(problems=example.NAMES)
    assert capsys.readouterr().out == ""


def test_those_who_play_a_shop_without_learning_are_the_same_in_all_sizes() -> None:
    for problem in common.JOB_SHOPS:
        assert common.without_learning(problem) == (RANDOM, *players.RULES)
        assert list(offline.DATA[problem.name]) == ["rules'", "rollouts'", "OR-Tools'", "mixed"]
    assert common.without_learning(LUNAR_LANDER) == (RANDOM,)
