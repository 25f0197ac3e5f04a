"""Shipped policies that need no torch: ``greendc.load_policy("ResourcePool-10")``."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import safetensors
import safetensors.numpy
from gymnasium import spaces
from numpy.typing import NDArray

from greendc.config import require
from greendc.registration import resolve_env_id
from greendc.shipped.network import Floats, JobSetNetwork, PerceptronNetwork, check_outputs
from greendc.shipped.release import (
    CONFIG_FILE,
    TENSORS_FILE,
    Release,
    one_error,
    pretrained_directory,
    release_for,
)

LARGEST_TENSORS = 64 * 2**20
"""Bytes of a file of tensors; ours have less than a hundredth of it."""


class ShippedPolicy:
    """A trained policy as a plain function of observations, with Stable-Baselines3's ``predict``.

    :param release: what it is
    :param env_id: environment that it acts in
    :param env_kwargs: keyword arguments of that environment
    :param observation_space: of that environment
    :param action_space: of that environment
    :param tensors: of the policy, by torch's names
    :param seed: of the actions that it draws with ``deterministic=False``
    :raises ValueError: if the tensors do not fit
    """

    def __init__(
        self,
        release: Release,
        env_id: str,
        env_kwargs: Mapping[str, Any],
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        tensors: Mapping[str, Floats],
        seed: int | None = None,
    ) -> None:
        self.release = release
        self.env_id = env_id
        self.env_kwargs = dict(env_kwargs)
        self.observation_space = observation_space
        self.action_space = action_space
        self._tensors, self._seed = tensors, seed
        self._rng = np.random.default_rng(seed)
        self._network: JobSetNetwork | PerceptronNetwork
        is_discrete = isinstance(action_space, spaces.Discrete)
        outputs = int(action_space.n if is_discrete else action_space.shape[0])  # type: ignore[attr-defined,index]
        if isinstance(observation_space, spaces.Dict):
            self._network = JobSetNetwork(tensors, observation_space)
        else:
            self._network = PerceptronNetwork(tensors, outputs)
        check_outputs(self._network, observation_space, outputs)
        self._log_std = tensors.get("log_std")
        if not is_discrete and (self._log_std is None or self._log_std.shape != (outputs,)):
            raise ValueError(f"not the tensors of this network: log_std: must be of shape ({outputs},)")

    def make_env(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """Make an environment that the policy acts in, with the mask and the features that it was trained on.

        :param kwargs: of the environment, beside or in place of the policy's own
        """
        env: gym.Env[Any, Any] = gym.make(self.env_id, **{**self.env_kwargs, **kwargs})
        return env

    def reseed(self, seed: int | None) -> None:
        """Draw actions from here on as a policy that was loaded with this seed does.

        :param seed: of the actions that it draws with ``deterministic=False``
        """
        self._seed, self._rng = seed, np.random.default_rng(seed)

    def resized(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> ShippedPolicy:
        """Return the same network for an environment of another size: more units or ready jobs.

        :param observation_space: of that environment
        :param action_space: of that environment
        :raises ValueError: if the tensors do not fit it
        """
        own, other = self.observation_space, observation_space
        if isinstance(own, spaces.Dict) and isinstance(other, spaces.Dict):
            rows = [space["resources"].shape[0] for space in (own, other)]  # type: ignore[index]
            require(rows[0] == rows[1], "horizon", rows[1], f"{rows[0]}, as in the training of the network")
        if not self.release.scales and (other, action_space) != (own, self.action_space):
            raise ValueError(f"{self.release.name}: its network does not fit environments of other sizes")
        return ShippedPolicy(
            self.release,
            self.env_id,
            self.env_kwargs,
            observation_space,
            action_space,
            self._tensors,
            self._seed,
        )

    def logits(self, observation: Any) -> Floats:
        """Return the logits ``(n_actions,)`` of one observation, -inf for invalid actions.

        With continuous actions: the mean action, not clipped.

        :raises ValueError: if the observation is of another environment, or of other settings, if its numbers
            are not finite, or if its mask allows no action
        """
        try:
            outputs = self._network(observation)
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(self._what_differs(observation)) from error
        # A number that is not finite reaches the logits of a job set. A perceptron's layers may hide it.
        is_mapping = isinstance(observation, Mapping)
        if not _all_finite(outputs) or not (is_mapping or _all_finite(observation)):
            raise ValueError(self._what_is_not_finite(observation))
        if is_mapping:
            if not np.count_nonzero(observation["action_mask"]):
                raise ValueError("action_mask allows no action: one entry or more must be 1")
            outputs = np.where(observation["action_mask"], outputs, np.float32(-np.inf))
        return outputs

    def _what_is_not_finite(self, observation: Any) -> str:
        parts = observation if isinstance(observation, Mapping) else {"observation": observation}
        wrong = [key for key, part in parts.items() if not np.isfinite(part).all()]
        if not wrong:
            return "the observation's numbers are too large for the policy"
        return f"{', '.join(wrong)}: must hold finite numbers alone"

    def _what_differs(self, observation: Any) -> str:
        wanted = self.observation_space
        parts = wanted.spaces if isinstance(wanted, spaces.Dict) else {"observation": wanted}
        given = observation if isinstance(observation, Mapping) else {"observation": observation}
        shapes = {key: np.shape(given[key]) if key in given else None for key in parts}
        differ = [
            f"{key} has {'nothing' if found is None else f'shape {found}'}, not {parts[key].shape}"
            for key, found in shapes.items()
            if found != parts[key].shape
        ]
        how = "".join(f", {key}={value!r}" for key, value in self.env_kwargs.items())
        return (
            f"the observation does not fit the policy ({'; '.join(differ)}): "
            f"make the environment with policy.make_env(), or gym.make({self.env_id!r}{how})"
        )

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], None]:
        """Return the action for an observation, or the actions for a batch of them, and no state.

        :param observation: one, or a batch with one more axis in front
        :param state: not used; here as in Stable-Baselines3
        :param episode_start: not used
        :param deterministic: the most likely action; else one is drawn (SB3's default is to draw)
        """
        if not self._is_batch(observation):
            return self._act(observation, deterministic), None
        n = len(next(iter(observation.values())) if isinstance(observation, Mapping) else observation)
        each = (
            {key: value[i] for key, value in observation.items()}
            if isinstance(observation, Mapping)
            else observation[i]
            for i in range(n)
        )
        return np.stack([self._act(one, deterministic) for one in each]), None

    def _is_batch(self, observation: Any) -> bool:
        if isinstance(observation, Mapping):
            return bool(observation["jobs"].ndim == 3)
        return bool(np.ndim(observation) == 2)

    def _act(self, observation: Any, deterministic: bool) -> NDArray[Any]:
        outputs = self.logits(observation)
        if isinstance(self.action_space, spaces.Discrete):
            if not deterministic:
                outputs = outputs + self._rng.gumbel(size=outputs.shape).astype(np.float32)
            return np.asarray(outputs.argmax())
        assert isinstance(self.action_space, spaces.Box)
        assert self._log_std is not None
        if not deterministic:
            noise: Floats = self._rng.standard_normal(outputs.shape, np.float32)
            outputs += np.exp(self._log_std) * noise
        return np.clip(outputs, self.action_space.low, self.action_space.high)


def load_policy(name: str, seed: int | None = None) -> ShippedPolicy:
    """Load a trained policy that ships with the package, without torch and Stable-Baselines3.

    :param name: name of a release, or an environment id with or without a version (``"ResourcePool-10"``);
        the latter is then the environment of :meth:`~ShippedPolicy.make_env`
    :param seed: of the actions that it draws with ``deterministic=False``
    :return: the policy; its :meth:`~ShippedPolicy.make_env` makes an environment for it
    :raises ValueError: for an unknown name, or a release that is damaged, not what it says, or of a network
        that only torch can run (``sb3_greendc.load_pretrained`` loads that one)
    """
    release = release_for(name)
    folder = pretrained_directory() / release.name
    asked = name != release.name and release.serves_id(name)
    with one_error(folder / CONFIG_FILE):
        env_id = resolve_env_id(name if asked else release.env_id)
        arguments = release.hyperparameters.get("policy_kwargs") or {}
        known = arguments.get("activation_fn", "Tanh") == "Tanh" and not arguments.get(
            "features_extractor_class"
        )
        require(known, "policy_kwargs", arguments, "those of a network that runs without torch")
        env_kwargs = release.choice if asked else release.env_kwargs
        env = gym.make(env_id, **env_kwargs)
    path = folder / TENSORS_FILE
    with one_error(path):
        tensors = _read(path, release.sha256)
        return ShippedPolicy(
            release, env_id, env_kwargs, env.observation_space, env.action_space, tensors, seed
        )


def _all_finite(array: Any) -> bool:
    # The sum of squares first, which takes a tenth of the time; it may overflow.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def _read(path: Path, sha256: str) -> dict[str, Floats]:
    with path.open("rb") as file:
        data = file.read(LARGEST_TENSORS + 1)
    if len(data) > LARGEST_TENSORS:
        raise ValueError(f"must be of {LARGEST_TENSORS:,} bytes at most")
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"damaged, its checksum differs from {CONFIG_FILE}'s")
    try:
        tensors = safetensors.numpy.load(data)
    except (safetensors.SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"not a file of tensors: {error}") from error
    for key, tensor in tensors.items():
        if tensor.dtype != np.float32 or not np.isfinite(tensor).all():
            raise ValueError(f"tensor {key!r}: must be of finite float32 numbers")
    return tensors
