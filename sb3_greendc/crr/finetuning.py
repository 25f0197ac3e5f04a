"""Going on from data in an environment: new transitions beside old ones, by the same loss."""

from __future__ import annotations

from typing import Any, TypeVar

from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.type_aliases import (
    GymEnv,
    MaybeCallback,
    Schedule,
    TrainFreq,
    TrainFrequencyUnit,
)

from sb3_greendc.core.learning_rate import FollowsLearningRate
from sb3_greendc.crr.config import CRRConfig
from sb3_greendc.crr.data import TrainingData
from sb3_greendc.crr.offline import OfflineAlgorithm
from sb3_greendc.crr.online import FinetuneSettings, OnlineData, make_buffer, with_place
from sb3_greendc.discrete_sac.collection import FiniteCollection

SelfFinetuned = TypeVar("SelfFinetuned", bound="FinetunedAlgorithm")

NO_NORMALIZATION = "env: CRR takes no VecNormalize: its data hold observations and rewards as they are"
ONE_STEP = TrainFreq(1, TrainFrequencyUnit.STEP)


class FinetunedAlgorithm(FollowsLearningRate, FiniteCollection, OfflineAlgorithm):
    """An offline algorithm that can go on learning from an environment.

    A subclass draws its batches from ``_online`` while that is not ``None``, and has :meth:`_read_options`.
    What the environment gave stays in ``replay_buffer``.
    """

    config: CRRConfig
    scale: float | None
    """Factor on rewards."""
    _data: TrainingData | None
    _online: OnlineData | None

    def _read_options(self) -> None:
        """Gather the options from the attributes into ``config``, and let the data follow them."""
        raise NotImplementedError

    def finetune(
        self: SelfFinetuned,
        env: GymEnv | None,
        steps: int,
        offline_fraction: float = 0.5,
        callback: MaybeCallback = None,
        log_interval: int | None = 10,
        learning_starts: int = 1000,
        gradient_steps: int = 1,
        train_freq: int = 1,
        tb_log_name: str = "CRR",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        learning_rate: float | Schedule | None = None,
    ) -> SelfFinetuned:
        """Go on learning from an environment, by the same loss, on batches of new and old data.

        The policy acts by its own draws. It imitates its own good actions beside those of the data, which is
        why it does not collapse as a policy gradient through an offline critic does; it also gains slowly.

        :param env: environment with the model's spaces; ``None``: the model's own
        :param steps: transitions, of all environments together
        :param offline_fraction: share of a batch that comes from the data set; 0 needs none
        :param callback: called at every step
        :param log_interval: episodes between logs; ``None``: one log, at the end
        :param learning_starts: transitions before the first update, with those that the replay buffer holds
            already; should be as many as all environments give in an episode, or the first batches know
            nothing but how episodes begin
        :param gradient_steps: updates each time
        :param train_freq: steps (of all environments together) between updates
        :param tb_log_name: name of the run in TensorBoard
        :param reset_num_timesteps: start counting from 0, with no transitions; ``False``: go on with those in
            ``replay_buffer``, of an earlier call or from ``load_replay_buffer``
        :param progress_bar: show progress
        :param learning_rate: from now on; default: the model's, whose schedule begins again, so that one that
            ended at zero jumps back to its start
        :raises ValueError: for other spaces, a learning rate that is not above 0, a fraction outside
            [0, 1], or one above 0 without data, or a replay buffer of another environment
        """
        settings = FinetuneSettings(
            steps, offline_fraction, learning_starts, gradient_steps, train_freq, log_interval, learning_rate
        )
        if env is not None:
            env = self._wrap_env(env, self.verbose)
            self.n_envs = env.num_envs
            self.set_env(env)
        self._begin_finetuning(settings, reset_num_timesteps)
        assert self.env is not None
        assert self._online is not None
        total_timesteps, callback = self._setup_learn(
            steps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        callback.on_training_start(locals(), globals())
        missing = learning_starts - len(self._online)
        calls, episodes_logged = 0, self._episode_num
        while self.num_timesteps < total_timesteps:
            rollout = self.collect_rollouts(self.env, callback, ONE_STEP, self._online.buffer)
            if not rollout.continue_training:
                break
            calls += 1
            collected = self.num_timesteps - self._num_timesteps_at_start
            if collected >= missing and calls % train_freq == 0:
                self.train(gradient_steps)
            if log_interval is not None and self._episode_num - episodes_logged >= log_interval:
                episodes_logged = self._episode_num
                self.dump_logs()
        if log_interval is None:
            self.dump_logs()
        callback.on_training_end()
        return self

    def _begin_finetuning(self, settings: FinetuneSettings, anew: bool) -> None:
        """Check that there is all that it takes, and make a place for transitions: all that are asked for.

        :param settings: of the call
        :param anew: whether the place is empty at first, or holds what was collected before
        :raises ValueError: if the environment, data, a critic or the reward scale is missing, or the replay
            buffer is of another environment
        """
        if self.env is None:
            raise ValueError("env: there is no environment to learn from: pass one")
        if self._vec_normalize_env is not None:
            raise ValueError(NO_NORMALIZATION)
        self._read_options()
        if not self.config.has_critic:
            raise ValueError("weight_mode='bc': there is no critic, and so nothing to learn from rewards")
        fraction = settings.offline_fraction
        if fraction > 0.0 and self._data is None:
            raise ValueError(
                f"offline_fraction={fraction}: there are no data; call set_dataset(...) first, "
                "or pass offline_fraction=0"
            )
        if self.scale is None:
            raise ValueError("reward_scale='auto': there never were data to find it from; pass a number")
        if settings.learning_rate is not None:
            self.learning_rate = settings.learning_rate
            self._setup_lr_schedule()
        buffer = make_buffer(
            settings.steps, self.observation_space, self.action_space, self.device, self.n_envs
        )
        if self.replay_buffer is not None and not anew:
            buffer = with_place(self.replay_buffer, buffer)
        self.replay_buffer = buffer
        self._online = OnlineData(buffer, fraction, self.scale, self.gamma)

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return draws of the policy, from the first step on: for the environment, and for the buffer."""
        assert self._last_obs is not None
        actions, _ = self.predict(self._last_obs, deterministic=False)
        box = isinstance(self.action_space, spaces.Box)
        return actions, self.policy.scale_action(actions) if box else actions
