"""From CRR to DiscreteSAC: networks, moments of the optimizers, and data in the replay buffer."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_greendc.crr.data import TrainingData
from sb3_greendc.crr.policies import CRRPolicy

TARGET_ACTOR = "actor_target."
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


def copy_networks(source: CRRPolicy, target: CRRPolicy) -> None:
    """Give a policy without target actor another's networks, targets, and moments of each parameter.

    Parameters that are frozen there are frozen here.

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
        for parameter in optimizer.param_groups[0]["params"]:
            if moments_of[parameter]:
                optimizer.state[parameter] = deepcopy(moments_of[parameter])


def fill_half(buffer: ReplayBuffer, data: TrainingData) -> None:
    """Put transitions of the data into the first half of a buffer, by shares of the sources.

    They are marked as cut off where they do not terminate: the next row of the buffer does not follow.
    """
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
    buffer.pos = n_steps
