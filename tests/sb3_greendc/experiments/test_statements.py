"""What the papers say without a number, judged on small tables."""

from __future__ import annotations

import pandas as pd
import pytest

from sb3_greendc.experiments import statements
from sb3_greendc.experiments.claims import CLAIMS, STATEMENT

OURS, OTHER = "X as printed", "ours"


def rows(*values, columns):
    return pd.DataFrame(list(values), columns=columns)


def margin_rows(*values):
    """Rows of a comparison: learner, x, rival, margin, low, high."""
    table = rows(*values, columns=["learner", "x", "against", "margin_percent", "low", "high"])
    return {"comparison": table.assign(series="synthetic", kind="learner")}


def curve_rows(**ends):
    """Curves of two points, the first 100 times the decision number 1."""
    found = [
        {"series": "s", "curve": curve, "trained_decisions": t, "accrued_reward": value}
        for curve, values in ends.items()
        for t, value in enumerate(values)
    ]
    return {"curves": pd.DataFrame(found)}


def test_every_statement_has_a_check():
    stated = [claim for claim in CLAIMS if claim.kind == STATEMENT]
    assert len(stated) >= 14
    assert all(claim.check is not None and len(claim.experiments) == 1 for claim in stated)


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [([True, True], "holds"), ([False], "does not hold"), ([True, False], "holds in 1 of 2")],
)
def test_verdicts(holds, verdict):
    found = statements.Found({"a": 1.0, "b": 2.5}, holds)
    assert (found.verdict, found.text) == (verdict, "a: 1; b: 2.5")


def test_margins_count_the_worst_rival_of_the_best_learner():
    tables = margin_rows(
        (OURS, 0.6, "sjf", 5.0, 3.0, 7.0),
        (OURS, 0.6, "qos", 2.0, -1.0, 4.0),
        (OTHER, 0.6, "sjf", 9.0, 8.0, 10.0),
        (OTHER, 0.6, "qos", 4.0, 1.0, 6.0),
        (OTHER, 0.8, "sjf", 9.0, 8.0, 10.0),
    )
    check = statements.margins("sjf", "qos", points=(0.6,))
    printed, best = check(tables, True), check(tables, False)
    assert printed == statements.Found({"0.6": 2.0}, [False])
    assert best == statements.Found({"0.6": 4.0}, [True])


def test_costs_must_be_below():
    tables = margin_rows((OURS, 0.6, "sjf", -5.0, -7.0, -3.0), (OURS, 0.8, "sjf", -5.0, -7.0, 3.0))
    assert statements.margins("sjf", costs=True)(tables, True).holds == [True, False]
    assert statements.margins("sjf", costs=True)(tables, False) is None


@pytest.mark.parametrize(
    ("second", "holds"),
    [((4.0, 3.5, 5.0), True), ((4.0, 2.5, 5.0), False), ((1.0, 0.5, 1.5), False)],
    ids=["apart", "overlapping", "falling"],
)
def test_a_margin_that_grows(second, holds):
    tables = margin_rows((OURS, 36, "sjf", 2.0, 1.0, 3.0), (OURS, 72, "sjf", *second))
    assert statements.growing_margin("sjf", "synthetic")(tables, True).holds == [holds]
    assert statements.growing_margin("sjf", "synthetic")(tables, False) is None


def test_curves_are_in_the_order_of_their_rates():
    tables = curve_rows(**{"100% arrivals": (0, 3.0), "20% arrivals": (-1, 2.0), "full power": (1, 4.0)})
    rising = statements.rises_with_arrivals("accrued_reward", 1)(tables, True)
    assert list(rising.figures) == ["20% arrivals", "100% arrivals", "full power"]
    assert (rising.holds, rising.verdict) == ([True], "holds")
    falling = curve_rows(**{"20% arrivals": (0, 3.0), "60% arrivals": (0, 2.0)})
    assert statements.rises_with_arrivals("accrued_reward", 1)(falling, True).holds == [False]
    assert statements.starts_below_zero("accrued_reward")(tables, True).holds == [True, False, False]


