"""Categorical distributions for SB3's policies without the checks and second passes of torch's own."""

from __future__ import annotations

from typing import Any

import torch as th
from sb3_contrib.common.maskable.distributions import MaskableCategorical, MaskableCategoricalDistribution
from stable_baselines3.common.distributions import CategoricalDistribution
from torch.distributions import Categorical

from sb3_greendc.core.masking import MASKED_LOGIT, masked_log_softmax


class _LogProbabilities:
    """What both distributions do with log-probabilities ``(B, A)``."""

    log_pi: th.Tensor

    def log_prob(self, actions: th.Tensor) -> th.Tensor:
        """Return the log-probabilities ``(B,)`` of actions ``(B,)``."""
        return self.log_pi.gather(1, actions.long().reshape(-1, 1)).squeeze(1)

    def entropy(self) -> th.Tensor:
        """Return the entropies ``(B,)``."""
        return -(self.log_pi.exp() * self.log_pi).sum(dim=1)

    def sample(self) -> th.Tensor:
        """Draw an action a row, ``(B,)``: from the same numbers as torch's distribution."""
        return th.multinomial(self.log_pi.exp().contiguous(), 1, True).squeeze(1)

    def mode(self) -> th.Tensor:
        """Return the most likely actions, ``(B,)``."""
        return self.log_pi.argmax(dim=1)


class LeanCategorical(_LogProbabilities, CategoricalDistribution):
    """:class:`~stable_baselines3.common.distributions.CategoricalDistribution`, in less time."""

    def proba_distribution(self, action_logits: th.Tensor) -> LeanCategorical:
        """Set the logits ``(B, A)``."""
        self.log_pi = masked_log_softmax(action_logits, None)
        return self

    @property
    def distribution(self) -> Any:
        """The distribution as one of torch's, made when asked for."""
        return Categorical(logits=self.log_pi)

    @distribution.setter
    def distribution(self, value: object) -> None:
        """Take what SB3's constructor sets, which is nothing."""


class LeanMaskableCategorical(_LogProbabilities, MaskableCategoricalDistribution):
    """sb3-contrib's ``MaskableCategoricalDistribution``, in less time."""

    def __init__(self, action_dim: int) -> None:
        super().__init__(action_dim)
        self._logits = th.empty(0)
        self._masks: th.Tensor | None = None
        self._log_pi: th.Tensor | None = None

    @property
    def log_pi(self) -> th.Tensor:  # type: ignore[override]
        """Log-probabilities under the mask, ``(B, A)``."""
        if self._log_pi is None:
            logits = self._logits
            if self._masks is not None:
                logits = th.where(self._masks, logits, MASKED_LOGIT)
            self._log_pi = masked_log_softmax(logits, None)
        return self._log_pi

    def proba_distribution(self, action_logits: th.Tensor) -> LeanMaskableCategorical:
        """Set the logits ``(B, A)``, without a mask."""
        self._logits = action_logits.view(-1, self.action_dim)
        self._masks = self._log_pi = None
        return self

    def apply_masking(self, masks: Any) -> None:
        """Make actions impossible; see sb3-contrib.

        :param masks: ``(B, A)``, true where valid; ``None`` for no mask
        """
        self._log_pi = None
        self._masks = masks
        if masks is not None:
            masks = th.as_tensor(masks, dtype=th.bool, device=self._logits.device)
            self._masks = masks.reshape(self._logits.shape)

    @property
    def distribution(self) -> Any:
        """The distribution as sb3-contrib's, made when asked for."""
        return MaskableCategorical(logits=self._logits, masks=self._masks)

    @distribution.setter
    def distribution(self, value: object) -> None:
        """Take what SB3's constructor sets, which is nothing."""
