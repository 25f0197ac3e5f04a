"""Action masks: one place that turns logits and masks into distributions, for every algorithm.

The mask travels in ``Dict`` observations under the key ``action_mask`` (int8 or bool, one entry per
action, non-zero where the action is valid), so that buffers, datasets and recurrent policies carry
it without plumbing. Environments offer ``action_masks()`` too, sb3-contrib's convention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch as th
from stable_baselines3.common.vec_env import VecNormalize

ACTION_MASK = "action_mask"
"""The key of the mask in ``Dict`` observations."""
MASKED_LOGIT = -1e8
"""The logit of an invalid action: finite, since ``0 * inf`` is NaN, and far below any logit in use."""

_MANY_ROWS = 32


def effective_mask(mask: th.Tensor) -> th.Tensor:
    """Return the mask as booleans, with rows that are zero throughout turned into ones.

    Terminal observations may carry an all-zero mask; their values are multiplied by zero, but a
    distribution over no action would be NaN, and ``NaN * 0`` is NaN still.

    :param mask: ``(B, A)``, any dtype, non-zero where valid
    :raises ValueError: if a mask of floats holds other numbers than 0 and 1, as a normalized one does
    """
    if mask.is_floating_point() and not ((mask == 0) | (mask == 1)).all():
        raise ValueError(
            f"{ACTION_MASK} holds numbers other than 0 and 1. If VecNormalize made them: pass norm_obs_keys "
            "with the other keys only"
        )
    mask = mask.bool()
    return mask | ~mask.any(dim=-1, keepdim=True)


def mask_logits(logits: th.Tensor, mask: th.Tensor | None) -> th.Tensor:
    """Return the logits with those of invalid actions set to :data:`MASKED_LOGIT`.

    :param logits: ``(B, A)``
    :param mask: ``(B, A)``, or ``None`` where every action is valid
    :raises ValueError: if the shapes differ
    """
    if mask is None:
        return logits
    if mask.shape != logits.shape:
        raise ValueError(f"mask of shape {tuple(mask.shape)} for logits of shape {tuple(logits.shape)}")
    return th.where(effective_mask(mask), logits, th.full_like(logits, MASKED_LOGIT))


def masked_log_softmax(logits: th.Tensor, mask: th.Tensor | None) -> th.Tensor:
    """Return log-probabilities over the valid actions; invalid ones get about :data:`MASKED_LOGIT`.

    The probabilities (``exp``) of invalid actions are exactly 0, and the rows sum to 1.

    :param logits: ``(B, A)``
    :param mask: ``(B, A)``, or ``None`` where every action is valid
    """
    logits = mask_logits(logits, mask)
    if logits.dim() != 2 or len(logits) < _MANY_ROWS:
        return th.log_softmax(logits, dim=-1)
    # torch's kernel takes rows of a dozen numbers one by one; along the other axis it takes sixteen at once.
    return logits.t().contiguous().log_softmax(dim=0).t()


def action_mask_of(observations: Any) -> th.Tensor | None:
    """Return the mask that a ``Dict`` observation carries, ``None`` for observations without one."""
    if isinstance(observations, Mapping) and ACTION_MASK in observations:
        mask: th.Tensor = observations[ACTION_MASK]
        return mask
    return None


def check_normalization(env: VecNormalize | None) -> None:
    """Raise a ``ValueError`` if ``VecNormalize`` would normalize the masks, which makes them no masks.

    :param env: what normalizes the observations of an algorithm, if anything does
    """
    if env is not None and env.norm_obs and ACTION_MASK in (env.norm_obs_keys or ()):
        raise ValueError(
            f"VecNormalize normalizes {ACTION_MASK!r}: pass norm_obs_keys with the other keys only"
        )
