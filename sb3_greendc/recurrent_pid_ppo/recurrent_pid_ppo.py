"""Recurrent PPO that keeps the cost of an episode under a limit."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from sb3_contrib.ppo_recurrent import RecurrentPPO
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import MaybeCallback, PyTorchObs

from sb3_greendc.pid_ppo.lagrangian import CostValueFunction, PIDLagrangian
from sb3_greendc.recurrent_pid_ppo.buffers import (
    PaddedCostsMixin,
    RecurrentCostDictRolloutBuffer,
    RecurrentCostRolloutBuffer,
    RecurrentCostRolloutBufferSamples,
)
from sb3_greendc.recurrent_pid_ppo.policies import (
    CnnLstmPolicy,
    CocorlPolicy,
    CostRecurrentActorCriticPolicy,
    MlpLstmPolicy,
    MultiInputLstmPolicy,
)

SelfRecurrentPIDLagrangianPPO = TypeVar("SelfRecurrentPIDLagrangianPPO", bound="RecurrentPIDLagrangianPPO")


class RecurrentPIDLagrangianPPO(PIDLagrangian, RecurrentPPO):
    """:class:`~sb3_greendc.pid_ppo.PIDLagrangianPPO` for policies with an LSTM: CoCoRL's form.

    Use it where one observation does not show all that matters, such as job arrivals or power with a memory.
    Unlike sb3-contrib's ``RecurrentPPO`` it obeys action masks. Callers of :meth:`predict` pass on ``state``
    and ``episode_start``. With ``cost_limit=math.inf`` it is ``RecurrentPPO`` with masks, and needs no cost.

    :param policy: ``"CocorlPolicy"`` (two layers, then the LSTM; for vector and ``Dict`` observations),
        ``"MlpLstmPolicy"``, ``"CnnLstmPolicy"``, ``"MultiInputLstmPolicy"``, or a subclass of theirs
    :param env: an environment whose ``step`` reports ``info["cost"]``, a float >= 0
    :param kwargs: as for :class:`~sb3_greendc.pid_ppo.PIDLagrangianPPO`, with the keywords of sb3-contrib's
        ``RecurrentPPO`` in place of ``PPO``'s
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "CocorlPolicy": CocorlPolicy,
        "MlpLstmPolicy": MlpLstmPolicy,
        "CnnLstmPolicy": CnnLstmPolicy,
        "MultiInputLstmPolicy": MultiInputLstmPolicy,
    }
    policy_base: ClassVar[type[BasePolicy]] = CostRecurrentActorCriticPolicy
    policy: CostRecurrentActorCriticPolicy
    rollout_buffer: PaddedCostsMixin

    def _setup_model(self) -> None:
        super()._setup_model()
        # RecurrentPPO has no option for the buffer's class.
        is_dict = isinstance(self.observation_space, spaces.Dict)
        buffer_class = RecurrentCostDictRolloutBuffer if is_dict else RecurrentCostRolloutBuffer
        self.rollout_buffer = buffer_class(
            self.n_steps,
            self.observation_space,
            self.action_space,
            self.rollout_buffer.hidden_state_shape,
            self.device,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            n_envs=self.n_envs,
        )

    def _cost_value_function(self) -> CostValueFunction:
        # The buffer holds the critic's state before each step; the state before step n_steps is the latest.
        buffer = self.rollout_buffer
        hidden, cell = (
            np.concatenate([states, latest.cpu().numpy()[None]])
            for states, latest in zip(
                (buffer.hidden_states_vf, buffer.cell_states_vf),
                cast("RNNStates", self._last_lstm_states).vf,
                strict=True,
            )
        )

        def cost_values(
            obs: PyTorchObs,
            steps: npt.NDArray[np.intp],
            envs: npt.NDArray[np.intp],
            episode_starts: npt.NDArray[Any],
        ) -> npt.NDArray[np.float32]:
            def states(array: npt.NDArray[np.float32]) -> th.Tensor:
                return th.as_tensor(array[steps, :, envs], device=self.device).transpose(0, 1).contiguous()

            starts = th.as_tensor(episode_starts, dtype=th.float32, device=self.device)
            with th.no_grad():
                tensor = self.policy.predict_cost_values(obs, (states(hidden), states(cell)), starts)
            values: npt.NDArray[np.float32] = tensor.flatten().cpu().numpy()
            return values

        return cost_values

    def _evaluate(
        self, data: RecurrentCostRolloutBufferSamples, actions: th.Tensor
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor | None, Any]:
        # sb3-contrib's buffers keep the actions' dtype, and Bernoulli distributions refuse integers.
        if isinstance(self.action_space, spaces.MultiBinary):
            actions = actions.float()
        evaluated = self.policy.evaluate_actions_with_cost(
            data.observations, actions, data.lstm_states, data.episode_starts, data.action_masks
        )
        return *evaluated, data.mask > 1e-8

    def learn(
        self: SelfRecurrentPIDLagrangianPPO,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str = "RecurrentPIDLagrangianPPO",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> SelfRecurrentPIDLagrangianPPO:
        """Train for a number of environment steps, as in Stable-Baselines3."""
        return super().learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )
