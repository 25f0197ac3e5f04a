"""Learning rates that count wherever they are set, as by ``model.learning_rate = 1e-4``."""

from __future__ import annotations

import math

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.type_aliases import Schedule

from greendc.config import is_number, require


class FollowsLearningRate(BaseAlgorithm):
    """An algorithm whose schedule follows ``learning_rate``; Stable-Baselines3 reads that once.

    A schedule that was set by itself, as ``model.lr_schedule``, stays until ``learning_rate`` changes.
    """

    _scheduled_rate: float | Schedule | None = None
    """What the schedule was made from."""

    def _setup_lr_schedule(self) -> None:
        """Make the schedule from ``learning_rate``.

        :raises ValueError: for a rate that makes no sense
        """
        rate = self.learning_rate
        if not callable(rate):
            require(
                is_number(rate), "learning_rate", rate, "a number, or a function of the remaining progress"
            )
            require(0.0 <= rate < math.inf, "learning_rate", rate, "finite and at least 0")
        super()._setup_lr_schedule()
        self._scheduled_rate = rate

    def _follow_learning_rate(self) -> None:
        """Make the schedule anew where ``learning_rate`` is another one than it was made from.

        :raises ValueError: for a rate that makes no sense
        """
        if self.learning_rate != self._scheduled_rate:
            self._setup_lr_schedule()

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_scheduled_rate"]
