"""Value against carbon where power is commanded: rules, plans, learners, chance, and the bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from greendc.baselines.resource_pool.outlooks import OUTLOOKS
from sb3_greendc.experiments.carbon.comparison import (
    CARBON,
    SOURCES,
    VALUE,
    Floats,
    gain,
    hull,
    interval_columns,
    learners_at_limits,
    value_at,
    with_totals,
    written,
)
from sb3_greendc.experiments.carbon.distillation import STUDENT, PlanStudent
from sb3_greendc.experiments.carbon.envelope import (
    BOUND_PRICES,
    QUICK_BOUND_PRICES,
    Envelope,
    bound_at,
    worth_of,
)
from sb3_greendc.experiments.carbon.figure import KG, frontier_figure
from sb3_greendc.experiments.carbon.learners import (
    GREEDY_KG,
    PID,
    PID_SCRATCH,
    RECURRENT,
    SCALARISED,
    SCALARISED_SAC,
    DecisionTimes,
    StudentAtLimits,
    StudentPlay,
    named,
    pid_from_plan,
    pid_from_scratch,
    recurrent_pid,
    scalarised,
    scalarised_sac,
)
from sb3_greendc.experiments.carbon.lineup import (
    CHANCE,
    ENV_ID,
    GREEDY,
    LIMITS,
    PLAN,
    PRICES,
    QUICK_PRICES,
    QUICK_RULES,
    RANDOM_ORDER,
    RULES,
    SHOWN_FORECAST,
    YEARS,
    Plans,
    is_plan,
    is_rule,
    shown_plans,
)
from sb3_greendc.experiments.carbon.turns import TURNS, two_agents
from sb3_greendc.experiments.controls import UNIFORM_VALID, UniformPlay
from sb3_greendc.experiments.episodes import Baselines, Variant
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results, labelled
from sb3_greendc.experiments.tasks import Item, Scenario, Task
from sb3_greendc.experiments.training import Learner, Training

CHOOSING, HELD_OUT, SHIFTED = "2019, for choosing", "2019, held out", "2021"
HALVES = {"jobs": "the plan decides on jobs alone", "power": "the plan decides on power alone"}
"""Halves of the decisions, in whose other one the rule ``carbon_threshold`` decides."""
WITHOUT_PLAN = {
    PID_SCRATCH: "PID-PPO",
    RECURRENT: "recurrent PID-PPO",
    SCALARISED: "MaskablePPO",
    SCALARISED_SAC: "DiscreteSAC",
    TURNS: "two agents",
}
"""Learners that have not seen the plan, and what the figure calls them."""
ENERGY = (
    *SOURCES,
    "solar_kwh",
    "wind_kwh",
    "curtailed_kwh",
    "switching_kwh",
    "grid_cost",
)
OTHER_FORECAST_PRICES = (0.1, 0.2)
TAUGHT_PRICES = (0.05, 0.12, 0.25)
"""Values of a kg at which the plan is distilled; the network is asked at those and between them."""
ASKED_PRICES = (0.05, 0.08, 0.12, 0.18, 0.25, 0.3)
QUICK_ASKED_PRICES = ASKED_PRICES[::2]
COMPARED_AT = 0.60
"""Limit at which learners without the plan are trained, too."""
FULL_SEEDS = 3


def items(budget: Budget) -> list[Item]:
    """Return rules, plans, learners, chance and bounds in both years; half the episodes of 2019 choose."""
    episodes = budget.pick(12, 24)
    found: list[Item] = []
    for year, carbon in YEARS.items():
        scenario = Scenario(ENV_ID, {"carbon": carbon})
        halves = 2 if year == "2019" else 1
        variants = (*budget.pick(QUICK_RULES, RULES), Variant(CHANCE), Variant(RANDOM_ORDER))
        rules = Baselines(scenario, variants, halves * episodes)
        chance = UniformPlay(scenario.with_kwargs(mask="valid"), UNIFORM_VALID, halves * episodes)
        students = [
            StudentPlay(student(budget, seed), asked, scenario, halves * episodes)
            for seed in budget.seeds_of(STUDENT, full=FULL_SEEDS)
            for asked in (budget.pick(QUICK_ASKED_PRICES, ASKED_PRICES),)
        ]
        found += labelled([rules, chance, *students, *_slow(budget, year, scenario)], year=year)
    found.append(Item(DecisionTimes(student(budget, 0), COMPARED_PRICE, budget.pick(200, 1000))))
    return found + trainings(budget, 2 * episodes)


def _slow(budget: Budget, year: str, scenario: Scenario) -> list[Task]:
    """Return plans and bounds, of the first episodes alone in the quick form."""
    prices = budget.pick(QUICK_PRICES, PRICES)
    episodes = budget.pick(4, 24) * (2 if year == "2019" else 1)
    found: list[Task] = [Plans(scenario, (Variant(PLAN, {"kg_price": price}),), episodes) for price in prices]
    if year == "2021":
        split_plans = [
            Variant("power_halves", {**_half(half), "kg_price": price}) for price in prices for half in HALVES
        ]
        found += [Plans(scenario, (one,), budget.pick(4, 24)) for one in split_plans]
        found += [
            Plans(scenario, (Variant(PLAN, {"kg_price": price, "forecast": kind}),), budget.pick(3, 24))
            for kind in OUTLOOKS
            if kind != SHOWN_FORECAST
            for price in budget.pick(OTHER_FORECAST_PRICES[:1], OTHER_FORECAST_PRICES)
        ]
    return [*found, Envelope(scenario, budget.pick(QUICK_BOUND_PRICES, BOUND_PRICES), episodes)]


def _half(half: str) -> dict[str, str]:
    """Return who decides where the plan has one half."""
    return {one: PLAN if one == half else "carbon_threshold" for one in HALVES}


COMPARED_PRICE = 0.12
"""Value of a kg at which the times of decisions are measured."""


def student(budget: Budget, seed: int) -> PlanStudent:
    """Return the distillation of the plan, from episodes of 2019 that no policy is judged on."""
    taught = Scenario(ENV_ID, {"carbon": YEARS["2019"]})
    return PlanStudent(taught, TAUGHT_PRICES, budget.pick(2_790, 18_600), 20, seed, budget.pick(2, 4))


def trainings(budget: Budget, episodes: int) -> list[Item]:
    """Return the runs of learners under limits, or a price: trained in 2019, judged in both years."""
    years = {f"year {year}": Scenario(ENV_ID, {"carbon": carbon}) for year, carbon in YEARS.items()}
    found = [
        Item(StudentAtLimits(student(budget, seed), LIMITS, GREEDY, years, episodes, budget.pick(12, 40)))
        for seed in budget.seeds_of(STUDENT, full=FULL_SEEDS)
    ]
    learners: list[tuple[Learner, float]] = [
        (pid_from_plan(student(budget, 0), share), share) for share in LIMITS
    ]
    alone = (pid_from_scratch, recurrent_pid, scalarised, scalarised_sac)
    for learner, share in [*learners, *((make(COMPARED_AT), COMPARED_AT) for make in alone)]:
        decisions = budget.pick(learner.quick_decisions, learner.decisions)
        found += [
            Item(
                Training(years["year 2019"], learner, decisions, seed, episodes, tests=years),
                {"limit_share": share},
            )
            for seed in budget.seeds_of(learner.name, learner.quick_seeds, FULL_SEEDS)
        ]
    in_turn = scalarised(COMPARED_AT)  # whose decisions and reward the two agents share
    return found + [
        Item(
            two_agents(
                named(TURNS, COMPARED_AT),
                years["year 2019"].with_kwargs(**in_turn.choice),
                budget.pick(in_turn.quick_decisions, in_turn.decisions),
                seed,
                episodes,
                years,
            ),
            {"limit_share": COMPARED_AT},
        )
        for seed in budget.seeds_of(TURNS, full=FULL_SEEDS)
    ]


def split(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the column ``test``: even episodes of 2019 choose, odd ones are held out."""
    even = rows["episode"] % 2 == 0
    of_2019 = np.where(even, CHOOSING, HELD_OUT)
    return rows.assign(test=np.where(rows["year"] == "2019", of_2019, SHIFTED))


