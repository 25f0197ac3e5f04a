"""Hyperparameters from ``zoo_hparams/<algorithm>.yml``, in rl-zoo3's format, and models built from them.

A file holds one block per environment id and one called ``default``. Beside the keyword arguments of
the algorithm's constructor a block may say ``policy``, ``n_envs``, ``n_timesteps``, ``normalize`` (true
or the keywords of ``VecNormalize``), ``noise_type`` and ``noise_std`` (action noise). ``lin_3e-4`` is a
schedule that falls linearly from 3e-4 to 0. ``policy_kwargs`` is a mapping, or rl-zoo3's ``dict(...)``;
``features_extractor`` in it is the name of an extractor (:data:`sb3_greendc.extractors.EXTRACTORS`).
``policy`` is a name that the algorithm knows, or one of :data:`POLICIES`; ``callback`` a name, or a list of
names, from :data:`CALLBACKS`.

Two things go beyond rl-zoo3: ids without a version and patterns (``VCC-*``) may head a block, and no
value is ever evaluated as code.
"""

from __future__ import annotations

import fnmatch
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import is_masking_supported
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise, NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from greendc.config import nearest
from sb3_greendc.core import yaml
from sb3_greendc.core.algorithms import MISFITS, algorithm_class, hyperparameters_of
from sb3_greendc.core.arguments import positive_integer
from sb3_greendc.core.discounting import DiscountByTime
from sb3_greendc.core.expressions import read_mapping
from sb3_greendc.extractors import (
    JobSetDQNPolicy,
    JobSetPolicy,
    MaskableJobSetPolicy,
    MaskedActorCriticPolicy,
    resolve_extractor,
)
from sb3_greendc.runs.kinds import checked

_OWN_KEYS = ("policy", "n_envs", "n_timesteps", "normalize", "noise_type", "noise_std", "callback")
_NOISES = {"normal": NormalActionNoise, "ornstein-uhlenbeck": OrnsteinUhlenbeckActionNoise}
POLICIES: dict[str, type[BasePolicy]] = {
    policy.__name__: policy
    for policy in (JobSetDQNPolicy, JobSetPolicy, MaskableJobSetPolicy, MaskedActorCriticPolicy)
}
"""Policies of this project that a file may name, beside those that the algorithm knows by name."""

CALLBACKS: dict[str, type[BaseCallback]] = {callback.__name__: callback for callback in (DiscountByTime,)}
"""Callbacks that change how an algorithm learns, which a file may name."""

_POLICIES_FOR_DICTS = {"MlpPolicy": "MultiInputPolicy", "MlpLstmPolicy": "MultiInputLstmPolicy"}
_FOR_DICTS = tuple(_POLICIES_FOR_DICTS.values())


def zoo_directories() -> list[Path]:
    """Return where hyperparameter files are looked for, first match first.

    The environment variable ``GREENDC_ZOO``, then the files installed with the package, then the
    checkout that the package lies in.
    """
    package = Path(__file__).resolve().parents[1]
    variable = os.environ.get("GREENDC_ZOO")
    return [
        *([Path(variable)] if variable else []),
        package / "_data" / "zoo_hparams",
        package.parent / "zoo_hparams",
    ]


def zoo_file(algorithm: str) -> Path:
    """Return the hyperparameter file of an algorithm.

    :raises ValueError: if none of :func:`zoo_directories` has one
    """
    directories = zoo_directories()
    for directory in directories:
        path = directory / f"{algorithm}.yml"
        if path.is_file():
            return path
    searched = ", ".join(map(str, directories))
    raise ValueError(
        f"no hyperparameter file {algorithm}.yml (looked in {searched}; GREENDC_ZOO adds a folder)"
    )


