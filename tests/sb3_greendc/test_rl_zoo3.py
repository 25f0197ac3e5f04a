"""Our hyperparameters as rl-zoo3 takes them, and, where it is installed, its command with our ids."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml as pyyaml
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback

import greendc
from sb3_greendc.core import yaml
from sb3_greendc.core.algorithms import ALGORITHMS, algorithm_class, hyperparameters_of
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.masked_evaluation import MaskedEvalCallback
from sb3_greendc.rl_zoo3_plugin import _manager, block_for_rl_zoo3, register
from sb3_greendc.runs.hyperparameters import learns_from_data, zoo_directories

FILES = sorted(next(path for path in zoo_directories() if path.is_dir()).glob("*.yml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rl_zoo3s_parser_reads_the_same_values(path: Path) -> None:
    """It follows YAML 1.1, where 3e-4 is a string and 3.0e-4 a number."""
    assert pyyaml.safe_load(path.read_text()) == yaml.load(path)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if not learns_from_data(name)])
@pytest.mark.parametrize("env_id", ["VCC-2021-v1", "DiscreteVCC-2019-v1", "ResourcePool-10-v0"])
def test_block(algorithm: str, env_id: str) -> None:
    block = block_for_rl_zoo3(algorithm, env_id, {})
    assert block["env_kwargs"] == greendc.training_kwargs(env_id)
    policy = block["policy"]
    if "." in policy:
        module, _, name = policy.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), name), type)
    else:
        # Not for Dict observations: CrossQ and ARS.
        assert policy in algorithm_class(algorithm).policy_aliases or policy == "MultiInputPolicy"
    unfit = (
        ("MlpPolicy", "MlpLstmPolicy") if "Pool" in env_id else ("MultiInputPolicy", "MultiInputLstmPolicy")
    )
    assert policy not in unfit
    rl_zoo3s = {"policy", "n_envs", "n_timesteps", "env_kwargs", "normalize", "noise_type", "noise_std"}
    assert set(block) <= {*hyperparameters_of(algorithm), *rl_zoo3s}
    for key in ("learning_rate", "clip_range", "clip_range_vf", "delta_std"):
        assert isinstance(block.get(key, 0.0), str | float | int)


class Manager:
    """What our manager builds on, in place of rl-zoo3's: its only callback evaluates."""

    env_name = SimpleNamespace(gym_id="ResourcePool-10-v0")
    env_kwargs: ClassVar[dict[str, Any]] = {}
    _eval_env_kwargs_args: ClassVar[dict[str, Any]] = {}
    callbacks: ClassVar[list[BaseCallback]] = []

    def __init__(self, algo: str, folder: Path) -> None:
        self.algo, self.folder = algo, folder

    def create_callbacks(self) -> None:
        env = make_vec_env("ResourcePool-10", 1)
        after = CheckpointCallback(1, str(self.folder))
        evaluating = EvalCallback(env, after, after, 3, 8, str(self.folder), deterministic=False, verbose=0)
        self.callbacks = [after, evaluating]


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if not learns_from_data(name)])
def test_evaluations_give_masks_to_algorithms_that_take_them(algorithm: str, tmp_path: Path) -> None:
    masked = algorithm in ("maskable_ppo", "pid_ppo", "recurrent_pid_ppo")
    manager = _manager(Manager, {algorithm: algorithm_class(algorithm)})(algorithm, tmp_path)
    manager.create_callbacks()
    checkpoints, evaluating = manager.callbacks
    assert type(checkpoints) is CheckpointCallback
    assert type(evaluating) is (MaskedEvalCallback if masked else EvalCallback)
    plain = Manager(algorithm, tmp_path)
    plain.create_callbacks()
    unlike = {"eval_env", "callback", "callback_on_new_best"}
    ours, theirs = vars(evaluating), vars(plain.callbacks[1])
    assert {key: ours[key] for key in ours.keys() - unlike} == {
        key: theirs[key] for key in theirs.keys() - unlike
    }
    assert evaluating.callback is evaluating.callback_on_new_best is checkpoints
    assert checkpoints.parent is evaluating


def test_block_with_a_month_of_ones_own() -> None:
    block = block_for_rl_zoo3("ppo", "VCC-2019-v1", {"month": "2019-06"})
    assert block["env_kwargs"] == {"month": "2019-06"}


def test_without_rl_zoo3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rl_zoo3.utils", None)
    with pytest.raises(ImportError, match="pip install rl_zoo3"):
        register()


@pytest.mark.parametrize(
    ("algorithm", "env_id", "policy"),
    [
        ("ppo", "VCC-2019-v1", "ActorCriticPolicy"),
        ("discrete_sac", "DiscreteVCC-2019-v1", "DiscreteSACPolicy"),
    ],
)
def test_its_train_command(
    algorithm: str, env_id: str, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train: Any = pytest.importorskip("rl_zoo3.train")
    register()
    register()
    arguments = f"--algo {algorithm} --env {env_id} -n 64 --eval-freq -1 --device cpu -f {tmp_path}"
    monkeypatch.setattr(sys, "argv", ["train", *arguments.split(), "-params", "n_envs:2"])
    train.train()
    saved = tmp_path / algorithm / f"{env_id}_1" / f"{env_id}.zip"
    model = algorithm_class(algorithm).load(saved, device="cpu")
    assert type(model.policy).__name__ == policy
    assert model.gamma == 0.985  # type: ignore[attr-defined]  # that of our block for VCC
