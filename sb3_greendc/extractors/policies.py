"""Policies that SB3's algorithms need to use masks from observations, or heads that an extractor brings.

SB3 puts a flat perceptron behind every extractor. :class:`JobSetExtractor`'s features are a set, and the
policies here read them with its own heads, so that PPO, A2C, MaskablePPO and DQN get a network that treats
jobs alike and fits any ready pool. DiscreteSAC and CRR need none of these.

=========================  ================================  ==============================
policy                     for                               mask
=========================  ================================  ==============================
MaskedActorCriticPolicy    PPO, A2C, behavioral cloning      from the observation
JobSetPolicy               the same, with a job set          from the observation
MaskableJobSetPolicy       MaskablePPO                       given, or from the observation
JobSetDQNPolicy            DQN                               none: DQN knows no masks
=========================  ================================  ==============================
"""

from __future__ import annotations

from typing import Any, cast

import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule, TensorDict
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import nn

from sb3_greendc.core.lean_adam import LeanAdam
from sb3_greendc.core.lean_policy import LeanPolicy
from sb3_greendc.core.masking import action_mask_of, effective_mask, mask_logits
from sb3_greendc.extractors.combined import MaskedCombinedExtractor
from sb3_greendc.extractors.distributions import LeanCategorical, LeanMaskableCategorical
from sb3_greendc.extractors.frozen import FreezableExtractor
from sb3_greendc.extractors.heads import Heads, make_activation, make_heads
from sb3_greendc.extractors.job_set import JobSetExtractor, JobSetFeatures


class MaskedActorCriticPolicy(ActorCriticPolicy):
    """SB3's actor-critic policy for ``Dict`` observations, with invalid actions masked out.

    The mask is the observation's ``action_mask``, so that algorithms that know nothing of masks (PPO, A2C,
    behavioral cloning) never choose an invalid action, and ``predict`` needs no extra argument.

    :param observation_space: ``Dict``
    :param action_space: ``Discrete``
    :param lr_schedule: learning rate as a function of the remaining progress
    :param features_extractor_class: by default SB3's combined extractor, less the mask
    :param kwargs: further arguments of :class:`~stable_baselines3.common.policies.ActorCriticPolicy`
    :raises ValueError: for another action space
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        *,
        features_extractor_class: type[BaseFeaturesExtractor] = MaskedCombinedExtractor,
        **kwargs: Any,
    ) -> None:
        if not isinstance(action_space, spaces.Discrete):
            raise ValueError(f"action space {action_space}: must be Discrete")
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            features_extractor_class=features_extractor_class,
            **kwargs,
        )

    def _latents(self, obs: PyTorchObs) -> tuple[th.Tensor, th.Tensor]:
        """Return what the action and value layers read."""
        features = self.extract_features(obs)
        if isinstance(features, tuple):
            actor_features, critic_features = features
            return (
                self.mlp_extractor.forward_actor(actor_features),
                self.mlp_extractor.forward_critic(critic_features),
            )
        latents: tuple[th.Tensor, th.Tensor] = self.mlp_extractor(features)
        return latents

    def _masked_distribution(self, latent_pi: th.Tensor, obs: PyTorchObs) -> Distribution:
        logits = mask_logits(self.action_net(latent_pi), action_mask_of(obs))
        return self.action_dist.proba_distribution(action_logits=logits)

    def forward(self, obs: PyTorchObs, deterministic: bool = False) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Return actions, values and log-probabilities of the actions."""
        latent_pi, latent_vf = self._latents(obs)
        distribution = self._masked_distribution(latent_pi, obs)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, self.value_net(latent_vf), distribution.log_prob(actions)

    def evaluate_actions(
        self, obs: PyTorchObs, actions: th.Tensor
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor | None]:
        """Return values, log-probabilities of the actions, and entropies."""
        latent_pi, latent_vf = self._latents(obs)
        distribution = self._masked_distribution(latent_pi, obs)
        return self.value_net(latent_vf), distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: PyTorchObs) -> Distribution:
        """Return the masked distribution of actions."""
        return self._masked_distribution(self._latents(obs)[0], obs)


class JobSetInputs(LeanPolicy):
    """A policy or a network that reads a job set without its empty slots, if it has one.

    As a base after one of SB3's policies it extracts features for all of that policy's methods.
    """

    def extract_features(self, obs: PyTorchObs, features_extractor: BaseFeaturesExtractor) -> Any:
        """Return :class:`JobSetFeatures` from a :class:`JobSetExtractor`, a tensor from any other.

        :param obs: observations as tensors
        :param features_extractor: the extractor
        """
        if not isinstance(features_extractor, JobSetExtractor):
            return super().extract_features(obs, features_extractor)
        space = cast("spaces.Dict", self.observation_space)
        inputs = features_extractor.preprocess(cast("TensorDict", obs), space, self.normalize_images)
        return features_extractor.encode(inputs)


