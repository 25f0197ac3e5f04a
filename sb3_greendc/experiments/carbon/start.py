"""A first policy where power is commanded: every unit on, the battery alone, no job suspended.

Commands drawn uniformly switch units off under running jobs. No job finishes then, and the best that a
learner finds is to leave every unit off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from greendc.energy.kernel import AUTO
from greendc.resource_pool.config import MODES
from sb3_greendc.experiments.tasks import Files
from sb3_greendc.experiments.training import Learner

LOGITS = 5.0
"""By how much the logits of all other commands are lower at first."""


def but_all_on(commands: int) -> list[int]:
    """Return the commands, numbered from the last action backwards, but for the one that leaves all on."""
    return [number for number in range(-commands, 0) if number != AUTO - MODES]


def discourage(model: BaseAlgorithm, actions: Sequence[int], logits: float = LOGITS) -> None:
    """Lower the logits of some actions in a policy that is not trained yet.

    :param model: whose actor ends in heads that score jobs one by one, or in one layer
    :param actions: none that starts a job; numbered from the last one, -1, backwards
    :param logits: by how much
    """
    policy: Any = model.policy
    heads = getattr(policy.mlp_extractor, "actor_heads", None)
    last = policy.action_net if heads is None else heads.other_scorer[-1]
    with th.no_grad():
        last.bias[..., list(actions)] -= logits


@dataclass(frozen=True)
class StartsOn(Learner):
    """A learner of the whole environment whose first policy leaves every unit on.

    :param logits: by how much those of all other commands are lower at first
    """

    logits: float = LOGITS

    def start(self, model: BaseAlgorithm, *files: Files) -> list[BaseCallback]:
        """See :class:`~sb3_greendc.experiments.training.Learner`."""
        actions, observations = model.action_space, model.observation_space
        assert isinstance(actions, spaces.Discrete)
        assert isinstance(observations, spaces.Dict)
        jobs = observations["jobs"].shape
        assert jobs is not None
        commands = int(actions.n) - jobs[0] - 1
        discourage(model, [-commands - 1, *but_all_on(commands)], self.logits)  # the first of them suspends
        return []