@dataclass(frozen=True)
class Hyperparameters:
    """What a training run of one algorithm on one environment id needs to know.

    :param algorithm: name of the algorithm (:data:`sb3_greendc.core.algorithms.ALGORITHMS`)
    :param settings: the values as written, for records
    :param policy: name of the policy
    :param n_envs: number of environments
    :param n_timesteps: environment steps of a run, ``None`` where the file does not say
    :param normalize: keywords of ``VecNormalize``, or ``None`` for none
    :param noise: kind and standard deviation of the action noise, or ``None``
    :param arguments: the constructor's keyword arguments
    :param callbacks: names of callbacks that belong to the algorithm's settings
    """

    algorithm: str
    settings: Mapping[str, Any]
    policy: str
    n_envs: int
    n_timesteps: int | None
    normalize: Mapping[str, Any] | None
    noise: tuple[str, float] | None
    arguments: Mapping[str, Any]
    callbacks: tuple[str, ...] = ()

    def wrap(self, env: VecEnv) -> VecEnv:
        """Wrap the environment in ``VecNormalize``, with the agent's gamma, where ``normalize`` says so.

        :raises ValueError: if ``VecNormalize`` rejects a keyword or the observations
        """
        if self.normalize is None:
            return env
        gamma = {"gamma": self.arguments["gamma"]} if "gamma" in self.arguments else {}
        try:
            return VecNormalize(env, **{**gamma, **self.normalize})
        except (AssertionError, TypeError, ValueError) as error:
            raise ValueError(f"normalize: {error}") from error

    def make_callbacks(self) -> list[BaseCallback]:
        """Return new callbacks for a run, which go before all others."""
        return [CALLBACKS[name]() for name in self.callbacks]

    def build(self, env: VecEnv, seed: int | None = None, device: str = "auto") -> BaseAlgorithm:
        """Build the model; ``env`` is already wrapped (:meth:`wrap`).

        :raises ValueError: if the algorithm does not fit the spaces, lacks masks, or rejects a hyperparameter
        """
        arguments = dict(self.arguments)
        if self.noise is not None:
            arguments["action_noise"] = _action_noise(*self.noise, env.action_space)
        policy = policy_for(self.policy, isinstance(env.observation_space, spaces.Dict))
        cls = algorithm_class(self.algorithm)
        if self.policy in _FOR_DICTS and not isinstance(env.observation_space, spaces.Dict):
            raise ValueError(
                f"{self.algorithm} does not fit: policy {self.policy!r} is for Dict observations, which this "
                "environment does not have"
            )
        if issubclass(cls, MaskablePPO) and not is_masking_supported(env):
            raise ValueError(f"{self.algorithm} needs action masks; the environment has no action_masks()")
        try:
            model = cls(policy, env, seed=seed, device=device, **arguments)
            for callback in self.make_callbacks():
                callback.init_callback(model)  # what does not fit shows here, not when training begins
            return model
        except MISFITS as error:
            if isinstance(error, RuntimeError) and "memory" in str(error):
                raise
            reason = " ".join(str(error).split())
            raise ValueError(f"{self.algorithm} does not fit: {reason}") from error


def policy_for(name: str, dict_observations: bool) -> str | type[BasePolicy]:
    """Return the policy of that name: a class of :data:`POLICIES`, or a name that the algorithm knows.

    :param name: as a hyperparameter file has it
    :param dict_observations: whether the environment has ``Dict`` observations, which take other policies
    """
    if dict_observations and name in _POLICIES_FOR_DICTS:
        return _POLICIES_FOR_DICTS[name]
    return POLICIES.get(name, name)


def learns_from_data(algorithm: str) -> bool:
    """Tell whether an algorithm learns from a data set rather than from an environment.

    :param algorithm: name of the algorithm
    :raises ValueError: for an unknown name
    """
    return hasattr(algorithm_class(algorithm), "set_dataset")


