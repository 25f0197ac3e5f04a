"""Behavioral cloning by the library ``imitation``, into policies that PPO and MaskablePPO go on training."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger

from sb3_greendc.bc.batches import Batches
from sb3_greendc.bc.loss import MaskedLoss, log_prob_and_entropy, most_likely_actions
from sb3_greendc.bc.models import ALGORITHMS, PolicyClass
from sb3_greendc.bc.supervised import Supervised
from sb3_greendc.core.progress import progress_bar
from sb3_greendc.core.saved_algorithm import require_options
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.runs.models import save_model


@dataclass(frozen=True)
class Clone:
    """A cloned policy in a model that can go on training.

    :param model: ``PPO`` or ``MaskablePPO``, without an environment; :meth:`attach` gives it one
    :param algorithm: its name
    :param history: a row per epoch: ``epoch``, ``train_loss``, and of the held-out episodes
        ``validation_loss`` (negative log-likelihood) and ``validation_agreement`` (share of states in which
        the most likely action is the one in the data; NaN for ``Box`` actions)
    :param best_epoch: the epoch whose weights these are
    :param record: what the model's record says
    """

    model: PPO | MaskablePPO
    algorithm: str
    history: pd.DataFrame = field(repr=False)
    best_epoch: int
    record: Mapping[str, Any] = field(repr=False)

    def attach(self, env: Any, **hyperparameters: Any) -> PPO | MaskablePPO:
        """Return a copy of the model in an environment, ready to ``learn``.

        The value function is untrained: the first updates should be small ones (``learning_rate``,
        ``target_kl``).

        :param env: an environment, or a ``VecEnv``
        :param hyperparameters: of the algorithm: ``n_steps``, ``learning_rate``, ...; a ``seed`` is for the
            global generators and the environment
        :raises TypeError: for one that the algorithm does not have
        """
        require_options(type(self.model), hyperparameters, vars(self.model))
        file = io.BytesIO()
        self.model.save(file)
        file.seek(0)
        return type(self.model).load(file, env, device=self.model.device, **hyperparameters)

    def save(self, folder: str | Path, **record: Any) -> Path:
        """Write ``model.zip`` and its record, as ``scripts/evaluate.py`` reads them; return the model's path.

        :param folder: created if missing
        :param record: JSON values to add to the record
        """
        return save_model(self.model, Path(folder), {"algorithm": self.algorithm, **self.record, **record})


class CloningInterrupted(KeyboardInterrupt):  # no error: Ctrl-C
    """Ctrl-C ended a training.

    :param clone: of the best epoch so far
    """

    def __init__(self, clone: Clone) -> None:
        super().__init__()
        self.clone = clone


def behavioral_clone(
    dataset: OfflineDataset | str | Path,
    policy: str | PolicyClass = "auto",
    *,
    progress: bool = False,
    **options: Any,
) -> Clone:
    """Train a policy to do what was done in the data; :class:`Cloning` explains the parameters.

    :param dataset: the data, or their path
    :param policy: ``"auto"``, ``"mlp"``, ``"job_set"``, or a policy class of the algorithm
    :param progress: show a progress bar
    :param options: further parameters of :class:`Cloning`
    """
    return Cloning(dataset, policy, **options).run(progress)


class Cloning(Supervised):
    """What to clone and how, checked when built, so that nothing is trained before all of it fits.

    ``imitation.algorithms.bc.BC`` trains, with Adam and a learning rate that falls linearly to 0, on the
    log-likelihood among the actions that the mask allows. Some episodes are held out; the weights of the
    epoch with the least loss on them are kept.

    :param dataset: the data, or their path
    :param policy: ``"auto"``, ``"mlp"``, ``"job_set"``, or a policy class of the algorithm
    :param algorithm: ``"ppo"`` or ``"maskable_ppo"``; default: the latter where observations carry masks
    :param policy_kwargs: of the policy: ``net_arch``, ``features_extractor`` (a name), ...
    :param n_epochs: passes over the data
    :param batch_size: transitions of an update
    :param learning_rate: of the first update
    :param ent_weight: weight of the policy's entropy; above 0 it costs agreement
    :param l2_weight: weight of half the squared parameters
    :param validation_fraction: share of the episodes held out; 0 keeps the last epoch's weights
    :param seed: of weights, split and order
    :param device: of the weights
    :raises ImportError: if ``imitation`` is not installed
    :raises ValueError: for data or parameters that do not fit
    """

    def __init__(
        self,
        dataset: OfflineDataset | str | Path,
        policy: str | PolicyClass = "auto",
        *,
        algorithm: str | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        n_epochs: int = 10,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        ent_weight: float = 0.0,
        l2_weight: float = 0.0,
        validation_fraction: float = 0.1,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        bc = import_bc()
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
        self.batches = Batches(self.data, self.rows, batch_size, self.rng)
        self.loss = _Remembered(MaskedLoss(ent_weight, l2_weight))
        self.trainer = bc.BC(
            observation_space=self.data.observation_space,
            action_space=self.data.action_space,
            rng=self.rng,
            policy=self.model.policy,
            demonstrations=self.batches,
            batch_size=batch_size,
            optimizer_kwargs={"lr": learning_rate, "fused": True},
            device=self.model.device,
            custom_logger=_quiet_logger(),
        )
        self.trainer.loss_calculator = self.loss

    def run(self, progress: bool = False) -> Clone:
        """Train, and return the clone.

        :param progress: show a progress bar
        :raises CloningInterrupted: after Ctrl-C, with the clone of the best epoch so far
        :raises DivergedError: if weights are not finite, or distributions are of no use
        """
        total = self.n_epochs * len(self.batches)
        self.model.policy.set_training_mode(True)
        keeper = _BestEpoch(self.model.policy, self.data, self.held_out)
        done = 0
        with progress_bar(total, "batch", disable=not progress) as bar:

            def after_batch() -> None:
                nonlocal done
                done += 1
                bar.update()
                self.trainer.optimizer.param_groups[0]["lr"] = self.learning_rate * (1.0 - done / total)

            def after_epoch() -> None:
                keeper.finish_epoch(self.loss.mean())
                bar.set_postfix(keeper.history[-1], refresh=False)

            with warnings.catch_warnings():  # its logger turns a loss with a gradient into a number
                warnings.filterwarnings("ignore", "Converting a tensor with requires_grad")
                try:
                    self.trainer.train(
                        n_epochs=self.n_epochs,
                        on_batch_end=after_batch,
                        on_epoch_end=after_epoch,
                        progress_bar=False,
                    )
                except KeyboardInterrupt as stop:
                    if not keeper.history:
                        raise
                    raise CloningInterrupted(self._clone(keeper)) from stop
                except (ArithmeticError, RuntimeError, ValueError) as error:
                    self.require_finite(error)
                    raise
        return self._clone(keeper)

    def _clone(self, keeper: _BestEpoch) -> Clone:
        self.model.policy.load_state_dict(keeper.best_weights)
        self.model.policy.set_training_mode(False)
        self.require_finite()
        name = next(name for name, cls in ALGORITHMS.items() if type(self.model) is cls)
        history = pd.DataFrame(keeper.history)
        return Clone(self.model, name, history, keeper.best_epoch, self.record("cloned_from"))


def import_bc() -> Any:
    """Return ``imitation.algorithms.bc``.

    :raises ImportError: with the line that installs it
    """
    try:
        from imitation.algorithms import bc
    except ImportError as error:
        raise ImportError("behavioral cloning needs imitation: pip install 'sb3-greendc[bc]'") from error
    return bc


class _Remembered:
    """A loss that remembers its mean over the batches since it was last asked."""

    def __init__(self, loss: MaskedLoss) -> None:
        self._loss = loss
        self._sum, self._count = th.zeros(()), 0

    def __call__(self, policy: Any, obs: Any, acts: th.Tensor) -> Any:
        metrics = self._loss(policy, obs, acts)
        self._sum, self._count = self._sum + metrics.neglogp.detach().cpu(), self._count + 1
        return metrics

    def mean(self) -> float:
        mean = float(self._sum) / max(self._count, 1)
        self._sum, self._count = th.zeros(()), 0
        return mean


class _BestEpoch:
    """Validates after each epoch and keeps the weights of the best one, or of the last without validation."""

    def __init__(self, policy: Any, data: OfflineDataset, rows: NDArray[np.int64]) -> None:
        self.policy, self.data, self.rows = policy, data, rows
        self.history: list[dict[str, float]] = []
        self.best_weights: dict[str, Any] = {}
        self.best_epoch = 0
        self._least = np.inf

    def finish_epoch(self, train_loss: float) -> None:
        epoch = len(self.history) + 1
        loss, agreement = self._validate()
        self.history.append(
            {
                "epoch": epoch,
                "train_loss": train_loss,
                "validation_loss": loss,
                "validation_agreement": agreement,
            }
        )
        if not self.best_weights or len(self.rows) == 0 or loss < self._least:
            self._least, self.best_epoch = np.inf if np.isnan(loss) else loss, epoch
            self.best_weights = deepcopy(self.policy.state_dict())

    def _validate(self) -> tuple[float, float]:
        if len(self.rows) == 0:
            return np.nan, np.nan
        self.policy.set_training_mode(False)
        total = agreed = 0.0
        with th.no_grad():
            for start in range(0, len(self.rows), 1024):
                rows = self.rows[start : start + 1024]
                batch = self.data.batch(rows, ["observations", "actions"])
                obs = _tensors(batch["observations"], self.policy.device)
                acts = th.as_tensor(batch["actions"], device=self.policy.device)
                total -= float(log_prob_and_entropy(self.policy, obs, acts)[0].sum())
                if isinstance(self.data.action_space, spaces.Discrete):
                    agreed += float((most_likely_actions(self.policy, obs) == acts).sum())
                else:
                    agreed = np.nan
        self.policy.set_training_mode(True)
        return total / len(self.rows), agreed / len(self.rows)


def _tensors(observations: Any, device: Any) -> Any:
    if isinstance(observations, dict):
        return {key: th.as_tensor(array, device=device) for key, array in observations.items()}
    return th.as_tensor(observations, device=device)


def _quiet_logger() -> Any:
    """Return a logger that writes nowhere; imitation's own writes to a temporary folder and prints."""
    from imitation.util.logger import HierarchicalLogger

    return HierarchicalLogger(Logger(folder=None, output_formats=[]), [])
