"""CoCoRL, Fig. 5: total job value by load."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.claims import BEST_OF_PAPER, COCORL_VALUE, Claim
from sb3_greendc.experiments.cocorl.loads import LOADS

CLAIMS = (
    *COCORL_VALUE,
    Claim(BEST_OF_PAPER, 12.0, "CoCoRL, Fig. 5: 12 to 28 % at loads of 20 to 80 %", points=(0.4, 0.6, 0.8)),
    Claim(BEST_OF_PAPER, 1.0, "CoCoRL, Fig. 5: 1 to 6 % in overload", points=(1.0, 1.2)),
)
"""Where a range is printed, its lower end."""

EXPERIMENT = dataclasses.replace(LOADS, claims=CLAIMS).experiment(
    "cocorl-fig5", "total job value at loads of 20 to 120 % (10 units, synthetic jobs)"
)