def load_hyperparameters(
    algorithm: str, env_id: str, overrides: Mapping[str, Any] | None = None, path: Path | None = None
) -> Hyperparameters:
    """Return the hyperparameters of an algorithm for an environment id.

    The block is the one of the id itself, else of the id without its version, else of the first
    pattern that matches, else ``default``. Blocks do not inherit from ``default``; YAML anchors
    (``<<: *name``) share values.

    :param algorithm: name of the algorithm
    :param env_id: an environment id with its version
    :param overrides: values in place of the file's; a ``preset`` among them also replaces those that it sets
    :param path: another file than :func:`zoo_file` finds
    :raises OSError: if there is no such file
    :raises ValueError: for an unknown algorithm or key, a malformed value, or one that the algorithm has no
        use for; the message names the file and the line, or the override
    """
    known = hyperparameters_of(algorithm)
    path = path or zoo_file(algorithm)
    blocks = yaml.load(path)
    if not isinstance(blocks, dict) or not all(isinstance(heading, str) for heading in blocks):
        raise ValueError(f"{path}: must map environment ids to hyperparameters")
    block = block_for(env_id, blocks)
    if block is None:
        raise ValueError(f"{path}: no block for {env_id!r}, and none called 'default'")
    if not isinstance(blocks[block], dict):
        raise ValueError(f"{path}, line {yaml.line_of(path, block)}: {block!r} must map names to values")
    overrides = overrides or {}
    presets = getattr(algorithm_class(algorithm), "presets", {})
    preset = presets.get(overrides["preset"], {}) if isinstance(overrides.get("preset"), str) else {}
    written = {key: value for key, value in blocks[block].items() if key not in preset}
    if overrides.get("noise_type", "") is None:
        written.pop("noise_std", None)  # that of the noise which is turned off

    def where(key: str) -> str:
        if key in overrides:
            return f"hyperparameter {key}={overrides[key]!r}"
        return f"{path}, line {yaml.line_of(path, block, str(key))}: {key}"

    return _interpret(algorithm, known, {**written, **overrides}, where)


def read_hyperparameters(algorithm: str, settings: Mapping[str, Any]) -> Hyperparameters:
    """Return hyperparameters from values as a file would have them, without any file.

    :param algorithm: name of the algorithm
    :param settings: names and values of one block
    :raises ValueError: for an unknown algorithm or key, or a malformed value; the message names it
    """

    def where(key: str) -> str:
        return f"hyperparameter {key}={settings[key]!r}"

    return _interpret(algorithm, hyperparameters_of(algorithm), dict(settings), where)


def block_for(env_id: str, blocks: Mapping[str, Any]) -> str | None:
    """Return the heading of the block that an environment id reads, ``None`` if there is none."""
    for heading in (env_id, re.sub(r"-v\d+$", "", env_id)):
        if heading in blocks:
            return heading
    for heading in blocks:
        if any(character in heading for character in "*?[") and fnmatch.fnmatchcase(env_id, heading):
            return heading
    return "default" if "default" in blocks else None


def _interpret(
    algorithm: str, known: list[str], settings: dict[str, Any], where: Callable[[str], str]
) -> Hyperparameters:
    values: dict[str, Any] = {}
    cls = algorithm_class(algorithm)
    for key, value in settings.items():
        allowed = (*known, *_OWN_KEYS)
        if key not in allowed:
            hint = nearest(str(key), allowed)
            raise ValueError(f"{where(key)}: {algorithm} has no such hyperparameter{hint}")
        try:
            values[key] = _value(key, value)
            if key not in _OWN_KEYS:
                values[key] = checked(cls, key, values[key], value)
        except ValueError as error:
            raise ValueError(f"{where(key)}: {error}") from error
    for key, reason in _of_no_use(algorithm, known, values):
        raise ValueError(f"{where(key)}: {algorithm}: {key} has no effect: {reason}")
    train_freq = values.get("train_freq")
    if isinstance(train_freq, tuple) and train_freq[-1] == "episode" and values.get("n_envs", 1) > 1:
        raise ValueError(
            f"{where('train_freq')}: counts episodes, which needs n_envs=1, not {values['n_envs']}"
        )
    own = {key: values.pop(key) for key in _OWN_KEYS if key in values}
    kind = own.get("noise_type")
    return Hyperparameters(
        algorithm=algorithm,
        settings=settings,
        policy=own.get("policy", "MlpPolicy"),
        n_envs=own.get("n_envs", 1),
        n_timesteps=own.get("n_timesteps"),
        normalize=own.get("normalize"),
        noise=None if kind is None else (kind, own.get("noise_std", 0.1)),
        arguments=values,
        callbacks=own.get("callback", ()),
    )


