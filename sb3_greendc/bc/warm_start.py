"""Going on from a cloned or distilled policy under another algorithm, whose critics are untrained."""

from __future__ import annotations

from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from greendc.config import require
from sb3_greendc.bc.cloning import Clone
from sb3_greendc.extractors.frozen import FreezableExtractor


def start_from(model: BaseAlgorithm, clone: Clone | BaseAlgorithm, sharpness: float = 1.0) -> None:
    """Let a model's actor do what a cloned network does.

    The weights of the clone's extractor and of its actor are copied. The extractor is not trained any more:
    what the critics, which know nothing yet, would learn in it would spoil it for the actor. It stays so when
    the model is saved and loaded: from now on its policy has the option ``freeze_extractor``.

    :param model: with a policy that scores jobs one by one, such as
        :class:`~sb3_greendc.pid_ppo.CostJobSetPolicy`
    :param clone: with the same extractor and heads, or the model of one
    :param sharpness: factor of the logits: above 1, draws keep closer to the most likely action
    :raises ValueError: if the networks do not fit
    """
    require(sharpness > 0, "sharpness", sharpness, "above 0")
    if not isinstance(model.policy, FreezableExtractor):
        raise ValueError(
            f"{type(model.policy).__name__}: must be a JobSetPolicy, or another that scores jobs"
        )
    policy: Any = model.policy
    cloned: Any = clone.model.policy if isinstance(clone, Clone) else clone.policy
    try:
        policy.features_extractor.load_state_dict(cloned.features_extractor.state_dict())
        heads = policy.mlp_extractor.actor_heads
        heads.load_state_dict(cloned.mlp_extractor.actor_heads.state_dict())
    except (AttributeError, RuntimeError) as error:
        names = f"{type(cloned).__name__} and {type(policy).__name__}"
        raise ValueError(f"{names}: the networks do not fit: {error}") from error
    with th.no_grad():
        for scorer in filter(None, (heads.job_scorer, heads.other_scorer)):
            scorer[-1].weight.mul_(sharpness)
            scorer[-1].bias.mul_(sharpness)
    policy.freeze()
    model.policy_kwargs = {**model.policy_kwargs, "freeze_extractor": True}


class CriticsFirst(BaseCallback):
    """Holds the actor still for the first rollouts of a training, while the critics learn what it is worth.

    :param rollouts: how many
    """

    def __init__(self, rollouts: int) -> None:
        super().__init__()
        self.rollouts = rollouts

    def _on_training_start(self) -> None:
        self._left = self.rollouts

    def _on_rollout_start(self) -> None:
        self._train_actor(self._left <= 0)
        self._left -= 1

    def _on_training_end(self) -> None:
        self._train_actor(True)  # also where the training was shorter

    def _train_actor(self, trained: bool) -> None:
        policy: Any = self.model.policy
        policy.mlp_extractor.actor_heads.requires_grad_(trained)

    def _on_step(self) -> bool:
        return True
