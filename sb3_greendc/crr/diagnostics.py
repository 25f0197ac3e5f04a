"""What a model thinks of its data: agreement with each source, and signs that values run away.

Everything is measured on fixed transitions, evenly spaced through each source, and in units of the data's
rewards (values are divided by the model's reward scale).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch as th

from sb3_greendc.core.masking import action_mask_of, mask_logits, masked_log_softmax
from sb3_greendc.crr.batches import Batch
from sb3_greendc.crr.box_actions import draw
from sb3_greendc.crr.box_policies import BoxCRRPolicy
from sb3_greendc.crr.config import CRRConfig
from sb3_greendc.crr.data import TrainingData
from sb3_greendc.crr.policies import CRRPolicy
from sb3_greendc.crr.updates import Losses, weights_of
from sb3_greendc.crr.weights import state_value, value_of_samples
from sb3_greendc.discrete_sac.losses import combine_critics


class Opinions(NamedTuple):
    """What a model thinks of transitions, each ``(B,)`` and in scaled units.

    :param agrees: whether the policy's best action is the data's; for ``Box`` actions, how far the mean is
        from it, as a share of the action's range
    :param q_taken: value of the data's action, critics combined
    :param v: value of the state under the policy
    :param baseline: value of the state that training takes from an action's to have its advantage: what
        ``value_mode`` says, with the same draws every time
    :param q_best: value of the best action; for ``Box`` actions, of the policy's mean
    :param best: the best action by value, ``None`` for ``Box`` actions
    """

    agrees: th.Tensor
    q_taken: th.Tensor
    v: th.Tensor
    baseline: th.Tensor
    q_best: th.Tensor
    best: th.Tensor | None


def statistics(last: Losses) -> dict[str, th.Tensor]:
    """Return what is logged of a batch, scalars by name."""
    return {
        "advantage_mean": last.advantage.mean(),
        "advantage_std": last.advantage.std(unbiased=False),
        "weight_mean": last.weights.mean(),
        "weight_max": last.weights.max(),
        "q_mean": last.q_taken.mean(),
        "q_max": last.q_taken.max(),
        "q_min": last.q_taken.min(),
        "twin_gap": (last.q_taken[0] - last.q_taken[-1]).abs().mean(),
        "td_abs": (last.q_taken - last.target).abs().mean(),
    }


def diagnose(
    policy: CRRPolicy | BoxCRRPolicy,
    config: CRRConfig,
    data: TrainingData,
    scale: float,
    advantage_std: th.Tensor,
) -> dict[str, float]:
    """Return diagnostics by the names under which they are logged; see the documentation page.

    :param policy: is left in evaluation mode
    :param config: options
    :param data: what the policy learns from
    :param scale: factor on rewards
    :param advantage_std: running standard deviation of the advantage
    """
    policy.set_training_mode(False)
    batch = data.batch(data.probe_rows)
    seen = opinions(policy, config, batch)
    agreement = "action_error" if isinstance(policy, BoxCRRPolicy) else "agreement"
    values = {f"data/{agreement}": float(seen.agrees.mean())}
    advantage = seen.q_taken - seen.baseline
    weights = weights_of(config, advantage, advantage_std)
    for i, name in enumerate(data.dataset.sources):
        rows = th.from_numpy(data.probe_source == i).to(seen.agrees.device)
        values[f"sources/{name}/{agreement}"] = float(seen.agrees[rows].mean())
        if config.has_critic:
            values[f"sources/{name}/accept_frac"] = float((weights[rows] > 0).float().mean())
            values[f"sources/{name}/advantage_mean"] = float(advantage[rows].mean()) / scale
            values[f"sources/{name}/weight_mean"] = float(weights[rows].mean())
    if config.has_critic:
        starts = opinions(policy, config, data.batch(data.start_rows))
        values |= _overestimation(data, seen, starts, scale)
    return values


def _overestimation(
    data: TrainingData, seen: Opinions, at_starts: Opinions, scale: float
) -> dict[str, float]:
    """Return how values compare with what the data got."""
    values = {"data/q_gap": float((seen.q_best - seen.q_taken).mean()) / scale}
    returns, known = data.returns.values[data.probe_rows], data.returns.known[data.probe_rows]
    if known.any():
        q = seen.q_taken.double().cpu().numpy() / scale
        values["data/q_minus_return"] = float((q - returns)[known].mean())
    starts = data.returns.starts
    values["data/return_start"] = float(data.returns.values[starts].mean())
    values["data/value_start"] = float(at_starts.v.mean()) / scale
    if seen.best is not None:
        unseen = np.isin(seen.best.cpu().numpy(), data.actions_seen, invert=True)
        values["data/best_unseen"] = float(unseen.mean())
    return values


@th.no_grad()
def opinions(policy: CRRPolicy | BoxCRRPolicy, config: CRRConfig, batch: Batch) -> Opinions:
    """Return what a policy and its critics think of transitions."""
    if isinstance(policy, BoxCRRPolicy):
        return _box_opinions(policy, config, batch)
    return _discrete_opinions(policy, config, batch)


def _discrete_opinions(policy: CRRPolicy, config: CRRConfig, batch: Batch) -> Opinions:
    mask = action_mask_of(batch.observations)
    features = policy.encode(batch.observations)
    log_pi = masked_log_softmax(policy.logits(features), mask)
    q = combine_critics(policy.q_values(features), config.combine)
    q_taken = q.gather(1, batch.actions.unsqueeze(1)).squeeze(1)
    best_value, best = mask_logits(q, mask).max(dim=1)
    agrees = (log_pi.argmax(dim=1) == batch.actions).float()
    drawn_by = th.Generator().manual_seed(0)
    baseline = state_value(q, log_pi, mask, config.value_mode, config.n_value_samples, drawn_by)
    return Opinions(agrees, q_taken, (log_pi.exp() * q).sum(dim=1), baseline, best_value, best)


def _box_opinions(policy: BoxCRRPolicy, config: CRRConfig, batch: Batch) -> Opinions:
    actions = policy.scaled(batch.actions)
    features = policy.encode(batch.observations)
    distribution = policy.distribution(features)
    k = config.n_value_samples
    # The same draws every time: differences between two logs are the model's.
    drawn = draw(distribution, k, th.Generator().manual_seed(0)).flatten(0, 1)
    repeated = features.expand(k, *features.shape).flatten(0, 1)
    q_drawn = combine_critics(policy.q_values(repeated, drawn), config.combine)
    q_taken = combine_critics(policy.q_values(features, actions), config.combine)
    q_mean = combine_critics(policy.q_values(features, distribution.mean), config.combine)
    error = (distribution.mean - actions).abs().mean(dim=1) / 2.0
    q_samples = q_drawn.view(k, -1).T
    baseline = value_of_samples(q_samples, config.value_mode)
    return Opinions(error, q_taken, q_samples.mean(dim=1), baseline, q_mean, None)


def warn_of_divergence(
    numbers: Mapping[str, float], greatest_reward: float, gamma: float, scale: float, steps: int
) -> bool:
    """Warn if values exceed what the rewards allow, ``max |r| / (1 - γ)``; return whether it was so.

    :param numbers: ``q_max`` and ``q_min`` of a batch, scaled
    :param greatest_reward: greatest absolute reward of the data, not scaled
    :param gamma: discount
    :param scale: factor on rewards
    :param steps: done so far, for the message
    """
    if gamma >= 1.0 or "q_max" not in numbers:
        return False
    bound = greatest_reward * scale / (1.0 - gamma)
    greatest = max(abs(numbers["q_max"]), abs(numbers["q_min"]))
    if greatest <= bound or bound == 0.0:
        return False
    warnings.warn(
        f"CRR: a value of {greatest / scale:.4g} after {steps} steps, where rewards of at most "
        f"{greatest_reward:.4g} and gamma={gamma} allow {bound / scale:.4g}: values are running away "
        "(a smaller learning rate or tau, combine='min', or cql_alpha above 0 may help)",
        stacklevel=4,
    )
    return True


def warn_of_data(data: TrainingData, config: CRRConfig) -> None:
    """Warn where the data do not say which actions are better, or what their returns are.

    :param data: the data
    :param config: options
    """
    if config.weight_mode == "bc":
        return
    if config.cql_alpha == 0.0 and data.says_nothing():
        reward = float(data.dataset.rewards[0])
        warnings.warn(
            f"CRR: every reward in the data is {reward:.4g} and no episode terminates, so that all actions "
            "are worth the same and the critic's preferences are chance: take weight_mode='bc', which "
            "imitates them all, or cql_alpha=0.001, which keeps to what the data do",
            stacklevel=3,
        )
    if config.reward_scale == "auto" and data.broken.any():
        warnings.warn(
            f"CRR: {int(data.broken.sum()):,} transitions are not followed by the next one of their episode, "
            "so that reward_scale='auto', which goes by the returns of whole episodes, may be far off: give "
            "a number, or whole episodes in order",
            stacklevel=3,
        )