@pytest.mark.parametrize(
    "check",
    [
        statements.rises_with_arrivals("accrued_reward", 5),
        statements.near_zero_until("accrued_reward", 1, 5),
        statements.converged_after("accrued_reward", 1, 5),
        statements.close_ends("accrued_reward", "20% arrivals", "60% arrivals", 5),
    ],
)
def test_what_was_not_trained_to_the_end_says_nothing_of_it(check):
    tables = curve_rows(**{"20% arrivals": (0, 1, 1), "60% arrivals": (0, 1, 1)})
    assert check(tables, True).verdict == "not comparable: trained for 2 of 5 decisions"
    assert check(tables, False) is None


def test_near_zero_for_so_long():
    tables = curve_rows(**{"20% arrivals": (1, -5, 100), "60% arrivals": (1, 20, 50)})
    found = statements.near_zero_until("accrued_reward", 1, 2)(tables, True)
    assert found == statements.Found({"20% arrivals": 5.0, "60% arrivals": 20.0}, [True, False])


def test_convergence_and_closeness():
    tables = curve_rows(**{"20% arrivals": (50, 95, 100), "60% arrivals": (100, 80, 100)})
    assert statements.converged_after("accrued_reward", 1, 2)(tables, True).holds == [True, False]
    close = statements.close_ends("accrued_reward", "20% arrivals", "60% arrivals", 1)
    assert close(tables, True).holds == [True]
    far = curve_rows(**{"20% arrivals": (0, 80), "60% arrivals": (0, 100)})
    assert close(far, True).holds == [False]


@pytest.mark.parametrize(("hvf", "fcfs", "holds"), [(50, 99, [True, True]), (99, 50, [False, False])])
def test_one_poor_point(hvf, fcfs, holds):
    table = rows(
        ("hvf", 0.2, 100),
        ("fcfs", 0.2, fcfs),
        ("hvf", 0.4, hvf),
        ("fcfs", 0.4, 100),
        ("fcfs", 0.8, 1),
        columns=["policy", "x", "estimate"],
    )
    tables = {"results": table.assign(metric="total_job_value")}
    assert statements.alike_but_for("hvf", at=0.4, below=0.5)(tables, False).holds == holds


def test_side_by_side():
    found = []
    for x in (0.8, 1.0):
        for metric in statements.THREE:
            found += [("qos", x, metric, 10, 9, 11), ("sjf", x, metric, 20, 19, 21)]
            found.append(("CoCoRL as printed", x, metric, 19.5, 18, 22))
    table = rows(*found, columns=["policy", "x", "metric", "estimate", "low", "high"])
    judged = statements.best_side_by_side(0.8, 1.0, "qos")({"results": table}, True)
    assert judged.holds == [False] * 3 + [True] * 3
    assert judged.figures["value at 1"] == pytest.approx(95)


def test_a_change_that_costs_more():
    other = f"{OURS}, Ki 0.01"
    tables = margin_rows((other, 1.0, OURS, 25.0, 5.0, 40.0), (other, 1.2, OURS, 25.0, -5.0, 40.0))
    found = statements.cheaper_than(other)(tables, True)
    assert found.figures == pytest.approx({"1": -20.0, "1.2": -20.0})
    assert found.holds == [True, False]


def test_rivals_of_the_learner_as_printed_choose_among_all_waiting_jobs():
    tables = margin_rows(
        (OURS, 0.6, "sjf", -5.0, -7.0, -3.0),
        (OURS, 0.6, "sjf, all waiting jobs", 5.0, 3.0, 7.0),
        (OTHER, 0.6, "sjf", 9.0, 8.0, 10.0),
        (OTHER, 0.6, "sjf, all waiting jobs", 19.0, 18.0, 20.0),
    )
    check = statements.margins("sjf")
    assert check(tables, True) == statements.Found({"0.6": 5.0}, [True])
    assert check(tables, False) == statements.Found({"0.6": 9.0}, [True])


