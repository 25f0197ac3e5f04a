"""Actor-critic policies with a cost critic and action masks, for :class:`PIDLagrangianPPO`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    BaseModel,
    MultiInputActorCriticPolicy,
)
from stable_baselines3.common.torch_layers import create_mlp
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from sb3_greendc.core.masking import ACTION_MASK, action_mask_of, mask_logits
from sb3_greendc.pid_ppo.buffers import CostRolloutBuffer
from sb3_greendc.pid_ppo.return_scale import Moments, ReturnScale


def n_maskable_actions(action_space: spaces.Space[Any]) -> int | None:
    """Return the length of an action mask, ``None`` for spaces that cannot be masked.

    ``MultiDiscrete`` masks are the masks of its components one after another, as in sb3-contrib.
    """
    if isinstance(action_space, spaces.Discrete):
        return int(action_space.n)
    if isinstance(action_space, spaces.MultiDiscrete) and action_space.nvec.ndim == 1:
        return int(action_space.nvec.sum())
    return None


def allow_nothing(masks: npt.NDArray[Any], action_space: spaces.Space[Any]) -> npt.NDArray[np.bool_]:
    """Tell which masks allow no action, or no action of a component of ``MultiDiscrete``.

    :param masks: ``(..., A)``, non-zero where valid
    :param action_space: one that can be masked
    """
    sizes = action_space.nvec if isinstance(action_space, spaces.MultiDiscrete) else masks.shape[-1:]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    empty: npt.NDArray[np.bool_] = (np.add.reduceat(masks != 0, starts, axis=-1) == 0).any(axis=-1)
    return empty


class MaskSource:
    """The masks of environments, step by step, for the time of one rollout.

    :param env: the training environments
    :param buffer: takes the masks, too
    """

    of_one_rollout = True
    """Checkpoints leave such objects out, see :class:`~sb3_greendc.runs.object_graphs.GraphEncoder`."""

    def __init__(self, env: VecEnv, buffer: CostRolloutBuffer) -> None:
        self._env, self._buffer = env, buffer

    def __call__(self) -> th.Tensor:
        """Return the masks of this step, ``(n_envs, A)``, on the buffer's device."""
        masks = get_action_masks(self._env)
        self._buffer.add_action_masks(masks)
        return th.as_tensor(masks, device=self._buffer.device)


