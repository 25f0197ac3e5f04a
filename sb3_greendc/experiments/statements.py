"""What the papers say without a number, and whether it holds in our results.

Each check reads an experiment's tables, and returns our figures with a verdict: for the learner as printed
and, where other learners stand in the tables, for the best of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from sb3_greendc.experiments.tasks import ALL_WAITING, PRINTED, name_of_log
from sb3_greendc.experiments.text import number

Tables = Mapping[str, pd.DataFrame]
ALIKE = 0.1
"""Figures that differ by less than this share are called alike, or near, or close."""


@dataclass(frozen=True)
class Found:
    """What our results say of a statement.

    :param figures: by the point that they belong to, in the statement's order
    :param holds: whether the statement is true of each; one verdict may be for all of them
    :param why_not: why nothing can be said of it, if so
    """

    figures: Mapping[str, float]
    holds: Sequence[bool] = field(default=())
    why_not: str = ""

    @property
    def text(self) -> str:
        """The figures as a table writes them."""
        return "; ".join(f"{name}: {number(value)}" for name, value in self.figures.items())

    @property
    def verdict(self) -> str:
        """Whether the statement holds, or in how many of its points."""
        if self.why_not:
            return f"not comparable: {self.why_not}"
        true = sum(self.holds)
        if 0 < true < len(self.holds):
            return f"holds in {true} of {len(self.holds)}"
        return "" if not self.holds else "holds" if true else "does not hold"


Check = Callable[[Tables, bool], Found | None]
"""Of an experiment's tables, and whether of the learner as printed."""


def _learners(table: pd.DataFrame, as_printed: bool, column: str = "learner") -> pd.DataFrame:
    """Return the rows of the learner as printed, or of the other learners."""
    mine = table[column].str.contains(PRINTED, regex=False)
    if "kind" in table:
        table, mine = table[table["kind"] == "learner"], mine[table["kind"] == "learner"]
    return table[mine == as_printed]


def _as_printed(judge: Callable[[Tables], Found]) -> Check:
    """Return a check of what only the learner as printed has: curves over training, or a change of it."""
    return lambda tables, as_printed: judge(tables) if as_printed else None


def margins(*rivals: str, points: Sequence[float] = (), costs: bool = False) -> Check:
    """Return a check that a learner's margins over all rivals lie above 0 with their whole intervals.

    The figures are the smallest margins of the best learner.

    :param rivals: their names
    :param points: all if empty
    :param costs: less is better: margins must lie below 0, and the figures are the greatest
    """

    def check(tables: Tables, as_printed: bool) -> Found | None:
        rows = _against(tables["comparison"], rivals, as_printed)
        rows = rows[rows["x"].isin(points)] if points else rows
        if rows.empty:
            return None
        figures, holds = {}, []
        for (name, x), here in rows.groupby(["series", "x"], sort=False):
            worst = here.groupby("learner")["margin_percent"].agg("max" if costs else "min")
            best = str(worst.idxmin() if costs else worst.idxmax())
            of = here[here["learner"] == best]
            figures[f"{_place(rows, name)}{x:g}"] = float(worst.loc[best])
            holds.append(bool((of["high"] < 0).all() if costs else (of["low"] > 0).all()))
        return Found(figures, holds)

    return check


def _place(rows: pd.DataFrame, series: object) -> str:
    """Return a series' name before its point, if there are several."""
    return f"{name_of_log(str(series))}, " if rows["series"].nunique() > 1 else ""


def growing_margin(rival: str, series: str) -> Check:
    """Return a check that the margin over a rival grows from point to point, to one above 0.

    The last interval lies above the first.
    """

    def check(tables: Tables, as_printed: bool) -> Found | None:
        found: dict[str, float] = {}
        holds = []
        for name, points in _by_point(tables, rival, series, as_printed).items():
            margins = points["margin_percent"]
            found |= {f"{name}{x:g}": float(value) for x, value in margins.items()}
            apart = points["low"].iloc[-1] > max(points["high"].iloc[0], 0)
            holds.append(margins.is_monotonic_increasing and bool(apart))
        return Found(found, holds) if found else None

    return check


def greatest_margin(rival: str, series: str, at: float) -> Check:
    """Return a check that the margin over a rival is the greatest at one point, and above 0 there.

    The interval at this point lies above the means of all others.
    """

    def check(tables: Tables, as_printed: bool) -> Found | None:
        found: dict[str, float] = {}
        holds = []
        for name, points in _by_point(tables, rival, series, as_printed).items():
            margins = points["margin_percent"]
            found |= {f"{name}{x:g}": float(value) for x, value in margins.items()}
            holds.append(bool(points["low"].loc[at] > max(margins.drop(index=at).max(), 0)))
        return Found(found, holds) if found else None

    return check


