"""The whole state of a training run in one pickle: training goes on from it bit for bit.

It is taken where SB3 calls ``on_rollout_start``: the last update is done, the next rollout has not begun, and
nothing that matters lives in local variables. It holds every attribute of the model: networks, optimizers,
schedules, counters, what algorithms add to them, last observations, LSTM states, replay buffer, and the
environments with their random generators; then the global random states of Python, NumPy and torch, the
logger, and the callbacks. All of it is one graph of objects, so what was shared is shared again.

Three kinds of objects are not pickled as they pickle themselves. Wrappers of vectorised environments and
``EzPickle`` environments would come back without part of their state. Buffers leave out the rows that
nothing has been written to.
"""

from __future__ import annotations

import copyreg
import inspect
import io
import pickle
import random
import time
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch as th
from gymnasium.utils import EzPickle
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnvWrapper

from sb3_greendc.runs.checkpoints import State
from sb3_greendc.runs.run_logger import RunLogger

_NOT_OF_THE_MODEL = ("_logger", "_custom_logger")
_NOT_OF_A_CALLBACK = ("model", "parent", "locals", "globals")


def require_resumable(model: BaseAlgorithm) -> None:
    """Raise a ``ValueError`` for an algorithm whose state is not whole at ``on_rollout_start``."""
    if not isinstance(model, (OnPolicyAlgorithm, OffPolicyAlgorithm)):
        raise ValueError(
            f"{type(model).__name__} cannot be checkpointed: it does not collect rollouts as SB3's on-policy "
            "and off-policy algorithms do"
        )


def pickle_state(model: BaseAlgorithm, callbacks: Sequence[BaseCallback] = ()) -> State:
    """Return the state of training; to be called in ``on_rollout_start``.

    :param model: the model in training
    :param callbacks: those whose state matters
    :raises pickle.PicklingError: if something, most often an environment, cannot be pickled
    """
    logger = model.logger
    state = {
        "model": {key: value for key, value in vars(model).items() if key not in _NOT_OF_THE_MODEL},
        "random": _random_states(),
        "nanoseconds": time.time_ns() - model.start_time,
        "logger": logger.state_dict() if isinstance(logger, RunLogger) else None,
        "callbacks": [_callback_state(callback) for callback in callbacks],
    }
    file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    try:
        _Pickler(file, model, buffers).dump(state)
    except Exception as error:  # whatever the objects' own methods raise
        reason = (str(error).splitlines() or [""])[0]
        raise pickle.PicklingError(f"{type(error).__name__}: {reason}") from error
    return State(file.getvalue(), [buffer.raw() for buffer in buffers])


@dataclass(frozen=True)
class _Transient:
    """What ``learn`` changes between its call and the first ``on_rollout_start``."""

    random: dict[str, Any]
    action_noise: dict[str, Any]
    exploration: list[dict[str, Any]]
    start_steps: int
    nanoseconds: int
    logger: dict[str, Any] | None
    callbacks: list[dict[str, Any]]


class Resumption:
    """Brings a freshly built model back to a saved state, in two acts.

    The constructor gives the model everything that it held. Then ``learn(..., reset_num_timesteps=False)``
    sets itself up, which draws random numbers, resets the action noise and starts the clock. So
    :meth:`finish`, to be called in the first ``on_rollout_start``, restores these once more.

    :param model: a model of the same class, with the same hyperparameters
    :param state: what :func:`pickle_state` returned
    :raises ValueError: if the state cannot be unpickled, say by another version of a library
    """

    def __init__(self, model: BaseAlgorithm, state: State) -> None:
        try:
            saved = _Unpickler(io.BytesIO(state.data), model, state.arrays).load()
        except Exception as error:  # whatever the classes' own methods raise
            reason = (str(error).splitlines() or [""])[0]
            raise ValueError(f"it cannot be unpickled here: {type(error).__name__}: {reason}") from error
        kept = {key: value for key, value in vars(model).items() if key in _NOT_OF_THE_MODEL}
        vars(model).clear()
        vars(model).update({**saved["model"], **kept})
        self._model = model
        self._transient = _Transient(
            saved["random"],
            deepcopy(vars(model.action_noise)) if model.action_noise is not None else {},
            [deepcopy(vars(distribution)) for distribution in _explorations(model)],
            model._num_timesteps_at_start,
            saved["nanoseconds"],
            saved["logger"],
            saved["callbacks"],
        )

    def finish(self, callbacks: Sequence[BaseCallback] = ()) -> None:
        """Restore what ``learn`` changed while it set itself up.

        :param callbacks: those given to :func:`pickle_state`, in the same order
        """
        model, saved = self._model, self._transient
        if model.action_noise is not None:  # the rollout that is about to begin holds the same object
            vars(model.action_noise).update(saved.action_noise)
        for distribution, values in zip(_explorations(model), saved.exploration, strict=True):
            vars(distribution).update(values)
        model._num_timesteps_at_start = saved.start_steps
        model.start_time = time.time_ns() - saved.nanoseconds
        for callback, values in zip(callbacks, saved.callbacks, strict=True):
            vars(callback).update(values)
        if saved.logger is not None and isinstance(model.logger, RunLogger):
            model.logger.load_state_dict(saved.logger)
        _set_random_states(saved.random)