def analyze(results: Results, _form: Budget) -> Analysis:
    """Return what each policy earned and emitted, and the value at each limit."""
    rows = with_totals(split(_with_years(results.table())))
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
        *_chance_said(means),
        _bounded(rows, bounds),
        "Weather is generated after that of Texas, emissions are California's: no real correlation.",
    ]
    table = means.rename(columns={"test": "series"})
    limits = {share: share * greedy for share in LIMITS}
    tables = {"comparison": frontier, "results": table}
    tables |= {name: found for name, found in (("learners", learners), ("halves", halves)) if len(found)}
    most = _most(bounds, _worth(rows.merge(bounds[["test", "episode"]].drop_duplicates())))
    return Analysis(tables, {"figure": frontier_figure(means, most, WITHOUT_PLAN, limits)}, notes)


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
    for who, of_who in (("all but plans and bounds", rows), ("plans and bounds", rows[is_plan(rows)])):
        counts = of_who.groupby("test", sort=False)["episode"].nunique()
        yield f"Episodes of {who}: {', '.join(f'{count} of {test}' for test, count in counts.items())}."


def _chance_said(means: pd.DataFrame) -> Iterator[str]:
    """Say what is earned without any thought, and what learners without the plan were given."""
    order = means[means["baseline"] == RANDOM_ORDER]
    if len(order):
        said = ", ".join(
            f"{value:.3f} of the value and {kg:,.0f} kg in {test}"
            for test, value, kg in order[["test", VALUE, CARBON]].itertuples(index=False)
        )
        yield f"Jobs in a random order with every unit on: {said}."
    if any(means["policy"].str.startswith(name).any() for name in WITHOUT_PLAN):
        yield "Learners without the plan begin with every unit on, and are credited for jobs when placed."


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
    return worth_of(greedy).groupby(greedy["test"]).mean()


