"""What RARE's Table 1 and its mixed-policy experiment share: clones of heuristics, and improving on them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sb3_greendc.experiments.comparison import margin, matrix, mean_interval
from sb3_greendc.experiments.controls import UNIFORM_VALID, UniformPlay
from sb3_greendc.experiments.episodes import Baselines, Variant
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.offline import OfflineTraining
from sb3_greendc.experiments.tasks import Scenario, Task

HEURISTICS = ("sjf", "qos", "hvf", "fcfs")
VALUE = "total_job_value"
_BOTH: dict[str, Any] = {
    "batch_size": 128,
    "learning_rate": "lin_1e-3",
    "policy_kwargs": {"features_extractor": "job_set", "net_arch": [64]},
}
_CLONE: dict[str, Any] = {**_BOTH, "weight_mode": "bc"}
CRR_OPTIONS: dict[str, Any] = {
    **_BOTH,
    "gamma": 0.985,
    "tau": 0.02,
    "value_mode": "max_sample",
    "n_value_samples": 8,
}
"""As in ``zoo_hparams/crr.yml``, where it says how they were found."""

PRINTED = "CRR as printed"
PRINTED_OPTIONS: dict[str, Any] = {
    "batch_size": 128,
    "learning_rate": 3e-4,
    "gamma": 0.99,
    "preset": "rare",
    "policy_kwargs": {"features_extractor": "resource_image"},
}
"""RARE's offline learner: its encoder of convolutions, one critic without a target network, and the mean of
four sampled actions for the value of a state. Batch and learning rate are not printed."""


def judged(budget: Budget, units: int, teachers: tuple[str, ...]) -> list[Task]:
    """Return what learners are compared with: the heuristics themselves, and chance.

    :param budget: of the experiment
    :param units: size of the pool
    :param teachers: the heuristics
    """
    scenario, episodes = Scenario(f"ResourcePool-{units}"), budget.episodes_of(32, 128)
    heuristics = Baselines(scenario, tuple(Variant(name) for name in teachers), episodes)
    return [heuristics, UniformPlay(scenario, UNIFORM_VALID, episodes)]


def trainings(budget: Budget, units: int, teachers: tuple[str, ...], seed: int) -> list[OfflineTraining]:
    """Return the clone of some heuristics, CRR on the same data, and CRR as printed.

    :param budget: of the experiment
    :param units: size of the pool
    :param teachers: what is recorded
    :param seed: number of the run
    """
    scenario = Scenario(f"ResourcePool-{units}")
    return [
        OfflineTraining(
            name,
            scenario,
            teachers,
            transitions=budget.pick(100_000, 200_000),
            steps=budget.pick(750, 3_000),
            seed=seed,
            episodes=budget.episodes_of(32, 128),
            options=options,
            agreement=True,
        )
        for name, options in (("BC", _CLONE), ("CRR", CRR_OPTIONS), (PRINTED, PRINTED_OPTIONS))
    ]


def agreement_table(agreement: pd.DataFrame) -> pd.DataFrame:
    """Return for each teacher in how many states a learner does the same, over all and over real choices.

    :param agreement: rows of one learner
    """
    found = []
    for (series, teacher), rows in agreement.groupby(["series", "teacher"], sort=False):
        shares: dict[str, float] = {}
        for name, part, whole in (
            ("agreement", "same", "decisions"),
            ("agreement_choices", "same_choices", "choices"),
        ):
            interval = mean_interval(_by_seed(rows, part, whole))
            ends = (interval.estimate, interval.low, interval.high)
            keys = (f"{name}_percent", f"{name}_low", f"{name}_high")
            shares |= dict(zip(keys, (100 * end for end in ends), strict=True))
        found.append({"series": series, "teacher": teacher, "seeds": rows["train_seed"].nunique(), **shares})
    return pd.DataFrame(found)


def _by_seed(rows: pd.DataFrame, part: str, whole: str) -> Any:
    share = rows.assign(share=rows[part] / rows[whole])
    return share.pivot(index="train_seed", columns="episode", values="share").to_numpy()


def gain_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return for each series how far each CRR is above the clone, the teachers and chance."""
    found = []
    for series, at in rows.groupby("series", sort=False):
        for learner in (PRINTED, "CRR"):
            ours = matrix(at[at["policy"] == learner], VALUE)
            for rival in (name for name in at["policy"].unique() if name not in (PRINTED, "CRR")):
                gain = margin(ours, matrix(at[at["policy"] == rival], VALUE))
                ends = {"margin_percent": gain.estimate, "low": gain.low, "high": gain.high}
                about = {"series": series, "learner": learner, "kind": "learner", "against": rival}
                found.append({**about, "seeds": len(ours), **ends})
    return pd.DataFrame(found)


def agreement_levels(agreement: pd.DataFrame) -> pd.DataFrame:
    """Return every learner's agreement with each teacher, in per cent, as a table of levels."""
    parts = []
    for policy, rows in agreement.groupby("policy", sort=False):
        table = agreement_table(rows)
        columns = {"agreement_percent": "level_percent", "agreement_low": "low", "agreement_high": "high"}
        parts.append(
            table.rename(columns=columns).assign(policy=policy, x=table["teacher"], metric="agreement")
        )
    return pd.concat(parts, ignore_index=True)
