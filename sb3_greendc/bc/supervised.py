"""What cloning and distillation begin with: data, of which episodes are held out, and a fresh model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from greendc.config import require, require_class, require_kinds
from sb3_greendc.bc.batches import split_episodes
from sb3_greendc.bc.models import PolicyClass, make_model
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.datasets.images import channels_first
from sb3_greendc.runs.divergence import DivergedError, divergence_of
from sb3_greendc.runs.training import require_seed


class Supervised:
    """Base of trainings on a data set; checks its parameters and splits the data when built.

    One generator decides what is held out, and then in which order the rest is gone through.

    :param dataset: the data, or their path
    :param policy: ``"auto"``, ``"mlp"``, ``"job_set"``, or a policy class of the algorithm
    :param algorithm: ``"ppo"``, ``"maskable_ppo"`` or ``None``
    :param policy_kwargs: of the policy
    :param n_epochs: passes over the data
    :param batch_size: transitions of an update
    :param learning_rate: of the first update
    :param validation_fraction: share of the episodes held out
    :param seed: of weights, split and order
    :param device: of the weights
    :raises ValueError: for data or parameters that do not fit
    :raises TypeError: for data that are no ``OfflineDataset``
    """

    def __init__(
        self,
        dataset: OfflineDataset | str | Path,
        policy: str | PolicyClass,
        *,
        algorithm: str | None,
        policy_kwargs: Mapping[str, Any] | None,
        n_epochs: int,
        batch_size: int,
        learning_rate: float,
        validation_fraction: float,
        seed: int,
        device: str,
    ) -> None:
        require_seed(seed)
        require_kinds(Supervised.__init__.__annotations__, dict(locals()))
        require(n_epochs >= 1, "n_epochs", n_epochs, "1 or more")
        require(learning_rate > 0, "learning_rate", learning_rate, "above 0")
        require(0 <= validation_fraction < 1, "validation_fraction", validation_fraction, "in [0, 1)")
        kinds = "an OfflineDataset (sb3_greendc.datasets makes one of other data), or the path of one"
        require_class("dataset", dataset, (OfflineDataset, str, Path), kinds)
        data = dataset if isinstance(dataset, OfflineDataset) else OfflineDataset.load(dataset)
        data = channels_first(data)  # as SB3 shows images of environments to a policy
        self.check_data(data)
        self.rng = np.random.default_rng(seed)
        self.rows, self.held_out = split_episodes(data, validation_fraction, self.rng)
        allowed = f"between 1 and {len(self.rows):,}, the transitions to train on"
        require(1 <= batch_size <= len(self.rows), "batch_size", batch_size, allowed)
        self.model = make_model(
            data.observation_space, data.action_space, policy, algorithm, policy_kwargs, seed, device
        )
        self.data, self.n_epochs, self.batch_size = data, n_epochs, batch_size
        self.learning_rate, self.seed = learning_rate, seed

    def check_data(self, data: OfflineDataset) -> None:
        """Raise ``ValueError`` if the data lack something that the training needs."""

    def require_finite(self, cause: Exception | None = None) -> None:
        """Raise a :class:`~sb3_greendc.runs.divergence.DivergedError` if training has diverged.

        :param cause: what ended it
        """
        shown = divergence_of(self.model, cause)
        if shown is not None:
            raise DivergedError(
                f"training has diverged: {shown}; a lower learning_rate may help, or data of another scale"
            ) from cause

    def record(self, learned: str) -> dict[str, Any]:
        """Return what a model's record says of its data and of its training.

        :param learned: key of the sources: ``"cloned_from"``, ...
        """
        return {
            "env_id": self.data.metadata.get("env_id"),
            "env_kwargs": self.data.metadata.get("env_kwargs", {}),
            learned: list(self.data.sources),
            "transitions": len(self.rows),
            "held_out": len(self.held_out),
            "seed": self.seed,
            "n_epochs": self.n_epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
        }
