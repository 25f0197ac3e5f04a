"""Learning from data alone, in Stable-Baselines3's manner: ``learn`` counts gradient steps."""

from __future__ import annotations

import time
from collections import deque
from typing import TypeVar

from stable_baselines3.common import utils
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback

from greendc.config import require, require_kinds
from sb3_greendc.crr.callbacks import GradientStepBar, with_bar

SelfOffline = TypeVar("SelfOffline", bound="OfflineAlgorithm")


class OfflineAlgorithm(OffPolicyAlgorithm):
    """An off-policy algorithm whose steps are gradient steps, and that needs no environment.

    A subclass has ``train(gradient_steps)``, :meth:`_begin_offline` and :meth:`_record_logs`.
    """

    algorithm_name: str

    def train(self, gradient_steps: int) -> None:  # type: ignore[override]
        """Do ``gradient_steps`` updates."""
        raise NotImplementedError

    def _begin_offline(self) -> None:
        """Check that there is all that learning takes."""
        raise NotImplementedError

    def _record_logs(self) -> None:
        """Give the logger what has been learned since the last call."""
        raise NotImplementedError

    def learn(
        self: SelfOffline,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1000,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> SelfOffline:
        """Make ``total_timesteps`` gradient steps on the data; no environment is touched.

        :param total_timesteps: gradient steps
        :param callback: called after every gradient step
        :param log_interval: gradient steps between logs; ``None``: one log, at the end
        :param tb_log_name: name of the run in TensorBoard; default: the algorithm's
        :param reset_num_timesteps: start counting from 0
        :param progress_bar: show progress
        :raises ValueError: if there are no data, or for ``log_interval`` below 1
        """
        require_kinds({"log_interval": "float | None"}, {"log_interval": log_interval})
        require(log_interval is None or log_interval >= 1, "log_interval", log_interval, ">= 1, or None")
        self._begin_offline()
        total_timesteps, callback = self._setup_offline_learn(
            total_timesteps,
            callback,
            reset_num_timesteps,
            self.algorithm_name if tb_log_name is None else tb_log_name,
            progress_bar,
        )
        callback.on_training_start(locals(), globals())
        logged = self.num_timesteps
        while self.num_timesteps < total_timesteps:
            self._update_current_progress_remaining(self.num_timesteps, total_timesteps)
            self.train(1)
            self.num_timesteps += 1
            if not callback.on_step():
                break
            if log_interval is not None and self.num_timesteps % log_interval == 0:
                logged = self.num_timesteps
                self.dump_logs()
        if self.num_timesteps > logged:
            self.dump_logs()
        callback.on_training_end()
        return self

    def _setup_offline_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback,
        reset_num_timesteps: bool,
        tb_log_name: str,
        progress_bar: bool,
    ) -> tuple[int, BaseCallback]:
        """Do what SB3's ``_setup_learn`` does, which asks for an environment and resets it."""
        self.start_time = time.time_ns()
        if self.ep_info_buffer is None or reset_num_timesteps:
            self.ep_info_buffer = deque(maxlen=self._stats_window_size)
            self.ep_success_buffer = deque(maxlen=self._stats_window_size)
        if reset_num_timesteps:
            self.num_timesteps = 0
        else:
            total_timesteps += self.num_timesteps
        self._total_timesteps = total_timesteps
        self._num_timesteps_at_start = self.num_timesteps
        if not self._custom_logger:
            self._logger = utils.configure_logger(
                self.verbose, self.tensorboard_log, tb_log_name, reset_num_timesteps
            )
        if progress_bar:
            callback = with_bar(callback, GradientStepBar(total_timesteps))
        return total_timesteps, self._init_callback(callback)

    def dump_logs(self) -> None:
        """Write what :meth:`_record_logs` gives, and counts and times."""
        self._record_logs()
        seconds = max((time.time_ns() - self.start_time) / 1e9, 1e-9)
        self.logger.record("time/fps", int((self.num_timesteps - self._num_timesteps_at_start) / seconds))
        self.logger.record("time/time_elapsed", int(seconds), exclude="tensorboard")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.dump(step=self.num_timesteps)
