"""Distillation: a policy that has learned a planner's valuation of every action."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO

from greendc.config import require, require_one_of
from sb3_greendc.bc.cloning import Clone
from sb3_greendc.bc.loss import action_logits
from sb3_greendc.bc.models import ALGORITHMS, PolicyClass, make_model
from sb3_greendc.bc.supervised import Supervised
from sb3_greendc.core.commands import how_to_start
from sb3_greendc.core.masking import masked_log_softmax
from sb3_greendc.core.progress import progress_bar
from sb3_greendc.datasets import OfflineDataset

LABEL = "advantages"
LOGIT_SCALE = 4.0
"""How far apart logits are, for actions that differ by a mean job value."""
HISTORY = ("epoch", "train_loss", "validation_loss", "validation_agreement", "validation_regret")


def distill(
    dataset: OfflineDataset | str | Path,
    policy: str | PolicyClass = "auto",
    *,
    progress: bool = False,
    **options: Any,
) -> Clone:
    """Train a policy to value actions as a planner did; :class:`Distillation` explains the parameters.

    :param dataset: data with the label ``advantages``, or their path:
        ``scripts/collect.py --policies rollout --label advantages``
    :param policy: ``"auto"``, ``"mlp"``, ``"job_set"``, or a policy class of the algorithm
    :param progress: show a progress bar
    :param options: further parameters of :class:`Distillation`
    """
    return Distillation(dataset, policy, **options).run(progress)


class Distillation(Supervised):
    """What to distill and how, checked when built.

    The logits of the valid actions, less their mean, are regressed on ``logit_scale`` times the planner's
    advantages, less theirs. Unlike a clone of its actions this learns what each mistake costs, and where
    two actions are worth the same, learns that. The policy is the softmax of the planner's values at a
    temperature of ``1 / logit_scale`` mean job values, so that sampling from it explores near ties only.
    Adam, with a learning rate that falls linearly to 0.

    With ``loss="divergence"`` that softmax is the target, and the loss how far the policy is from it
    (Kullback and Leibler's divergence; Rusu et al., "Policy Distillation", ICLR 2016): what bad actions are
    worth is then learned only as far as it takes to avoid them, which suits tens of actions of which few are
    good.

    The value function is not trained.

    :param dataset: data with the label ``advantages``, or their path
    :param policy: ``"auto"`` (of the resource pool: the permutation-equivariant scorer of jobs), ``"mlp"``,
        ``"job_set"``, or a policy class of the algorithm
    :param algorithm: ``"ppo"`` or ``"maskable_ppo"``; default: the latter where observations carry masks
    :param policy_kwargs: of the policy: ``net_arch``, ``features_extractor`` (a name), ...
    :param n_epochs: passes over the data
    :param batch_size: transitions of an update
    :param learning_rate: of the first update
    :param logit_scale: how far apart logits are, for actions that differ by a mean job value
    :param loss: ``"regression"`` or ``"divergence"``
    :param validation_fraction: share of the episodes held out to report on
    :param seed: of weights, split and order
    :param device: of the weights
    :raises ValueError: for data without the label, or parameters that do not fit
    """

    def __init__(
        self,
        dataset: OfflineDataset | str | Path,
        policy: str | PolicyClass = "auto",
        *,
        algorithm: str | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        n_epochs: int = 10,
        batch_size: int = 512,
        learning_rate: float = 2e-3,
        logit_scale: float = LOGIT_SCALE,
        loss: str = "regression",
        validation_fraction: float = 0.05,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        require(logit_scale > 0, "logit_scale", logit_scale, "above 0")
        require_one_of("loss", loss, LOSSES)
        super().__init__(
            dataset,
            policy,
            algorithm=algorithm,
            policy_kwargs=policy_kwargs,
            n_epochs=n_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            validation_fraction=validation_fraction,
            seed=seed,
            device=device,
        )
        self.logit_scale = logit_scale
        self.loss = loss

    def check_data(self, data: OfflineDataset) -> None:
        """See :class:`~sb3_greendc.bc.supervised.Supervised`; every row must have advantages.

        :raises ValueError: if advantages are missing, of another shape, no numbers, or all NaN in a row
        """
        if LABEL not in data.labels:
            found = ", ".join(data.labels) or "none"
            raise ValueError(
                f"the data have no label {LABEL!r} (labels: {found}); "
                f"record it with {how_to_start('collect')} --policies rollout --label advantages"
            )
        advantages = data.labels[LABEL]
        n_actions = getattr(data.action_space, "n", None)
        if advantages.shape != (len(data), n_actions):
            raise ValueError(
                f"labels[{LABEL!r}]: of shape {advantages.shape}; must be ({len(data)}, {n_actions}), "
                "one number for each action"
            )
        if not np.issubdtype(advantages.dtype, np.number):
            raise ValueError(f"labels[{LABEL!r}]: of {advantages.dtype}; must be numbers")
        empty = ~np.isfinite(advantages).any(axis=1)
        if empty.any():
            raise ValueError(
                f"labels[{LABEL!r}]: no finite number in {int(empty.sum()):,} of {len(data):,} rows, "
                f"first in row {int(np.argmax(empty)):,}"
            )

    def run(self, progress: bool = False) -> Clone:
        """Train, and return the policy in a model that can go on training.

        :param progress: show a progress bar
        :raises DivergedError: if weights are not finite
        """
        policy: Any = self.model.policy
        policy.set_training_mode(True)
        optimizer = th.optim.Adam(policy.parameters(), lr=self.learning_rate, fused=True)
        per_epoch = len(self.rows) // self.batch_size
        total, done = self.n_epochs * per_epoch, 0
        history = []
        with progress_bar(total, "batch", disable=not progress) as bar:
            for epoch in range(1, self.n_epochs + 1):
                order = self.rng.permutation(self.rows)
                loss_sum = 0.0
                for k in range(per_epoch):
                    optimizer.param_groups[0]["lr"] = self.learning_rate * (1.0 - done / total)
                    logits, targets = self._logits_and_targets(
                        order[k * self.batch_size : (k + 1) * self.batch_size]
                    )
                    loss = LOSSES[self.loss](logits, targets)
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                    loss_sum += loss.item()
                    done += 1
                    bar.update()
                history.append((epoch, loss_sum / per_epoch, *self._validate()))
                bar.set_postfix(dict(zip(HISTORY[1:], history[-1][1:], strict=True)), refresh=False)
        policy.set_training_mode(False)
        self.require_finite()
        name = next(name for name, cls in ALGORITHMS.items() if type(self.model) is cls)
        table = pd.DataFrame(history, columns=list(HISTORY))
        record = {**self.record("distilled_from"), "logit_scale": self.logit_scale, "loss": self.loss}
        return Clone(self.model, name, table, self.n_epochs, record)

    def _logits_and_targets(self, rows: Any) -> tuple[th.Tensor, th.Tensor]:
        """Return logits and scaled advantages ``(B, n_actions)``, the latter NaN for invalid actions."""
        policy: Any = self.model.policy
        batch = self.data.batch(rows, ["observations", "labels"])
        observations, _ = policy.obs_to_tensor(batch["observations"])
        targets = th.as_tensor(batch["labels"][LABEL], device=policy.device) * self.logit_scale
        return action_logits(policy, observations), targets

    def _validate(self) -> tuple[float, float, float]:
        """Return loss, agreement and regret on the held-out episodes, NaN without any."""
        if len(self.held_out) == 0:
            return np.nan, np.nan, np.nan
        policy: Any = self.model.policy
        policy.set_training_mode(False)
        sums = np.zeros(3)
        with th.no_grad():
            for start in range(0, len(self.held_out), 1024):
                logits, targets = self._logits_and_targets(self.held_out[start : start + 1024])
                valid = targets.isfinite()
                chosen = logits.masked_fill(~valid, -th.inf).argmax(dim=1, keepdim=True)
                best = targets.masked_fill(~valid, -th.inf).amax(dim=1, keepdim=True)
                regret = (best - targets.gather(1, chosen)) / self.logit_scale
                loss = LOSSES[self.loss](logits, targets) * len(logits)
                sums += [loss.item(), (regret == 0).sum().item(), regret.sum().item()]
        policy.set_training_mode(True)
        loss, agreement, regret = (sums / len(self.held_out)).tolist()
        return loss, agreement, regret


def resize(
    model: PPO | MaskablePPO, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> PPO | MaskablePPO:
    """Return the same network for a problem of another size: other spaces, no weight changed.

    It works for networks that score jobs one by one (:class:`~sb3_greendc.extractors.JobSetExtractor`), whose
    weights know neither the number of units nor that of ready jobs. The horizon must be the same.

    :param model: with the network; it stays as it is
    :param observation_space: of the other problem
    :param action_space: of the other problem
    :raises ValueError: if the spaces do not fit the policy, or a weight depends on their size
    """
    name = next(name for name, cls in ALGORITHMS.items() if type(model) is cls)
    policy_class: Any = type(model.policy)
    resized = make_model(
        observation_space, action_space, policy_class, name, model.policy_kwargs, device=str(model.device)
    )
    weights, wanted = model.policy.state_dict(), resized.policy.state_dict()
    for key, tensor in wanted.items():
        if key not in weights or weights[key].shape != tensor.shape:
            raise ValueError(f"{policy_class.__name__} cannot be resized: {key} depends on the size")
    resized.policy.load_state_dict(weights)
    resized.policy.set_training_mode(False)
    return resized


def regression_loss(logits: th.Tensor, targets: th.Tensor) -> th.Tensor:
    """Return the mean squared difference, where both are centered over the valid actions of each row.

    A softmax does not change when a constant is added to all logits, so only what is left after centering
    can be wrong.

    :param logits: ``(B, n_actions)``
    :param targets: ``(B, n_actions)``, NaN where an action is invalid
    """
    valid = targets.isfinite()
    error = th.where(valid, logits - targets, 0.0)
    count = valid.sum(dim=1, keepdim=True)
    error = th.where(valid, error - error.sum(dim=1, keepdim=True) / count, 0.0)
    return error.square().sum() / count.sum()


def divergence_loss(logits: th.Tensor, targets: th.Tensor) -> th.Tensor:
    """Return the mean divergence of the policy from the softmax of the targets, both over the valid actions.

    The arguments are those of :func:`regression_loss`.
    """
    valid = targets.isfinite()
    wanted = masked_log_softmax(targets.nan_to_num(), valid)
    gaps = wanted.exp() * (wanted - masked_log_softmax(logits, valid))
    return th.where(valid, gaps, 0.0).sum(dim=1).mean()


LOSSES = {"regression": regression_loss, "divergence": divergence_loss}
