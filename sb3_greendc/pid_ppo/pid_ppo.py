"""PPO that keeps the cost of an episode under a limit."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import MaybeCallback, PyTorchObs
from stable_baselines3.ppo import PPO

from greendc.config import require
from sb3_greendc.pid_ppo.buffers import CostDictRolloutBuffer, CostRolloutBuffer, CostRolloutBufferSamples
from sb3_greendc.pid_ppo.job_set import CostJobSetPolicy
from sb3_greendc.pid_ppo.lagrangian import CostValueFunction, PIDLagrangian
from sb3_greendc.pid_ppo.policies import CnnPolicy, CostActorCriticPolicy, MlpPolicy, MultiInputPolicy

SelfPIDLagrangianPPO = TypeVar("SelfPIDLagrangianPPO", bound="PIDLagrangianPPO")


class PIDLagrangianPPO(PIDLagrangian, PPO):
    """Proximal policy optimization under a limit on the expected cost per episode.

    Maximizes the reward subject to ``E[sum of info["cost"] over an episode] <= cost_limit``. A PID controller
    sets the Lagrange multiplier once per rollout, from the undiscounted cost of the episodes that finished in
    it; the policy then follows the advantage ``(A_R - lambda * A_C) / (1 + lambda)``. Use it where a penalty
    in the reward would need tuning to land on a limit that is known: lateness, carbon, energy.

    Papers: CoCoRL (Venkataswamy, "Job Scheduling in Datacenters using Constraint Controlled RL"); Stooke,
    Achiam, Abbeel, arXiv 2007.03964. ``docs/pid_ppo.md`` says how to choose the settings, and what each
    logged figure means.

    Observations and actions: any that PPO takes. ``Discrete`` and ``MultiDiscrete`` actions are masked if the
    observation is a ``Dict`` with the key ``action_mask``, or else if the environment has ``action_masks()``
    (then give ``action_masks=`` to :meth:`predict`).

    :param policy: ``"MlpPolicy"``, ``"CnnPolicy"``, ``"MultiInputPolicy"``, or a subclass of theirs
    :param env: an environment whose ``step`` reports ``info["cost"]``, a float >= 0; without a limit it need
        not report any
    :param cost_limit: undiscounted cost allowed per episode, in the units of ``info["cost"]``; ``inf``: no
        limit, and training is PPO's, number by number. Required; ``load`` restores it
    :param preset: controller settings by name: ``"default"``, ``"cocorl"`` or ``"stooke"``
    :param min_episodes: update the multiplier only when so many episodes have finished since the last update
    :param adv_norm: ``"combined"`` (normalize the combined advantage by minibatch, as PPO does),
        ``"separate"``, ``"center"`` or ``"none"``, see :func:`~sb3_greendc.pid_ppo.combine_advantages`
    :param cost_gamma: discount factor of the cost critic; ``None``: ``gamma``. 1 is fine for finite episodes
    :param cost_gae_lambda: GAE factor of the cost; ``None``: ``gae_lambda``
    :param cost_vf_coef: weight of the cost critic's loss; ``None``: ``vf_coef``, and 0 without a limit
    :param clip_range_cost_vf: clipping of the cost critic's change, in units of cost; ``None``: none
    :param kwargs: settings of the controller in place of the preset's (``scale``, ``kp``, ``ki``, ``kd``,
        ``p_ema``, ``d_ema``, ``delay``, ``init``, ``lambda_max``, ``ema_init``: see
        :class:`~sb3_greendc.pid_ppo.PIDController`), and the keywords of Stable-Baselines3's ``PPO`` except
        ``normalize_advantage``, which ``adv_norm`` replaces
    :raises ValueError: if a setting is out of range, or an environment reports a negative or non-finite cost
    :raises KeyError: at the first step, if there is a limit and an environment reports no cost
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": MlpPolicy,
        "CnnPolicy": CnnPolicy,
        "MultiInputPolicy": MultiInputPolicy,
        "CostJobSetPolicy": CostJobSetPolicy,
    }
    policy_base: ClassVar[type[BasePolicy]] = CostActorCriticPolicy
    policy: CostActorCriticPolicy
    rollout_buffer: CostRolloutBuffer

    def _choose_rollout_buffer(self) -> None:
        is_dict = isinstance(self.observation_space, spaces.Dict)
        if self.rollout_buffer_class is None:
            self.rollout_buffer_class = CostDictRolloutBuffer if is_dict else CostRolloutBuffer
        buffers_cost = issubclass(self.rollout_buffer_class, CostRolloutBuffer)
        require(buffers_cost, "rollout_buffer_class", self.rollout_buffer_class, "a CostRolloutBuffer")

    def _cost_value_function(self) -> CostValueFunction:
        def cost_values(obs: PyTorchObs, *place: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
            with th.no_grad():
                values: npt.NDArray[np.float32] = self.policy.predict_cost_values(obs).flatten().cpu().numpy()
            return values

        return cost_values

    def _evaluate(
        self, data: CostRolloutBufferSamples, actions: th.Tensor
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor | None, Any]:
        evaluated = self.policy.evaluate_actions_with_cost(data.observations, actions, data.action_masks)
        return *evaluated, ...

    def learn(
        self: SelfPIDLagrangianPPO,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str = "PIDLagrangianPPO",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> SelfPIDLagrangianPPO:
        """Train for a number of environment steps, as in Stable-Baselines3."""
        return super().learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )
