"""What the papers print, as far as the text at hand gives figures.

Abbreviations: RARE (Venkataswamy, Grigsby, Grimshaw, Qi, JSSPP 2022), CoCoRL (Venkataswamy, "Job
Scheduling in Datacenters using Constraint Controlled RL"). Where a figure of a paper gives a curve and no
number, there is no claim here, and the comparison leaves the column empty.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A printed margin.

    :param against: name of the rival, as in :func:`~sb3_greendc.experiments.comparison.compare`
    :param percent: by how many per cent the paper's learner exceeds it
    :param source: where it is printed
    :param series: the series that it is about; ``None`` for all
    :param points: the points that it is about; empty for all
    """

    against: str
    percent: float
    source: str
    series: str | None = None
    points: tuple[float, ...] = ()

    def covers(self, series: object, x: object, against: str) -> bool:
        """Tell whether the claim is about a comparison."""
        here = self.series in (None, series) and (not self.points or x in self.points)
        return here and against == self.against


BEST_OF_PAPER = "best of the papers'"

RARE_SIZES = (
    Claim(
        BEST_OF_PAPER, 18.0, "RARE, section 5.4: 18 to 25 % at 10 to 50 resources", points=(10.0, 20.0, 50.0)
    ),
    Claim(BEST_OF_PAPER, 2.0, "RARE, section 5.4: 2 to 20 % at 100 to 300 resources", points=(100.0, 300.0)),
)
"""Where a range is printed, its lower end."""

COCORL_VALUE = (
    Claim(BEST_OF_PAPER, 20.0, "CoCoRL, Fig. 5: 20 to 28 % at an arrival rate of 20 %", points=(0.2,)),
)
COCORL_COMPLETION = {
    0.2: (98.0, 98.0),
    0.4: (98.0, 98.0),
    0.6: (98.0, 98.0),
    1.0: (79.0, 93.0),
    1.2: (64.0, 87.0),
}
"""Completion in per cent by load, of the weakest and the best policy (CoCoRL's curves)."""

COCORL_UTILIZATION = {0.2: (18.0, 18.0), 0.6: (52.0, 52.0), 1.0: (75.0, 75.0), 1.2: (78.0, 78.0)}
"""Utilization in per cent by load, likewise."""

RARE_AGREEMENT = {"sjf": 98.0, "qos": 71.0, "hvf": 75.0, "fcfs": 80.0}
"""Actions on which the clone agrees with the heuristic that it was taught by, per cent (RARE, Table 1)."""

RARE_OFFLINE_GAIN = {"sjf": 2.0, "qos": 5.0, "hvf": 19.0, "fcfs": 7.0}
"""By how many per cent offline learning exceeds the clone (RARE, Table 1)."""
