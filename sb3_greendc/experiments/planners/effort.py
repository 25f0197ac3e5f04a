"""Value against the time of a decision: rules, a network, and rollouts over more and more futures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from greendc.shipped.policy import load_policy
from sb3_greendc.evaluation.bounds import SHARE, add_share_of_bound
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.evaluation.plots import PALETTE, TEXT_WIDTH, styled
from sb3_greendc.evaluation.policy_sources import policy_sources
from sb3_greendc.experiments.planners import divisible
from sb3_greendc.experiments.planners.common import (
    BACKFILLED,
    CHANCE,
    ENV_ID,
    RATIO,
    REFERENCE,
    STUDENT,
    decision_time,
    estimates,
    interval,
    markdown,
)
from sb3_greendc.experiments.planners.loads import BOUND
from sb3_greendc.experiments.rollouts import strong

FIRST_SEED = 60_000
"""Of the episodes: nothing was chosen or trained on those that follow."""
FUTURES = (8, 32, 128, 512)
RACE = 2
"""Standard errors by which an action must be behind in a race."""
RULES = ("fcfs", "sjf", "hvf", REFERENCE, BACKFILLED)
LEARNED = "pretrained"
BOUNDED = 32
"""Episodes whose linear programme is solved."""
DIVISIBLE = {"episodes": 16, "steps": 500, "futures": 12, "depth": 30}
"""Of the programmes of divisible jobs, on the first episodes."""
COLORS = {
    "chance": PALETTE[8],
    "rules": PALETTE[1],
    "network": PALETTE[2],
    "network, NumPy": PALETTE[2],
    "rollouts": PALETTE[0],
    "raced rollouts": PALETTE[4],
    "guided rollouts": PALETTE[3],
}
"""Of each kind of policy."""


def study(load: float, futures: Sequence[int], episodes: int) -> pd.DataFrame:
    """Return a row for each policy, one for the bound, and one for divisible jobs whose arrivals are unknown.

    Columns: ``kind`` (of :data:`COLORS`, or a line's name), ``policy``, ``futures``, ``mean`` (value of jobs
    on time over that of all jobs), ``low``, ``high``, ``gain`` (per cent over ``deadline_never`` on the same
    episodes), ``gain_low``, ``gain_high``, ``milliseconds`` of a decision asked alone.

    :param load: offered load
    :param futures: numbers of sampled futures of rollouts
    :param episodes: of each policy, seeded from :data:`FIRST_SEED` on
    """
    ordinary = {"offered_load": load}
    rolled = [strong(number).spec for number in futures]
    raced = [f"{spec},race={RACE}" for spec in rolled]
    guided = [f"{spec},prior={LEARNED}" for spec in rolled]
    kinds = {CHANCE: "chance", LEARNED: "network", BOUND: BOUND}
    kinds |= dict.fromkeys(RULES, "rules") | dict.fromkeys(rolled, "rollouts")
    kinds |= dict.fromkeys(raced, "raced rollouts")
    kinds |= dict.fromkeys(guided, "guided rollouts")
    parts: list[pd.DataFrame] = []
    times: dict[str, float] = {}
    for named, scenario in (
        (list(RULES), ordinary),
        ([CHANCE, LEARNED, *rolled, *raced, *guided], {**ordinary, **STUDENT}),
    ):
        parts.append(evaluate(named, ENV_ID, episodes, FIRST_SEED, env_kwargs=scenario, progress=True))
        times |= {one.name: decision_time(one, scenario) for one in policy_sources(named, ENV_ID)}
    table = estimates(pd.concat(parts, ignore_index=True), RATIO, REFERENCE)
    table["milliseconds"] = table["policy"].map(times)
    table.insert(0, "kind", table["policy"].map(kinds))
    table.insert(
        2, "futures", table["policy"].map(dict(zip(rolled + raced + guided, 3 * [*futures], strict=True)))
    )
    alone = table[table["policy"] == LEARNED].assign(kind="network, NumPy", milliseconds=numpy_time(load))
    bound = _bound(parts[0], ordinary)
    lines = {BOUND: bound, divisible.LABEL: bound * divisible_share(load)}
    rows = pd.DataFrame([{"kind": name, "policy": name, "mean": mean} for name, mean in lines.items()])
    return pd.concat([table, alone, rows], ignore_index=True)


def _bound(results: pd.DataFrame, scenario: dict[str, Any]) -> float:
    """Return the mean of the linear programme's bounds on the first episodes, as a share of the value."""
    first = results[(results["policy"] == REFERENCE) & (results["episode"] < BOUNDED)]
    bounded = add_share_of_bound(first, "lp", scenario, progress=True)
    return float((bounded[RATIO] / bounded[SHARE]).mean())


