"""PPO and MaskablePPO models without an environment, whose policies are to be cloned into."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from gymnasium import spaces
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import (
    MaskableActorCriticPolicy,
    MaskableMultiInputActorCriticPolicy,
)
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy, MultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor

from greendc.config import require_one_of
from sb3_greendc.core.algorithms import MISFITS
from sb3_greendc.core.generators import generators_kept
from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.extractors import (
    JobSetPolicy,
    MaskableJobSetPolicy,
    MaskedActorCriticPolicy,
    MaskedCombinedExtractor,
    resolve_extractor,
)

ALGORITHMS: dict[str, type[PPO] | type[MaskablePPO]] = {"ppo": PPO, "maskable_ppo": MaskablePPO}
"""What can go on training a clone."""
POLICIES = ("auto", "mlp", "job_set")
"""Kinds of policies: a perceptron, a scorer of jobs, and the one of the two that fits the observations."""

PolicyClass = type[ActorCriticPolicy] | type[MaskableActorCriticPolicy]


def make_model(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    policy: str | PolicyClass = "auto",
    algorithm: str | None = None,
    policy_kwargs: Mapping[str, Any] | None = None,
    seed: int | None = None,
    device: str = "cpu",
) -> PPO | MaskablePPO:
    """Build a model that has no environment yet.

    :param observation_space: of the data
    :param action_space: of the data
    :param policy: one of :data:`POLICIES`, or a policy class of the algorithm
    :param algorithm: one of :data:`ALGORITHMS`; default: MaskablePPO where observations carry an action mask
    :param policy_kwargs: arguments of the policy; ``features_extractor`` may be a name
    :param seed: of the weights; the global random generators stay as they are. Default: drawn from them
    :param device: of the weights
    :raises ValueError: for an unknown name, or a policy that does not fit the algorithm or the spaces
    """
    masked = isinstance(observation_space, spaces.Dict) and ACTION_MASK in observation_space.spaces
    if algorithm is None:
        algorithm = "maskable_ppo" if masked else "ppo"
    require_one_of("algorithm", algorithm, ALGORITHMS)
    if algorithm == "maskable_ppo" and not isinstance(action_space, spaces.Discrete):
        raise ValueError(f"algorithm='maskable_ppo': needs Discrete actions, not {action_space}")
    kwargs = resolve_extractor(policy_kwargs or {})
    if isinstance(policy, str):
        require_one_of("policy", policy, POLICIES)
        policy = _policy_class(policy, algorithm, observation_space, masked, kwargs)
    cls: Any = ALGORITHMS[algorithm]
    try:
        model = cls(policy, None, policy_kwargs=kwargs, seed=seed, device=device, _init_setup_model=False)
        # What SB3's `load` does for a model without an environment.
        model.observation_space, model.action_space, model.n_envs = observation_space, action_space, 1
        with nullcontext() if seed is None else generators_kept():
            model._setup_model()
        model.seed = None  # that of the weights is not to seed what goes on training
    except MISFITS as error:
        raise ValueError(f"policy {policy!r} does not fit: {' '.join(str(error).split())}") from error
    result: PPO | MaskablePPO = model
    return result


def _policy_class(
    kind: str, algorithm: str, space: spaces.Space[Any], masked: bool, kwargs: dict[str, Any]
) -> PolicyClass:
    """Return the class of a kind of policy; a perceptron of ``Dict`` observations never sees the mask."""
    maskable = algorithm == "maskable_ppo"
    has_jobs = isinstance(space, spaces.Dict) and any(
        {"jobs", of_family} <= space.spaces.keys() for of_family in ("resources", "cluster")
    )
    own_extractor = "features_extractor_class" in kwargs
    if kind == "job_set" or (kind == "auto" and has_jobs and not own_extractor):
        return MaskableJobSetPolicy if maskable else JobSetPolicy
    if not isinstance(space, spaces.Dict):
        kwargs.setdefault("features_extractor_class", FlattenExtractor)
        return MaskableActorCriticPolicy if maskable else ActorCriticPolicy
    kwargs.setdefault("features_extractor_class", MaskedCombinedExtractor if masked else None)
    if kwargs["features_extractor_class"] is None:
        del kwargs["features_extractor_class"]
    if maskable:
        return MaskableMultiInputActorCriticPolicy
    return MaskedActorCriticPolicy if masked else MultiInputActorCriticPolicy
