"""Discrete soft actor-critic: the algorithm."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule

from sb3_greendc.core.lean_adam import clear_gradients, step_together
from sb3_greendc.core.masking import action_mask_of, masked_log_softmax
from sb3_greendc.core.presets import WithPresets, apply_preset
from sb3_greendc.core.saved_algorithm import check_saved_algorithm
from sb3_greendc.discrete_sac import losses
from sb3_greendc.discrete_sac.buffers import (
    DictNStepReplayBuffer,
    FlatNStepReplayBuffer,
    NStepSamples,
    natural_scale,
)
from sb3_greendc.discrete_sac.changing_options import FollowsOptions
from sb3_greendc.discrete_sac.masked_collection import MaskedCollection
from sb3_greendc.discrete_sac.options import PRESETS, check_networks, initial_temperature
from sb3_greendc.discrete_sac.policies import (
    CnnPolicy,
    DiscreteSACPolicy,
    MlpPolicy,
    MultiInputPolicy,
    check_spaces,
)

SelfDiscreteSAC = TypeVar("SelfDiscreteSAC", bound="DiscreteSAC")

LOG_ENT_COEF_RANGE = (-10.0, 5.0)
"""log α stays inside: a target that cannot be met moves α no further."""


class Losses(NamedTuple):
    """What one batch gives.

    :param critic: loss of the critics, scalar; its gradient moves critic heads and encoder
    :param actor: loss of the actor, scalar; its gradient moves the actor head (and the encoder, on demand)
    :param entropy: of the policy, ``(B,)``, detached
    :param n_valid: number of valid actions, ``(B,)``
    :param q_taken: values of the actions taken, ``(K, B)``, detached
    :param target: of the critics, ``(B,)``
    """

    critic: th.Tensor
    actor: th.Tensor
    entropy: th.Tensor
    n_valid: th.Tensor
    q_taken: th.Tensor
    target: th.Tensor


class DiscreteSAC(WithPresets, FollowsOptions, MaskedCollection):
    """Soft actor-critic for discrete actions, with action masks and ``Dict`` observations.

    Off-policy and stochastic: it reuses every transition many times and keeps exploring as far as its
    temperature says. With finitely many actions all expectations are exact sums, so nothing is
    reparametrized or sampled in its losses (Christodoulou, arXiv 1910.07207). Options add
    what "Revisiting Discrete Soft Actor-Critic" found (arXiv 2209.10081); ``preset="rare"`` is the learner of
    RARE (JSSPP 2022).

    A key ``action_mask`` in ``Dict`` observations (1 where an action is valid) is obeyed everywhere: in the
    warm-up, the policy, its target and its entropy. The encoder is trained by the critic's loss alone, as in
    RARE: a policy gradient through shared features disturbs the values it is measured against.

    Updates per transition are ``gradient_steps / (train_freq · n_envs)``; ``gradient_steps=-1`` makes it one.
    ``learning_starts`` counts transitions. With several environments ``train_freq`` must be in steps.

    :param policy: ``"MlpPolicy"``, ``"CnnPolicy"``, ``"MultiInputPolicy"``, or a class
    :param env: environment, or its id; its actions must be ``Discrete``
    :param learning_rate: of all optimizers; a number, or a function of the remaining progress (1 to 0)
    :param buffer_size: transitions in the replay buffer
    :param learning_starts: transitions collected before the first update, by uniform valid actions
    :param batch_size: transitions an update
    :param tau: share of the online network that enters the target at its updates
    :param gamma: discount
    :param train_freq: steps (of all environments together) between updates; or ``(2, "episode")``
    :param gradient_steps: updates each time; -1 for as many as transitions were collected
    :param replay_buffer_class: by default a buffer with n-step returns for the observation's kind
    :param replay_buffer_kwargs: its keyword arguments
    :param optimize_memory_usage: must be false: it cannot tell truncation from termination
    :param n_steps: rewards in a return; 1 to 3 are sensible, since the entropy between is left out
    :param ent_coef: temperature α: ``"auto"``, ``"auto_0.1"`` (first value .1), or a number
    :param target_entropy_ratio: ρ: the entropy that ``"auto"`` aims at, as a share of the greatest that a
        state's valid actions allow, ``ρ log n_valid``; at .5 the best of 12 actions gets about .73, at .2 .92
    :param target_entropy_ratio_final: ρ at the end of training, reached linearly; ``None`` keeps it
    :param soft_critic: whether the values include the entropy bonus, as published; then an episode is worth
        more the longer it is, and a policy may learn to put off its end
    :param reward_scale: multiplies the rewards of sampled batches (not those of logs); ``"auto"``: one over
        the spread of the returns in the transitions before the first update
        (:func:`~sb3_greendc.discrete_sac.buffers.natural_scale`), kept and saved; 1 with a fixed
        ``ent_coef``, which is in units of the reward
    :param combine: ``"min"`` of the twin critics, or their ``"mean"``, where success is rare
    :param critic_loss: ``"mse"`` or ``"huber"``
    :param q_clip: hold each critic within this distance of its target network (scaled reward units)
    :param entropy_penalty: β of the penalty on changes of the entropy since collection (scaled reward units)
    :param target_update_interval: updates between updates of the target
    :param actor_trains_encoder: let the actor's loss move the encoder too
    :param actor_starts: updates before which actor, encoder and temperature rest, while critics settle
    :param warmup: ``"uniform"`` valid actions before ``learning_starts``, or the ``"policy"``'s own
    :param n_critics: 2, or 1
    :param preset: ``"rare"``: RARE's Algorithm 1 (no entropy, one critic, no target network)
    :param stats_window_size: episodes in the logged means
    :param tensorboard_log: folder for TensorBoard
    :param policy_kwargs: arguments of the policy, ``net_arch=[64, 64]`` (all heads) among them
    :param verbose: 0 none, 1 information, 2 debugging
    :param seed: of all random generators
    :param device: ``"auto"``, ``"cpu"``, ``"cuda"``, ...
    :param _init_setup_model: whether to build the networks at once
    :raises ValueError: for spaces or options that make no sense, alone or together
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": MlpPolicy,
        "CnnPolicy": CnnPolicy,
        "MultiInputPolicy": MultiInputPolicy,
    }
    policy: DiscreteSACPolicy

    def __init__(
        self,
        policy: str | type[DiscreteSACPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule = 1e-3,
        buffer_size: int = 1_000_000,
        learning_starts: int = 1000,
        batch_size: int = 128,
        tau: float = 0.02,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: str | float = "auto",
        target_entropy_ratio: float = 0.3,
        target_entropy_ratio_final: float | None = None,
        soft_critic: bool = False,
        reward_scale: float | str = "auto",
        combine: str = "min",
        critic_loss: str = "mse",
        q_clip: float | None = None,
        entropy_penalty: float = 0.0,
        target_update_interval: int = 1,
        actor_trains_encoder: bool = False,
        actor_starts: int = 0,
        warmup: str = "uniform",
        n_critics: int = 2,
        preset: str | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        given = {"soft_critic": soft_critic, "ent_coef": ent_coef, "tau": tau, "n_critics": n_critics}
        chosen = apply_preset(self.presets, preset, given, DiscreteSAC.__init__)
        super().__init__(
            policy,
            env,
            learning_rate=learning_rate,
            buffer_size=buffer_size,
            learning_starts=learning_starts,
            batch_size=batch_size,
            tau=chosen["tau"],
            gamma=gamma,
            train_freq=train_freq,
            gradient_steps=gradient_steps,
            replay_buffer_class=replay_buffer_class,
            replay_buffer_kwargs=dict(replay_buffer_kwargs or {}),
            optimize_memory_usage=optimize_memory_usage,
            n_steps=n_steps,
            policy_kwargs={"n_critics": chosen["n_critics"], **(policy_kwargs or {})},
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            device=device,
            seed=seed,
            sde_support=False,
            supported_action_spaces=(spaces.Discrete,),
            support_multi_env=True,
        )
        self.algorithm_name = "DiscreteSAC"
        self.ent_coef: str | float = chosen["ent_coef"]
        self.target_entropy_ratio = target_entropy_ratio
        self.target_entropy_ratio_final = target_entropy_ratio_final
        self.soft_critic: bool = chosen["soft_critic"]
        self.reward_scale = reward_scale
        self.scale: float | None = None
        self.combine = combine
        self.critic_loss = critic_loss
        self.q_clip = q_clip
        self.entropy_penalty = entropy_penalty
        self.target_update_interval = target_update_interval
        self.actor_trains_encoder = actor_trains_encoder
        self.actor_starts = actor_starts
        self.warmup = warmup
        self.preset = preset
        self.log_ent_coef: th.Tensor | None = None
        self.ent_coef_optimizer: th.optim.Optimizer | None = None
        self._resting: list[str] = []
        """Names of the encoder's parameters that rest with the actor."""
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        self._check_options()
        check_spaces(self.observation_space, self.action_space)
        if self.replay_buffer_class is None:
            is_dict = isinstance(self.observation_space, spaces.Dict)
            self.replay_buffer_class = DictNStepReplayBuffer if is_dict else FlatNStepReplayBuffer
        # SB3 would refuse n-step returns on Dict observations, and warn that a class of one's own ignores
        # them: ours does not. What the user gave for the buffer stays as it is, so that options which
        # `load` sets count.
        given, n_steps = self.replay_buffer_kwargs, self.n_steps
        self.replay_buffer_kwargs, self.n_steps = self._buffer_arguments(self.replay_buffer_class), 1
        super()._setup_model()
        self.replay_buffer_kwargs, self.n_steps = given, n_steps
        self.log_ent_coef = None
        self._follow_temperature()
        self._follow_scale()

    # ------------------------------------------------------------------ learning

    def train(self, gradient_steps: int, batch_size: int = 256) -> None:
        """Do ``gradient_steps`` updates of critics, actor, temperature and target.

        One backward pass serves critics and actor: their losses share no parameters, since the actor sees
        detached features and constant values (with ``actor_trains_encoder`` the gradients add up in the
        encoder, as they should). The encoder's pass over the batch is shared too. One kernel steps all
        optimizers.
        """
        self._follow_options()
        policy = self.policy
        policy.set_training_mode(True)
        optimizers = [policy.actor_optimizer, policy.critic_optimizer]
        if self.ent_coef_optimizer is not None:
            optimizers.append(self.ent_coef_optimizer)
        self._update_learning_rate(optimizers)
        ratio = self._current_entropy_ratio()
        if self.scale is None:
            assert self.replay_buffer is not None
            self.scale = natural_scale(self.replay_buffer, self.gamma, self._vec_normalize_env)

        history: list[th.Tensor] = []
        for _ in range(gradient_steps):
            trains_actor = self._n_updates >= self.actor_starts
            if not trains_actor or self._resting:
                # An actor rests only if the features that it reads rest too.
                self._rest_encoder(not trains_actor)
            batch = self._sample_batch(batch_size)
            alpha = self._temperature()
            loss = self.losses(batch, alpha)

            total, ent_coef_loss = loss.critic, th.zeros_like(loss.actor)
            clear_gradients(optimizers)
            stepping = [policy.critic_optimizer]
            if trains_actor:
                total = total + loss.actor
                stepping.append(policy.actor_optimizer)
                if self.log_ent_coef is not None and self.ent_coef_optimizer is not None:
                    # The loss is linear in log α: its gradient needs no backward pass.
                    gradient = losses.temperature_gradient(loss.entropy, loss.n_valid, ratio)
                    ent_coef_loss = self.log_ent_coef.detach() * gradient
                    self.log_ent_coef.grad = gradient
                    stepping.append(self.ent_coef_optimizer)

            total.backward()  # type: ignore[no-untyped-call]
            step_together(stepping)
            if self.log_ent_coef is not None:
                self.log_ent_coef.data.clamp_(*LOG_ENT_COEF_RANGE)

            # Counted over the whole of training: within one call, an interval of 2 would never be reached
            # at gradient_steps=1.
            self._n_updates += 1
            if self._n_updates % self.target_update_interval == 0:
                policy.update_targets(self.tau)
            history.append(th.stack([loss.critic.detach(), loss.actor.detach(), ent_coef_loss.detach()]))

        self._log(th.stack(history).mean(dim=0), loss, alpha, ratio)

    def _rest_encoder(self, rests: bool) -> None:
        """Keep the encoder's gradient away, or let it in again; parameters that others froze stay frozen."""
        parameters = dict(self.policy.features_extractor.named_parameters())
        if rests and not self._resting:
            self._resting = [name for name, parameter in parameters.items() if parameter.requires_grad]
        for name in self._resting:
            parameters[name].requires_grad_(not rests)
        if not rests:
            self._resting = []

    def losses(self, batch: NStepSamples, alpha: th.Tensor | float) -> Losses:
        """Return the losses of a batch, and what they were made of.

        :param batch: transitions, rewards scaled
        :param alpha: temperature, a constant here
        """
        policy = self.policy
        mask = action_mask_of(batch.observations)
        with th.no_grad():
            next_features = policy.encode(batch.next_observations)
            follows_at_once = self.tau == 1.0 and self.target_update_interval == 1  # the target is the critic
            next_q = (
                policy.q_values(next_features)
                if follows_at_once
                else policy.target_q_values(batch.next_observations)
            )
            target = losses.soft_target(
                batch.rewards.flatten(),
                batch.dones.flatten(),
                batch.discounts.flatten(),
                policy.logits(next_features),
                next_q,
                action_mask_of(batch.next_observations),
                alpha,
                self.combine,
                self.soft_critic,
            )

        features = policy.encode(batch.observations)
        q = policy.q_values(features)
        taken = batch.actions.long().squeeze(1).expand(q.shape[0], -1).unsqueeze(2)
        q_taken = q.gather(2, taken).squeeze(2)
        if self.q_clip is None:
            critic_loss = losses.critic_loss(q_taken, target, self.critic_loss)
        else:
            with th.no_grad():
                target_q_taken = policy.target_q_values(batch.observations).gather(2, taken).squeeze(2)
            critic_loss = losses.clipped_critic_loss(q_taken, target_q_taken, target, self.q_clip)

        logits = policy.logits(features if self.actor_trains_encoder else features.detach())
        log_pi = masked_log_softmax(logits, mask)
        values = losses.combine_critics(q, self.combine)
        actor_loss = losses.actor_loss(log_pi, values, alpha)
        entropy = losses.policy_entropy(log_pi)
        if batch.old_entropies is not None:
            old_entropies = batch.old_entropies.flatten()
            actor_loss = actor_loss + losses.entropy_penalty_loss(
                entropy, old_entropies, self.entropy_penalty
            )
        return Losses(
            critic_loss,
            actor_loss,
            entropy.detach(),
            losses.count_valid(mask, logits),
            q_taken.detach(),
            target,
        )

    def _sample_batch(self, batch_size: int) -> NStepSamples:
        """Return transitions with scaled rewards, from our buffers or from any of SB3's."""
        assert self.replay_buffer is not None
        samples = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
        discounts = getattr(samples, "discounts", None)
        return NStepSamples(
            samples.observations,
            samples.actions,
            samples.next_observations,
            samples.dones,
            samples.rewards if self.scale in (None, 1.0) else samples.rewards * self.scale,
            th.full_like(samples.rewards, self.gamma) if discounts is None else discounts,
            getattr(samples, "old_entropies", None),
        )

    def _temperature(self) -> th.Tensor | float:
        if self.log_ent_coef is None:
            return initial_temperature(self.ent_coef)
        return self.log_ent_coef.detach().exp()

    def _current_entropy_ratio(self) -> float:
        """Return ρ at the present progress."""
        if self.target_entropy_ratio_final is None:
            return self.target_entropy_ratio
        final, remaining = self.target_entropy_ratio_final, max(self._current_progress_remaining, 0.0)
        return final + (self.target_entropy_ratio - final) * remaining

    def _log(self, means: th.Tensor, last: Losses, alpha: th.Tensor | float, ratio: float) -> None:
        """Record the mean losses of this call, and statistics of its last batch."""
        q_taken = last.q_taken
        statistics = {
            "entropy": last.entropy.mean(),
            "target_entropy": ratio * last.n_valid.log().mean(),
            "q_mean": q_taken.mean(),
            "q_max": q_taken.max(),
            "twin_gap": (q_taken[0] - q_taken[-1]).abs().mean(),
            "td_abs": (q_taken - last.target).abs().mean(),
            "n_valid": last.n_valid.mean(),
            "ent_coef": th.as_tensor(alpha, device=q_taken.device),
        }
        # One copy from the device for all of them.
        values = th.cat([means, th.stack(list(statistics.values()))]).tolist()
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, value in zip(
            ("critic_loss", "actor_loss", "ent_coef_loss", *statistics), values, strict=True
        ):
            if name != "ent_coef_loss" or self.learns_temperature:
                self.logger.record(f"train/{name}", value)

    def learn(
        self: SelfDiscreteSAC,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 4,
        tb_log_name: str = "DiscreteSAC",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> SelfDiscreteSAC:
        """Collect ``total_timesteps`` transitions and learn from them; see SB3.

        :param total_timesteps: transitions, of all environments together
        :param callback: called at every step
        :param log_interval: episodes between logs
        :param tb_log_name: name of the run in TensorBoard
        :param reset_num_timesteps: start counting from 0 (and reset the environments)
        :param progress_bar: show progress
        """
        return super().learn(
            total_timesteps=total_timesteps,
            callback=callback,
            log_interval=log_interval,
            tb_log_name=tb_log_name,
            reset_num_timesteps=reset_num_timesteps,
            progress_bar=progress_bar,
        )

    # ------------------------------------------------------------------ saving

    @classmethod
    def load(
        cls: type[SelfDiscreteSAC], path: str | pathlib.Path | io.BufferedIOBase, *args: Any, **kwargs: Any
    ) -> SelfDiscreteSAC:
        """Load a model from a zip file; see SB3 for the arguments. Options may change, by name or ``preset``.

        :raises ValueError: if the file was saved by another algorithm, ``env`` has other spaces, or
            ``preset`` or ``n_critics`` asks for another number of critics
        """
        check_saved_algorithm(path, "DiscreteSAC")
        model = super().load(path, *args, **kwargs)
        check_networks(path, model, kwargs)
        return model

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_resting"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        self._follow_temperature()  # the parameters are those of the options that are saved
        state_dicts = ["policy", "policy.actor_optimizer", "policy.critic_optimizer"]
        if self.ent_coef_optimizer is None:
            return state_dicts, []
        return [*state_dicts, "ent_coef_optimizer"], ["log_ent_coef"]
