"""What the validation episodes say of a policy, and which of two policies is better."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """The score of a policy.

    :param value: mean return
    :param excess_cost: mean cost of an episode above the limit, negative below it; 0 without a limit
    """

    value: float
    excess_cost: float = 0.0

    @property
    def rank(self) -> tuple[float, float]:
        """What is greater for the better policy: those within the limit first, by return; then by cost."""
        return -max(0.0, self.excess_cost), self.value

    def __str__(self) -> str:
        within = "" if self.excess_cost <= 0 else f" (cost {self.excess_cost:.3g} above the limit)"
        return f"{self.value:.6g}{within}"