def _by_point(tables: Tables, rival: str, series: str, as_printed: bool) -> dict[str, pd.DataFrame]:
    """Return the greatest margin over a rival, with its interval, at each point (the index), by series.

    Where there is one point alone, there is nothing to compare.
    """
    rows = _against(tables["comparison"], (rival,), as_printed)
    rows = rows[rows["series"].str.startswith(series)]
    best = {
        _place(rows, name): here.loc[here.groupby("x")["margin_percent"].idxmax()].set_index("x")
        for name, here in rows.groupby("series", sort=False)
    }
    return {name: points for name, points in best.items() if len(points) > 1}


def _against(table: pd.DataFrame, rivals: Sequence[str], as_printed: bool) -> pd.DataFrame:
    """Return the rows against rivals, of the learner as printed or of the others.

    Rivals as printed choose among all waiting jobs, where the table has that form of them.
    """
    rows = _learners(table, as_printed)
    names = _forms(set(rows["against"]), rivals, as_printed)
    return rows[rows["against"].isin(names)]


def _forms(known: Collection[str], heuristics: Sequence[str], as_printed: bool) -> list[str]:
    """Return the names of heuristics in the form that is asked for."""
    as_theirs = [name + ALL_WAITING for name in heuristics]
    return as_theirs if as_printed and set(as_theirs) <= set(known) else list(heuristics)


def _curves(tables: Tables, metric: str) -> pd.DataFrame:
    """Return the learner's curves of the first series: a column a curve, a row a number of decisions."""
    curves = tables["curves"]
    first = curves[curves["series"] == curves["series"].iloc[0]]
    table: pd.DataFrame = first.pivot_table(index="trained_decisions", columns="curve", values=metric)
    return table[sorted(table, key=_per_cent)]


def _per_cent(curve: object) -> float:
    """Return the number that a curve's name begins with; ``full power`` is 100."""
    head = str(curve).replace("%", " ").split()[0]
    return float(head) if head.replace(".", "").isdigit() else 100.0


def _untrained(curves: pd.DataFrame, decisions: int) -> str:
    """Return why curves do not show where training ends, if they stop before so many decisions."""
    last = int(curves.index.max())
    return f"trained for {last:,} of {decisions:,} decisions" if last < decisions else ""


def rises_with_arrivals(metric: str, trained: int) -> Check:
    """Return a check that what curves end at rises with the arrivals.

    :param metric: of the curves
    :param trained: decisions of the paper's learner
    """

    def judge(tables: Tables) -> Found:
        curves = _curves(tables, metric)
        ends = curves.iloc[-1]
        figures = {str(rate): float(end) for rate, end in ends.items()}
        return Found(figures, [ends.is_monotonic_increasing], _untrained(curves, trained))

    return _as_printed(judge)


def converged_after(metric: str, decisions: int, trained: int) -> Check:
    """Return a check that curves stay close to where they end.

    :param metric: of the curves
    :param decisions: from when on
    :param trained: decisions of the paper's learner
    """

    def judge(tables: Tables) -> Found:
        curves = _curves(tables, metric)
        spread = (curves[curves.index >= decisions] / curves.iloc[-1] - 1).abs().max()
        figures = {f"{curve}, off by %": 100 * float(value) for curve, value in spread.items()}
        return Found(figures, list(spread <= ALIKE), _untrained(curves, trained))

    return _as_printed(judge)


def near_zero_until(metric: str, decisions: int, trained: int) -> Check:
    """Return a check that curves stay near 0 for so long: of the greatest that any of them comes to.

    The figures are the greatest distances from 0 up to then. Other parameters as in :func:`converged_after`.
    """

    def judge(tables: Tables) -> Found:
        curves = _curves(tables, metric).abs()
        until = curves[curves.index <= decisions].max()
        near = until <= ALIKE * float(curves.max().max())
        figures = {str(curve): float(value) for curve, value in until.items()}
        return Found(figures, list(near), _untrained(curves, trained))

    return _as_printed(judge)


def starts_below_zero(metric: str) -> Check:
    """Return a check that curves begin below 0."""

    def judge(tables: Tables) -> Found:
        begin = _curves(tables, metric).iloc[0]
        return Found({str(curve): float(value) for curve, value in begin.items()}, list(begin < 0))

    return _as_printed(judge)