def divisible_share(load: float) -> float:
    """Return what divisible jobs earn of the bound in the first episodes, if their arrivals are unknown."""
    sums = divisible.study([load], first_seed=FIRST_SEED, **DIVISIBLE).sum()
    return float(sums["divisible"] / sums["bound"])


def numpy_time(load: float, decisions: int = 300) -> float:
    """Return the processor time in ms of a decision of the network without torch."""
    policy = load_policy(ENV_ID)
    env = gym.make(ENV_ID, **{**policy.env_kwargs, "offered_load": load})
    observation, _ = env.reset(seed=10_000)
    taken = []
    for _ in range(decisions):
        began = time.process_time()
        action, _ = policy.predict(observation)
        taken.append(time.process_time() - began)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()
    return 1000.0 * float(np.mean(taken[1:]))


def describe(table: pd.DataFrame) -> str:
    """Return the Markdown of :func:`study`."""
    rows = []
    for _, row in table.iterrows():
        line = pd.isna(row["milliseconds"])
        value = f"{row['mean']:.3f}" if line else interval(row)
        gain = "" if line else interval(row, "gain", "gain_low", "gain_high", "+.1f")
        rows.append(
            [row["kind"], f"`{row['policy']}`", value, gain, "" if line else f"{row['milliseconds']:.2g}"]
        )
    return markdown(["", "policy", "share of value", f"% over {REFERENCE}", "ms a decision"], rows)


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw value against milliseconds: all policies under the bound, and the best of them anew by their gain.

    :param table: what :func:`study` returns
    """
    figure = Figure(figsize=(TEXT_WIDTH, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for kind, said in ((BOUND, "no policy is above (bound)"), (divisible.LABEL, divisible.LABEL)):
        value = float(table.loc[table["kind"] == kind, "mean"].iloc[0])
        left.axhline(value, color="0.25", linestyle="--" if kind == BOUND else ":", lw=1.0)
        left.annotate(said, (0.03, value), xycoords=("axes fraction", "data"), **_at(0, 5, "0.25"))
    for kind, color in COLORS.items():
        rows = table[table["kind"] == kind]
        _draw(left, rows, "mean", color)
        if kind in ("rules", "chance"):
            for k, (_, row) in enumerate(rows.sort_values("mean").iterrows()):
                said = row["policy"].replace(":dispatch=easy,scope=queue", ", backfilled")
                above = k == len(rows) - 1 and kind == "rules"
                left.annotate(said, (row["milliseconds"], row["mean"]), **_at(5, -2 if above else -9, color))
            continue
        _draw(right, rows, "gain", color)
        for _, row in rows.iterrows():
            if kind.startswith("network"):
                place = row["milliseconds"], row["gain_high"]
                right.annotate(kind, place, ha="center", **_at(0, 14, color))
                continue
            beside = (-15, 5) if kind == "rollouts" else (5, -12)
            right.annotate(f"{row['futures']:.0f}", (row["milliseconds"], row["gain"]), **_at(*beside, color))
    right.legend(loc="lower right")
    left.set_ylabel("value on time / value of all jobs")
    right.set_ylabel(f"% over {REFERENCE}; numbers are futures")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("ms a decision, asked alone, one core")
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, column: str, color: str) -> None:
    low, high = (f"{column}_low", f"{column}_high") if column != "mean" else ("low", "high")
    spread = [rows[column] - rows[low], rows[high] - rows[column]]
    line = "-" if len(rows) > 1 and rows["futures"].notna().all() else ""
    axes.errorbar(
        rows["milliseconds"],
        rows[column],
        spread,
        color=color,
        ls=line,
        marker="o",
        ms=4,
        elinewidth=0.8,
        label=str(rows["kind"].iloc[0]) if line else None,
    )


def _at(x: int, y: int, color: str) -> dict[str, Any]:
    around = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    where = {"xytext": (x, y), "textcoords": "offset points"}
    return {**where, "fontsize": "x-small", "color": color, "bbox": around}
