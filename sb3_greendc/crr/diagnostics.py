"""What a model thinks of its data: agreement with each source, and signs that values run away.

Everything is measured on fixed transitions, evenly spaced through each source, and in units of the data's
rewards (values are divided by the model's reward scale).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch as th

from sb3_greendc.core.masking import action_mask_of, mask_logits, masked_log_softmax
from sb3_greendc.crr.box_policies import BoxCRRPolicy
from sb3_greendc.crr.losses import combine_critics
from sb3_greendc.crr.policies import CRRPolicy
from sb3_greendc.crr.updates import Batch, draw

if TYPE_CHECKING:
    from sb3_greendc.crr.crr import CRR
    from sb3_greendc.crr.data import TrainingData


class Opinions(NamedTuple):
    """What a model thinks of transitions, each ``(B,)`` and in scaled units.

    :param agrees: whether the policy's best action is the data's; for ``Box`` actions, how far the mean is
        from it, as a share of the action's range
    :param q_taken: value of the data's action, critics combined
    :param v: value of the state under the policy
    :param q_best: value of the best action; for ``Box`` actions, of the policy's mean
    :param best: the best action by value, ``None`` for ``Box`` actions
    """

    agrees: th.Tensor
    q_taken: th.Tensor
    v: th.Tensor
    q_best: th.Tensor
    best: th.Tensor | None


def diagnose(model: CRR, data: TrainingData) -> dict[str, float]:
    """Return diagnostics by the names under which they are logged; see the documentation page.

    :param model: its policy is left in evaluation mode
    :param data: the model's data
    """
    model.policy.set_training_mode(False)
    batch = data.batch(data.probe_rows)
    scale = model.scale or 1.0
    seen = opinions(model, batch)
    agreement = "action_error" if isinstance(model.policy, BoxCRRPolicy) else "agreement"
    values = {f"data/{agreement}": float(seen.agrees.mean())}
    has_critic = model.weight_mode != "bc"
    advantage = seen.q_taken - seen.v
    weights = model.weights_of(advantage, moving=False)
    for i, name in enumerate(data.dataset.sources):
        rows = th.from_numpy(data.probe_source == i).to(seen.agrees.device)
        values[f"sources/{name}/{agreement}"] = float(seen.agrees[rows].mean())
        if has_critic:
            values[f"sources/{name}/accept_frac"] = float((weights[rows] > 0).float().mean())
            values[f"sources/{name}/advantage_mean"] = float(advantage[rows].mean()) / scale
            values[f"sources/{name}/weight_mean"] = float(weights[rows].mean())
    if has_critic:
        values |= _overestimation(model, data, seen, scale)
    return values


def _overestimation(model: CRR, data: TrainingData, seen: Opinions, scale: float) -> dict[str, float]:
    """Return how values compare with what the data got."""
    values = {"data/q_gap": float((seen.q_best - seen.q_taken).mean()) / scale}
    returns, known = data.returns.values[data.probe_rows], data.returns.known[data.probe_rows]
    if known.any():
        q = seen.q_taken.double().cpu().numpy() / scale
        values["data/q_minus_return"] = float((q - returns)[known].mean())
    starts = data.returns.starts
    values["data/return_start"] = float(data.returns.values[starts].mean())
    values["data/value_start"] = float(opinions(model, data.batch(data.start_rows)).v.mean()) / scale
    if seen.best is not None:
        unseen = np.isin(seen.best.cpu().numpy(), data.actions_seen, invert=True)
        values["data/best_unseen"] = float(unseen.mean())
    return values


@th.no_grad()
def opinions(model: CRR, batch: Batch) -> Opinions:
    """Return what a model thinks of transitions."""
    if isinstance(model.policy, BoxCRRPolicy):
        return _box_opinions(model, model.policy, batch)
    return _discrete_opinions(model, model.policy, batch)


def _discrete_opinions(model: CRR, policy: CRRPolicy, batch: Batch) -> Opinions:
    mask = action_mask_of(batch.observations)
    features = policy.encode(batch.observations)
    log_pi = masked_log_softmax(policy.logits(features), mask)
    q = combine_critics(policy.q_values(features), model.combine)
    q_taken = q.gather(1, batch.actions.unsqueeze(1)).squeeze(1)
    best_value, best = mask_logits(q, mask).max(dim=1)
    agrees = (log_pi.argmax(dim=1) == batch.actions).float()
    return Opinions(agrees, q_taken, (log_pi.exp() * q).sum(dim=1), best_value, best)


def _box_opinions(model: CRR, policy: BoxCRRPolicy, batch: Batch) -> Opinions:
    actions = policy.scaled(batch.actions)
    features = policy.encode(batch.observations)
    distribution = policy.distribution(features)
    k = model.n_value_samples
    # The same draws every time: differences between two logs are the model's.
    drawn = draw(distribution, k, th.Generator().manual_seed(0)).flatten(0, 1)
    repeated = features.expand(k, *features.shape).flatten(0, 1)
    q_drawn = combine_critics(policy.q_values(repeated, drawn), model.combine)
    q_taken = combine_critics(policy.q_values(features, actions), model.combine)
    q_mean = combine_critics(policy.q_values(features, distribution.mean), model.combine)
    error = (distribution.mean - actions).abs().mean(dim=1) / 2.0
    return Opinions(error, q_taken, q_drawn.view(k, -1).mean(dim=0), q_mean, None)


def warn_of_divergence(model: CRR, numbers: Mapping[str, float], greatest_reward: float) -> bool:
    """Warn if values exceed what the rewards allow, ``max |r| / (1 - γ)``; return whether it was so.

    :param model: its scale and discount count
    :param numbers: ``q_max`` and ``q_min`` of a batch, scaled
    :param greatest_reward: greatest absolute reward of the data, not scaled
    """
    if model.gamma >= 1.0 or "q_max" not in numbers:
        return False
    scale = model.scale or 1.0
    bound = greatest_reward * scale / (1.0 - model.gamma)
    greatest = max(abs(numbers["q_max"]), abs(numbers["q_min"]))
    if greatest <= bound or bound == 0.0:
        return False
    warnings.warn(
        f"CRR: a value of {greatest / scale:.4g} after {model.num_timesteps} steps, where rewards of at most "
        f"{greatest_reward:.4g} and gamma={model.gamma} allow {bound / scale:.4g}: values are running away "
        "(a smaller learning rate or tau, combine='min', or cql_alpha above 0 may help)",
        stacklevel=4,
    )
    return True
