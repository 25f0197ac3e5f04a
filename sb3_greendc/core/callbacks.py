"""Callbacks for training."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import safe_mean

from sb3_greendc.core.progress import Bar, Lines, progress_bar


class EpisodeMetricsCallback(BaseCallback):
    """Log the metrics of the episodes that end (``info["episode_metrics"]``), averaged between two dumps.

    :param prefix: heading of the logged names: ``carbon_kg`` becomes ``env/carbon_kg``
    """

    def __init__(self, prefix: str = "env") -> None:
        super().__init__()
        self.prefix = prefix

    def _on_step(self) -> bool:
        dones, infos = self.locals.get("dones"), self.locals.get("infos")
        if dones is None or infos is None or not dones.any():
            return True
        for done, info in zip(dones, infos, strict=True):
            if done:
                for name, value in info.get("episode_metrics", {}).items():
                    self.logger.record_mean(f"{self.prefix}/{name}", value)
        return True


class ProgressBarCallback(BaseCallback):
    """Show steps, speed and the mean return of the last episodes; leaves the terminal whole when interrupted.

    :param total_timesteps: environment steps of the run
    """

    def __init__(self, total_timesteps: int) -> None:
        super().__init__()
        self.total_timesteps = total_timesteps
        self._bar: Bar | None = None

    def _on_training_start(self) -> None:
        self._bar = progress_bar(self.total_timesteps)

    def _on_step(self) -> bool:
        assert self._bar is not None
        episodes = self.model.ep_info_buffer
        if episodes:
            self._bar.set_postfix({"return": f"{safe_mean([e['r'] for e in episodes]):.4g}"}, refresh=False)
        self._bar.update(min(self.num_timesteps, self.total_timesteps) - self._bar.n)
        return True

    def _on_rollout_start(self) -> None:
        """A round is a rollout and the updates after it; before the first update all goes faster."""
        if isinstance(self._bar, Lines):
            first_update = getattr(self.model, "learning_starts", 0)
            self._bar.next_round(alike=self._bar.n > 0 and self.num_timesteps > first_update)

    def close(self) -> None:
        """Take the bar away; to be called when training ends, however it ends."""
        if self._bar is not None:
            self._bar.close()
