"""The card of a release: one table and a figure; all scores are in a CSV file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from greendc.shipped.release import Release
from sb3_greendc.core.provenance import provenance
from sb3_greendc.evaluation.bounds import SHARE
from sb3_greendc.evaluation.metrics import label, main_metrics
from sb3_greendc.evaluation.plots import PALETTE, TEXT_WIDTH, in_style
from sb3_greendc.evaluation.statistics import summarize
from sb3_greendc.evaluation.tables import number

SCORES_FILE, FIGURE_FILE = "scores.csv", "scores.png"
CHANCE = "random"
OBJECTIVES = ("total_job_value_ratio", "return")
"""What the table and the figure show: the first of these that there is."""


def scores_of(results: pd.DataFrame) -> pd.DataFrame:
    """Return mean and 95 % interval of every metric of every policy in each scenario.

    :param results: episodes of the policy and of baselines, with a column ``scenario``
    :return: columns ``scenario``, ``policy``, ``metric``, ``estimate``, ``low``, ``high``
    """
    parts = []
    for scenario, part in results.groupby("scenario", sort=False):
        metrics = [metric for metric in (*main_metrics(part), SHARE) if metric in part]
        parts.append(summarize(part, metrics).assign(scenario=scenario))
    columns = ["scenario", "policy", "metric", "estimate", "low", "high"]
    return pd.concat(parts, ignore_index=True)[columns]


def objective(scores: pd.DataFrame) -> str:
    """Return the metric that policies are compared by."""
    return next(metric for metric in OBJECTIVES if metric in set(scores["metric"]))


def write_card(
    release: Release, run: Mapping[str, Any], scores: pd.DataFrame, episodes: int, first_seed: int, notes: str
) -> str:
    """Return the text of ``CARD.md``.

    :param release: the description
    :param run: the record of the training run
    :param scores: as :func:`scores_of` returns them
    :param episodes: of each policy in each scenario
    :param first_seed: seed of the first one
    :param notes: limits of use
    """
    made = provenance()
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    lines = [
        f"# {release.name}",
        "",
        f"{release.algorithm}, {_training(run)} in `{release.env_id}`{given(release.env_kwargs)}, "
        f"seed {run.get('seed')}"
        + (f", {number(run['seconds'])} s" if "seconds" in run else "")
        + f". It acts in {', '.join(f'`{one}`' for one in release.serves)}.",
        "",
        "```python",
        *_usage(release),
        "```",
        "",
        *_scores(release.name, scores, episodes, first_seed),
    ]
    if notes:
        lines += ["## Limits", "", notes, ""]
    lines += ["## Origin", "", f"`{run.get('command', 'unknown command')}`", ""]
    lines += [f"Commit {run.get('commit')}; released with {versions}.", ""]
    return "\n".join(lines)


def _scores(name: str, scores: pd.DataFrame, episodes: int, first_seed: int) -> list[str]:
    """Return the table of a policy beside the best baseline and chance."""
    metric = objective(scores)
    lines = [
        "## Scores",
        "",
        f"Shown is {label(metric)}: mean and 95 % bootstrap interval of {episodes} episodes, which are the "
        "same for every policy. "
        f"Seeds from {first_seed}. Baselines have the environment's own mask. `{SCORES_FILE}` has all "
        "policies and metrics.",
        "",
    ]
    rows = []
    for scenario, part in scores.groupby("scenario", sort=False):
        shown = part[part["metric"] == metric].set_index("policy")
        rivals = shown.drop([one for one in (name, CHANCE) if one in shown.index])
        row = {"environment": scenario, name: _cell(shown.loc[name])}
        if len(rivals):
            best = rivals["estimate"].idxmax()
            row["best baseline"] = f"{_cell(rivals.loc[best])} `{best}`"
        if CHANCE in shown.index:
            row[CHANCE] = _cell(shown.loc[CHANCE])
        share = part[(part["metric"] == SHARE) & (part["policy"] == name)]
        if len(share):
            row["share of the clairvoyant bound"] = _cell(share.iloc[0])
        rows.append(row)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines += ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(str(row.get(column, "")) for column in columns) + " |" for row in rows]
    return [*lines, "", f"![{label(metric)} of all policies]({FIGURE_FILE})", ""]


def draw(name: str, scores: pd.DataFrame) -> Figure:
    """Return a figure with a line of policies for each scenario."""
    metric = objective(scores)
    shown = scores[scores["metric"] == metric]
    scenarios = list(dict.fromkeys(shown["scenario"]))
    policies = [one for one in dict.fromkeys(shown["policy"]) if one != name]
    with in_style():
        size = (TEXT_WIDTH, 1.0 + 0.28 * len(scenarios))
        figure, axes = plt.subplots(figsize=size, layout="constrained", dpi=150)
        for k, policy in enumerate([*policies, name]):
            rows = shown[shown["policy"] == policy].set_index("scenario").reindex(scenarios)
            own = policy == name
            color = "black" if own else PALETTE[k % len(PALETTE)]
            places = range(len(scenarios))
            axes.hlines(places, rows["low"], rows["high"], color=color, linewidth=1.5, alpha=0.6)
            form, area, layer = ("D", 26, 3) if own else ("o", 14, 2)
            axes.scatter(
                rows["estimate"], places, label=policy, color=color, marker=form, s=area, zorder=layer
            )
        axes.set_yticks(range(len(scenarios)), [one.replace("`", "") for one in scenarios])
        axes.set_ylim(len(scenarios) - 0.5, -0.5)
        seen = shown[shown["policy"] != CHANCE]
        left, right = seen["low"].min(), seen["high"].max()
        least = shown["low"].min()
        beyond = least < left - 5 * (right - left)  # chance would leave no room for the others
        if beyond:
            axes.set_xlim(left - 0.05 * (right - left), right + 0.05 * (right - left))
        axes.set_xlabel(label(metric) + (f" ({CHANCE} lies far to the left)" if beyond else ""))
        axes.grid(axis="x")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def given(env_kwargs: Mapping[str, Any]) -> str:
    """Return the keywords of an environment in words."""
    return f" ({', '.join(f'{key}={value}' for key, value in env_kwargs.items())})" if env_kwargs else ""


def _usage(release: Release) -> list[str]:
    """Return the lines that load it, beside the environment that it was trained in."""
    settings = "".join(f", {key}={value!r}" for key, value in release.env_kwargs.items()).replace("'", '"')
    return [
        "import gymnasium as gym",
        "",
        "from sb3_greendc import load_pretrained",
        "",
        f'env = gym.make("{release.env_id}"{settings})',
        f'model = load_pretrained("{release.name}")',
    ]


def _training(run: Mapping[str, Any]) -> str:
    if "distilled" in run:
        return f"distilled {run['distilled']}"
    return f"trained for {run.get('trained_timesteps', run.get('timesteps', 0)):,} steps"


def _cell(row: pd.Series) -> str:
    return f"{number(row['estimate'])} [{number(row['low'])}, {number(row['high'])}]"
