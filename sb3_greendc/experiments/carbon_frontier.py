"""Value against carbon where power is commanded: rules, plans, learners, chance, and the bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from greendc.baselines.resource_pool.energy_programme import carbon_bound
from greendc.baselines.resource_pool.outlooks import OUTLOOKS
from greendc.resource_pool import ResourcePoolSimulator
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.experiments.carbon_comparison import (
    CARBON,
    VALUE,
    gain,
    hull,
    interval_columns,
    learners_at_limits,
    value_at,
    written,
)
from sb3_greendc.experiments.carbon_distillation import STUDENT, PlanStudent
from sb3_greendc.experiments.carbon_learners import (
    AT_LIMIT,
    GREEDY_KG,
    PID,
    PID_SCRATCH,
    SCALARISED,
    DecisionTimes,
    StudentAtLimit,
    StudentPlay,
    named,
    pid_from_plan,
    pid_from_scratch,
    scalarised,
)
from sb3_greendc.experiments.episodes import TEST_SEED, Baselines, Variant
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.figures import outer_legend, panels
from sb3_greendc.experiments.tasks import Item, Outcome, Scenario, Task
from sb3_greendc.experiments.training import Learner, Training

ENV_ID = "ResourcePoolCarbon-10-v0"
CHOOSING, HELD_OUT, SHIFTED = "2019, for choosing", "2019, held out", "2021"
YEARS = {"2019": "PGE-2019", "2021": "PGE-2021"}
GREEDY, PLAN, CHANCE = "grid_on", "power_plan", "random_actions"
HALVES = {"jobs": "the plan decides on jobs alone", "power": "the plan decides on power alone"}
"""Halves of the decisions, in whose other one the rule ``carbon_threshold`` decides."""
LEARNERS = {AT_LIMIT: "D", PID: "*", PID_SCRATCH: "P", SCALARISED: "X"}
"""Markers of those that are under a limit, or a price."""
LIMITS = (0.45, 0.60, 0.75)
"""Carbon limits, as shares of what the greedy schedule, every unit on, emits in 2019."""
SHOWN_FORECAST = "oracle"
ENERGY = (
    "solar_kwh",
    "wind_kwh",
    "brown_kwh",
    "battery_charged_kwh",
    "battery_discharged_kwh",
    "curtailed_kwh",
    "switching_kwh",
    "switched_units",
    "grid_cost",
)
RULES = (
    Variant(GREEDY),
    *(Variant("grid_off", {"spares": spares}) for spares in (0, 2)),
    *(Variant("as_needed", {"spares": spares}) for spares in (2, 4, 6)),
    *(Variant("arbitrage", {"spares": spares}) for spares in (4, 6)),
    *(
        Variant("grid_qos", {"min_qos": qos, "spares": spares})
        for qos in (0.2, 0.4, 0.5, 0.6, 0.7)
        for spares in (2, 6)
    ),
    *(
        Variant("carbon_threshold", {"kg_price": price, "battery": battery, "spares": spares})
        for price in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
        for battery in ("auto", "arbitrage")
        for spares in (2, 6)
    ),
)
QUICK_RULES = tuple(
    rule
    for rule in RULES
    if rule.options.get("spares", 0) < 6 and rule.options.get("kg_price", 0.1) in (0.1, 0.2, 0.3)
)
PRICES = (0.05, 0.1, 0.15, 0.2, 0.3)
"""Values of a kg at which plans are made."""
QUICK_PRICES = (0.1, 0.25)
BOUND_PRICES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
OTHER_FORECAST_PRICES = (0.1, 0.2)
TAUGHT_PRICES = (0.05, 0.12, 0.25)
"""Values of a kg at which the plan is distilled; the network is asked at those and between them."""
ASKED_PRICES = (0.05, 0.08, 0.12, 0.18, 0.25, 0.3)
COMPARED_AT = 0.60
"""Limit at which learners without the plan are trained, too."""
FULL_SEEDS = 3
_PLAN_SECONDS = 5.0  # of an episode


@dataclass(frozen=True)
class Plans(Baselines):
    """Rolling plans: :class:`~sb3_greendc.experiments.episodes.Baselines` that take their time."""

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 5.0 + _PLAN_SECONDS * self.episodes * len(self.variants)


@dataclass(frozen=True)
class Envelope(Task):
    """The bound on value less the price of carbon, at several prices, in the first test episodes.

    :param scenario: of a pool whose power is commanded
    :param prices: values of a kg
    :param episodes: number of episodes
    """

    scenario: Scenario
    prices: tuple[float, ...]
    episodes: int

    @property
    def title(self) -> str:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return f"bounds {self.scenario.env_id}"

    def seconds(self) -> float:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        return 2.0 + 0.6 * self.episodes * len(self.prices)

    def compute(self) -> Outcome:
        """See :class:`~sb3_greendc.experiments.tasks.Task`."""
        env = make_vec_env(self.scenario.env_id, self.episodes, TEST_SEED, **self.scenario.env_kwargs)
        env.reset()
        assert isinstance(env, SimulatorVecEnv)
        assert isinstance(env.simulator, ResourcePoolSimulator)
        rows = [
            {"episode": k, "kg_price": price, "bound": carbon_bound(env.simulator, price, k).value}
            for k in range(self.episodes)
            for price in self.prices
        ]
        env.close()
        return Outcome({"bounds": pd.DataFrame(rows)})


def items(budget: Budget) -> list[Item]:
    """Return rules, plans, learners, chance and bounds in both years; half the episodes of 2019 choose."""
    episodes = budget.pick(20, 24)
    prices = budget.pick(QUICK_PRICES, PRICES)
    found: list[Item] = []
    for year, carbon in YEARS.items():
        scenario = Scenario(ENV_ID, {"carbon": carbon})
        halves = 2 if year == "2019" else 1
        rules = Baselines(scenario, (*budget.pick(QUICK_RULES, RULES), Variant(CHANCE)), halves * episodes)
        planned: list[Task] = [
            Plans(scenario, (Variant(PLAN, {"kg_price": price}),), halves * episodes) for price in prices
        ]
        if year == "2021":
            split_plans = [
                Variant("power_halves", {**_half(half), "kg_price": price})
                for price in prices
                for half in HALVES
            ]
            planned += [Plans(scenario, (one,), episodes) for one in split_plans]
            planned += [
                Plans(scenario, (Variant(PLAN, {"kg_price": price, "forecast": kind}),), episodes)
                for kind in OUTLOOKS
                if kind != SHOWN_FORECAST
                for price in budget.pick(OTHER_FORECAST_PRICES[:1], OTHER_FORECAST_PRICES)
            ]
        bounds = Envelope(scenario, BOUND_PRICES, halves * episodes)
        students = [
            StudentPlay(student(budget, seed), ASKED_PRICES, scenario, halves * episodes)
            for seed in budget.seeds_of(STUDENT, full=FULL_SEEDS)
        ]
        found += labelled([rules, *planned, bounds, *students], year=year)
    found.append(Item(DecisionTimes(student(budget, 0), COMPARED_PRICE, budget.pick(200, 1000))))
    return found + trainings(budget, 2 * episodes)


def _half(half: str) -> dict[str, str]:
    """Return who decides where the plan has one half."""
    return {one: PLAN if one == half else "carbon_threshold" for one in HALVES}


COMPARED_PRICE = 0.12
"""Value of a kg at which the times of decisions are measured."""


def student(budget: Budget, seed: int) -> PlanStudent:
    """Return the distillation of the plan, from episodes of 2019 that no policy is judged on."""
    taught = Scenario(ENV_ID, {"carbon": YEARS["2019"]})
    return PlanStudent(taught, TAUGHT_PRICES, budget.pick(5_580, 18_600), 20, seed, budget.pick(2, 4))


def trainings(budget: Budget, episodes: int) -> list[Item]:
    """Return the runs of learners under limits: trained in 2019, judged in both years."""
    years = {f"year {year}": Scenario(ENV_ID, {"carbon": carbon}) for year, carbon in YEARS.items()}
    training_year = years["year 2019"]
    limited = [
        Item(StudentAtLimit(student(budget, seed), share, GREEDY, years, episodes), {"limit_share": share})
        for share in LIMITS
        for seed in budget.seeds_of(STUDENT, full=FULL_SEEDS)
    ]
    learners: list[tuple[Learner, float]] = [
        (pid_from_plan(student(budget, 0), share), share) for share in LIMITS
    ]
    learners += [(make(COMPARED_AT), COMPARED_AT) for make in (pid_from_scratch, scalarised)]
    return limited + [
        Item(
            Training(
                training_year,
                learner,
                budget.pick(learner.quick_decisions, learner.decisions),
                seed,
                episodes,
                tests=years,
            ),
            {"limit_share": share},
        )
        for learner, share in learners
        for seed in budget.seeds_of(learner.name, learner.quick_seeds, FULL_SEEDS)
    ]


def split(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the column ``test``: even episodes of 2019 choose, odd ones are held out."""
    even = rows["episode"] % 2 == 0
    of_2019 = np.where(even, CHOOSING, HELD_OUT)
    return rows.assign(test=np.where(rows["year"] == "2019", of_2019, SHIFTED))


