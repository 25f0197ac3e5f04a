"""A distilled policy as what rollouts know beforehand: its logits, read as values of actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO

from greendc.config import require
from greendc.resource_pool import ResourcePoolConfig, ResourcePoolSimulator
from greendc.shipped.network import JobSetNetwork
from greendc.shipped.release import release_for
from greendc.simulator import Observation, Simulator
from sb3_greendc.bc.distill import LOGIT_SCALE, resize
from sb3_greendc.bc.loss import action_logits
from sb3_greendc.core.spaces import same_kind
from sb3_greendc.evaluation.policy_specs import PRETRAINED
from sb3_greendc.runs.models import UntrustedError, load_model
from sb3_greendc.runs.pretrained import load_pretrained


class NetworkPrior:
    """What a distilled network thinks that each action is worth, in mean job values.

    :param model: as :func:`~sb3_greendc.bc.distill` trains it
    :param logit_scale: how far apart its logits are, for actions that differ by a mean job value
    :param alone: what gives the model's logits for one observation faster, see :func:`in_numpy`
    :raises ValueError: for a ``logit_scale`` that is not above 0
    """

    def __init__(
        self,
        model: PPO | MaskablePPO,
        logit_scale: float = LOGIT_SCALE,
        alone: JobSetNetwork | None = None,
    ) -> None:
        require(logit_scale > 0, "logit_scale", logit_scale, "above 0")
        self.model, self.logit_scale, self._alone = model, logit_scale, alone

    def __call__(self, observations: Observation) -> NDArray[np.float64]:
        """Return the values ``(n, n_actions)``; only their differences within a row mean anything.

        :param observations: a batch
        """
        if self._alone is not None and isinstance(observations, dict) and len(observations["jobs"]) == 1:
            one = self._alone({key: value[0] for key, value in observations.items()})
            return one[None].astype(np.float64) / self.logit_scale
        policy: Any = self.model.policy
        tensors, _ = policy.obs_to_tensor(observations)
        with th.no_grad():
            logits = action_logits(policy, tensors)
        values: NDArray[np.float64] = logits.cpu().numpy().astype(np.float64) / self.logit_scale
        return values


def in_numpy(model: PPO | MaskablePPO) -> JobSetNetwork | None:
    """Return a model's network in NumPy, which takes a sixth of the time for one observation.

    :param model: whose weights stay as they are
    :return: ``None`` for another network than those that NumPy can do
    """
    space = model.observation_space
    if not isinstance(space, spaces.Dict):
        return None
    try:
        network = JobSetNetwork({k: v.cpu().numpy() for k, v in model.policy.state_dict().items()}, space)
    except (KeyError, ValueError):
        return None
    space.seed(0)
    sample = space.sample()
    ours = NetworkPrior(model, 1.0)({key: value[None] for key, value in sample.items()})[0]
    return network if np.allclose(network(sample), ours, atol=0.02) else None


def read_prior(source: str, simulator: Simulator) -> NetworkPrior:
    """Load a distilled network, for a pool of any size if it scores jobs one by one.

    :param source: the path of a saved model, ``"pretrained"``, or ``"pretrained:NAME"``
    :param simulator: that it is for
    :raises ValueError: if there is no such model, it was not distilled from a planner, it does not fit,
        or it was trained with another mask, lookahead or fragmentation
    """
    if not isinstance(simulator, ResourcePoolSimulator):
        raise ValueError(f"prior={source!r}: there are rollouts only for resource pools")
    name, _, release = source.partition(":")
    if name == PRETRAINED:
        found = release_for(release or "ResourcePool")
        model: Any = load_pretrained(found.name)
        if found.logit_scale is None:
            raise ValueError(
                f"prior={source!r}: it was not distilled from a planner, so its logits are no values"
            )
        scale, env_kwargs = found.logit_scale, found.env_kwargs
    else:
        try:
            saved = load_model(source)
        except UntrustedError as error:
            raise ValueError(
                f"prior={source!r}: {error}; a prior is loaded from JSON and tensors only: load it with "
                "sb3_greendc.runs.models.load_model and save it with save_model"
            ) from error
        model, scale = saved.model, float(saved.run.get("logit_scale", LOGIT_SCALE))
        env_kwargs = saved.run.get("env_kwargs", {})
    for option in ("mask", "lookahead", "fragmentation"):
        trained = env_kwargs.get(option, getattr(ResourcePoolConfig, option))
        here = getattr(simulator.config, option)
        if trained != here:
            raise ValueError(
                f"prior={source!r}: was trained with {option}={trained!r}; the environment has {here!r}"
            )
    wanted = simulator.observation_space, simulator.action_space
    if not same_kind(model.observation_space, wanted[0]) or model.action_space != wanted[1]:
        model = resize(model, *wanted)
    return NetworkPrior(model, scale, in_numpy(model))
