"""Rollouts as rivals of what learns, as teachers, and as the search on top of distilled policies."""

from __future__ import annotations

from sb3_greendc.experiments.episodes import Variant

NAME = "rollout"

MIN_QOS = 0.25
"""QoS value below which the heuristic inside starts no job: one serves all loads of synthetic jobs. Share of
the value that rollouts over four futures and 40 steps earn with it, and without one, on 256 training episodes
of ten units: .948 and .948 at a load of 0.2, .883 and .879 at 0.4, .808 and .804 at 0.6, .734 and .725 at
0.8, .661 and .651 at 1.0, .589 and .581 at 1.2 (standard error of the difference .001 to .002)."""

DEPTH = 24
"""Steps that they look ahead: no farther than tells actions apart, since what comes later adds more noise
than news. With it, and backfilling inside, the figures above are .946 at a load of 0.2, where there is
nothing to plan, .883, .810, .739, .672 and .608."""


def plain(futures: int) -> Variant:
    """Return rollouts as they are by default.

    :param futures: of each decision
    """
    return Variant(NAME, {"futures": futures})


def strong(futures: int, min_qos: float = MIN_QOS, depth: int = DEPTH) -> Variant:
    """Return the strongest rollouts that we know: with a min_qos, no deeper than need be, and backfilling.

    :param futures: of each decision
    :param min_qos: QoS value below which the heuristic inside starts no job
    :param depth: steps that they look ahead
    """
    return Variant(NAME, {"futures": futures, "min_qos": min_qos, "depth": depth, "dispatch": "easy"})