def _chosen(means: pd.DataFrame) -> list[str]:
    """Return the rules on the hull of the choosing episodes."""
    rules = means[(means["test"] == CHOOSING) & is_rule(means)]
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
        plans = list(shown_plans(means)["policy"])
        planned = _means_of(of_test[of_test["episode"].isin(of_test.loc[is_plan(of_test), "episode"])])
        students = means[means["baseline"] == STUDENT]
        bounds_of_test = bounds[bounds["test"] == test]
        worth = _worth(of_test[of_test["episode"].isin(bounds_of_test["episode"])])
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
            found["bound"] = float(bound_at(bounds_of_test, kg)) / worth[test]
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
    plans = list(shown_plans(_means_of(of_test))["policy"])
    sides = {"the plan decides on both": plans}
    for half, said in HALVES.items():
        marked = "/".join(_half(half).values())
        sides[said] = [str(policy) for policy in halves["policy"].unique() if marked in policy]
    for share in LIMITS:
        for said, policies in sides.items():
            found = written("over_rules", gain(of_test, policies, chosen, share * greedy))
            yield {"series": halves["test"].iloc[0], "limit_share": share, "policy": said, **found}


def _most(bounds: pd.DataFrame, worth: pd.Series[float]) -> dict[str, Floats]:
    """Return, by test, the share of the value that no policy exceeds at the carbon of the figure."""
    return {
        test: bound_at(bounds[bounds["test"] == test], KG) / worth[test]
        for test in (HELD_OUT, SHIFTED)
        if test in worth
    }


EXPERIMENT = Experiment(
    "carbon-frontier",
    "value against carbon where power is commanded: rules, plans and the envelope, 2019 and 2021",
    items,
    analyze,
)
