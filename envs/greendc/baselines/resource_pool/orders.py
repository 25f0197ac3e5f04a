"""The codes by which compiled heuristics know an order, a rule for late jobs and a dispatch variant."""

from __future__ import annotations

SJF, QOS, HVF, FCFS, RANDOM, EDF, DENSITY = range(7)

LATE_ALIKE, LATE_LAST, LATE_NEVER = range(3)
"""Jobs that would finish late: like all others, only when nothing else will do, not at all."""

DISPATCHES = ("skip", "block", "reserve", "easy")
SKIP, BLOCK, RESERVE, EASY = range(4)
