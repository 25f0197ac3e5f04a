"""Training runs in which something of every kind has to survive a checkpoint."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from sb3_greendc.core.callbacks import EpisodeMetricsCallback
from sb3_greendc.runs.checkpoints import CheckpointFolder
from sb3_greendc.runs.jobs import Job

TOTAL = 256
EVERY = 64
KILLED_AT = 190
"""Between the second checkpoint after the start, at 128, and the third."""

VCC = {"days": 1}
POOL = {"episode_steps": 20}
ON = {"n_steps": 16, "batch_size": 32, "n_epochs": 2}
LSTM = {**ON, "policy_kwargs": {"lstm_hidden_size": 16, "net_arch": [16]}}
OFF = {
    "learning_starts": 30,
    "batch_size": 16,
    "buffer_size": 5000,
    "train_freq": 2,
    "policy_kwargs": {"net_arch": [16]},
}


@dataclass(frozen=True)
class Case:
    """A run: algorithm, environment and hyperparameters."""

    algorithm: str
    env_id: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    n_envs: int = 4

    def job(self, out: Path, resume: bool = False, every: int = EVERY) -> Job:
        arguments = {
            "algorithm": self.algorithm,
            "env_id": self.env_id,
            "timesteps": TOTAL,
            "seed": 3,
            "env_kwargs": POOL if "Pool" in self.env_id else VCC if "VCC" in self.env_id else {},
            "hyperparameters": {"n_envs": self.n_envs, **self.hyperparameters},
            "device": "cpu",
        }
        return Job(out, arguments, checkpoint_every=every, resume=resume)


CASES: dict[str, Case] = {
    "ppo-vcc": Case("ppo", "VCC-2019", ON),
    "ppo-pool": Case("ppo", "ResourcePool-10", ON),
    "ppo-normalized": Case("ppo", "VCC-2019", {**ON, "normalize": True}),
    "ppo-sde": Case("ppo", "VCC-2019", {**ON, "use_sde": True, "sde_sample_freq": 4}),
    "ppo-python-env": Case("ppo", "CartPole-v1", ON),
    "maskable_ppo-pool": Case("maskable_ppo", "ResourcePool-10", ON),
    "a2c-vcc": Case("a2c", "DiscreteVCC-2019", {"n_steps": 8}),
    "a2c-pool": Case("a2c", "ResourcePool-10", {"n_steps": 8, "policy": "MlpPolicy"}),
    "trpo-vcc": Case("trpo", "VCC-2019", {"n_steps": 16, "batch_size": 32}),
    "sac-vcc": Case("sac", "VCC-2019", OFF),
    "sac-full-buffer": Case("sac", "VCC-2019", {**OFF, "buffer_size": 100, "ent_coef": "auto"}),
    "sac-sde": Case("sac", "VCC-2019", {**OFF, "use_sde": True, "use_sde_at_warmup": True}),
    "sac-normalized": Case("sac", "VCC-2019", {**OFF, "normalize": {"norm_reward": False}}),
    "sac-memory": Case(
        "sac",
        "VCC-2019",
        {
            **OFF,
            "optimize_memory_usage": True,
            "replay_buffer_kwargs": {"handle_timeout_termination": False},
        },
    ),
    "td3-noise": Case(
        "td3", "VCC-2019", {**OFF, "noise_type": "ornstein-uhlenbeck", "noise_std": 0.2, "policy_delay": 3}
    ),
    "ddpg-episodes": Case("ddpg", "VCC-2019", {**OFF, "train_freq": [1, "episode"]}, n_envs=1),
    "tqc-vcc": Case("tqc", "VCC-2019", OFF),
    "crossq-vcc": Case("crossq", "VCC-2019", OFF),
    "dqn-vcc": Case("dqn", "DiscreteVCC-2019", {**OFF, "target_update_interval": 40}),
    "dqn-pool": Case("dqn", "ResourcePool-10", {**OFF, "policy": "MlpPolicy"}),
    "qrdqn-vcc": Case("qrdqn", "DiscreteVCC-2019", {**OFF, "target_update_interval": 40}),
    "qrdqn-pool": Case("qrdqn", "ResourcePool-10", {**OFF, "policy": "MlpPolicy"}),
    "discrete_sac-vcc": Case("discrete_sac", "DiscreteVCC-2019", {**OFF, "entropy_penalty": 0.5}),
    "discrete_sac-pool": Case("discrete_sac", "ResourcePool-10", {**OFF, "n_steps": 3}),
    "pid_ppo-vcc": Case("pid_ppo", "VCC-2019", {**ON, "cost_limit": 0.5}),
    "pid_ppo-pool": Case("pid_ppo", "ResourcePool-10", {**ON, "cost_limit": 0.5}),
    "recurrent_ppo-vcc": Case("recurrent_ppo", "DiscreteVCC-2019", LSTM),
    "recurrent_ppo-pool": Case("recurrent_ppo", "ResourcePool-10", LSTM),
    "recurrent_pid_ppo-vcc": Case(
        "recurrent_pid_ppo", "VCC-2019", {**LSTM, "policy": "MlpLstmPolicy", "cost_limit": 0.5}
    ),
    "recurrent_pid_ppo-pool": Case("recurrent_pid_ppo", "ResourcePool-10", {**LSTM, "cost_limit": 0.5}),
}


def killed(callback: BaseCallback) -> None:
    """End the process as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)


class LossOfPowerError(Exception):
    """Ends a run in this process, without anything being saved."""


def cut_off(callback: BaseCallback) -> None:
    """End the run in this process."""
    raise LossOfPowerError


def die_at(step: int, end: Any, monkeypatch: Any = None) -> None:
    """Make every run of this process end at a step."""

    def on_step(self: EpisodeMetricsCallback) -> bool:
        if self.num_timesteps >= step:
            end(self)
        return original(self)

    original = EpisodeMetricsCallback._on_step
    if monkeypatch is None:
        EpisodeMetricsCallback._on_step = on_step  # type: ignore[method-assign]
    else:
        monkeypatch.setattr(EpisodeMetricsCallback, "_on_step", on_step)


def tensors_of(model: BaseAlgorithm) -> dict[str, Any]:
    """Return everything that learning changes: weights, optimizers, temperature, controller."""
    found: dict[str, Any] = {}

    def visit(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                visit(f"{name}/{key}", item)
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                visit(f"{name}/{index}", item)
        elif isinstance(value, th.Tensor):
            found[name] = value.detach().cpu().numpy()
        else:
            found[name] = value

    visit("", model.get_parameters())
    visit("variables", {key: vars(model).get(key) for key in model._get_torch_save_params()[1]})
    return found


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two sets of tensors are equal to the last bit."""
    return one.keys() == other.keys() and all(
        np.array_equal(one[key], other[key]) and np.asarray(one[key]).dtype == np.asarray(other[key]).dtype
        for key in one
    )


def content(folder: CheckpointFolder) -> dict[str, bytes]:
    """Return every file of a folder of checkpoints, by its path."""
    return {str(path): path.read_bytes() for path in folder.folder.rglob("*") if path.is_file()}
