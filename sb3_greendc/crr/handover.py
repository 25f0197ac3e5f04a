"""From CRR to DiscreteSAC: networks, moments of the optimizers, and data in the replay buffer."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, cast

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import check_for_correct_spaces, obs_as_tensor
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from sb3_greendc.crr.data import TrainingData
from sb3_greendc.crr.finetuning import NO_NORMALIZATION
from sb3_greendc.crr.policies import CRRPolicy
from sb3_greendc.discrete_sac.discrete_sac import DiscreteSAC
from sb3_greendc.discrete_sac.losses import policy_entropy
from sb3_greendc.discrete_sac.policies import DiscreteSACPolicy

TARGET_ACTOR = "actor_target."
WHAT_OPTIMIZERS_KEEP = ("amsgrad", "centered", "momentum")
"""Options of optimizers of one class that change what these remember of a parameter."""
CHUNK = 1024
"""Observations of the data that the policy looks at at once."""
SHARED_OPTIONS = (
    "learning_rate",
    "batch_size",
    "tau",
    "gamma",
    "combine",
    "critic_loss",
    "target_update_interval",
    "seed",
    "device",
    "verbose",
)
"""What DiscreteSAC takes over from CRR."""
CAREFUL_OPTIONS: dict[str, Any] = {
    "soft_critic": False,
    "ent_coef": 0.01,
    "warmup": "policy",
    "learning_starts": 1000,
    "actor_starts": 2000,
}
"""How DiscreteSAC begins: no uniform warm-up, critics first, a small and fixed temperature."""


def hand_over(
    policy: CRRPolicy, data: TrainingData | None, env: GymEnv, options: dict[str, Any], given: dict[str, Any]
) -> DiscreteSAC:
    """Return a :class:`DiscreteSAC` with a policy's networks, and with the data in half of its buffer.

    :param policy: with a critic
    :param data: of the model, if it has any
    :param env: environment with the policy's spaces
    :param options: of the model, by the names that DiscreteSAC has for them
    :param given: arguments of :class:`DiscreteSAC` in their place
    :raises ValueError: if the environment has other spaces or is a ``VecNormalize``, or ``policy_kwargs`` ask
        for other networks
    """
    wrapped = DiscreteSAC._wrap_env(cast("Any", env))
    if unwrap_vec_normalize(wrapped) is not None:
        raise ValueError(NO_NORMALIZATION)
    check_for_correct_spaces(wrapped, policy.observation_space, cast("Any", policy.action_space))
    # DiscreteSAC's target takes the present actor: a slow copy of it has no use there.
    asked, own = given.get("policy_kwargs") or {}, options["policy_kwargs"]
    chosen = {**options, **CAREFUL_OPTIONS, **given}
    chosen["policy_kwargs"] = {**own, "target_actor": False, **asked}
    online = DiscreteSAC(env=wrapped, **chosen)
    try:
        copy_networks(policy, cast("CRRPolicy", online.policy))
    except RuntimeError as error:
        raise ValueError(
            f"policy_kwargs={asked}: gives other networks than this model's, {own}, which are handed over"
        ) from error
    if data is not None:
        fill_half(cast("ReplayBuffer", online.replay_buffer), data, online.policy)
    return online


def copy_networks(source: CRRPolicy, target: CRRPolicy) -> None:
    """Give a policy without target actor another's networks, targets, and moments of each parameter.

    Parameters that are frozen there are frozen here. Moments are left out where the optimizers keep others.

    :param source: CRR's
    :param target: DiscreteSAC's, with its two optimizers in place of CRR's one
    """
    state = source.state_dict()
    target.load_state_dict({key: value for key, value in state.items() if not key.startswith(TARGET_ACTOR)})
    moments = source.optimizer.state
    theirs = dict(source.named_parameters())
    for name, parameter in target.named_parameters():
        parameter.requires_grad_(theirs[name].requires_grad)
    moments_of = {parameter: moments.get(theirs[name]) for name, parameter in target.named_parameters()}
    for optimizer in (target.actor_optimizer, target.critic_optimizer):
        if not _keep_the_same(source.optimizer, optimizer):
            continue
        for parameter in optimizer.param_groups[0]["params"]:
            if moments_of[parameter]:
                optimizer.state[parameter] = deepcopy(moments_of[parameter])


def _keep_the_same(one: th.optim.Optimizer, other: th.optim.Optimizer) -> bool:
    """Tell whether two optimizers remember the same of each parameter."""
    same = (one.defaults.get(name) == other.defaults.get(name) for name in WHAT_OPTIMIZERS_KEEP)
    return type(one) is type(other) and all(same)


def fill_half(buffer: ReplayBuffer, data: TrainingData, policy: DiscreteSACPolicy) -> None:
    """Put transitions of the data into the first half of a buffer, by shares of the sources.

    They are marked as cut off where they do not terminate: the next row of the buffer does not follow.

    :param buffer: empty
    :param data: where they come from
    :param policy: whose entropies are stored with them, where the buffer stores entropies: those of the
        policies that made the data are not known
    :raises ValueError: if the buffer discounts by time, of which the data say nothing
    """
    if getattr(buffer, "by_time", False):
        raise ValueError(
            "replay_buffer_kwargs={'by_time': True}: the data, which fill half of the replay buffer, do not "
            "say how long decisions took; a model that was loaded without dataset can be handed over"
        )
    n_steps = min(buffer.buffer_size // 2, -(-len(data.dataset) // buffer.n_envs))
    rows = data.sampler.draw(n_steps * buffer.n_envs, np.random.default_rng(0))
    arrays = data.dataset.batch(rows)

    def place(stored: Any, values: Any) -> None:
        if isinstance(stored, dict):
            for key in stored:
                place(stored[key], values[key])
        else:
            stored[:n_steps] = values.reshape(n_steps, *stored.shape[1:])

    place(buffer.observations, arrays["observations"])
    place(buffer.next_observations, arrays["next_observations"])
    place(buffer.actions, arrays["actions"])
    place(buffer.rewards, arrays["rewards"])
    buffer.dones[:n_steps] = 1.0
    place(buffer.timeouts, ~arrays["terminated"])
    entropies = getattr(buffer, "entropies", None)
    if entropies is not None:
        place(entropies, _entropies(policy, arrays["observations"], len(rows)))
    buffer.pos = n_steps


@th.no_grad()
def _entropies(policy: DiscreteSACPolicy, observations: Any, n: int) -> NDArray[np.float32]:
    """Return the policy's entropies ``(n,)`` in nats at so many observations."""
    parts = []
    for first in range(0, n, CHUNK):
        rows = slice(first, first + CHUNK)
        part = (
            {key: array[rows] for key, array in observations.items()}
            if isinstance(observations, dict)
            else observations[rows]
        )
        log_pi = policy.action_log_probs(obs_as_tensor(part, policy.device))
        parts.append(policy_entropy(log_pi).cpu().numpy())
    return np.concatenate(parts)
