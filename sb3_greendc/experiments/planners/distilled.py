"""networks distilled from rollouts: data, training, test on held-out episodes and on a larger pool."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sb3_greendc.bc.distill import distill, resize
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.experiments.planners.common import (
    ENV_ID,
    RATIO,
    REFERENCE,
    STUDENT,
    estimates,
    interval,
    markdown,
)
from sb3_greendc.experiments.planners.loads import LEARNED
from sb3_greendc.runs.models import MODEL_FILE, load_model

TRAINING_LOAD = 1.0
TEST_LOADS = (0.8, 1.0)
LARGER = "ResourcePool-50"
LARGER_SHARE = 4
"""Of so many test episodes one is played on the larger pool."""
TRAINING_SEED = 20_000
TEST_SEED = 50_000


def train(seeds: Sequence[int], labels: int, futures: int, epochs: int, out: Path) -> pd.DataFrame:
    """Record rollouts and distill them, once for each seed, into ``OUT/seed_K``; what is there stays.

    Every seed has its own data. They are recorded at one load, among the actions of :data:`STUDENT`.

    :param seeds: of the trainings
    :param labels: decisions recorded for each
    :param futures: of the teacher's rollouts
    :param epochs: passes over the data
    :param out: folder of the models
    :return: ``seed``, ``labels``, ``record_seconds`` and ``train_seconds`` of processor time, ``regret`` and
        ``agreement`` on held-out states
    """
    for seed in seeds:
        if not (out / f"seed_{seed}" / MODEL_FILE).exists():
            _train(seed, labels, futures, epochs, out / f"seed_{seed}")
    records = [load_model(out / f"seed_{seed}").run for seed in seeds]
    columns = ["seed", "labels", "record_seconds", "train_seconds", "regret", "agreement"]
    return pd.DataFrame(records)[columns]


def _train(seed: int, labels: int, futures: int, epochs: int, folder: Path) -> None:
    began = time.process_time()
    data = collect(
        {"rollout": f"rollout:futures={futures}"},
        ENV_ID,
        labels,
        TRAINING_SEED + 100 * seed,
        env_kwargs={**STUDENT, "offered_load": TRAINING_LOAD},
        n_envs=32,
        labels=("advantages",),
    )
    recorded = time.process_time()
    clone = distill(data, n_epochs=epochs, seed=seed)
    last = clone.history.iloc[-1]
    clone.save(
        folder,
        labels=labels,
        record_seconds=recorded - began,
        train_seconds=time.process_time() - recorded,
        regret=float(last["validation_regret"]),
        agreement=float(last["validation_agreement"]),
    )


def study(out: Path, futures: int, episodes: int) -> pd.DataFrame:
    """Judge the networks of :func:`train` beside their teacher, on the pool they know and on a larger one.

    Columns: ``env_id``, ``load``, ``policy``, ``mean`` (value of jobs on time over that of all jobs),
    ``low``, ``high``, ``gain`` over ``deadline_never`` and ``of_teacher`` over the rollouts that distilled,
    each in per cent with ``_low`` and ``_high``. Intervals are over trainings and episodes.

    :param out: folder of the models
    :param futures: of the teacher's rollouts
    :param episodes: test episodes, which training never met; on the larger pool a quarter of them
    """
    teacher = f"rollout:futures={futures}"
    models: list[Any] = [load_model(path).model for path in sorted(out.glob("seed_*"))]
    if not models:
        raise ValueError(f"--out {out}: no models in seed_*")
    parts = []
    for env_id, played in ((ENV_ID, episodes), (LARGER, -(-episodes // LARGER_SHARE))):
        env = make_vec_env(env_id, 1, **STUDENT)
        fitting = [resize(model, env.observation_space, env.action_space) for model in models]
        env.close()
        for load in TEST_LOADS:
            scenario: dict[str, Any] = {"offered_load": load}
            results = evaluate([REFERENCE, teacher], env_id, played, TEST_SEED, env_kwargs=scenario)
            networks = {LEARNED: fitting}
            student = evaluate(networks, env_id, played, TEST_SEED, env_kwargs={**scenario, **STUDENT})
            results = pd.concat([results, student], ignore_index=True)
            table = estimates(results, RATIO, REFERENCE)
            against = estimates(results, RATIO, teacher)
            for column in ("gain", "gain_low", "gain_high"):
                table[column.replace("gain", "of_teacher")] = against[column]
            table.insert(0, "load", load)
            table.insert(0, "env_id", env_id)
            parts.append(table)
    return pd.concat(parts, ignore_index=True)


def describe(table: pd.DataFrame) -> str:
    """Return the Markdown of :func:`study`."""
    rows = [
        [
            row["env_id"],
            f"{row['load']:g}",
            f"`{row['policy']}`",
            interval(row),
            interval(row, "gain", "gain_low", "gain_high", "+.2f"),
            interval(row, "of_teacher", "of_teacher_low", "of_teacher_high", "+.2f"),
        ]
        for _, row in table.iterrows()
    ]
    heads = [
        "pool",
        "load",
        "policy",
        "value",
        "% over deadline_never",
        "% over the teacher",
    ]
    return markdown(heads, rows)
