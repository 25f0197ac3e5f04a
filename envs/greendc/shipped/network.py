"""Networks of shipped policies in NumPy: what torch computes, without torch, for one decision at a time.

:class:`JobSetNetwork` is the actor of ``sb3_greendc.extractors.JobSetExtractor`` and its heads,
:class:`PerceptronNetwork` that of Stable-Baselines3's ``MlpPolicy``. Both take tensors by the names that
torch gives them, and one observation. Logits are those of the network in float64 to 2e-4; torch's own
float32 is up to 2e-3 away from them, since it sums the image's cells before it scales them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Tensors = Mapping[str, Floats]

_NORM_EPSILON = np.float32(1e-5)
_PARTS = ("weight", "bias")
_NOT_VECTORS = ("resources", "jobs", "action_mask")


class PerceptronNetwork:
    """The actor of an ``MlpPolicy``: tanh layers over a flat observation.

    :param tensors: of the policy, by torch's names
    :param n_outputs: logits, or numbers of a continuous action
    :raises ValueError: if the tensors are of another network
    """

    def __init__(self, tensors: Tensors, n_outputs: int) -> None:
        self.layers: list[tuple[Floats, Floats]] = []
        k = 0
        while f"mlp_extractor.policy_net.{k}.weight" in tensors:
            self.layers.append(_linear(tensors, f"mlp_extractor.policy_net.{k}"))
            k += 2  # an activation stands between
        known = {
            f"mlp_extractor.policy_net.{2 * k}.{part}" for k in range(len(self.layers)) for part in _PARTS
        }
        others = {key for key in tensors if key.startswith("mlp_extractor.policy_net.")} - known
        _require(not others, f"{min(others, default='')} belongs to no layer")
        self.output = _linear(tensors, "action_net")
        _require(len(self.output[1]) == n_outputs, f"action_net has {len(self.output[1])} outputs")

    def __call__(self, observation: Floats) -> Floats:
        """Return the outputs ``(n_outputs,)`` for an observation ``(k,)``."""
        x = observation
        for weight, bias in self.layers:
            x = np.tanh(x @ weight + bias)
        return x @ self.output[0] + self.output[1]


class JobSetNetwork:
    """The actor of a policy that scores the jobs of the ready pool one by one.

    :param tensors: of the policy, by torch's names
    :param observation_space: of the environment; number of units and of jobs may be others than in training
    :raises ValueError: if the tensors are of another network, or the observations do not fit them
    """

    def __init__(self, tensors: Tensors, observation_space: spaces.Dict) -> None:
        image, table = observation_space["resources"], observation_space["jobs"]
        assert isinstance(image, spaces.Box)
        assert isinstance(table, spaces.Box)
        self.vector_keys = [key for key in observation_space.spaces if key not in _NOT_VECTORS]
        shared = (
            "pi_features_extractor"
            if "pi_features_extractor.rows.1.bias" in tensors
            else "features_extractor"
        )
        heads = "mlp_extractor.actor_heads"

        self.blocks = _linear(tensors, f"{shared}.rows.0.linear")
        self.rows = _linear(tensors, f"{shared}.rows.1")
        self.situation = _linear(tensors, f"{shared}.situation.0")
        self.situation_norm = _norm(tensors, f"{shared}.situation.2", self.situation)
        self.job_input = _linear(tensors, f"{shared}.job_input")
        self.situation_input = np.ascontiguousarray(_get(tensors, f"{shared}.situation_input.weight").T)
        self.encoder = _linear(tensors, f"{shared}.job_encoder.1")
        self.encoder_norm = _norm(tensors, f"{shared}.job_encoder.3", self.encoder)
        self.context = _linear(tensors, f"{shared}.context.0")
        self.context_norm = _norm(tensors, f"{shared}.context.2", self.context)
        self.score_job = _stacked(tensors, f"{heads}.job_input")
        self.score_context = _stacked(tensors, f"{heads}.context_input")
        self.job_layers = [_stacked(tensors, name) for name in _layers(tensors, f"{heads}.job_scorer")]
        self.other_layers = [_stacked(tensors, name) for name in _layers(tensors, f"{heads}.other_scorer")]

        hidden = (len(self.situation[1]), len(self.job_input[1]))
        found = self.situation_input.shape
        _require(found == hidden, f"situation_input takes and gives {found}, not {hidden}")
        widths = (len(self.score_job[1]), len(self.score_context[1]))
        _require(widths[0] == widths[1], f"job_input and context_input of the heads give {widths}")

        self.horizon, columns = image.shape
        n_blocks = len(self.rows[0]) // len(self.blocks[1])
        block = -(-self.horizon // n_blocks)
        self.types = len(self.blocks[0]) // (3 * block)
        _require(
            self.types > 0 and len(self.blocks[0]) == 3 * block * self.types and columns % self.types == 0,
            f"rows of the image: {len(self.blocks[0])} inputs for {self.horizon} rows of {columns} columns",
        )
        _require(len(self.job_input[0]) == table.shape[1], f"jobs of {table.shape[1]} numbers")
        n_units = columns // self.types
        self.padded = np.zeros((n_blocks * block, self.types, 3), np.float32)
        self.ones = np.ones(n_units, np.float32)
        self.step = np.float32(np.max(image.high) / 255.0)
        self.almost_full = np.float32(254.0 * self.step)
        # The layer takes sums, not means, and types before measures: in torch each measure has all types.
        largest = n_units * float(self.step) * np.array([255.0, 1.0, 1.0])
        weight = self.blocks[0].reshape(block, 3, self.types, -1).transpose(0, 2, 1, 3) / largest[:, None]
        self.blocks = weight.reshape(self.blocks[0].shape).astype(np.float32), self.blocks[1]

    def __call__(self, observation: Mapping[str, NDArray[Any]]) -> Floats:
        """Return the logits ``(n_jobs + 2,)``, not masked, for one observation."""
        inputs = [self._rows(observation["resources"])]
        inputs += [observation[key].ravel().astype(np.float32, copy=False) for key in self.vector_keys]
        situation = _normalized(_relu(_affine(np.concatenate(inputs), self.situation)), self.situation_norm)
        table = observation["jobs"].astype(np.float32, copy=False)
        present = (table != 0).any(axis=1)
        jobs = _relu(_affine(table, self.job_input) + situation @ self.situation_input)
        jobs = _normalized(_relu(_affine(jobs, self.encoder)), self.encoder_norm)
        if not present.all():
            jobs *= present[:, None]
        pooled = self._pool(jobs, present)
        context = _relu(_affine(np.concatenate([situation, *pooled]), self.context))
        context = _normalized(context, self.context_norm)
        scores = _affine(jobs, self.score_job) + _affine(context, self.score_context)
        for layer in self.job_layers:
            scores = _affine(np.tanh(scores), layer)
        others = context
        for k, layer in enumerate(self.other_layers):
            others = _affine(np.tanh(others) if k else others, layer)
        return np.concatenate([scores[:, 0], others])

    def _rows(self, image: NDArray[Any]) -> Floats:
        """Return what the rows hold: sum, number above the lower bound, number at the upper one."""
        cells = image.reshape(-1, len(self.ones)).astype(np.float32, copy=False)
        measures = self.padded[: self.horizon].reshape(-1, 3)
        measures[:, 0] = cells @ self.ones
        measures[:, 1] = np.minimum(cells, self.step) @ self.ones
        measures[:, 2] = _relu(cells - self.almost_full) @ self.ones
        blocks = self.padded.reshape(-1, len(self.blocks[0]))
        return _relu(_affine(_relu(_affine(blocks, self.blocks)).ravel(), self.rows))

    @staticmethod
    def _pool(jobs: Floats, present: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        n_present = int(present.sum())
        if n_present == 0:
            nothing = np.zeros(jobs.shape[1], np.float32)
            return nothing, nothing
        there = jobs if n_present == len(jobs) else jobs[present]
        return np.add.reduce(there) / np.float32(n_present), np.maximum.reduce(there)


def _relu(x: Floats) -> Floats:
    return np.maximum(x, 0, out=x)


def _affine(x: Floats, layer: tuple[Floats, Floats]) -> Floats:
    y: Floats = x @ layer[0]
    y += layer[1]
    return y


def _normalized(x: Floats, norm: tuple[Floats, Floats, Floats]) -> Floats:
    """Return a layer norm over the last axis; products with shares are means, quicker than sums."""
    weight, bias, shares = norm
    x = x - x @ shares
    variance = (x * x) @ shares
    variance += _NORM_EPSILON
    x *= weight / np.sqrt(variance)
    x += bias
    return x


def _get(tensors: Tensors, name: str) -> Floats:
    _require(name in tensors, f"tensor {name!r} is missing")
    return tensors[name]


def _linear(tensors: Tensors, name: str) -> tuple[Floats, Floats]:
    """Return weight ``(in, out)`` and bias of a linear layer."""
    weight, bias = _get(tensors, f"{name}.weight"), _get(tensors, f"{name}.bias")
    fits = weight.ndim == 2 and bias.shape == weight.shape[:1]
    _require(fits, f"{name}: a weight of {weight.shape} and a bias of {bias.shape}")
    return np.ascontiguousarray(weight.T), bias


def _norm(tensors: Tensors, name: str, layer: tuple[Floats, Floats]) -> tuple[Floats, Floats, Floats]:
    """Return weight and bias of the norm of what a layer gives, and the share of each number in a mean."""
    weight, bias = _get(tensors, f"{name}.weight"), _get(tensors, f"{name}.bias")
    width = layer[1].shape
    _require(weight.shape == bias.shape == width, f"{name}: of {weight.shape} and {bias.shape}, not {width}")
    return weight, bias, np.full((*width, 1), 1.0 / width[0], np.float32)


def _stacked(tensors: Tensors, name: str) -> tuple[Floats, Floats]:
    """Return the one layer of a stack of one: weight ``(in, out)`` and bias."""
    weight, bias = _get(tensors, f"{name}.weight"), _get(tensors, f"{name}.bias")
    fits = weight.ndim == 3 and len(weight) == 1 and bias.shape == (1, 1, weight.shape[2])
    _require(fits, f"{name}: a weight of {weight.shape} and a bias of {bias.shape}")
    return weight[0], bias[0, 0]


def _layers(tensors: Tensors, name: str) -> list[str]:
    """Return the names of the layers of a perceptron, in order."""
    found = {int(key.split(".")[-2]) for key in tensors if key.startswith(f"{name}.")}
    return [f"{name}.{k}" for k in sorted(found)]


def check_outputs(network: Callable[[Any], Floats], space: spaces.Space[Any], n_outputs: int) -> None:
    """Ask a network once: sizes that do not fit each other show now, and not at the first decision.

    :raises ValueError: if it has other outputs, or its layers do not fit
    """
    try:
        found = network(_zeros(space)).shape
    except (IndexError, ValueError) as error:
        raise ValueError(f"not the tensors of this network: its layers do not fit: {error}") from error
    _require(found == (n_outputs,), f"outputs of {found} for {n_outputs} actions")


def _zeros(space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _zeros(part) for key, part in space.spaces.items()}
    return np.zeros(space.shape or (), space.dtype)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"not the tensors of this network: {what}")
