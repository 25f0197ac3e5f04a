"""Which policies lie on the hull, and the share of the value that no policy exceeds."""

from __future__ import annotations

import pandas as pd
import pytest

from sb3_greendc.experiments.carbon.comparison import CARBON, VALUE, on_hull
from sb3_greendc.experiments.carbon.envelope import bound_share


def test_policies_below_a_mixture_of_others_are_not_on_the_hull():
    means = pd.DataFrame({"policy": list("abcd"), CARBON: [0.0, 5.0, 10.0, 5.0], VALUE: [0.0, 0.4, 1.0, 0.6]})
    assert on_hull(means) == ["a", "c", "d"]


def test_the_bound_is_a_share_of_what_the_same_episodes_are_worth():
    bounds = pd.DataFrame({"episode": [0, 0], "kg_price": [0.0, 1.0], "bound": [80.0, 30.0]})
    rows = pd.DataFrame({"episode": [0, 1], "total_job_value": [50.0, 900.0], VALUE: [0.5, 0.9]})
    assert bound_share(bounds, rows, 10.0) == pytest.approx(0.4)
    assert bound_share(bounds, rows, 60.0) == pytest.approx(0.8)
    assert bound_share(bounds.assign(bound=500.0), rows, 60.0) == 1.0
