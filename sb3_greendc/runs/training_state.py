"""The whole state of a training run as numbers, text and arrays: training goes on from it bit for bit.

It is taken where SB3 calls ``on_rollout_start``: the last update is done, the next rollout has not begun, and
nothing that matters lives in local variables. It holds every attribute of the model: networks, optimizers,
schedules, counters, what algorithms add to them, last observations, LSTM states, replay buffer, and the
environments with their random generators; then the global random states of Python, NumPy and torch, the
logger, and the callbacks. A model that was built in the same way takes it
(:mod:`~sb3_greendc.runs.object_graphs`): nothing is unpickled, and a file cannot run code.

Rows of buffers that nothing has been written to are left out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_greendc.core.safe_classes import class_named
from sb3_greendc.runs.checkpoints import State
from sb3_greendc.runs.graph_decoder import GraphDecoder
from sb3_greendc.runs.object_graphs import GraphEncoder, NotKeptError
from sb3_greendc.runs.run_logger import RunLogger
from sb3_greendc.runs.trees import pack_tree, unpack_tree

_NOT_OF_THE_MODEL = ("_logger", "_custom_logger")
_NOT_OF_A_CALLBACK = ("model", "parent", "locals", "globals")


def require_resumable(model: BaseAlgorithm) -> None:
    """Check, before training, that the state of a model can be kept.

    :raises ValueError: for an algorithm whose state is not whole at ``on_rollout_start``, or if something of
        it, most often of its environments, cannot be written down; the message names it
    """
    if not isinstance(model, (OnPolicyAlgorithm, OffPolicyAlgorithm)):
        raise ValueError(
            f"{type(model).__name__} cannot be checkpointed: it does not collect rollouts as SB3's on-policy "
            "and off-policy algorithms do"
        )
    try:
        _met(model)
    except NotKeptError as error:
        raise ValueError(f"the run cannot be checkpointed: {error}") from error


def pack_state(model: BaseAlgorithm, callbacks: Sequence[BaseCallback] = ()) -> State:
    """Return the state of training; to be called in ``on_rollout_start``.

    :param model: the model in training
    :param callbacks: those whose state matters
    :raises NotKeptError: if something, most often of an environment, cannot be written down
    """
    encoder = GraphEncoder(_named(model, with_logger=True))
    logger = model.logger
    return pack_tree(
        {
            "model": _encode_model(encoder, model),
            "random": _random_states(),
            "nanoseconds": time.time_ns() - model.start_time,
            "logger": logger.state_dict() if isinstance(logger, RunLogger) else None,
            "callbacks": [
                encoder.encode(_callback_state(callback), f"callbacks[{i}]")
                for i, callback in enumerate(callbacks)
            ],
        }
    )


def _named(model: BaseAlgorithm, with_logger: bool) -> dict[str, Any]:
    """Return the objects that the resumed run has already."""
    return {"model": model, **({"logger": model.logger} if with_logger else {})}


def _encode_model(encoder: GraphEncoder, model: BaseAlgorithm) -> list[list[Any]]:
    return [
        [name, encoder.encode(value, name)]
        for name, value in vars(model).items()
        if name not in _NOT_OF_THE_MODEL
    ]


def _met(model: BaseAlgorithm) -> GraphEncoder:
    """Return what has met all objects of a model."""
    encoder = GraphEncoder(_named(model, hasattr(model, "_logger")))
    _encode_model(encoder, model)
    return encoder


@dataclass(frozen=True)
class _Transient:
    """What ``learn`` changes between its call and the first ``on_rollout_start``."""

    random: dict[str, Any]
    action_noise: dict[str, Any]
    exploration: list[dict[str, Any]]
    start_steps: int
    nanoseconds: int
    logger: dict[str, Any] | None
    callbacks: list[Any]


class Resumption:
    """Brings a freshly built model back to a saved state, in two acts.

    The constructor gives the model everything that it held; the environments are reset before, so that
    they have the objects of a running episode. Then ``learn(..., reset_num_timesteps=False)``
    sets itself up, which draws random numbers, resets the action noise and starts the clock. So
    :meth:`finish`, to be called in the first ``on_rollout_start``, restores these once more.

    :param model: a model of the same class, with the same hyperparameters
    :param state: what :func:`pack_state` returned
    :raises ValueError: if the state does not fit the model
    """

    def __init__(self, model: BaseAlgorithm, state: State) -> None:
        saved = unpack_tree(state)
        if model.env is not None:
            model.env.reset()
        named = {**_named(model, hasattr(model, "_logger")), "device": model.device}
        self._decoder = GraphDecoder(named, _met(model), _class_of_sb3)
        self._model = model
        try:
            self._restore(saved["model"])
            self._transient = _Transient(
                saved["random"],
                deepcopy(vars(model.action_noise)) if model.action_noise is not None else {},
                [dict(vars(distribution)) for distribution in _explorations(model)],
                model._num_timesteps_at_start,
                saved["nanoseconds"],
                saved["logger"],
                saved["callbacks"],
            )
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            reason = (str(error).splitlines() or [""])[0]
            raise ValueError(f"does not fit the run: {reason}") from error

    def _restore(self, trees: list[list[Any]]) -> None:
        here = vars(self._model)
        kept = {name: value for name, value in here.items() if name in _NOT_OF_THE_MODEL}
        made = {name: self._decoder.decode(tree, here.get(name), name) for name, tree in trees}
        here.clear()
        here.update({**made, **kept})

    def finish(self, callbacks: Sequence[BaseCallback] = ()) -> None:
        """Restore what ``learn`` changed while it set itself up.

        :param callbacks: those given to :func:`pack_state`, in the same order
        """
        model, saved = self._model, self._transient
        if model.action_noise is not None:  # the rollout that is about to begin holds the same object
            vars(model.action_noise).update(saved.action_noise)
        for distribution, values in zip(_explorations(model), saved.exploration, strict=True):
            vars(distribution).update(values)
        model._num_timesteps_at_start = saved.start_steps
        model.start_time = time.time_ns() - saved.nanoseconds
        for callback, tree in zip(callbacks, saved.callbacks, strict=True):
            vars(callback).update(self._decoder.decode(tree, _callback_state(callback), "callback"))
        if saved.logger is not None and isinstance(model.logger, RunLogger):
            model.logger.load_state_dict(saved.logger)
        _set_random_states(saved.random)


def _class_of_sb3(name: str) -> type | None:
    """Return a class of records that algorithms make while they learn, ``None`` for any other name."""
    try:
        return class_named(name)
    except ValueError:
        return None


def _explorations(model: BaseAlgorithm) -> list[StateDependentNoiseDistribution]:
    """Return the distributions of gSDE, whose noise is drawn before each rollout."""
    distributions = (getattr(module, "action_dist", None) for module in model.policy.modules())
    return [item for item in distributions if isinstance(item, StateDependentNoiseDistribution)]


def _callback_state(callback: BaseCallback) -> dict[str, Any]:
    return {key: value for key, value in vars(callback).items() if key not in _NOT_OF_A_CALLBACK}


def _random_states() -> dict[str, Any]:
    return {
        "python": random.getstate(),
        # SB3's buffers draw from NumPy's global generator.
        "numpy": np.random.get_state(),  # noqa: NPY002
        "torch": th.get_rng_state(),
        "cuda": th.cuda.get_rng_state_all() if th.cuda.is_available() else [],
    }


def _set_random_states(states: dict[str, Any]) -> None:
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    th.set_rng_state(states["torch"])
    if states["cuda"]:
        th.cuda.set_rng_state_all(states["cuda"])
