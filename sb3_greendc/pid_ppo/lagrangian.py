"""What constrains PPO: costs, their critic, and the multiplier. Shared by the two forms of PPO."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.utils import is_masking_supported
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, PyTorchObs, Schedule
from stable_baselines3.common.utils import FloatSchedule, explained_variance, obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv
from torch.nn import functional

from greendc.config import is_number, require
from sb3_greendc.core.costs import COST, EpisodeCosts, costs_of
from sb3_greendc.core.masking import ACTION_MASK, check_normalization
from sb3_greendc.pid_ppo.buffers import CostRolloutBuffer
from sb3_greendc.pid_ppo.controller import settings_of
from sb3_greendc.pid_ppo.policies import CostCriticMixin, MaskSource, allow_nothing, n_maskable_actions
from sb3_greendc.pid_ppo.settings import CONTROLLER_SETTINGS, Controlled, refuse_normalize_advantage

CostValueFunction = Callable[
    [PyTorchObs, npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[Any]], npt.NDArray[np.float32]
]
"""From observations, their steps in the rollout, environments and episode starts to cost values."""
CHUNK = 1024
"""Observations per forward pass when the cost critic evaluates a rollout: bounds the memory for images."""


class PIDLagrangian(Controlled):
    """The difference between PPO and its constrained form; mixed in before ``PPO`` or ``RecurrentPPO``.

    The rollout loop is the parent's. Costs enter through :meth:`_update_info_buffer`, which it calls with the
    ``info`` of each step; masks that only the environment has, through the policy's ``mask_source``. Cost
    values are computed when the rollout is complete: the weights do not change during it, so these are the
    values that a call at each step would have given. :meth:`train` does restate PPO's loop, once for both
    forms: the cost critic's loss must join PPO's before the one backward pass, and the parent's loop has no
    place for it.

    The parameters are those of :class:`~sb3_greendc.pid_ppo.PIDLagrangianPPO`.
    """

    policy_base: ClassVar[type[BasePolicy]]
    rollout_buffer: CostRolloutBuffer
    _warned_of_empty_masks = False
    # Set by PPO and RecurrentPPO, which type some of them differently.
    batch_size: Any
    n_epochs: int
    clip_range: Any
    clip_range_vf: Any
    target_kl: float | None

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str,
        *,
        cost_limit: float | None = None,
        preset: str = "default",
        min_episodes: int = 1,
        adv_norm: str = "combined",
        cost_gamma: float | None = None,
        cost_gae_lambda: float | None = None,
        cost_vf_coef: float | None = None,
        clip_range_cost_vf: float | Schedule | None = None,
        _init_setup_model: bool = True,
        **kwargs: Any,
    ) -> None:
        refuse_normalize_advantage(kwargs)
        given = {name: kwargs.pop(name) for name in CONTROLLER_SETTINGS if name in kwargs}
        kwargs["normalize_advantage"] = adv_norm == "combined"
        super().__init__(policy, env, _init_setup_model=False, **kwargs)
        self.cost_limit = cost_limit
        self.controller_settings = {**settings_of(preset), **given}
        self.min_episodes = min_episodes
        self.adv_norm = adv_norm
        self.cost_gamma = cost_gamma
        self.cost_gae_lambda = cost_gae_lambda
        self.cost_vf_coef = cost_vf_coef
        self.clip_range_cost_vf = clip_range_cost_vf

        self.episode_costs = EpisodeCosts()
        self.masked_by_env = False
        """Whether the actions of a rollout were drawn under masks that observations do not carry."""
        self._warned_of_short_rollouts = False
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        name = type(self).__name__
        if not issubclass(self.policy_class, self.policy_base):
            raise ValueError(
                f"{name} needs a policy with a cost critic, one of {', '.join(self.policy_aliases)} or a "
                f"subclass of theirs, got {self.policy_class.__name__}. A file that another algorithm saved, "
                f"such as PPO, cannot be loaded as {name}"
            )
        if np.any(getattr(self.action_space, "start", 0)):
            raise ValueError(f"action space {self.action_space}: actions must start at 0")
        self.check_settings()
        self.controller = self.new_controller(self.cost_limit, self.controller_settings)
        self._choose_rollout_buffer()
        super()._setup_model()
        if self.clip_range_cost_vf is not None:
            clip = self.clip_range_cost_vf
            usable = callable(clip) or (is_number(clip) and clip > 0.0)
            require(usable, "clip_range_cost_vf", clip, "> 0, a schedule, or None for no clipping")
            self.clip_range_cost_vf = FloatSchedule(clip)

    def _choose_rollout_buffer(self) -> None:
        """Set ``rollout_buffer_class``, where the parent has one."""

    @property
    def lagrange_multiplier(self) -> float:
        """The multiplier in force: the reward that one unit of cost is worth."""
        return self.controller.lagrange_multiplier

    @property
    def _has_limit(self) -> bool:
        """Whether cost is limited. Without a limit the algorithm is its parent, and needs no cost."""
        return not math.isinf(self.controller.cost_limit)

    def _cost_weight(self) -> float:
        """Return the weight of the cost critic's loss: what was given, else the value function's.

        Without a limit nothing reads the cost critic, and its gradient would change the clipping of PPO's.
        """
        if self.cost_vf_coef is not None:
            return self.cost_vf_coef
        return float(self.vf_coef) if self._has_limit else 0.0

    def predict(
        self,
        observation: npt.NDArray[Any] | dict[str, npt.NDArray[Any]],
        state: tuple[npt.NDArray[Any], ...] | None = None,
        episode_start: npt.NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: npt.NDArray[Any] | None = None,
    ) -> tuple[npt.NDArray[Any], tuple[npt.NDArray[Any], ...] | None]:
        """Return actions, and the next state of a recurrent policy.

        :param observation: one observation or a batch; masks under ``action_mask`` are obeyed
        :param state: state of a recurrent policy
        :param episode_start: whether each observation starts an episode; for recurrent policies
        :param deterministic: the most probable action instead of a draw. The optimum of a constrained problem
            often mixes actions, which only draws can do
        :param action_masks: masks that the observation does not carry (sb3-contrib's convention)
        """
        policy = cast("CostCriticMixin", self.policy)
        return policy.predict(observation, state, episode_start, deterministic, action_masks)

    # Collecting

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[int, BaseCallback]:
        check_normalization(self._vec_normalize_env)
        if reset_num_timesteps or self._last_obs is None:  # then the parent resets the environments
            self.episode_costs.restart(self.n_envs)
        return super()._setup_learn(total_timesteps, callback, reset_num_timesteps, *args, **kwargs)

    def _update_info_buffer(
        self, infos: list[dict[str, Any]], dones: npt.NDArray[np.bool_] | None = None
    ) -> None:
        """Take the costs of a step; the rollout loop calls this just before it stores the transition."""
        super()._update_info_buffer(infos, dones)
        assert dones is not None
        self.rollout_buffer.add_costs(self._count_costs(infos, dones), infos, dones)

    def _count_costs(
        self, infos: list[dict[str, Any]], dones: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float64]:
        """Add the costs of a step to those of the episodes, and return them."""
        costs = costs_of(infos if self._has_limit else [{COST: info.get(COST, 0.0)} for info in infos])
        self.episode_costs.add(costs, dones)
        return costs

    @contextmanager
    def _masks_of(self, env: VecEnv) -> Generator[None, None, None]:
        """Give the policy the environments' masks at each step, where observations carry none."""
        space = self.observation_space
        in_observation = isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces
        maskable = n_maskable_actions(self.action_space) is not None
        if in_observation or not maskable or not is_masking_supported(env):
            yield
            return

        self.masked_by_env = True
        policy = cast("CostCriticMixin", self.policy)
        policy.mask_source = MaskSource(env, self.rollout_buffer)
        try:
            yield
        finally:
            policy.mask_source = None

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Collect a rollout as the parent does, then evaluate its costs.

        :param env: the training environment
        :param callback: called at each step
        :param rollout_buffer: the buffer to fill
        :param n_rollout_steps: steps per environment
        :return: ``False`` if the callback stopped the rollout
        """
        n_before = len(self.episode_costs.finished)
        with self._masks_of(env):
            if not super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps):
                # The parent has left before it would have handed over the costs of the last step.
                self._count_costs(callback.locals["infos"], callback.locals["dones"])
                return False
        self._check_masks()
        self._evaluate_costs()
        self._report_episodes(self.episode_costs.finished[n_before:])
        return True

    def _check_masks(self) -> None:
        """Warn, once, of masks in the rollout that allow no action. It holds no observation after an end."""
        masks, seen = self.rollout_buffer.action_masks, self.rollout_buffer.observations
        if masks is None and isinstance(seen, dict):
            masks = seen.get(ACTION_MASK)
        if masks is None or self._warned_of_empty_masks:
            return
        empty = allow_nothing(masks, self.action_space)
        if empty.any():
            self._warned_of_empty_masks = True
            warnings.warn(
                f"The action mask allows no action in {empty.sum()} of the rollout's {empty.size} "
                "decisions, and counts as no mask there: actions are drawn from all",
                UserWarning,
                stacklevel=2,
            )

    def _cost_value_function(self) -> CostValueFunction:
        """Return the cost critic as a function of observations and their places in the rollout."""
        raise NotImplementedError

    def _evaluate_costs(self) -> None:
        """Fill the buffer's cost values, advantages and returns, and note the moments of its values."""
        buffer, cost_values = self.rollout_buffer, self._cost_value_function()
        buffer.moments = cast("CostCriticMixin", self.policy).return_moments()
        steps, envs = np.divmod(np.arange(buffer.buffer_size * buffer.n_envs), buffer.n_envs)
        for start in range(0, len(steps), CHUNK):
            where = steps[start : start + CHUNK], envs[start : start + CHUNK]
            observations = (
                {key: buffer.to_torch(obs[where]) for key, obs in buffer.observations.items()}
                if isinstance(buffer.observations, dict)
                else buffer.to_torch(buffer.observations[where])
            )
            buffer.cost_values[where] = cost_values(observations, *where, buffer.episode_starts[where])

        timeout_values = np.zeros(0, dtype=np.float32)
        if buffer.timeouts:
            at, of, seen = zip(*buffer.timeouts, strict=True)
            batch = (
                {key: np.stack([obs[key] for obs in seen]) for key in seen[0]}
                if isinstance(seen[0], dict)
                else np.stack(seen)
            )
            tensor, _ = self.policy.obs_to_tensor(batch)
            timeout_values = cost_values(tensor, np.array(at) + 1, np.array(of), np.zeros(len(of)))

        assert self._last_obs is not None
        assert self._last_episode_starts is not None
        last_values = cost_values(
            obs_as_tensor(self._last_obs, self.device),
            np.full(buffer.n_envs, buffer.buffer_size),
            np.arange(buffer.n_envs),
            self._last_episode_starts,
        )
        gamma = self.gamma if self.cost_gamma is None else self.cost_gamma
        gae_lambda = self.gae_lambda if self.cost_gae_lambda is None else self.cost_gae_lambda
        buffer.compute_cost_returns_and_advantage(
            last_values, timeout_values, self._last_episode_starts, gamma, gae_lambda
        )

    def _report_episodes(self, finished: list[float]) -> None:
        """Log the episodes that finished in this rollout; warn, once, if there are none."""
        self.logger.record("rollout/ep_cost_n", len(finished))
        if finished:
            mean = float(np.mean(finished))
            self.logger.record("rollout/ep_cost_mean", mean)
            self.logger.record("rollout/cost_violation", max(0.0, mean - self.controller.cost_limit))
        elif self._has_limit and not self._warned_of_short_rollouts:
            self._warned_of_short_rollouts = True
            warnings.warn(
                f"No episode finished in a rollout of n_steps={self.n_steps} steps in each of {self.n_envs} "
                "environments. The Lagrange multiplier follows the cost of finished episodes, and is held "
                "until one finishes: raise n_steps, best to the length of several episodes",
                UserWarning,
                stacklevel=2,
            )

    # Training

    def _update_multiplier(self) -> None:
        """Show the finished episodes to the controller, and combine the advantages with its multiplier."""
        if self._has_limit:
            self.controller.update(self.episode_costs.take_mean(self.min_episodes))
        else:
            self.episode_costs.forget_finished()
        self.logger.record("train/lagrange_multiplier", self.lagrange_multiplier)
        for name, term in zip("pid", self.controller.terms, strict=True):
            self.logger.record(f"train/pid_{name}", term)
        buffer = self.rollout_buffer
        if not buffer.generator_ready:  # else this is a second call of `train` on the same rollout
            self.logger.record("train/adv_r_std", float(buffer.advantages.std()))
            self.logger.record("train/adv_c_std", float(buffer.cost_advantages.std()))
            buffer.combine_advantages(self.lagrange_multiplier, self.adv_norm)

    def _evaluate(
        self, data: Any, actions: th.Tensor
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor | None, Any]:
        """Return values, cost values, log-probabilities, entropies, and the index of the rows that count."""
        raise NotImplementedError

    def train(self) -> None:
        """Update the multiplier, then policy, value function and cost critic, from the rollout.

        This is PPO's loop (arXiv 1707.06347) with three differences: the update of the multiplier before it,
        the combined advantage in place of the reward's, and the cost critic's loss.
        """
        self._update_multiplier()

        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        progress = self._current_progress_remaining
        clip_range = self.clip_range(progress)
        clip_range_vf, clip_range_cost_vf = (
            None if schedule is None else schedule(progress)
            for schedule in (self.clip_range_vf, cast("Schedule | None", self.clip_range_cost_vf))
        )
        # Losses are in raw units, and weigh as in those that the critics learn in.
        policy = cast("CostCriticMixin", self.policy)
        policy.update_return_scales(self.rollout_buffer.returns, self.rollout_buffer.cost_returns)
        moments, cost_moments = policy.return_moments()
        vf_coef, cost_vf_coef = self.vf_coef / moments.std**2, self._cost_weight() / cost_moments.std**2
        old_moments, old_cost_moments = self.rollout_buffer.moments
        logs: dict[str, list[float]] = defaultdict(list)
        continue_training = True

        for epoch in range(self.n_epochs):
            kl_divs = []
            for data in self.rollout_buffer.get(self.batch_size):
                actions = data.actions
                if isinstance(self.action_space, spaces.Discrete):
                    actions = actions.long().flatten()
                values, cost_values, log_prob, entropy, valid = self._evaluate(data, actions)

                advantages = data.advantages[valid]
                if self.adv_norm == "combined" and len(advantages) > 1:
                    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

                # One clipped surrogate, of the combined advantage.
                log_prob = log_prob[valid]
                log_ratio = log_prob - data.old_log_prob[valid]
                ratio = th.exp(log_ratio)
                clipped_ratio = th.clamp(ratio, 1 - clip_range, 1 + clip_range)
                policy_loss = -th.min(advantages * ratio, advantages * clipped_ratio).mean()

                if clip_range_vf is not None:
                    old_values = moments.moved(data.old_values, old_moments)
                    values = _clipped(values, old_values, clip_range_vf * moments.std)
                if clip_range_cost_vf is not None:
                    old_values = cost_moments.moved(data.old_cost_values, old_cost_moments)
                    cost_values = _clipped(cost_values, old_values, clip_range_cost_vf * cost_moments.std)
                value_loss = functional.mse_loss(data.returns[valid], values.flatten()[valid])
                cost_value_loss = functional.mse_loss(data.cost_returns[valid], cost_values.flatten()[valid])
                # -log_prob is an estimate of an entropy without closed form.
                entropy_loss = -th.mean(-log_prob if entropy is None else entropy[valid])

                loss = policy_loss + self.ent_coef * entropy_loss + vf_coef * value_loss
                if cost_vf_coef > 0.0:  # else no gradient at all, and the clipping below is PPO's
                    loss = loss + cost_vf_coef * cost_value_loss

                with th.no_grad():
                    # Unbiased and never negative: http://joschu.net/blog/kl-approx.html
                    kl_div = th.mean((ratio - 1) - log_ratio).item()
                    clip_fraction = th.mean((th.abs(ratio - 1) > clip_range).float()).item()
                kl_divs.append(kl_div)
                logs["policy_gradient_loss"].append(policy_loss.item())
                logs["value_loss"].append(value_loss.item())
                logs["cost_value_loss"].append(cost_value_loss.item())
                logs["entropy_loss"].append(entropy_loss.item())
                logs["clip_fraction"].append(clip_fraction)

                if self.target_kl is not None and kl_div > 1.5 * self.target_kl:
                    continue_training = False
                    if self.verbose >= 1:
                        print(f"Early stopping at step {epoch} due to reaching max kl: {kl_div:.2f}")
                    break

                self.policy.optimizer.zero_grad()
                loss.backward()
                th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
                self.policy.optimizer.step()

            self._n_updates += 1
            if not continue_training:
                break

        for name, entries in logs.items():
            self.logger.record(f"train/{name}", np.mean(entries))
        self.logger.record("train/approx_kl", np.mean(kl_divs))
        self.logger.record("train/loss", loss.item())
        self.logger.record("train/clip_range", clip_range)
        if clip_range_vf is not None:
            self.logger.record("train/clip_range_vf", clip_range_vf)
        if clip_range_cost_vf is not None:
            self.logger.record("train/clip_range_cost_vf", clip_range_cost_vf)
        self._log_state()

    def _log_state(self) -> None:
        """Log what the critics explain of the returns, and the state of the policy."""
        buffer = self.rollout_buffer
        explained = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        cost_explained = explained_variance(buffer.cost_values.flatten(), buffer.cost_returns.flatten())
        self.logger.record("train/explained_variance", explained)
        self.logger.record("train/cost_explained_variance", cost_explained)
        if hasattr(self.policy, "log_std"):
            self.logger.record("train/std", th.exp(self.policy.log_std).mean().item())
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    # Saving

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        # To Stable-Baselines3 the controller is one more module with a state, of plain numbers that load with
        # `weights_only`. `_setup_model` rebuilds it from the settings, which are attributes of the algorithm.
        state_dicts, variables = super()._get_torch_save_params()
        return [*state_dicts, "controller"], variables


def _clipped(values: th.Tensor, old_values: th.Tensor, clip_range: float) -> th.Tensor:
    """Return a critic's values, no further from the old ones than ``clip_range``."""
    return old_values + th.clamp(values.flatten() - old_values, -clip_range, clip_range)
