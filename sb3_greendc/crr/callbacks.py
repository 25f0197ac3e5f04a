"""Callbacks for learning without an environment."""

from __future__ import annotations

from pathlib import Path

from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback, EvalCallback
from stable_baselines3.common.type_aliases import MaybeCallback

from sb3_greendc.core.progress import Bar, progress_bar


class OfflineEvalCallback(EvalCallback):
    """SB3's ``EvalCallback`` for a model without an environment: it evaluates on an environment of its own.

    ``eval_freq`` counts gradient steps. Everything else is as in SB3, whose own callback asks for the
    environment that the model is trained in, and stops where there is none.

    :param eval_env: environment to evaluate on
    :param kwargs: as for SB3's ``EvalCallback``
    """

    def _init_callback(self) -> None:
        for folder in (self.best_model_save_path, self.log_path and Path(self.log_path).parent):
            if folder is not None:
                Path(folder).mkdir(parents=True, exist_ok=True)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.init_callback(self.model)


class GradientStepBar(BaseCallback):
    """A bar of gradient steps; SB3's own counts those of environments.

    :param total: gradient steps at the end
    """

    def __init__(self, total: int) -> None:
        super().__init__()
        self.total = total
        self._bar: Bar | None = None

    def _on_training_start(self) -> None:
        self._bar = progress_bar(self.total, initial=self.num_timesteps)

    def _on_step(self) -> bool:
        assert self._bar is not None
        self._bar.update(self.num_timesteps - self._bar.n)
        return True

    def _on_training_end(self) -> None:
        if self._bar is not None:
            self._bar.close()


def with_bar(callback: MaybeCallback, bar: BaseCallback) -> list[BaseCallback]:
    """Return callbacks with one more, in the form that SB3 takes them.

    :param callback: what the user gave: nothing, a callback, a function, or a list of callbacks
    :param bar: the one more
    """
    if callback is None:
        return [bar]
    if isinstance(callback, list):
        return [*callback, bar]
    return [callback if isinstance(callback, BaseCallback) else ConvertCallback(callback), bar]