class _SetLatents(nn.Module):
    """Stands where SB3 expects its ``MlpExtractor``; the actor's latent *is* the logits.

    :param extractor: whose features are read
    :param n_actions: number of logits
    :param net_arch: widths for ``pi`` and ``vf``
    :param activation_fn: activation after each hidden layer
    """

    def __init__(
        self,
        extractor: JobSetExtractor,
        n_actions: int,
        net_arch: list[int] | dict[str, list[int]],
        activation_fn: type[nn.Module],
    ) -> None:
        super().__init__()
        if isinstance(net_arch, dict):
            actor_arch, critic_arch = net_arch.get("pi", []), net_arch.get("vf", [])
        else:
            actor_arch = critic_arch = net_arch
        self.actor_heads = extractor.make_heads(n_actions, 1, actor_arch, activation_fn)
        layers: list[nn.Module] = []
        width = extractor.context_dim
        for hidden in critic_arch:
            layers += [nn.Linear(width, hidden), make_activation(activation_fn)]
            width = hidden
        self.critic_net = nn.Sequential(*layers)
        self.latent_dim_pi = n_actions
        self.latent_dim_vf = width

    def forward(self, features: th.Tensor | JobSetFeatures) -> tuple[th.Tensor, th.Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: th.Tensor | JobSetFeatures) -> th.Tensor:
        logits: th.Tensor = self.actor_heads(features).squeeze(0)
        return logits

    def forward_critic(self, features: th.Tensor | JobSetFeatures) -> th.Tensor:
        """The value of a set is read from the context, which pools it."""
        context = self.actor_heads.split(features)[1] if isinstance(features, th.Tensor) else features.context
        latent: th.Tensor = self.critic_net(context)
        return latent


def _asking(features: Any, mask: th.Tensor | None) -> Any:
    """Return features, of the actor or of both, that ask heads for the scores of valid jobs alone."""
    if mask is None:
        return features
    if isinstance(features, tuple):
        return _asking(features[0], mask), features[1]
    return features.asking(mask) if isinstance(features, JobSetFeatures) else features


def _set_latents(policy: ActorCriticPolicy | MaskableActorCriticPolicy) -> _SetLatents:
    """Return the latents of a policy, in the place of SB3's ``MlpExtractor``."""
    extractor, action_space = policy.features_extractor, policy.action_space
    if not isinstance(extractor, JobSetExtractor) or not isinstance(action_space, spaces.Discrete):
        raise ValueError(
            f"features_extractor_class={type(extractor).__name__} with actions {action_space}: "
            "must be a JobSetExtractor with Discrete actions"
        )
    return _SetLatents(extractor, int(action_space.n), policy.net_arch, policy.activation_fn)


def _use_set_logits(policy: ActorCriticPolicy | MaskableActorCriticPolicy, lr_schedule: Schedule) -> None:
    """Drop the action layer that SB3 put behind the logits, and make a new optimizer without it."""
    policy.action_net = nn.Identity()
    options = dict(policy.optimizer_kwargs)
    if policy.optimizer_class in (th.optim.Adam, th.optim.AdamW):
        # One fused kernel for the whole step: the loop over parameters costs more than the arithmetic.
        options = {"fused": True, **options}
    # A first policy that is nearly uniform, as SB3's own initialization of the action layer gives it.
    cast("Heads", policy.mlp_extractor.actor_heads).scale_output(0.01)
    chosen = LeanAdam if policy.optimizer_class is th.optim.Adam else policy.optimizer_class
    policy.optimizer = chosen(
        policy.parameters(),
        lr=lr_schedule(1),  # type: ignore[call-arg]
        **options,
    )


