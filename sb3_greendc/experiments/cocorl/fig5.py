"""CoCoRL, Fig. 5: total job value by load."""

from __future__ import annotations

import dataclasses

from sb3_greendc.experiments.claims import COCORL_VALUE
from sb3_greendc.experiments.cocorl.loads import LOADS

EXPERIMENT = dataclasses.replace(LOADS, claims=COCORL_VALUE).experiment(
    "cocorl-fig5", "total job value at loads of 20 to 120 % (10 units, synthetic jobs)"
)
