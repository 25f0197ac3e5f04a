"""Critic-regularized regression: the algorithm."""

from __future__ import annotations

import io
import pathlib
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common import utils
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule

from sb3_greendc.core.saved_algorithm import SafelySaved, check_saved_algorithm
from sb3_greendc.crr import box_policies, policies
from sb3_greendc.crr.callbacks import GradientStepBar, with_bar
from sb3_greendc.crr.data import BatchStream, TrainingData, as_dataset, check_same_spaces
from sb3_greendc.crr.diagnostics import diagnose, warn_of_divergence
from sb3_greendc.crr.finetuning import (
    NO_NORMALIZATION,
    FinetuneSettings,
    OnlineData,
    finetune,
    to_discrete_sac,
)
from sb3_greendc.crr.options import apply_preset, check_options
from sb3_greendc.crr.updates import Batch, Losses, losses_of
from sb3_greendc.crr.weights import advantage_weights
from sb3_greendc.discrete_sac.discrete_sac import DiscreteSAC

SelfCRR = TypeVar("SelfCRR", bound="CRR")

ADVANTAGE_SCALE_RATE = 0.01
"""Share of a batch's standard deviation that enters the running one."""
LEAST_ADVANTAGE_SCALE = 1e-3


class CRR(SafelySaved):
    """Critic-regularized regression: learning from data alone, better than what made them.

    Offline: it imitates the actions of a data set, but only those (``"binary"``), or the more those
    (``"exp"``), that its critic takes for better than its own policy (Wang et al., arXiv 2006.15134). About
    actions that the data lack it asks the critic through its own policy only, which imitates the data; that
    is what keeps values from running away. For discrete actions, with masks and ``Dict`` observations,
    and for bounded ``Box`` actions. ``weight_mode="bc"`` is behavioral cloning.

    A step is a gradient step: ``learn(50_000)`` makes 50,000 updates, and ``num_timesteps`` counts them.
    No environment is needed, to train, to load or to predict.

    :param policy: ``"MlpPolicy"``, ``"CnnPolicy"``, ``"MultiInputPolicy"``, or a class
    :param env: environment, for its spaces and for :meth:`finetune`; may be ``None``
    :param dataset: what :meth:`set_dataset` takes; may also be given later
    :param learning_rate: of the optimizer; a number, or a function of the remaining progress (1 to 0)
    :param batch_size: transitions an update
    :param tau: share of the online network that enters the target at its updates
    :param gamma: discount
    :param weight_mode: ``"binary"``, ``"exp"`` or ``"bc"``, see
        :func:`~sb3_greendc.crr.weights.advantage_weights`
    :param value_mode: ``"exact"``, ``"mean"``, ``"max"`` or ``"max_sample"``, see
        :func:`~sb3_greendc.crr.weights.state_value`; ``None``: exact for discrete actions, mean for ``Box``
    :param beta: temperature of ``"exp"``; in standard deviations of the advantage with ``normalize_adv``, in
        units of the scaled reward without
    :param max_weight: greatest weight of ``"exp"``
    :param n_value_samples: actions drawn a state, where values are means or maxima over draws
    :param normalize_adv: divide advantages by their running standard deviation; ``None``: for ``"exp"``
    :param self_normalize: divide the actor's loss by the sum of the weights instead of the batch size
    :param combine: ``"min"`` of the twin critics, or their ``"mean"``
    :param critic_loss: ``"mse"`` or ``"huber"``
    :param cql_alpha: weight of conservative Q-learning's penalty on actions that the data lack; 0 is off
    :param reward_scale: factor on rewards; ``"auto"``: one over the standard deviation of the data's
        discounted returns-to-go, found at the first data set and kept
    :param target_update_interval: updates between updates of the target
    :param target_actor: the critics' target asks a slow copy of the actor; ``False``: the present actor, for
        one more pass through the encoder
    :param n_critics: 2, or 1
    :param actor_trains_encoder: let the actor's loss move the encoder too; ``None``: for ``"bc"`` only, where
        nothing else would
    :param preset: ``"rare"``: RARE's learner (state value from 4 draws, one critic, no target network)
    :param source_weights: how often each source of the data is drawn, see :meth:`set_dataset`
    :param observation_space: where neither ``env`` nor ``dataset`` says it
    :param action_space: where neither ``env`` nor ``dataset`` says it
    :param stats_window_size: episodes in the means logged by :meth:`finetune`
    :param tensorboard_log: folder for TensorBoard
    :param policy_kwargs: arguments of the policy, ``net_arch=[256, 256]`` among them
    :param verbose: 0 none, 1 information, 2 debugging
    :param seed: of all random generators
    :param device: ``"auto"``, ``"cpu"``, ``"cuda"``, ...
    :param _init_setup_model: whether to build the networks at once
    :raises ValueError: for spaces, data or options that make no sense, alone or together
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": policies.MlpPolicy,
        "CnnPolicy": policies.CnnPolicy,
        "MultiInputPolicy": policies.MultiInputPolicy,
    }
    box_policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": box_policies.BoxCRRPolicy,
        "CnnPolicy": box_policies.BoxCnnPolicy,
        "MultiInputPolicy": box_policies.BoxMultiInputPolicy,
    }
    policy: policies.CRRPolicy | box_policies.BoxCRRPolicy

    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None = None,
        dataset: Any = None,
        learning_rate: float | Schedule = 3e-4,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        weight_mode: str = "binary",
        value_mode: str | None = None,
        beta: float = 0.3,
        max_weight: float = 20.0,
        n_value_samples: int = 4,
        normalize_adv: bool | None = None,
        self_normalize: bool = False,
        combine: str = "min",
        critic_loss: str = "mse",
        cql_alpha: float = 0.0,
        reward_scale: str | float = "auto",
        target_update_interval: int = 1,
        target_actor: bool = True,
        n_critics: int = 2,
        actor_trains_encoder: bool | None = None,
        preset: str | None = None,
        source_weights: Mapping[str, float] | Sequence[float] | None = None,
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        given = {
            "value_mode": value_mode,
            "n_value_samples": n_value_samples,
            "tau": tau,
            "n_critics": n_critics,
            "reward_scale": reward_scale,
        }
        defaults = {
            "value_mode": None,
            "n_value_samples": 4,
            "tau": 0.005,
            "n_critics": 2,
            "reward_scale": "auto",
        }
        chosen = apply_preset(preset, given, defaults)
        networks = {"n_critics": chosen["n_critics"], "target_actor": target_actor}
        super().__init__(
            policy,
            env,
            learning_rate=learning_rate,
            policy_kwargs={**networks, **(policy_kwargs or {})},
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            device=device,
            support_multi_env=True,
            seed=seed,
        )
        self.algorithm_name = "CRR"
        self.batch_size = batch_size
        self.tau: float = chosen["tau"]
        self.gamma = gamma
        self.weight_mode = weight_mode
        self.value_mode: str = chosen["value_mode"] or "exact"
        self.beta = beta
        self.max_weight = max_weight
        self.n_value_samples: int = chosen["n_value_samples"]
        self.normalize_adv = weight_mode == "exp" if normalize_adv is None else normalize_adv
        self.self_normalize = self_normalize
        self.combine = combine
        self.critic_loss = critic_loss
        self.cql_alpha = cql_alpha
        self.reward_scale: str | float = chosen["reward_scale"]
        self.target_update_interval = target_update_interval
        self.actor_trains_encoder = (
            weight_mode == "bc" if actor_trains_encoder is None else actor_trains_encoder
        )
        self.preset = preset
        self.source_weights = source_weights
        self.scale: float | None = None if isinstance(self.reward_scale, str) else self.reward_scale
        self.entropy = -1
        self.advantage_std = th.tensor(float("nan"))
        self._data: TrainingData | None = None
        self._stream: BatchStream | None = None
        self._online: OnlineData | None = None
        self._history: list[tuple[th.Tensor, th.Tensor, float]] = []
        self._last_losses: Losses | None = None
        self._warned_of_divergence = False
        if not _init_setup_model:
            return
        data = (
            None
            if dataset is None
            else as_dataset(dataset, *self._known_spaces(observation_space, action_space))
        )
        self._adopt_spaces(policy, data, observation_space, action_space)
        if chosen["value_mode"] is None and isinstance(self.action_space, spaces.Box):
            self.value_mode = "mean"
        self._setup_model()
        if data is not None:
            self.set_dataset(data, source_weights)

    def _known_spaces(
        self, observation_space: spaces.Space[Any] | None, action_space: spaces.Space[Any] | None
    ) -> tuple[spaces.Space[Any] | None, spaces.Space[Any] | None]:
        """Return the spaces before the data are read: the environment's, else those given."""
        if self.env is not None:
            return self.env.observation_space, self.env.action_space
        return observation_space, action_space

    def _adopt_spaces(
        self,
        policy: str | type[BasePolicy],
        data: Any,
        observation_space: spaces.Space[Any] | None,
        action_space: spaces.Space[Any] | None,
    ) -> None:
        """Take the spaces from environment, data or arguments, and choose the policy that fits them.

        :raises ValueError: if nobody says the spaces, or the policy is not for them
        """
        if self.env is None:
            if data is not None:
                observation_space, action_space = data.observation_space, data.action_space
            if observation_space is None or action_space is None:
                raise ValueError("CRR needs env, or dataset, or observation_space and action_space")
            self.observation_space, self.action_space = observation_space, action_space
            self.n_envs = 1
            if policy in ("MlpPolicy", "CnnPolicy") and isinstance(observation_space, spaces.Dict):
                raise ValueError(f"policy={policy!r}: Dict observations need 'MultiInputPolicy'")
        if self._vec_normalize_env is not None:
            raise ValueError(NO_NORMALIZATION)
        if isinstance(self.action_space, spaces.Box) and isinstance(policy, str):
            self.policy_class = self.box_policy_aliases[policy]

    def _setup_model(self) -> None:
        check_options(self)
        self._setup_lr_schedule()
        self.set_random_seed(self.seed)
        if isinstance(self.action_space, spaces.Box):
            box_policies.check_box(self.action_space)
        self.policy = self.policy_class(  # type: ignore[assignment]
            self.observation_space, self.action_space, self.lr_schedule, **self.policy_kwargs
        ).to(self.device)
        if self.entropy < 0:
            self.entropy = int(np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0])
        self.advantage_std = th.tensor(float("nan"), device=self.device)

    # ------------------------------------------------------------------ data

    @property
    def dataset(self) -> Any:
        """The data set in use, an ``OfflineDataset``; ``None`` before :meth:`set_dataset`."""
        return None if self._data is None else self._data.dataset

    def set_dataset(
        self, dataset: Any, source_weights: Mapping[str, float] | Sequence[float] | None = None
    ) -> None:
        """Take the data to learn from.

        :param dataset: an :class:`~sb3_greendc.datasets.OfflineDataset`, the path of one, a dict of arrays
            (``obs`` or ``obs/key``, ``next_obs`` likewise, ``actions``, ``rewards``, ``terminated``,
            ``truncated``, perhaps ``source_id``, ``episode_id``), an SB3 replay buffer, a sequence of
            ``imitation``'s trajectories, or a Minari data set
        :param source_weights: by name or in order, how often each source is drawn; by default equally,
            however many transitions each has
        :raises ValueError: for other spaces than the model's, data that make no sense, or an empty source
        """
        data = as_dataset(dataset, self.observation_space, self.action_space)
        check_same_spaces(data, self.observation_space, self.action_space)
        if source_weights is not None:
            self.source_weights = source_weights
        self._data = TrainingData(data, self.gamma, self.source_weights, self.device)
        if self.scale is None:
            self.scale = self._data.natural_scale()
        self._stream = BatchStream(self._data, self.entropy, self.batch_size, self.scale)
        self._warned_of_divergence = False

    def _next_batch(self) -> Batch:
        """Return transitions of the data, and of the environment while there is one to be tuned to."""
        if self._online is not None:
            return self._online.mixed_batch(self._stream, self.batch_size, self._n_updates)
        assert self._stream is not None
        return self._stream.batch(self._n_updates)

    # ------------------------------------------------------------------ learning

    def train(self, gradient_steps: int) -> None:
        """Do ``gradient_steps`` updates of critics, actor and targets.

        One backward pass serves critics and actor: their losses share no parameters, since the actor sees
        detached features and constant weights (with ``actor_trains_encoder`` the gradients add up in the
        encoder, as they should).
        """
        policy, optimizer = self.policy, self.policy.optimizer
        if not policy.training:
            policy.set_training_mode(True)
        self._update_learning_rate(optimizer)
        for _ in range(gradient_steps):
            loss = self.losses(self._next_batch())
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad = None  # what zero_grad() does, in a tenth of the time
            total = loss.actor if loss.critic is None else loss.actor + loss.critic
            total.backward()  # type: ignore[no-untyped-call]
            n_accepted = int(loss.weights.count_nonzero())
            if n_accepted == 0:
                # Nothing is imitated: the actor rests. A zero gradient would still move it, by its momentum.
                policy.actor.zero_grad()
            optimizer.step()
            self._n_updates += 1
            if loss.critic is not None and self._n_updates % self.target_update_interval == 0:
                policy.update_targets(self.tau)
            self._remember(loss, n_accepted)

    def _remember(self, loss: Losses, n_accepted: int) -> None:
        """Keep the numbers of a batch, and the whole of the last one, for :meth:`dump_logs`."""
        actor = loss.actor.detach()
        critic = None if loss.critic is None else loss.critic.detach()
        # Numbers only: keeping the tensors of many batches would cost more, in fresh memory, than computing.
        self._history.append((actor, actor if critic is None else critic, n_accepted / len(loss.weights)))
        self._last_losses = loss._replace(actor=actor, critic=critic)

    def losses(self, batch: Batch) -> Losses:
        """Return the losses of a batch, and what they were made of.

        With ``normalize_adv`` this moves the running standard deviation of the advantage.

        :param batch: transitions, rewards scaled
        """
        draws = None
        if isinstance(self.policy, box_policies.BoxCRRPolicy) or self.value_mode not in ("exact", "max"):
            # As the batches do, the draws follow from the run's entropy and the number of the update alone.
            draws = th.Generator().manual_seed(hash((self.entropy, self._n_updates)))
        return losses_of(self, batch, draws)

    def weights_of(self, advantage: th.Tensor, moving: bool = True) -> th.Tensor:
        """Return the weights of actions, ``(B,)``; see :func:`~sb3_greendc.crr.weights.advantage_weights`.

        :param advantage: of the data's actions, ``(B,)``, in units of the scaled reward
        :param moving: with ``normalize_adv``, let the batch move the running standard deviation
        """
        if self.normalize_adv:
            if moving:
                std = advantage.std(unbiased=False)
                moved = self.advantage_std.lerp(std, ADVANTAGE_SCALE_RATE)
                self.advantage_std = th.where(self.advantage_std.isnan(), std, moved)
            advantage = advantage / self.advantage_std.clamp(min=LEAST_ADVANTAGE_SCALE)
        return advantage_weights(advantage, self.weight_mode, self.beta, self.max_weight)

    def learn(
        self: SelfCRR,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1000,
        tb_log_name: str = "CRR",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> SelfCRR:
        """Make ``total_timesteps`` gradient steps on the data; no environment is touched.

        :param total_timesteps: gradient steps
        :param callback: called after every gradient step
        :param log_interval: gradient steps between logs
        :param tb_log_name: name of the run in TensorBoard
        :param reset_num_timesteps: start counting anew
        :param progress_bar: show progress
        :raises ValueError: if there are no data
        """
        if self._data is None:
            raise ValueError("no data to learn from: call set_dataset(...) first")
        total_timesteps, callback = self._setup_offline_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        callback.on_training_start(locals(), globals())
        while self.num_timesteps < total_timesteps:
            self._update_current_progress_remaining(self.num_timesteps, total_timesteps)
            self.train(1)
            self.num_timesteps += 1
            if not callback.on_step():
                break
            if self.num_timesteps % log_interval == 0:
                self.dump_logs()
        if self._history:
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
        self._online = None
        self._history.clear()
        if not self._custom_logger:
            self._logger = utils.configure_logger(
                self.verbose, self.tensorboard_log, tb_log_name, reset_num_timesteps
            )
        if progress_bar:
            callback = with_bar(callback, GradientStepBar(total_timesteps))
        return total_timesteps, self._init_callback(callback)

    def dump_logs(self) -> None:
        """Write losses since the last call, statistics of the last batch, and diagnostics of the values.

        :raises ValueError: if training has diverged: a loss is not finite
        """
        if self._history:
            self._record_losses()
        seconds = max((time.time_ns() - self.start_time) / 1e9, 1e-9)
        self.logger.record("time/fps", int((self.num_timesteps - self._num_timesteps_at_start) / seconds))
        self.logger.record("time/time_elapsed", int(seconds), exclude="tensorboard")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.dump(step=self.num_timesteps)

    def _record_losses(self) -> None:
        actor_losses, critic_losses, accepted = zip(*self._history, strict=True)
        self._history = []
        last = self._last_losses
        assert last is not None
        values = {"actor_loss": th.stack(actor_losses).mean()}
        if last.critic is not None:
            self.logger.record("train/accept_frac", float(np.mean(accepted)))
            values |= {
                "critic_loss": th.stack(critic_losses).mean(),
                "advantage_mean": last.advantage.mean(),
                "advantage_std": last.advantage.std(unbiased=False),
                "weight_mean": last.weights.mean(),
                "weight_max": last.weights.max(),
                "q_mean": last.q_taken.mean(),
                "q_max": last.q_taken.max(),
                "q_min": last.q_taken.min(),
                "twin_gap": (last.q_taken[0] - last.q_taken[-1]).abs().mean(),
                "td_abs": (last.q_taken - last.target).abs().mean(),
            }
        numbers = dict(zip(values, th.stack(list(values.values())).tolist(), strict=True))
        for name, number in numbers.items():
            if not np.isfinite(number):
                raise ValueError(f"training has diverged: {name} is {number} after {self._n_updates} updates")
            self.logger.record(f"train/{name}", number)
        if self._data is None:
            return
        for name, number in diagnose(self, self._data).items():
            self.logger.record(name, number)
        if not self._warned_of_divergence:
            self._warned_of_divergence = warn_of_divergence(self, numbers, self._data.greatest_reward)

    # ------------------------------------------------------------------ online

    def finetune(
        self: SelfCRR,
        env: GymEnv | None,
        steps: int,
        offline_fraction: float = 0.5,
        callback: MaybeCallback = None,
        log_interval: int = 10,
        learning_starts: int = 1000,
        gradient_steps: int = 1,
        train_freq: int = 1,
        tb_log_name: str = "CRR",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        learning_rate: float | Schedule | None = None,
    ) -> SelfCRR:
        """Go on learning from an environment, by the same loss, on batches of new and old data.

        The policy acts by its own draws. It imitates its own good actions beside those of the data, which is
        why it does not collapse as a policy gradient through an offline critic does; it also gains slowly.

        :param env: environment with the model's spaces; ``None``: the model's own
        :param steps: transitions, of all environments together
        :param offline_fraction: share of a batch that comes from the data set; 0 needs none
        :param callback: called at every step
        :param log_interval: episodes between logs
        :param learning_starts: transitions before the first update; should be as many as all environments
            give in an episode, or the first batches know nothing but how episodes begin
        :param gradient_steps: updates each time
        :param train_freq: steps (of all environments together) between updates
        :param tb_log_name: name of the run in TensorBoard
        :param reset_num_timesteps: start counting anew, with no transitions
        :param progress_bar: show progress
        :param learning_rate: from now on; default: the model's, whose schedule begins anew, so that one that
            ended at zero jumps back to its start
        :raises ValueError: for other spaces, a learning rate that is not above 0, a fraction outside
            [0, 1], or one above 0 without data
        """
        if env is not None:
            env = self._wrap_env(env, self.verbose)
            self.n_envs = env.num_envs
            self.set_env(env)
        finetune(
            self,
            FinetuneSettings(
                steps,
                offline_fraction,
                learning_starts,
                gradient_steps,
                train_freq,
                log_interval,
                learning_rate,
            ),
            callback,
            tb_log_name,
            reset_num_timesteps,
            progress_bar,
        )
        return self

    def to_discrete_sac(self, env: GymEnv, **kwargs: Any) -> DiscreteSAC:
        """Return a :class:`DiscreteSAC` with this model's networks, to go on online.

        :param env: environment with the model's spaces
        :param kwargs: arguments of :class:`DiscreteSAC` in place of those that
            :func:`~sb3_greendc.crr.finetuning.to_discrete_sac` chooses
        :raises ValueError: for ``Box`` actions, or other spaces
        """
        return to_discrete_sac(self, env, kwargs)

    # ------------------------------------------------------------------ saving

    @classmethod
    def load(
        cls: type[SelfCRR],
        path: str | pathlib.Path | io.BufferedIOBase,
        env: GymEnv | None = None,
        *args: Any,
        dataset: Any = None,
        **kwargs: Any,
    ) -> SelfCRR:
        """Load a model from a zip file. It predicts at once, and learns on once it has data.

        ``load(path, dataset=data)`` then ``learn(n, reset_num_timesteps=False)`` goes on exactly where the
        saved model stopped, to the last bit, on the same data and machine.

        :param path: the file
        :param env: environment with the model's spaces, for :meth:`finetune`
        :param args: as for SB3's ``load``
        :param dataset: what :meth:`set_dataset` takes
        :param kwargs: as for SB3's ``load``
        :raises ValueError: if the file was saved by another algorithm, or ``env`` or ``dataset`` has other
            spaces
        """
        check_saved_algorithm(path, "CRR")
        model = super().load(path, env, *args, **kwargs)
        if dataset is not None:
            model.set_dataset(dataset)
        return model

    def _excluded_save_params(self) -> list[str]:
        of_the_process = ["_data", "_stream", "_online", "_history", "_last_losses", "_warned_of_divergence"]
        return [*super()._excluded_save_params(), *of_the_process]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", "policy.optimizer"], ["advantage_std"]