def close_ends(metric: str, first: str, second: str, trained: int) -> Check:
    """Return a check that two curves end close to each other; ``trained`` as in :func:`converged_after`."""

    def judge(tables: Tables) -> Found:
        curves = _curves(tables, metric)
        figures = {name: float(curves.iloc[-1][name]) for name in (first, second)}
        alike = abs(figures[first] / figures[second] - 1) <= ALIKE
        return Found(figures, [alike], _untrained(curves, trained))

    return _as_printed(judge)


Levels = Mapping[str, Mapping[float, float]]
"""By policy, and by load."""


def _levels(tables: Tables, metric: str, heuristics: Sequence[str]) -> list[tuple[str, Levels]]:
    """Return the means of heuristics and the learner as printed, each series' under its name.

    Heuristics choose among all waiting jobs, where the table has that form of them.
    """
    rows = tables["results"]
    rows = rows[rows["metric"] == metric]
    learners = [name for name in rows["policy"].unique() if name.endswith(PRINTED)]
    found: list[tuple[str, Levels]] = []
    for series, here in rows.groupby("series", sort=False):
        levels = {
            name.removesuffix(ALL_WAITING): of_name.set_index("x")["estimate"].to_dict()
            for name in (*_forms(set(here["policy"]), heuristics, True), *learners)
            if not (of_name := here[here["policy"] == name]).empty
        }
        found.append((_place(rows, series), levels))
    return found


def completes_more(
    heuristic: str, rivals: Sequence[str], points: Sequence[float], low: float, high: float
) -> Check:
    """Return a check that a heuristic completes so many per cent more jobs than each of the others.

    The figures are its smallest and its greatest margin at each point.
    """

    def judge(tables: Tables) -> Found:
        figures: dict[str, float] = {}
        holds = []
        for place, levels in _levels(tables, "completion_ratio", (heuristic, *rivals)):
            for x in points:
                margins = [100 * (levels[heuristic][x] / levels[rival][x] - 1) for rival in rivals]
                figures |= {f"{place}least at {x:g}": min(margins), f"{place}most at {x:g}": max(margins)}
                holds.append(low <= min(margins) <= max(margins) <= high)
        return Found(figures, holds)

    return _as_printed(judge)


def drops_above(metric: str, load: float) -> Check:
    """Return a check that levels are lower beyond a load than at it; the figures are changes in per cent."""

    def judge(tables: Tables) -> Found:
        change = {
            f"{place}{name}": 100 * (of_policy[max(of_policy)] / of_policy[load] - 1)
            for place, levels in _levels(tables, metric, _OF_COCORL)
            for name, of_policy in levels.items()
            if load < max(of_policy)
        }
        return Found(change, [value < 0 for value in change.values()])

    return _as_printed(judge)


def low_up_to(metric: str, load: float) -> Check:
    """Return a check that a level is lower up to a load than beyond it, whatever the policy.

    The figures are the greatest up to it and the least beyond, in per cent.
    """

    def judge(tables: Tables) -> Found:
        figures: dict[str, float] = {}
        holds = []
        for place, levels in _levels(tables, metric, _OF_COCORL):
            pairs = [pair for of_policy in levels.values() for pair in of_policy.items()]
            most = 100 * max(level for x, level in pairs if x <= load)
            least = 100 * min(level for x, level in pairs if x > load)
            figures |= {f"{place}most up to {load:g}": most, f"{place}least beyond": least}
            holds.append(most < least)
        return Found(figures, holds)

    return _as_printed(judge)


def below_one(metric: str, load: float) -> Check:
    """Return a check that no policy's level comes to 1 at a load; the figure is the greatest, in per cent."""

    def judge(tables: Tables) -> Found:
        most = {
            f"{place}{load:g}": 100 * max(levels[name][load] for name in levels if load in levels[name])
            for place, levels in _levels(tables, metric, _OF_COCORL)
        }
        return Found(most, [value < 100 for value in most.values()])

    return _as_printed(judge)


def cheap_alike(cheap: Sequence[str], dear: Sequence[str], at: float) -> Check:
    """Return a check that some heuristics and the learner cost alike at a load, and others more."""

    def judge(tables: Tables) -> Found:
        figures: dict[str, float] = {}
        holds = []
        for place, levels in _levels(tables, "accrued_cost", (*cheap, *dear)):
            costs = {name: of_policy[at] for name, of_policy in levels.items() if at in of_policy}
            figures |= {f"{place}{name}": cost for name, cost in costs.items()}
            same = [cost for name, cost in costs.items() if name not in dear]
            others = [costs[name] for name in dear]
            holds += [max(same) <= (1 + ALIKE) * min(same), min(others) > max(same)]
        return Found(figures, holds)

    return _as_printed(judge)


def cheapest_of_all(heuristic: str, others: Sequence[str], points: Sequence[float]) -> Check:
    """Return a check that a heuristic and the learner cost less than all others at some loads."""

    def judge(tables: Tables) -> Found:
        figures: dict[str, float] = {}
        holds = []
        for place, levels in _levels(tables, "accrued_cost", (heuristic, *others)):
            for x in sorted(set(points) & set(levels[heuristic])):
                costs = {name: of_policy[x] for name, of_policy in levels.items() if x in of_policy}
                figures |= {f"{place}{name} at {x:g}": cost for name, cost in costs.items()}
                ours = [cost for name, cost in costs.items() if name not in others]
                holds.append(max(ours) < min(costs[name] for name in others))
        return Found(figures, holds)

    return _as_printed(judge)


def alike_but_for(heuristic: str, at: float, below: float) -> Check:
    """Return a check that policies are alike at small rates, but one is poor at one of them.

    The figures are what the heuristic earns there, and the least that any policy earns elsewhere, each in per
    cent of the best policy of the rate.
    """

    def check(tables: Tables, as_printed: bool) -> Found | None:
        rows = tables["results"]
        rows = rows[(rows["metric"] == "total_job_value") & (rows["x"] < below)]
        learner = "A2C as printed" if as_printed else "distilled policy"
        names = [*_forms(set(rows["policy"]), ("fcfs", heuristic), as_printed), learner]
        shown = rows[rows["policy"].isin(names)]
        values = shown.pivot_table(index="x", columns="policy", values="estimate")
        values = values.rename(columns=lambda name: name.removesuffix(ALL_WAITING))
        shares = values.div(values.max(axis=1), axis=0)
        poor, elsewhere = float(shares[heuristic].loc[at]), float(shares.drop(index=at).min().min())
        figures = {f"{heuristic} at {at:g}, % of the best": 100 * poor, "least elsewhere, %": 100 * elsewhere}
        return Found(figures, [elsewhere >= 1 - ALIKE, poor < 1 - ALIKE])

    return check


THREE = {"total_job_value": "value", "completion_ratio": "completion", "utilization": "utilization"}
_OF_COCORL = ("sjf", "qos", "edf", "hvf", "fcfs")


def best_side_by_side(best_at: float, level_at: float, rival: str) -> Check:
    """Return a check that value, completion and utilization are the best at one load, and level at another.

    The figures are per cent over the best of the papers' heuristics, and over the rival. Level means that the
    rival's mean is not above the learner's interval.
    """

    def check(tables: Tables, as_printed: bool) -> Found | None:
        rows = tables["results"]
        learner = "CoCoRL as printed" if as_printed else "guided rollouts"
        figures, holds = {}, []
        for x, rivals in ((best_at, _OF_COCORL), (level_at, (rival,))):
            for metric, name in THREE.items():
                here = rows[(rows["x"] == x) & (rows["metric"] == metric)].set_index("policy")
                names = _forms(set(here.index), rivals, as_printed)
                theirs = float(here["estimate"].reindex(names).max())
                ours = {column: float(here[column].loc[learner]) for column in ("estimate", "low", "high")}
                figures[f"{name} at {x:g}"] = 100 * (ours["estimate"] / theirs - 1)
                holds.append(ours["low" if x == best_at else "high"] >= theirs)
        return Found(figures, holds)

    return check


def cheaper_than(other: str, points: Sequence[float] = ()) -> Check:
    """Return a check that the learner as printed costs less than a change of it: intervals apart.

    The figures are what it costs more, in per cent.
    """

    def judge(tables: Tables) -> Found:
        rows = tables["comparison"]
        rows = rows[(rows["learner"] == other) & (rows["against"] == other.partition(",")[0])]
        rows = rows[rows["x"].isin(points)] if points else rows
        figures = {}
        for _, row in rows.iterrows():
            share = 100 / (100 + row["margin_percent"])
            figures[f"{_place(rows, row['series'])}{row['x']:g}"] = 100 * (share - 1)
        return Found(figures, list(rows["low"] > 0))

    return _as_printed(judge)