class MaskedActorMixin(ActorCriticPolicy):
    """Draw actions under masks: given ones, or those in the observation's ``action_mask``.

    Stable-Baselines3 builds the distribution from the actor's latent code alone. So each public method notes
    the mask for the time of its call, and :meth:`_get_action_dist_from_latent` applies it; nothing else of
    the parent changes. Works for feed-forward and recurrent policies, and leaves them as they are where there
    is no mask.

    :raises ValueError: if the observation has a mask that does not fit the action space
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._mask: th.Tensor | None = None
        self.mask_source: MaskSource | None = None
        """Asked for masks by each forward pass while a rollout is collected, see ``PIDLagrangian``."""
        super().__init__(*args, **kwargs)
        if isinstance(self.observation_space, spaces.Dict) and ACTION_MASK in self.observation_space.spaces:
            n_actions = n_maskable_actions(self.action_space)
            shape = self.observation_space[ACTION_MASK].shape
            if n_actions is None:
                raise ValueError(
                    f"the observation has {ACTION_MASK!r}, but only Discrete and MultiDiscrete actions can "
                    f"be masked, not {self.action_space}"
                )
            if shape != (n_actions,):
                raise ValueError(
                    f"the observation's {ACTION_MASK!r} has shape {shape}: must be {(n_actions,)}, one entry "
                    f"per action of {self.action_space}"
                )

    @contextmanager
    def _masking(self, obs: Any, action_masks: th.Tensor | None = None) -> Generator[None, None, None]:
        """Apply a mask within: the given one, or that of an enclosing call, or the observation's."""
        outer = self._mask
        if action_masks is not None:
            self._mask = action_masks
        elif outer is None:
            self._mask = action_mask_of(obs)
        try:
            yield
        finally:
            self._mask = outer

    def _get_action_dist_from_latent(self, latent_pi: th.Tensor) -> Distribution:
        if self._mask is None:
            return super()._get_action_dist_from_latent(latent_pi)
        logits = self.action_net(latent_pi)
        mask = self._mask.reshape(len(logits), -1)
        if isinstance(self.action_space, spaces.MultiDiscrete):
            # By component: each of them has a valid action, even if its part of the mask is all zero.
            sizes = self.action_space.nvec.tolist()
            parts = zip(th.split(logits, sizes, dim=1), th.split(mask, sizes, dim=1), strict=True)
            logits = th.cat([mask_logits(part, part_mask) for part, part_mask in parts], dim=1)
        else:
            logits = mask_logits(logits, mask)
        return self.action_dist.proba_distribution(action_logits=logits)

    def _masked_distribution(self, latent_pi: th.Tensor, obs: PyTorchObs) -> Distribution:
        """Take the place of the method of ``MaskedActorCriticPolicy``, a parent of some policies.

        That one knows the observation's mask alone.
        """
        return self._get_action_dist_from_latent(latent_pi)

    def forward(
        self, obs: PyTorchObs, *args: Any, action_masks: th.Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Return what the parent returns, with actions drawn under the mask.

        :param obs: observation
        :param action_masks: ``(B, A)``; default: those of ``mask_source`` or of the observation, if any
        """
        if action_masks is None and self.mask_source is not None:
            action_masks = self.mask_source()
        with self._masking(obs, action_masks):
            return super().forward(obs, *args, **kwargs)  # type: ignore[arg-type]  # Dict is fine

    def evaluate_actions(
        self, obs: PyTorchObs, *args: Any, action_masks: th.Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Return what the parent returns, for the distribution under the mask.

        :param obs: observation
        :param action_masks: ``(B, A)``; default: those of the observation, if it has any
        """
        with self._masking(obs, action_masks):
            return super().evaluate_actions(obs, *args, **kwargs)

    def get_distribution(
        self, obs: PyTorchObs, *args: Any, action_masks: th.Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Return what the parent returns, under the mask.

        :param obs: observation
        :param action_masks: ``(B, A)``; default: those of the observation, if it has any
        """
        with self._masking(obs, action_masks):
            return super().get_distribution(obs, *args, **kwargs)

    def predict(
        self,
        observation: npt.NDArray[Any] | dict[str, npt.NDArray[Any]],
        state: tuple[npt.NDArray[Any], ...] | None = None,
        episode_start: npt.NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: npt.NDArray[Any] | None = None,
    ) -> tuple[npt.NDArray[Any], tuple[npt.NDArray[Any], ...] | None]:
        """Return actions, and the next state of a recurrent policy.

        :param observation: one observation or a batch
        :param state: state of a recurrent policy
        :param episode_start: whether each observation starts an episode; for recurrent policies
        :param deterministic: the most probable action instead of a draw
        :param action_masks: masks that the observation does not carry, non-zero where valid
        """
        masks = None if action_masks is None else th.as_tensor(np.asarray(action_masks), device=self.device)
        with self._masking(None, masks):
            return super().predict(observation, state, episode_start, deterministic)


class CostCriticMixin(MaskedActorMixin):
    """A second critic, of the discounted cost, as a tower and head of its own: ``cost_net``.

    Its layers are ``net_arch["cost"]``, by default those of the value function. It is built before the
    optimizer, which therefore trains it, and from a forked random generator, so that actor and value function
    start as PPO's do at the same seed.

    :param args: as for the parent
    :param normalize_returns: whether both critics learn returns less their mean, in units of their standard
        deviation (:class:`~sb3_greendc.pid_ppo.return_scale.ReturnScale`)
    :param kwargs: as for the parent
    """

    cost_net: nn.Sequential

    def __init__(self, *args: Any, normalize_returns: bool = False, **kwargs: Any) -> None:
        self.normalize_returns = normalize_returns
        super().__init__(*args, **kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        data["normalize_returns"] = self.normalize_returns
        return data

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        if self.normalize_returns:  # after the initialization, which is that of the last layer
            self.value_net = nn.Sequential(self.value_net, ReturnScale())  # type: ignore[assignment]
            self.cost_net.append(ReturnScale())

    def update_return_scales(
        self, returns: npt.NDArray[np.floating], cost_returns: npt.NDArray[np.floating]
    ) -> None:
        """Show the returns of a rollout to the critics, if they normalize them.

        :param returns: of the reward, any shape
        :param cost_returns: of the cost, any shape
        """
        if self.normalize_returns:
            value_scale, cost_scale = self._return_scales()
            value_scale.update(returns)
            cost_scale.update(cost_returns)

    def return_moments(self) -> tuple[Moments, Moments]:
        """Return the moments that the critics learn the reward's and the cost's returns by.

        Those of returns that are not normalized are 0 and 1.
        """
        if not self.normalize_returns:
            return Moments(), Moments()
        value_scale, cost_scale = self._return_scales()
        return value_scale.moments, cost_scale.moments

    def _return_scales(self) -> tuple[ReturnScale, ReturnScale]:
        value_scale = cast("ReturnScale", cast("nn.Sequential", self.value_net)[-1])
        return value_scale, cast("ReturnScale", self.cost_net[-1])

    def _build_mlp_extractor(self) -> None:
        super()._build_mlp_extractor()
        with th.random.fork_rng(devices=[]):
            self._build_cost_critic()

    def _cost_latent_dim(self) -> int:
        """Return the size of what the cost tower reads, which is what the value function's tower reads."""
        return self.features_dim

    def _build_cost_critic(self) -> None:
        arch = self.net_arch
        layers = arch.get("cost", arch.get("vf", [])) if isinstance(arch, dict) else arch
        self.cost_net = nn.Sequential(*create_mlp(self._cost_latent_dim(), 1, layers, self.activation_fn))
        if self.ortho_init:
            self.cost_net.apply(partial(self.init_weights, gain=float(np.sqrt(2))))
            self.init_weights(self.cost_net[-1], gain=1)


class CostActorCriticPolicy(CostCriticMixin):
    """Actor, value function and cost critic for vector observations.

    :param args: as for Stable-Baselines3's ``ActorCriticPolicy``
    :param share_cost_features_extractor: whether the cost critic reads the value function's features; with
        ``False`` it gets a features extractor of its own, for costs much larger than rewards
    :param kwargs: as for Stable-Baselines3's ``ActorCriticPolicy``; ``net_arch`` may have an entry ``"cost"``
    """

    def __init__(self, *args: Any, share_cost_features_extractor: bool = True, **kwargs: Any) -> None:
        self.share_cost_features_extractor = share_cost_features_extractor
        super().__init__(*args, **kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        data["share_cost_features_extractor"] = self.share_cost_features_extractor
        return data

    def _build_cost_critic(self) -> None:
        super()._build_cost_critic()
        if not self.share_cost_features_extractor:
            self.cost_features_extractor = self.make_features_extractor()
            if self.ortho_init:
                self.cost_features_extractor.apply(partial(self.init_weights, gain=float(np.sqrt(2))))

    def predict_cost_values(self, obs: PyTorchObs) -> th.Tensor:
        """Return the expected discounted cost from here on, ``(B, 1)``.

        :param obs: observation
        """
        extractor = self.vf_features_extractor
        if not self.share_cost_features_extractor:
            extractor = self.cost_features_extractor
        cost_values: th.Tensor = self.cost_net(BaseModel.extract_features(self, obs, extractor))
        return cost_values

    def evaluate_actions_with_cost(
        self, obs: PyTorchObs, actions: th.Tensor, action_masks: th.Tensor | None = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor | None]:
        """Do what ``evaluate_actions`` does, and evaluate the cost, with one pass through the extractor.

        :param obs: observation
        :param actions: actions taken
        :param action_masks: ``(B, A)``; default: those of the observation, if it has any
        :return: values, cost values, log-probabilities of the actions, entropies (``None`` if they have no
            closed form)
        """
        features = self.extract_features(obs)
        pi_features, vf_features = features if isinstance(features, tuple) else (features, features)
        cost_features = vf_features
        if not self.share_cost_features_extractor:
            cost_features = BaseModel.extract_features(self, obs, self.cost_features_extractor)
        values = self.value_net(self.mlp_extractor.forward_critic(vf_features))
        with self._masking(obs, action_masks):
            distribution = self._get_action_dist_from_latent(self.mlp_extractor.forward_actor(pi_features))
        return values, self.cost_net(cost_features), distribution.log_prob(actions), distribution.entropy()


class CostActorCriticCnnPolicy(CostActorCriticPolicy, ActorCriticCnnPolicy):
    """:class:`CostActorCriticPolicy` for images."""


class CostMultiInputActorCriticPolicy(CostActorCriticPolicy, MultiInputActorCriticPolicy):
    """:class:`CostActorCriticPolicy` for ``Dict`` observations."""


MlpPolicy = CostActorCriticPolicy
CnnPolicy = CostActorCriticCnnPolicy
MultiInputPolicy = CostMultiInputActorCriticPolicy
