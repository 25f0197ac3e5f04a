"""Trained models decide for a live pool or cluster: the entry point ``trained`` of ``greendc.policies``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

import greendc
from greendc.baselines.resource_pool import Rollout
from greendc.live.trained import OtherFamilyError
from greendc.registration import family_of, resolve_env_id
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator
from greendc.shipped.release import CHOICE, release_for
from greendc.simulator import Observation, Simulator
from sb3_greendc.core.vec_env import SimulatorVecEnv
from sb3_greendc.evaluation.policy_sources import ModelSource, takes_masks
from sb3_greendc.evaluation.policy_specs import PRETRAINED
from sb3_greendc.evaluation.prior import read_prior
from sb3_greendc.runs.models import model_folder, read_run
from sb3_greendc.runs.portable import read_environment

SEEN = (*CHOICE, "observation", "image_dtype", "context_rows")
"""Fields of a pool's configuration that say what a model chooses from and sees."""


class TrainedPolicy:
    """A saved model of a resource pool or a cluster.

    :param path: of its ``model.zip`` or of its run's folder
    :param family: ``"resource_pool"`` or ``"cluster"``
    :raises ValueError: if there is none, it cannot be read, holds pickled code, has no record of its
        environment, is of another family, or remembers earlier steps, which no snapshot holds
    """

    remembers = False

    def __init__(self, path: str, family: str) -> None:
        self._source = ModelSource(path, 0, path)
        if isinstance(self._source.saved.model, RecurrentPPO):
            raise ValueError(f"policy {path}: remembers earlier steps, which a snapshot does not hold")
        env_id, given = _environment(path)
        found = family_of(env_id)
        if found is None or found.name != family:
            allowed = f"{family.replace('_', ' ')}s"
            raise OtherFamilyError(f"policy {path}: must be for {allowed}, not for {env_id}")
        self.env_kwargs: Mapping[str, Any] = {**found.presets[resolve_env_id(env_id)], **given}

    @property
    def choice(self) -> Mapping[str, Any]:
        """Fields of a pool's configuration that say what the model chooses from, and sees."""
        return {name: self.env_kwargs.get(name, getattr(ResourcePoolConfig, name)) for name in SEEN}

    def bind(self, simulator: Simulator) -> Predictions:
        """Return what acts in a simulator of one environment, with masks and normalised as in training.

        :raises ValueError: if observations or actions are not the model's
        """
        env = self._source.prepare_env(SimulatorVecEnv(simulator))
        return Predictions(self._source.policy_for(env), env, simulator)


class Predictions:
    """The ``predict`` of a model for observations as a simulator writes them.

    :param model: with SB3's ``predict``
    :param env: the environment as the model sees it
    :param simulator: of one environment
    """

    def __init__(self, model: Any, env: VecEnv, simulator: Simulator) -> None:
        self._model, self._env, self._simulator = model, env, simulator
        self._takes_masks = takes_masks(model)

    def predict(
        self,
        observation: Observation,
        state: Any = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], Any]:
        """Return the actions for a batch; see SB3.

        :param observation: of the simulator's environments
        :param state: of the model
        :param episode_start: whether an episode begins
        :param deterministic: the most likely action
        """
        if isinstance(self._env, VecNormalize):
            observation = self._env.normalize_obs(observation)
        masks = {"action_masks": self._simulator.action_masks()} if self._takes_masks else {}
        found: tuple[NDArray[Any], Any] = self._model.predict(
            observation, state, episode_start, deterministic, **masks
        )
        return found


class RolloutWithPrior:
    """Rollouts on top of a distilled network, which is named by its path, or as ``pretrained:NAME``.

    :param options: of :class:`~greendc.baselines.resource_pool.Rollout`, ``prior`` among them
    """

    remembers = False
    env_kwargs: Mapping[str, Any] = {}

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self.choice: Mapping[str, Any] = _prior_choice(options["prior"])

    def bind(self, simulator: ResourcePoolSimulator) -> Rollout:
        """Return the planner.

        :raises ValueError: if the network does not fit, or for a wrong value of an option
        """
        return Rollout(simulator, **{**self._options, "prior": read_prior(self._options["prior"], simulator)})


def _environment(path: str) -> tuple[str, Mapping[str, Any]]:
    """Return the environment that a model was made for, and its settings."""
    portable = read_environment(path)
    if portable is not None:
        return portable.env_id, {**portable.env_kwargs, **portable.choice}
    run = read_run(model_folder(path))
    if "env_id" not in run:
        raise ValueError(f"policy {path}: no record beside it says which environment it was trained in")
    return greendc.resolve_env_id(str(run["env_id"])), dict(run.get("env_kwargs") or {})


def _prior_choice(source: str) -> dict[str, Any]:
    """Return what a network that rollouts trust must see as in its training."""
    name, _, release = source.partition(":")
    if name == PRETRAINED:
        given = release_for(release or "ResourcePool").env_kwargs
    else:
        given = _environment(source)[1]
    return {
        option: given.get(option, getattr(ResourcePoolConfig, option))
        for option in ("mask", "lookahead", "fragmentation")
    }
