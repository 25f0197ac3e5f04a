"""What a learner has to beat before its learning counts: chance, and heuristics under its own mask.

A mask that leaves only jobs that can start now and finish on time takes most of the mistakes away from any
rule. What a policy earns by its mask alone is what chance, and a heuristic, earn under the same
mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from greendc.cluster import ClusterSimulator
from sb3_greendc.core.masking import ACTION_MASK
from sb3_greendc.discrete_sac.collection import uniform_valid_actions
from sb3_greendc.experiments.episodes import PAPER, Baselines, Variant, all_variants, play
from sb3_greendc.experiments.tasks import Outcome, Scenario, Task

UNIFORM_VALID, UNIFORM_MASKED = "uniformly random, valid", "uniformly random, masked"
"""Every valid action with the same probability, waiting among them: under ``mask="valid"``, and under the
learners'."""

ORDER_MASKED = "random order, masked"
"""The jobs that the learners' mask leaves, one after another in a random order; it waits only when none is
left."""

CONTROLS = (UNIFORM_VALID, UNIFORM_MASKED, ORDER_MASKED)
MASKED = ", masked"
"""End of the name of a baseline that acts under the learners' mask."""

_SEED = 1


class UniformlyRandom:
    """Draws each valid action with the same probability.

    :param seed: of the draws
    """

    def __init__(self, seed: int = _SEED) -> None:
        self._generator = np.random.default_rng(seed)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[Any], Any]:
        """Return an action for each row of ``observation["action_mask"]``."""
        masks = np.asarray(observation[ACTION_MASK]).astype(np.bool_)
        return uniform_valid_actions(masks, self._generator), state


@dataclass(frozen=True)
class UniformPlay(Task):
    """Play the test episodes uniformly at random.

    :param scenario: with the mask under which actions are drawn
    :param name: of the policy in tables
    :param episodes: number of episodes
    """

    scenario: Scenario
    name: str
    episodes: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"{self.name} {self.scenario.env_id}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 1.0 + 1e-5 * self.episodes * self.scenario.episode_steps * (1.0 + 0.2 * self.scenario.size)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        head = {"policy": self.name, "baseline": self.name}
        rows = [{**head, **row} for row in play(UniformlyRandom(), self.scenario, self.episodes)]
        return Outcome({"episodes": pd.DataFrame(rows)})


@dataclass(frozen=True)
class MaskedBaselines(Baselines):
    """Baselines under the learners' mask; tables name them so."""

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        episodes = super().compute().tables["episodes"]
        order = episodes["baseline"] == "random"
        for column, ending in (("policy", "/masked"), ("baseline", MASKED)):
            episodes[column] = (episodes[column] + ending).mask(order, ORDER_MASKED)
        return Outcome({"episodes": episodes})


def masked(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return what baselines are called under the learners' mask."""
    return tuple(name + MASKED for name in names)


def controls(scenario: Scenario, choice: dict[str, object], episodes: int) -> list[Task]:
    """Return chance and the papers' heuristics, under the ordinary mask and under the learners'.

    :param scenario: as it is tested
    :param choice: what learners choose from: keyword arguments of the environment, the mask among them
    :param episodes: number of episodes
    """
    # Heuristics on the whole queue want to be asked in every step.
    under = scenario.with_kwargs(**{**choice, "skip_forced": False})
    variants = (*all_variants((*PAPER, "edf"), dispatches=("skip",)), Variant("random"))
    return [
        UniformPlay(scenario, UNIFORM_VALID, episodes),
        UniformPlay(under, UNIFORM_MASKED, episodes),
        MaskedBaselines(under, variants, episodes),
    ]


def play_randomly(simulator: ClusterSimulator, rng: np.random.Generator) -> None:
    """Play environment 0 to the end of its episode: each job that waits is equally likely to be taken next.

    :param simulator: in the midst of an episode
    :param rng: of the choices
    """
    cluster = simulator.state.cluster[0]
    while not cluster["over"]:
        waiting = simulator.state.queue[0, : cluster["waiting"]]
        simulator.take(0, int(rng.choice(waiting)) if len(waiting) else None)
