"""What tells CRR's imitation which actions of the data to follow: state values and advantage weights.

Plain functions of tensors, without gradient. With ``A = Q(s, a) - V(s)`` for the action ``a`` of the data,
an action's log-likelihood counts with weight ``1`` where ``A > 0`` (``"binary"``), ``min(exp(A / β), w_max)``
(``"exp"``), or always ``1`` (``"bc"``: behavioral cloning). See Wang et al., arXiv 2006.15134.
"""

from __future__ import annotations

import torch as th

WEIGHTS = ("binary", "exp", "bc")
"""Names of the weights."""
STATE_VALUES = ("exact", "mean", "sample", "max", "max_sample")
"""Names of the state values; ``"sample"`` is another name of ``"mean"``."""


@th.no_grad()
def advantage_weights(
    advantage: th.Tensor, mode: str = "binary", beta: float = 1.0, max_weight: float = 20.0
) -> th.Tensor:
    """Return the weights of actions, constants of the same shape as their advantages.

    :param advantage: ``Q(s, a) - V(s)``, any shape
    :param mode: ``"binary"``: 1 where the advantage is above 0, strictly (an action that is merely as good as
        the policy is not imitated); ``"exp"``: ``min(exp(A / beta), max_weight)``; ``"bc"``: 1
    :param beta: temperature of ``"exp"``, in units of the advantage; smaller is greedier
    :param max_weight: greatest weight of ``"exp"``
    :raises ValueError: for another mode
    """
    if mode == "binary":
        return (advantage > 0).to(advantage.dtype)
    if mode == "exp":
        return (advantage / beta).exp().clamp(max=max_weight)
    if mode == "bc":
        return th.ones_like(advantage)
    raise ValueError(f"mode={mode!r}: must be one of {', '.join(map(repr, WEIGHTS))}")


@th.no_grad()
def state_value(
    q: th.Tensor,
    log_pi: th.Tensor,
    mask: th.Tensor | None = None,
    mode: str = "exact",
    k: int = 4,
    generator: th.Generator | None = None,
) -> th.Tensor:
    """Return the values ``(B,)`` of states, from those of their actions.

    :param q: values of the actions, critics combined, ``(B, A)``
    :param log_pi: log-probabilities of the policy over the valid actions, ``(B, A)``
    :param mask: valid actions, ``(B, A)``, or ``None`` where all are
    :param mode: ``"exact"``: ``Σ π(a|s) q(s, a)``; ``"mean"`` (or ``"sample"``): the mean over ``k`` actions
        drawn from the policy; ``"max"``: the greatest over the valid actions; ``"max_sample"``: over ``k``
        actions drawn
    :param k: number of actions drawn
    :param generator: source of randomness; torch's own if ``None``
    :raises ValueError: for another mode
    """
    if mode == "exact":
        return (log_pi.exp() * _only_valid(q, mask, 0.0)).sum(dim=-1)
    if mode == "max":
        return _only_valid(q, mask, -th.inf).amax(dim=-1)
    if mode in ("mean", "sample", "max_sample"):
        return value_of_samples(q.gather(1, draw_actions(log_pi, k, generator)), mode)
    raise ValueError(f"mode={mode!r}: must be one of {', '.join(map(repr, STATE_VALUES))}")


def value_of_samples(q_samples: th.Tensor, mode: str) -> th.Tensor:
    """Return mean or maximum of the values of drawn actions, over the last axis.

    :param q_samples: ``(..., k)``
    :param mode: ``"mean"`` (or ``"sample"``), or ``"max"`` (or ``"max_sample"``)
    :raises ValueError: for another mode
    """
    if mode in ("mean", "sample"):
        return q_samples.mean(dim=-1)
    if mode in ("max", "max_sample"):
        return q_samples.amax(dim=-1)
    raise ValueError(f"mode={mode!r}: must be one of 'mean', 'sample', 'max', 'max_sample'")


def draw_actions(log_pi: th.Tensor, k: int, generator: th.Generator | None = None) -> th.Tensor:
    """Draw ``k`` actions a row, with replacement, ``(B, k)``; never one whose probability is 0.

    The numbers come from the generator's own device, so that a run on another device draws the same.

    :param log_pi: ``(B, A)``
    :param k: draws a row
    :param generator: source of randomness; torch's own if ``None``
    """
    # Of independent exponential times with rates π(a), the first is that of action a with probability π(a).
    device = log_pi.device if generator is None else generator.device
    times = th.empty((log_pi.shape[0], k, log_pi.shape[1]), device=device).exponential_(generator=generator)
    return (log_pi.unsqueeze(1) - times.to(log_pi.device).log()).argmax(dim=-1)


def _only_valid(q: th.Tensor, mask: th.Tensor | None, otherwise: float) -> th.Tensor:
    """Return the values with those of invalid actions replaced; a row without valid actions stays."""
    if mask is None:
        return q
    valid = mask.bool()
    return th.where(valid | ~valid.any(dim=-1, keepdim=True), q, otherwise)
