"""How training that has diverged is told from a mistake in a program."""

from __future__ import annotations

import re

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm

_OF_DISTRIBUTIONS = re.compile(
    r"Expected (parameter|value argument) .* but found invalid values"
    r"|probability tensor contains either `inf`, `nan` or element < 0"
    r"|normal expects all elements of std >= 0",
    re.DOTALL,
)
"""What torch says of a distribution whose parameters are not finite, or whose scale is 0 or below."""


class DivergedError(ValueError):
    """Training has diverged: weights, or the distributions made of them, are of no use."""


def divergence_of(model: BaseAlgorithm, cause: BaseException | None = None) -> str | None:
    """Return what shows that a model has diverged, ``None`` if nothing does.

    Weights may be finite where what is computed of them is not: a logarithm of a scale of -200 makes a scale
    of 0, and large weights make activations overflow. Then torch refuses the distribution of the actions.

    :param model: the model
    :param cause: what ended its training or its evaluation, if something did
    """
    if not all(bool(th.isfinite(parameter).all()) for parameter in model.policy.parameters()):
        return "weights are not finite"
    if isinstance(cause, RuntimeError | ValueError) and _OF_DISTRIBUTIONS.search(str(cause)):
        return "actions have no distribution any more: its parameters are not finite, or its scale is 0"
    return None


def require_finite(model: BaseAlgorithm, cause: Exception | None = None) -> None:
    """Raise a :class:`DivergedError` if a model has diverged.

    :param model: the model
    :param cause: what ended training
    :raises DivergedError: saying after how many steps
    """
    shown = divergence_of(model, cause)
    if shown is not None:
        raise DivergedError(
            f"training has diverged: {shown} after {model.num_timesteps:,} steps; a lower learning_rate may "
            "help"
        ) from cause