def _of_no_use(algorithm: str, known: list[str], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield settings around an algorithm that would change nothing, and why."""
    if learns_from_data(algorithm):
        unused = {"n_envs": 1, "normalize": None, "noise_type": None, "noise_std": None, "callback": ()}
        for key, nothing in unused.items():
            if values.get(key, nothing) != nothing:
                yield key, "it learns from data, without an environment"
    elif "action_noise" not in known:
        for key in ("noise_type", "noise_std"):
            if values.get(key) is not None:
                yield key, "it takes no action noise"
    elif "noise_std" in values and values.get("noise_type") is None:
        yield "noise_std", f"it is that of a noise_type ({', '.join(_NOISES)})"


def _value(key: str, value: Any) -> Any:
    """Turn a value as written into the one that constructors take."""
    match key:
        case "n_envs" | "n_timesteps":
            return positive_integer(value)
        case "normalize":
            if isinstance(value, bool):
                return {} if value else None
            if isinstance(value, str) and value.isidentifier():
                raise ValueError(f"{value!r}: must be true, false, a mapping or dict(...)")
            return {k: checked(VecNormalize, k, v, v) for k, v in read_mapping(value).items()}
        case "policy_kwargs":
            return resolve_extractor(_with_whole_layers(read_mapping(value)))
        case "replay_buffer_kwargs" | "rollout_buffer_kwargs":
            return read_mapping(value)
        case "policy" if not isinstance(value, str):
            raise ValueError(f"{value!r}: must be the name of a policy")
        case "noise_std" if not _is_number(value) or not 0 <= value < math.inf:
            raise ValueError(f"{value!r}: must be a number, 0 or more")
        case "noise_type" if value is not None and (not isinstance(value, str) or value not in _NOISES):
            raise ValueError(f"{value!r}: must be one of {', '.join(_NOISES)}")
        case "callback":
            return _callback_names(value)
        case "train_freq" if isinstance(value, list):
            return tuple(value)
    if isinstance(value, str) and value.startswith("lin_"):
        try:
            start = float(value.removeprefix("lin_"))
        except ValueError:
            start = math.nan
        if not math.isfinite(start):
            raise ValueError(f"{value!r}: a linear schedule is written lin_NUMBER")
        return LinearSchedule(start, 0.0, 1.0)
    return value


def _with_whole_layers(policy_kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the mapping, unless its ``net_arch`` has layers that no network can have."""
    net_arch = policy_kwargs.get("net_arch")
    parts = [net_arch]
    if isinstance(net_arch, list) and len(net_arch) == 1 and isinstance(net_arch[0], Mapping):
        parts = net_arch  # as SB3 wrote it before 1.8
    layers = [one for part in parts for one in (part.values() if isinstance(part, Mapping) else [part])]
    for widths in layers:
        if widths is not None and not (isinstance(widths, list | tuple) and all(map(_is_width, widths))):
            raise ValueError(
                f"net_arch={net_arch!r}: must be a list of whole numbers, 1 or more, or such lists by part "
                "({pi: [64], vf: [64]})"
            )
    return policy_kwargs


def _is_width(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _callback_names(value: object) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [] if value is None else [value]
    for name in names:
        if not isinstance(name, str) or name not in CALLBACKS:
            raise ValueError(f"{name!r}: must be one of {', '.join(CALLBACKS)}")
    return tuple(names)


def _action_noise(kind: str, std: float, action_space: spaces.Space[Any]) -> ActionNoise:
    if not isinstance(action_space, spaces.Box):
        raise ValueError(f"noise_type={kind!r}: action noise needs a Box action space, not {action_space}")
    size = action_space.shape
    noise: ActionNoise = _NOISES[kind](mean=np.zeros(size), sigma=np.full(size, std))
    return noise
