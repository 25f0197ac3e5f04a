"""Critic-regularized regression: the algorithm."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import safe_mean

from sb3_greendc.core.presets import WithPresets, apply_preset
from sb3_greendc.core.saved_algorithm import check_saved_algorithm
from sb3_greendc.crr import box_policies, policies
from sb3_greendc.crr.batches import Batch
from sb3_greendc.crr.box_updates import box_losses
from sb3_greendc.crr.config import PRESETS, CRRConfig, renewed_attributes
from sb3_greendc.crr.data import BatchStream, TrainingData, as_dataset, check_same_spaces, stream_seed_of
from sb3_greendc.crr.diagnostics import diagnose, statistics, warn_of_data, warn_of_divergence
from sb3_greendc.crr.discrete_updates import discrete_losses
from sb3_greendc.crr.finetuning import NO_NORMALIZATION, FinetunedAlgorithm
from sb3_greendc.crr.handover import SHARED_OPTIONS, hand_over
from sb3_greendc.crr.updates import Losses
from sb3_greendc.datasets.images import channels_first, channels_first_space
from sb3_greendc.discrete_sac.discrete_sac import DiscreteSAC
from sb3_greendc.discrete_sac.options import check_networks

SelfCRR = TypeVar("SelfCRR", bound="CRR")


class CRR(WithPresets, FinetunedAlgorithm):
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
    :param n_action_samples: of ``Box`` actions, how many the policy chooses from by its critics when it acts,
        see :meth:`~sb3_greendc.crr.box_policies.BoxCRRPolicy.act`; 1: the mean, or a draw
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

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS
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
    config: CRRConfig
    """The options, as the last call of :meth:`learn` or :meth:`finetune` found them in the attributes, with
    those that are ``None`` there derived from the others. Data and batches follow them."""

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
        n_action_samples: int = 1,
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
        chosen = apply_preset(self.presets, preset, given, CRR.__init__)
        networks = {"n_critics": chosen["n_critics"], "target_actor": target_actor}
        super().__init__(
            policy,
            cast("GymEnv", env),  # None will do: data alone say the spaces too
            learning_rate=learning_rate,
            batch_size=batch_size,
            tau=chosen["tau"],
            gamma=gamma,
            policy_kwargs={**networks, **(policy_kwargs or {})},
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            device=device,
            sde_support=False,
            support_multi_env=True,
            seed=seed,
        )
        self.algorithm_name = "CRR"
        self.weight_mode = weight_mode
        self.value_mode: str | None = chosen["value_mode"]
        self.beta = beta
        self.max_weight = max_weight
        self.n_value_samples: int = chosen["n_value_samples"]
        self.normalize_adv = normalize_adv
        self.self_normalize = self_normalize
        self.combine = combine
        self.critic_loss = critic_loss
        self.cql_alpha = cql_alpha
        self.reward_scale: str | float = chosen["reward_scale"]
        self.target_update_interval = target_update_interval
        self.actor_trains_encoder = actor_trains_encoder
        self.n_action_samples: int = (policy_kwargs or {}).get("n_action_samples", n_action_samples)
        self.preset = preset
        self.source_weights = source_weights
        self.scale: float | None = None
        self._scale_was_given = False
        self.stream_seed = -1
        self.advantage_std = th.tensor(float("nan"))
        self._data: TrainingData | None = None
        self._stream: BatchStream | None = None
        self._online = None
        self._history: list[tuple[th.Tensor, th.Tensor, float]] = []
        self._last_losses: Losses | None = None
        self._warned_of_divergence = False
        self._targets_rest = False
        if not _init_setup_model:
            return
        known = self._known_spaces(observation_space, action_space)
        data = None if dataset is None else as_dataset(dataset, *known)
        self._adopt_spaces(policy, data, observation_space, action_space)
        self._setup_model()
        if data is not None:
            self.set_dataset(data, source_weights)

    def _known_spaces(
        self, observation_space: spaces.Space[Any] | None, action_space: spaces.Space[Any] | None
    ) -> tuple[spaces.Space[Any] | None, spaces.Space[Any] | None]:
        """Return the spaces before the data are read: the environment's, else those given."""
        if self.env is not None:
            return self.env.observation_space, self.env.action_space
        if observation_space is not None:
            observation_space = channels_first_space(observation_space)
        return observation_space, action_space

    def _adopt_spaces(
        self,
        policy: str | type[BasePolicy],
        data: Any,
        observation_space: spaces.Space[Any] | None,
        action_space: spaces.Space[Any] | None,
    ) -> None:
        """Take the spaces from environment, data or arguments, and choose the policy that fits them.

        :raises ValueError: if the spaces are not given, or the policy is not for them
        """
        if self.env is None:
            if data is not None:
                observation_space, action_space = data.observation_space, data.action_space
            if observation_space is None or action_space is None:
                raise ValueError("CRR needs env, or dataset, or observation_space and action_space")
            self.observation_space, self.action_space = channels_first_space(observation_space), action_space
            self.n_envs = 1
            if policy in ("MlpPolicy", "CnnPolicy") and isinstance(observation_space, spaces.Dict):
                raise ValueError(f"policy={policy!r}: Dict observations need 'MultiInputPolicy'")
        if self._vec_normalize_env is not None:
            raise ValueError(NO_NORMALIZATION)
        if isinstance(self.action_space, spaces.Box) and isinstance(policy, str):
            self.policy_class = self.box_policy_aliases[policy]

    def _setup_model(self) -> None:
        self._setup_lr_schedule()
        self.set_random_seed(self.seed)
        if isinstance(self.action_space, spaces.Box):
            box_policies.check_box(self.action_space)
        self.policy = self.policy_class(  # type: ignore[assignment]
            self.observation_space, self.action_space, self.lr_schedule, **self.policy_kwargs
        ).to(self.device)
        self._read_options()
        if self.stream_seed < 0:
            self.stream_seed = stream_seed_of(self.seed)
        self.advantage_std = th.tensor(float("nan"), device=self.device)

    def _read_options(self) -> None:
        """Gather the options from the attributes, where ``load`` puts those of its keyword arguments too.

        Data, reward scale and batches are made anew where they depend on options that have changed.

        :raises ValueError: for options that make no sense, alone or together
        """
        options = {field.name: getattr(self, field.name) for field in fields(CRRConfig)}
        self.config = CRRConfig.derived(options, self.action_space)
        self._follow_learning_rate()
        if isinstance(self.policy, box_policies.BoxCRRPolicy):
            self.policy.n_action_samples = self.config.n_action_samples
        if not isinstance(self.reward_scale, str):
            self.scale = self.reward_scale
        elif self._scale_was_given:
            self.scale = None  # "auto" from now on
        self._scale_was_given = not isinstance(self.reward_scale, str)
        if self._data is not None and not self._data.follows(self.gamma, self.source_weights):
            self._data = TrainingData(self._data.dataset, self.gamma, self.source_weights, self.device)
        self._make_stream()

    def _make_stream(self) -> None:
        """Make the batches of the data, unless they are as the options say."""
        if self._data is None:
            return
        if self.scale is None:
            self.scale = self._data.natural_scale()
        now, wanted = self._stream, (self._data, self.batch_size, self.scale)
        if now is None or (now.data, now.n, now.scale) != wanted:
            self._stream = BatchStream(self._data, self.stream_seed, self.batch_size, self.scale)

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
        :param source_weights: by name or in order, how often each source is drawn, however many transitions
            each has; by default as was said last, or equally
        :raises ValueError: for other spaces than the model's, data that make no sense, or an empty source
        """
        data = as_dataset(dataset, self.observation_space, self.action_space)
        data = channels_first(data, self.observation_space)
        check_same_spaces(data, self.observation_space, self.action_space)
        weights = self.source_weights if source_weights is None else source_weights
        self._data = TrainingData(data, self.gamma, weights, self.device)
        self.source_weights = weights
        self._make_stream()
        self._warned_of_divergence = False
        warn_of_data(self._data, self.config)

    def _next_batch(self) -> Batch:
        """Return transitions of the data, and of the environment while there is one to be tuned to."""
        if self._online is not None:
            return self._online.mixed_batch(self._stream, self.config.batch_size, self._n_updates)
        assert self._stream is not None
        return self._stream.batch(self._n_updates)

    # ------------------------------------------------------------------ learning

    def train(self, gradient_steps: int) -> None:  # type: ignore[override]
        """Do ``gradient_steps`` updates of critics, actor and targets.

        One backward pass serves critics and actor: their losses share no parameters, since the actor sees
        detached features and constant weights (with ``actor_trains_encoder`` the gradients add up in the
        encoder, as they should).
        """
        policy, optimizer = self.policy, self.policy.optimizer
        if not policy.training:
            policy.set_training_mode(True)
        self._update_learning_rate(optimizer)
        self._wake_targets()
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
            self.advantage_std = loss.advantage_std
            self._n_updates += 1
            self._targets_rest = loss.critic is None
            if loss.critic is not None and self._n_updates % self.config.target_update_interval == 0:
                policy.update_targets(self.config.tau)
            self._remember(loss, n_accepted)

    def _wake_targets(self) -> None:
        """Copy the networks to the targets where critics are learned after cloning, which leaves them be."""
        if self._targets_rest and self.config.has_critic:
            self.policy.update_targets(1.0)
            self._targets_rest = False

    def _remember(self, loss: Losses, n_accepted: int) -> None:
        """Keep the numbers of a batch, and the whole of the last one, for :meth:`dump_logs`."""
        actor = loss.actor.detach()
        critic = None if loss.critic is None else loss.critic.detach()
        # Numbers only: keeping the tensors of many batches would cost more, in fresh memory, than computing.
        self._history.append((actor, actor if critic is None else critic, n_accepted / len(loss.weights)))
        self._last_losses = loss._replace(actor=actor, critic=critic)

    def losses(self, batch: Batch) -> Losses:
        """Return the losses of a batch, and what they were made of.

        :param batch: transitions, rewards scaled
        """
        policy, config = self.policy, self.config
        if isinstance(policy, box_policies.BoxCRRPolicy):
            return box_losses(policy, config, batch, self.advantage_std, self._draws())
        draws = None if config.value_mode in ("exact", "max") else self._draws()
        return discrete_losses(policy, config, batch, self.advantage_std, draws)

    def _draws(self) -> th.Generator:
        """Return the source of an update's draws: as the batch, it follows from run and update alone."""
        return th.Generator().manual_seed(hash((self.stream_seed, self._n_updates)))

    def _begin_offline(self) -> None:
        """Start a call of :meth:`learn`.

        :raises ValueError: if there are no data, or options make no sense
        """
        if self._data is None:
            raise ValueError("no data to learn from: call set_dataset(...) first")
        self._read_options()
        self._online = None
        self._history.clear()

    def _record_logs(self) -> None:
        """Log losses since the last call, statistics of the last batch, and diagnostics of the values.

        :raises ValueError: if training has diverged: a loss is not finite
        """
        if self._online is not None and self.ep_info_buffer:
            self.logger.record("rollout/ep_rew_mean", safe_mean([e["r"] for e in self.ep_info_buffer]))
            self.logger.record("rollout/ep_len_mean", safe_mean([e["l"] for e in self.ep_info_buffer]))
        if not self._history:
            return
        actor_losses, critic_losses, accepted = zip(*self._history, strict=True)
        self._history = []
        last = self._last_losses
        assert last is not None
        values = {"actor_loss": th.stack(actor_losses).mean()}
        if last.critic is not None:
            self.logger.record("train/accept_frac", float(np.mean(accepted)))
            values |= {"critic_loss": th.stack(critic_losses).mean(), **statistics(last)}
        numbers = dict(zip(values, th.stack(list(values.values())).tolist(), strict=True))
        for name, number in numbers.items():
            if not np.isfinite(number):
                raise ValueError(f"training has diverged: {name} is {number} after {self._n_updates} updates")
            self.logger.record(f"train/{name}", number)
        if self._data is None:
            return
        scale = self.scale or 1.0
        found = diagnose(self.policy, self.config, self._data, scale, self.advantage_std)
        for name, number in found.items():
            self.logger.record(name, number)
        if not self._warned_of_divergence:
            self._warned_of_divergence = warn_of_divergence(
                numbers, self._data.greatest_reward, self.gamma, scale, self.num_timesteps
            )

    # ------------------------------------------------------------------ handover

    def to_discrete_sac(self, env: GymEnv, **kwargs: Any) -> DiscreteSAC:
        """Return a :class:`DiscreteSAC` with this model's networks, targets and optimizers, to go on online.

        An offline critic is right about actions that its policy takes, and optimistic about others. So the
        policy collects from the first step on (no uniform warm-up), critics learn alone for the first 2,000
        updates, the data fill up to half of the replay buffer, so that their failures are not forgotten, and
        the temperature is small and fixed; values stay without entropy, as CRR learned them.

        :param env: environment with the model's spaces
        :param kwargs: arguments of :class:`DiscreteSAC` in place of these; what ``policy_kwargs`` says is
            added to this model's
        :raises ValueError: for ``Box`` actions, a model without critic, other spaces, or ``policy_kwargs`` of
            other networks
        """
        if isinstance(self.policy, box_policies.BoxCRRPolicy):
            raise ValueError(f"action space {self.action_space}: must be Discrete; finetune takes others")
        self._read_options()
        if not self.config.has_critic:
            raise ValueError("weight_mode='bc': there is no critic to go on with")
        self._wake_targets()
        options: dict[str, Any] = {name: getattr(self, name) for name in SHARED_OPTIONS}
        options |= {"policy": self.policy_class, "policy_kwargs": self.policy_kwargs}
        trains_encoder = self.config.actor_trains_encoder
        options |= {"reward_scale": self.scale or 1.0, "actor_trains_encoder": trains_encoder}
        return hand_over(self.policy, self._data, env, options, kwargs)

    # ------------------------------------------------------------------ saving

    renewed_attributes = staticmethod(renewed_attributes)

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
        :param kwargs: as for SB3's ``load``; options that are to change, ``preset`` among them; with another
            ``seed`` than the file's, batches and draws are others from now on
        :raises ValueError: if the file was saved by another algorithm, ``env`` or ``dataset`` has other
            spaces, or ``preset``, ``n_critics`` or ``target_actor`` asks for other networks
        """
        check_saved_algorithm(path, "CRR")
        model = super().load(path, env, *args, **kwargs)
        check_networks(path, model, kwargs)
        if kwargs.get("seed") is not None:
            model.stream_seed = stream_seed_of(model.seed)
        if dataset is not None:
            model.set_dataset(dataset)
        return model

    def _excluded_save_params(self) -> list[str]:
        of_the_process = ["_data", "_stream", "_online", "_history", "_last_losses", "_warned_of_divergence"]
        return [*super()._excluded_save_params(), *of_the_process, "config"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", "policy.optimizer"], ["advantage_std"]