def analyze(results: Results, _form: Budget) -> Analysis:
    """Return what each policy earned and emitted, and the value at each limit."""
    rows = split(_with_years(results.table()))
    rows[CARBON] = rows["carbon_kg"] + rows["settled_carbon_kg"]
    judged = rows.loc[rows["baseline"] == GREEDY, ["test", "episode"]].drop_duplicates()
    rows = rows.merge(judged, on=["test", "episode"])
    bounds = split(results.table("bounds"))
    means = _means_of(rows)
    chosen = _chosen(means)
    greedy = float(means.loc[(means["test"] == CHOOSING) & (means["baseline"] == GREEDY), CARBON].iloc[0])
    learners = pd.DataFrame(learners_at_limits(rows, chosen, GREEDY, GREEDY_KG))
    halves = pd.DataFrame(_halves_at_limits(rows, chosen, greedy))
    frontier = pd.DataFrame(_at_limits(rows, chosen, bounds, greedy))
    for share, learner in ((share, named(PID, share)) for share in LIMITS if len(learners)):
        for row in learners[learners["learner"] == learner].to_dict("records"):
            here = (frontier["limit_share"] == share) & (frontier["series"] == row["series"])
            for column in ("value", "carbon_over_limit_percent", *interval_columns("over_rules")):
                frontier.loc[here, f"pid_ppo_{column}"] = row[column]
    times = results.table("times")
    said = ", ".join(f"{row.policy} {row.ms:.2g} ms" for row in times.itertuples())
    notes = [
        *_episodes_said(rows),
        f"A limit is a share of what {GREEDY} emits in {CHOOSING}; learners were trained under shares of "
        f"{GREEDY_KG:,.0f} kg. Rules are those on the hull of its even episodes ({', '.join(chosen)}); at a "
        "limit their mixture counts, and so does that of the distilled plan at several prices of carbon.",
        "The plan knows run times and, unless another forecast is named, the truth of the next 36 hours; the "
        "network sees the truth of 24; the bound knows the arrivals, too.",
        *([f"A decision, asked alone: {said}. The plan solves a programme an hour."] if said else []),
        _bounded(rows, bounds),
        "Weather is generated after that of Texas, emissions are California's: no real correlation.",
    ]
    table = means.rename(columns={"test": "series"})
    tables = {"comparison": frontier, "results": table}
    tables |= {name: found for name, found in (("learners", learners), ("halves", halves)) if len(found)}
    worth = _worth(rows.merge(bounds[["test", "episode"]].drop_duplicates()))
    return Analysis(tables, {"figure": _figure(means, bounds, worth)}, notes)


def _with_years(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the year of those that name it as the test of a training."""
    if "test" not in rows:
        return rows
    return rows.assign(
        year=rows["year"].fillna(rows["test"].str.removeprefix("year ")),
        baseline=rows["baseline"].fillna(rows["policy"]),
    )


def _means_of(rows: pd.DataFrame) -> pd.DataFrame:
    metrics = [VALUE, "total_job_value_ratio_inside", "total_job_value", CARBON, *ENERGY]
    means = rows.groupby(["test", "policy", "baseline"], sort=False)
    return means[metrics].mean().assign(episodes=means["episode"].nunique()).reset_index()


def _episodes_said(rows: pd.DataFrame) -> Iterator[str]:
    for who, of_who in (("all but plans and bounds", rows), ("plans and bounds", rows[_is_plan(rows)])):
        counts = of_who.groupby("test", sort=False)["episode"].nunique()
        yield f"Episodes of {who}: {', '.join(f'{count} of {test}' for test, count in counts.items())}."


def _bounded(rows: pd.DataFrame, bounds: pd.DataFrame) -> str:
    """Say by how much the bound is above what any policy got in any episode, at any price."""
    got = rows.drop(columns="kg_price", errors="ignore").merge(
        bounds[["test", "episode", "kg_price", "bound"]], on=["test", "episode"]
    )
    over = got["bound"] - (got["total_job_value"] - got["kg_price"] * got[CARBON])
    share = 100.0 * float((over / got["bound"].abs()).min())
    return (
        f"The bound on value less the price of carbon, of {bounds['kg_price'].nunique()} prices, against all "
        f"policies in all episodes, {len(got):,} pairs: at least {share:.1f} % above."
    )


def _worth(rows: pd.DataFrame) -> pd.Series[float]:
    """Return the mean value of all jobs of an episode, by test."""
    greedy = rows[rows["baseline"] == GREEDY]
    return (greedy["total_job_value"] / greedy[VALUE]).groupby(greedy["test"]).mean()


def _is_plan(means: pd.DataFrame) -> pd.Series[bool]:
    return means["baseline"] == PLAN


def _is_rule(means: pd.DataFrame) -> pd.Series[bool]:
    return means["baseline"].isin([rule.name for rule in RULES])


def _shown_plan(means: pd.DataFrame) -> pd.DataFrame:
    others = [kind for kind in OUTLOOKS if kind != SHOWN_FORECAST]
    blurred = means["policy"].apply(lambda name: any(kind in name for kind in others))
    return means[_is_plan(means) & ~blurred]


def _chosen(means: pd.DataFrame) -> list[str]:
    """Return the rules on the hull of the choosing episodes."""
    rules = means[(means["test"] == CHOOSING) & _is_rule(means)]
    corners = hull(rules)
    on_hull = [
        any(np.allclose(corner, point) for corner in corners) for point in rules[[CARBON, VALUE]].to_numpy()
    ]
    return list(rules.loc[on_hull, "policy"])


def _at_limits(
    rows: pd.DataFrame, chosen: Sequence[str], bounds: pd.DataFrame, greedy: float
) -> Iterator[dict[str, object]]:
    for test, of_test in rows.groupby("test", sort=False):
        means = _means_of(of_test)
        rules = hull(means[means["policy"].isin(chosen)])
        plans = list(_shown_plan(means)["policy"])
        planned = _means_of(of_test[of_test["episode"].isin(of_test.loc[_is_plan(of_test), "episode"])])
        students = means[means["baseline"] == STUDENT]
        lines = list(_bound_lines(bounds, str(test)))
        worth = _worth(of_test[of_test["episode"].isin(bounds.loc[bounds["test"] == test, "episode"])])
        for share in LIMITS:
            kg = share * greedy
            plan = value_at(hull(planned[planned["policy"].isin(plans)]), kg)
            found: dict[str, object] = {
                "series": test,
                "limit_share": share,
                "limit_kg": kg,
                "rules": value_at(rules, kg),
                "plan": plan,
                "plan_over_rules_percent": gain(of_test, plans, chosen, kg).estimate,
            }
            if len(students):
                names = list(students["policy"])
                found["distilled"] = value_at(hull(students), kg)
                found |= written("distilled_over_rules", gain(of_test, names, chosen, kg))
                found["distilled_of_plan_percent"] = 100.0 + gain(of_test, names, plans, kg).estimate
            found["bound"] = min(bound + price * kg for price, bound in lines) / worth[test]
            found["chance"] = float(means.loc[means["baseline"] == CHANCE, VALUE].iloc[0])
            yield found


def _halves_at_limits(
    rows: pd.DataFrame, chosen: Sequence[str], greedy: float
) -> Iterator[dict[str, object]]:
    """Yield what the plan has over rules at each limit, in both halves of the decisions and in one."""
    halves = rows[rows["baseline"] == "power_halves"]
    if halves.empty:
        return
    of_test = rows[rows["test"] == halves["test"].iloc[0]]
    plans = list(_shown_plan(_means_of(of_test))["policy"])
    sides = {"the plan decides on both": plans}
    for half, said in HALVES.items():
        marked = "/".join(_half(half).values())
        sides[said] = [str(policy) for policy in halves["policy"].unique() if marked in policy]
    for share in LIMITS:
        for said, policies in sides.items():
            found = written("over_rules", gain(of_test, policies, chosen, share * greedy))
            yield {"series": halves["test"].iloc[0], "limit_share": share, "policy": said, **found}


def _bound_lines(bounds: pd.DataFrame, test: str) -> Iterator[tuple[float, float]]:
    """Yield each price of carbon, for a kg, and the mean bound on value less that price's cost."""
    of_test = bounds[bounds["test"] == test]
    for price in sorted(of_test["kg_price"].unique()):
        yield float(price), float(of_test.loc[of_test["kg_price"] == price, "bound"].mean())


def _figure(means: pd.DataFrame, bounds: pd.DataFrame, worth: pd.Series[float]) -> Figure:
    tests = [test for test in (HELD_OUT, SHIFTED) if (means["test"] == test).any()]
    figure, axes = panels(tests)
    for panel, test in zip(axes, tests, strict=True):
        _draw(panel, means[means["test"] == test])
        kg = np.linspace(2_000.0, 16_000.0, 60)
        most = (
            np.min([bound + price * kg for price, bound in _bound_lines(bounds, test)], axis=0) / worth[test]
        )
        panel.plot(kg, np.minimum(most, 1.0), color="#333333", lw=1.0, ls="--", label="no policy is above")
        panel.set_xlabel("kg CO2 an episode of 30 days")
        panel.set_ylabel("share of the value")
        panel.set_ylim(0.0, 1.05)
    outer_legend(figure, axes[-1])  # which has the other forecasts
    return figure


def _draw(panel: Axes, means: pd.DataFrame) -> None:
    for name, of_name in means[_is_rule(means)].groupby("baseline", sort=False):
        panel.plot(of_name[CARBON], of_name[VALUE], "o", ms=4, label=name)
    shown = _shown_plan(means).sort_values(CARBON)
    panel.plot(shown[CARBON], shown[VALUE], "-s", color="#a04a00", ms=5, label="plan, exact forecasts")
    others = means[_is_plan(means) & ~means["policy"].isin(shown["policy"])]
    for kind in OUTLOOKS:
        of_kind = others[others["policy"].str.contains(kind)]
        if len(of_kind):
            panel.plot(of_kind[CARBON], of_kind[VALUE], "d", ms=5, label=f"plan, {kind}")
    students = means[means["baseline"] == STUDENT].sort_values(CARBON)
    panel.plot(students[CARBON], students[VALUE], "-^", color="#2a9d5c", ms=5, label=STUDENT)
    for name, marker in LEARNERS.items():
        of_learner = means[means["policy"].str.startswith(name)]
        if len(of_learner):
            panel.plot(of_learner[CARBON], of_learner[VALUE], marker, color="#2a9d5c", ms=8, label=name)
    chance = means[means["baseline"] == CHANCE]
    panel.plot(chance[CARBON], chance[VALUE], "kx", ms=6, label="chance")


EXPERIMENT = Experiment(
    "carbon-frontier",
    "value against carbon where power is commanded: rules, plans and the envelope, 2019 and 2021",
    items,
    analyze,
)
