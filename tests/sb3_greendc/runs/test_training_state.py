"""What a checkpoint holds beside networks: random states, clocks and steps of the run."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sb3_greendc.runs.checkpoints import Checkpoint
from sb3_greendc.runs.resume import Checkpointing
from sb3_greendc.runs.training_state import Resumption, pack_state


def model() -> PPO:
    return PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, seed=0, device="cpu")


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(th.rand(()))  # noqa: NPY002


def test_every_global_generator_goes_on() -> None:
    trained = model().learn(32)
    state = pack_state(trained)
    expected = draws()
    fresh = model()  # seeds the generators
    fresh.set_logger(trained.logger)
    resumption = Resumption(fresh, state)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    th.manual_seed(5)
    resumption.finish()
    assert draws() == expected


def test_the_clock_and_the_first_step_of_the_run_go_on() -> None:
    """Speed and progress are those of the whole run, whenever it was resumed."""
    trained = model().learn(32)
    trained._num_timesteps_at_start = 7
    trained.start_time = time.time_ns() - 10**12
    state = pack_state(trained)
    fresh = model()
    fresh.set_logger(trained.logger)
    resumption = Resumption(fresh, state)
    fresh._num_timesteps_at_start, fresh.start_time = 32, time.time_ns()
    resumption.finish()
    assert fresh._num_timesteps_at_start == 7
    assert 1000.0 <= (time.time_ns() - fresh.start_time) / 1e9 < 2000.0


def test_checkpoints_stay_in_step_after_a_resumption(tmp_path: Path) -> None:
    """They are due at multiples of the interval, however often the run is resumed."""
    trained = model().learn(32)
    checkpointing = Checkpointing(tmp_path, 50, {})
    checkpointing.resume(trained, Checkpoint(tmp_path, 64, {}, {}, pack_state(trained)))
    assert checkpointing.resumed_at == 64 and checkpointing._due == 100


class Counter(BaseCallback):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def _on_step(self) -> bool:
        self.seen += 1
        return True


def test_callbacks_go_on_with_what_they_remember() -> None:
    counter, trained = Counter(), model()
    trained.learn(32, callback=counter)
    state = pack_state(trained, [counter])
    assert counter.seen == 32
    fresh, other = model(), Counter()
    fresh.set_logger(trained.logger)
    Resumption(fresh, state).finish([other])
    assert (other.seen, other.n_calls) == (32, 32)


def test_wrappers_are_whole_again() -> None:
    """SB3 looks names up in what a wrapper says of its class."""

    def normalized() -> PPO:
        env = VecNormalize(make_vec_env("CartPole-v1", 2))
        return PPO("MlpPolicy", env, n_steps=8, batch_size=16, seed=0, device="cpu")

    trained = normalized().learn(32)
    fresh = normalized()
    fresh.set_logger(trained.logger)
    Resumption(fresh, pack_state(trained))
    mine, theirs = fresh.get_vec_normalize_env(), trained.get_vec_normalize_env()
    assert mine is not None and theirs is not None
    assert mine.class_attributes.keys() == theirs.class_attributes.keys()
    assert mine.getattr_depth_check("num_envs", False) == theirs.getattr_depth_check("num_envs", False)
    np.testing.assert_array_equal(mine.obs_rms.mean, theirs.obs_rms.mean)
