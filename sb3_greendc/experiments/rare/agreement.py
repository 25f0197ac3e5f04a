"""What RARE's Table 1 and its mixed-policy experiment share: clones of heuristics, and improving on them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sb3_greendc.experiments.comparison import margin, matrix, mean_interval
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.offline import OfflineTraining
from sb3_greendc.experiments.tasks import Scenario

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


def trainings(budget: Budget, units: int, teachers: tuple[str, ...], seed: int) -> list[OfflineTraining]:
    """Return the clone of some heuristics and CRR on the same data.

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
            steps=budget.pick(1_500, 3_000),
            seed=seed,
            episodes=budget.pick(32, 128),
            options=options,
            agreement=name == "BC",
        )
        for name, options in (("BC", _CLONE), ("CRR", CRR_OPTIONS))
    ]


def agreement_table(agreement: pd.DataFrame) -> pd.DataFrame:
    """Return for each teacher in how many states the clone does the same, over all and over real choices."""
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
    """Return for each series by how many per cent CRR's value exceeds the clone's, and the teachers'."""
    found = []
    for series, at in rows.groupby("series", sort=False):
        ours = matrix(at[at["policy"] == "CRR"], VALUE)
        rivals = [name for name in at["policy"].unique() if name != "CRR"]
        for rival in rivals:
            gain = margin(ours, matrix(at[at["policy"] == rival], VALUE))
            ends = {"gain_percent": gain.estimate, "low": gain.low, "high": gain.high}
            found.append({"series": series, "against": rival, "seeds": len(ours), **ends})
    return pd.DataFrame(found)
