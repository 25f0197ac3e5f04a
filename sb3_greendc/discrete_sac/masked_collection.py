"""How DiscreteSAC collects transitions: valid actions alone, and nothing that is not finite."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.common.utils import obs_as_tensor

from sb3_greendc.core.masking import check_normalization
from sb3_greendc.discrete_sac.buffers import POLICY_ENTROPY, DictNStepReplayBuffer, FlatNStepReplayBuffer
from sb3_greendc.discrete_sac.collection import (
    FiniteCollection,
    live_masks,
    require_finite,
    uniform_valid_actions,
)
from sb3_greendc.discrete_sac.losses import policy_entropy
from sb3_greendc.discrete_sac.policies import DiscreteSACPolicy


class MaskedCollection(FiniteCollection):
    """The half of DiscreteSAC that acts in environments; the other half learns from what it stores."""

    action_space: spaces.Discrete
    policy: DiscreteSACPolicy
    warmup: str
    entropy_penalty: float

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._collection_entropies: NDArray[np.float32] | None = None
        """Of the policy where it acted, ``(n_envs,)``."""

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return one valid action an environment: uniform in the warm-up, then the policy's.

        :raises ValueError: if a mask allows no action, or is not made of zeros and ones
        """
        assert self._last_obs is not None
        masks = live_masks(self._last_obs, n_envs, int(self.action_space.n))
        if self.warmup == "uniform" and self.num_timesteps < learning_starts:
            actions = uniform_valid_actions(masks, self.action_space.np_random)
            self._collection_entropies = np.log(masks.sum(axis=1)).astype(np.float32)
        else:
            with th.no_grad():
                observations = obs_as_tensor(cast("Any", self._last_obs), self.device)
                log_pi = self.policy.action_log_probs(observations)
                actions = self.policy.sample_actions(log_pi).cpu().numpy()
                if self.entropy_penalty > 0:
                    self._collection_entropies = policy_entropy(log_pi).cpu().numpy()
        return actions, actions

    def _note(self, infos: list[dict[str, Any]]) -> None:
        """Add the policy's entropy where it acted."""
        if self.entropy_penalty > 0:
            assert self._collection_entropies is not None
            for info, entropy in zip(infos, self._collection_entropies, strict=True):
                info[POLICY_ENTROPY] = entropy

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        check_normalization(self._vec_normalize_env)
        resets = reset_num_timesteps or self._last_obs is None
        buffer = self.replay_buffer
        if resets and isinstance(buffer, (DictNStepReplayBuffer, FlatNStepReplayBuffer)):
            # The environments start again: n-step returns must not run on into other episodes.
            buffer.end_trajectories()
        total_timesteps, callback = super()._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        require_finite("observation", cast("Any", self._last_obs))
        return total_timesteps, callback

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_collection_entropies"]