class JobSetPolicy(FreezableExtractor, MaskedActorCriticPolicy, JobSetInputs):
    """:class:`MaskedActorCriticPolicy` with a :class:`JobSetExtractor` and its heads, for PPO and A2C.

    :param observation_space: of the resource-pool family
    :param action_space: one action a ready job, then ``suspend`` and ``no_op``
    :param lr_schedule: learning rate as a function of the remaining progress
    :param features_extractor_class: :class:`JobSetExtractor` or a class derived from it
    :param kwargs: ``freeze_extractor``, ``True`` to leave the extractor untrained, and further arguments of
        :class:`~stable_baselines3.common.policies.ActorCriticPolicy`
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        *,
        features_extractor_class: type[BaseFeaturesExtractor] = JobSetExtractor,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            features_extractor_class=features_extractor_class,
            **kwargs,
        )

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = _set_latents(self)  # type: ignore[assignment]  # SB3 uses its four members only

    def _build(self, lr_schedule: Schedule) -> None:
        self.action_dist = LeanCategorical(int(cast("spaces.Discrete", self.action_space).n))
        super()._build(lr_schedule)
        _use_set_logits(self, lr_schedule)

    def extract_features(
        self, obs: PyTorchObs, features_extractor: BaseFeaturesExtractor | None = None
    ) -> Any:
        """Return features, or the actor's and the critic's; see SB3.

        :param obs: observations as tensors
        :param features_extractor: instead of the policy's own
        """
        features = super().extract_features(obs, features_extractor)
        return _asking(features, self._certain_mask(obs))

    def _certain_mask(self, obs: PyTorchObs) -> th.Tensor | None:
        """Return the mask outside which logits are not looked at; ``None`` if all are."""
        return action_mask_of(obs)


class MaskableJobSetPolicy(FreezableExtractor, MaskableActorCriticPolicy, JobSetInputs):
    """sb3-contrib's maskable policy with a :class:`JobSetExtractor` and its heads, for MaskablePPO.

    ``predict`` and :meth:`get_distribution` obey the observation's mask where no other is given; pass ones
    for none. :meth:`forward` and :meth:`evaluate_actions`, which train, obey given masks alone, so that
    ``learn(use_masking=False)`` is what it says.

    :param observation_space: of the resource-pool family
    :param action_space: one action a ready job, then ``suspend`` and ``no_op``
    :param lr_schedule: learning rate as a function of the remaining progress
    :param features_extractor_class: :class:`JobSetExtractor` or a class derived from it
    :param kwargs: ``freeze_extractor``, and further arguments of ``MaskableActorCriticPolicy``
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        *,
        features_extractor_class: type[BaseFeaturesExtractor] = JobSetExtractor,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            features_extractor_class=features_extractor_class,
            **kwargs,
        )

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = _set_latents(self)  # type: ignore[assignment]

    def _build(self, lr_schedule: Schedule) -> None:
        self.action_dist = LeanMaskableCategorical(int(cast("spaces.Discrete", self.action_space).n))
        super()._build(lr_schedule)
        _use_set_logits(self, lr_schedule)

    def forward(
        self, obs: PyTorchObs, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Return actions, values and log-probabilities of the actions.

        :param obs: observations as tensors
        :param deterministic: the most likely actions instead of draws
        :param action_masks: ``(B, A)``, true where valid; default: every action is
        """
        distribution, values = self._outputs(obs, action_masks)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, values, distribution.log_prob(actions)

    def evaluate_actions(
        self, obs: PyTorchObs, actions: th.Tensor, action_masks: Any = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor | None]:
        """Return values, log-probabilities of the actions, and entropies.

        :param obs: observations as tensors
        :param actions: actions taken
        :param action_masks: ``(B, A)``, true where valid; default: every action is
        """
        distribution, values = self._outputs(obs, action_masks)
        return values, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: PyTorchObs, action_masks: Any = None) -> LeanMaskableCategorical:
        """Return the distribution of actions.

        :param obs: observations as tensors
        :param action_masks: ``(B, A)``, true where valid; default: the observation's, if it has any
        """
        features = JobSetInputs.extract_features(self, obs, self.pi_features_extractor)
        mask = self._tensor_of(action_masks)
        if mask is None and (seen := action_mask_of(obs)) is not None:
            mask = effective_mask(seen)
        return self._distribution(features, mask)

    def _outputs(self, obs: PyTorchObs, action_masks: Any) -> tuple[LeanMaskableCategorical, th.Tensor]:
        """Return the distribution of actions, and the values, with one pass through a shared extractor."""
        features = self.extract_features(obs)
        pi_features, vf_features = features if isinstance(features, tuple) else (features, features)
        values: th.Tensor = self.value_net(self.mlp_extractor.forward_critic(vf_features))
        return self._distribution(pi_features, self._tensor_of(action_masks)), values

    def _distribution(self, features: Any, mask: th.Tensor | None) -> LeanMaskableCategorical:
        logits = self.mlp_extractor.forward_actor(_asking(features, mask))
        distribution = cast("LeanMaskableCategorical", self.action_dist.proba_distribution(logits))
        distribution.apply_masking(mask)
        return distribution

    def _tensor_of(self, action_masks: Any) -> th.Tensor | None:
        if action_masks is None:
            return None
        mask = th.as_tensor(action_masks, dtype=th.bool, device=self.device)
        return mask.reshape(-1, int(cast("spaces.Discrete", self.action_space).n))


class _HeadsQNetwork(QNetwork, JobSetInputs):
    """DQN's network with the extractor's own heads."""

    q_net: Heads  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.q_net = make_heads(
            self.features_extractor, int(self.action_space.n), 1, self.net_arch, self.activation_fn
        )

    def forward(self, obs: PyTorchObs) -> th.Tensor:
        values: th.Tensor = self.q_net(self.extract_features(obs, self.features_extractor))[0]
        return values


class JobSetDQNPolicy(DQNPolicy):
    """DQN's policy with a :class:`JobSetExtractor` and its heads.

    DQN knows no masks: its invalid actions count as ``no_op`` in the environment.

    :param observation_space: of the resource-pool family
    :param action_space: one action a ready job, then ``suspend`` and ``no_op``
    :param lr_schedule: learning rate as a function of the remaining progress
    :param features_extractor_class: :class:`JobSetExtractor`, or any extractor
    :param kwargs: further arguments of :class:`~stable_baselines3.dqn.policies.DQNPolicy`
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Discrete,
        lr_schedule: Schedule,
        *,
        features_extractor_class: type[BaseFeaturesExtractor] = JobSetExtractor,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            features_extractor_class=features_extractor_class,
            **kwargs,
        )

    def make_q_net(self) -> QNetwork:
        """Return a new network with its own extractor."""
        return _HeadsQNetwork(**self._update_features_extractor(self.net_args)).to(self.device)
