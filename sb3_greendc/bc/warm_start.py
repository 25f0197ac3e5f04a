"""Going on from a cloned or distilled policy under another algorithm, whose critics are untrained."""

from __future__ import annotations

from typing import Any

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
    heads.multiply(sharpness)
    policy.freeze()
    model.policy_kwargs = {**model.policy_kwargs, "freeze_extractor": True}


class CriticsFirst(BaseCallback):
    """Holds the actor still for the first rollouts of a model, while the critics learn what it is worth.

    It does so within the model's updates alone: whatever ends a training, the actor learns in the next one.

    :param rollouts: how many; those of further calls of ``learn`` with the same callback count on
    """

    def __init__(self, rollouts: int) -> None:
        super().__init__()
        self.rollouts = rollouts
        self._left = rollouts
        self._counted: BaseAlgorithm | None = None

    def _init_callback(self) -> None:
        if self.model is not self._counted:
            self._counted, self._left = self.model, self.rollouts

    def _on_rollout_end(self) -> None:
        if self._left <= 0:
            return
        self._left -= 1
        model: Any = self.model
        train = model.train

        def train_critics() -> None:
            vars(model).pop("train", None)  # the class's own again
            actor = model.policy.mlp_extractor.actor_heads
            held = [parameter for parameter in actor.parameters() if parameter.requires_grad]
            try:
                for parameter in held:
                    parameter.requires_grad_(False)
                train()
            finally:
                for parameter in held:
                    parameter.requires_grad_(True)

        model.train = train_critics

    def _on_step(self) -> bool:
        return True