def _explorations(model: BaseAlgorithm) -> list[StateDependentNoiseDistribution]:
    """Return the distributions of gSDE, whose noise is drawn anew before each rollout."""
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


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle is not typed
    """Pickles a run's state; the model itself and its logger are named, not pickled."""

    def __init__(self, file: io.BytesIO, model: BaseAlgorithm, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._named = {id(model): "model", id(model.logger): "logger"}

    def persistent_id(self, obj: Any) -> str | None:
        """Return the name of an object that the resumed run has already."""
        return self._named.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        """Tell how to rebuild the objects that do not pickle themselves whole."""
        if isinstance(obj, VecEnvWrapper):
            state = {key: value for key, value in vars(obj).items() if key != "class_attributes"}
            return copyreg.__newobj__, (type(obj),), state, None, None, _fill_wrapper  # type: ignore[attr-defined]
        if isinstance(obj, EzPickle):
            return copyreg.__newobj__, (type(obj),), dict(vars(obj)), None, None, _fill  # type: ignore[attr-defined]
        if isinstance(obj, BaseBuffer):
            return copyreg.__newobj__, (type(obj),), _trimmed(obj), None, None, _fill_buffer  # type: ignore[attr-defined]
        return super().reducer_override(obj)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, model: BaseAlgorithm, buffers: Iterable[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._model = model

    def persistent_load(self, name: str) -> Any:
        return self._model if name == "model" else self._model.logger


def _fill(obj: Any, state: dict[str, Any]) -> None:
    vars(obj).update(state)


def _fill_wrapper(obj: Any, state: dict[str, Any]) -> None:
    vars(obj).update(state, class_attributes=dict(inspect.getmembers(type(obj))))


@dataclass(frozen=True)
class _Head:
    """The first rows of an array whose other rows are zeros.

    :param rows: the first rows
    :param length: of the whole array
    """

    rows: NDArray[Any]
    length: int

    def whole(self) -> NDArray[Any]:
        array = np.zeros((self.length, *self.rows.shape[1:]), self.rows.dtype)
        array[: len(self.rows)] = self.rows
        return array


def _trimmed(buffer: BaseBuffer) -> dict[str, Any]:
    """Return a buffer's attributes, arrays without the rows that are still as they were allocated.

    A buffer that keeps each observation once has the newest one in the row after the last that counts.
    """
    used = buffer.buffer_size if buffer.full else min(buffer.pos + 1, buffer.buffer_size)

    def trim(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: trim(item) for key, item in value.items()}
        if not isinstance(value, np.ndarray) or value.ndim == 0 or len(value) != buffer.buffer_size:
            return value
        return value if value[used:].any() else _Head(value[:used], len(value))

    return {key: trim(value) for key, value in vars(buffer).items()}


def _fill_buffer(buffer: BaseBuffer, state: dict[str, Any]) -> None:
    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: whole(item) for key, item in value.items()}
        return value.whole() if isinstance(value, _Head) else value

    vars(buffer).update({key: whole(value) for key, value in state.items()})