@pytest.mark.parametrize(("at_15", "low", "holds"), [(4.0, 3.0, True), (4.0, 1.5, False), (1.0, 0.5, False)])
def test_the_greatest_margin(at_15, low, holds):
    tables = margin_rows((OURS, 5, "sjf", 2.0, 1.0, 3.0), (OURS, 15, "sjf", at_15, low, 5.0))
    assert statements.greatest_margin("sjf", "synthetic", 15)(tables, True).holds == [holds]


def test_losses_that_shrink_are_no_margins_that_grow():
    tables = margin_rows((OURS, 5, "sjf", -9.0, -9.0, -9.0), (OURS, 15, "sjf", -2.0, -3.0, -1.0))
    assert statements.growing_margin("sjf", "synthetic")(tables, True).holds == [False]
    assert statements.greatest_margin("sjf", "synthetic", 15)(tables, True).holds == [False]


def level_rows(metric, **levels):
    """Levels of policies at loads of 0.2, 0.6, 1.0 and 1.2."""
    found = [
        ("synthetic", x, policy.replace("_", " "), metric, value)
        for policy, values in levels.items()
        for x, value in zip((0.2, 0.6, 1.0, 1.2), values, strict=True)
    ]
    return {"results": rows(*found, columns=["series", "x", "policy", "metric", "estimate"])}


HEURISTICS = ("sjf", "qos", "edf", "hvf", "fcfs")


@pytest.mark.parametrize(("last", "holds"), [(0.8, True), (0.95, False)])
def test_levels_that_drop_or_stay_below(last, holds):
    tables = level_rows(
        "completion_ratio",
        **dict.fromkeys(HEURISTICS, (0.5, 0.6, 0.9, 0.85)),
        X_as_printed=(0.5, 0.6, 0.9, last),
    )
    dropped = statements.drops_above("completion_ratio", 1.0)(tables, True)
    assert dropped.holds == [True] * 5 + [holds]
    assert dropped.figures[OURS] == pytest.approx(100 * (last / 0.9 - 1))
    assert statements.low_up_to("completion_ratio", 0.6)(tables, True).holds == [True]
    assert statements.low_up_to("completion_ratio", 1.0)(tables, True).holds == [False]
    assert statements.below_one("completion_ratio", 1.2)(tables, True).figures == {
        "1.2": pytest.approx(100 * max(last, 0.85))
    }


def test_levels_are_judged_on_each_log():
    one = level_rows("accrued_cost", sjf=(1,) * 4, fcfs=(3,) * 4, X_as_printed=(2,) * 4)["results"]
    two = one.assign(series="HPC log (Mira)", estimate=[1] * 4 + [3] * 4 + [9] * 4)
    tables = {"results": pd.concat([one.assign(series="HPC log (modelled)"), two])}
    found = statements.cheapest_of_all("sjf", ("fcfs",), (1.0,))(tables, True)
    assert found.holds == [True, False]
    assert found.figures["Mira, X as printed at 1"] == 9


def test_a_heuristic_that_completes_more():
    tables = level_rows("completion_ratio", qos=(1, 1.1, 1.3, 1), sjf=(1, 1, 1, 1), hvf=(1, 1, 1, 1))
    found = statements.completes_more("qos", ("sjf", "hvf"), (0.6, 1.0), 5, 22)(tables, True)
    assert found.holds == [True, False]
    assert found.figures["most at 1"] == pytest.approx(30)


@pytest.mark.parametrize(
    ("ours", "alike", "dearer"), [(10.5, True, True), (12, False, True), (40, False, False)]
)
def test_costs_that_are_alike(ours, alike, dearer):
    costs = {"sjf": 10, "qos": 10, "fcfs": 30, "hvf": 20, "X_as_printed": ours}
    tables = level_rows("accrued_cost", **{name: (cost,) * 4 for name, cost in costs.items()})
    assert statements.cheap_alike(("sjf", "qos"), ("fcfs", "hvf"), 0.2)(tables, True).holds == [alike, dearer]
    meagre = statements.cheapest_of_all("sjf", ("fcfs", "hvf"), (1.0, 1.2))(tables, True)
    assert meagre.holds == [dearer, dearer]
