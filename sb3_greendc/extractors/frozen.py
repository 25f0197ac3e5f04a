"""Policies whose extractor may be frozen; that it is so is saved with them."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.policies import BasePolicy


class FreezableExtractor(BasePolicy):
    """A policy with the option to leave its features extractor as it is; mixed in before one of SB3's.

    Where a critic has an extractor of its own, that one is trained.

    :param args: as for the parent
    :param freeze_extractor: do not train the extractor that the actor reads
    :param kwargs: as for the parent
    """

    def __init__(self, *args: Any, freeze_extractor: bool = False, **kwargs: Any) -> None:
        self.freeze_extractor = freeze_extractor
        super().__init__(*args, **kwargs)
        if freeze_extractor:
            self.freeze()

    def freeze(self) -> None:
        """Do not train the extractor any more.

        A model that is to remember it needs the option in its ``policy_kwargs``, too.
        """
        self.freeze_extractor = True
        self.features_extractor.requires_grad_(False)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), "freeze_extractor": self.freeze_extractor}
