"""Rollouts as rivals of what learns, and as the search on top of taught networks."""

from __future__ import annotations

from sb3_greendc.experiments.episodes import Variant

NAME = "rollout"

STRONG = {"floor": 0.25, "depth": 24, "dispatch": "easy"}
"""The options with which rollouts earn most on synthetic jobs: backfilling with a floor inside, and no
farther ahead than tells actions apart, since what comes later adds more noise than news. Share of the value
with them, with the floor alone (40 steps), and with neither, by rollouts over four futures on 256 training
episodes of ten units: .883, .883 and .879 at a load of 0.4, .810, .808 and .804 at 0.6, .739, .734 and .725
at 0.8, .672, .661 and .651 at 1.0, .608, .589 and .581 at 1.2 (standard error of the differences .002). At
0.2 there is nothing to plan, and those with neither are ahead by .001."""


def plain(futures: int) -> Variant:
    """Return rollouts as they are by default.

    :param futures: of each decision
    """
    return Variant(NAME, {"futures": futures})


def strong(futures: int) -> Variant:
    """Return the strongest rollouts that we know.

    :param futures: of each decision
    """
    return Variant(NAME, {"futures": futures, **STRONG})
