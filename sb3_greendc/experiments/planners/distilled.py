"""Networks distilled from rollouts: data, training, test on held-out episodes and on a larger pool."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sb3_greendc.bc.distill import resize
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.experiments.distillation import RECORDING_SEED, distill_rollouts
from sb3_greendc.experiments.planners.common import (
    BACKFILLED,
    CHANCE,
    ENV_ID,
    LEARNED,
    RATIO,
    REFERENCE,
    ROLLOUTS,
    STUDENT,
    estimates,
    interval,
    markdown,
)
from sb3_greendc.experiments.rollouts import strong
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.runs.models import MODEL_FILE, load_model

TRAINING_LOADS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
TEST_LOADS = (0.6, 0.8, 1.0, 1.2)
LARGER, LARGER_LOADS = "ResourcePool-50", (1.0,)
LARGER_SHARE = 4
"""Of so many test episodes one is played on the larger pool."""
TEST_SEED = 50_000
FEW = strong(32).spec
MOST_SEEDS = (TEST_SEED - RECORDING_SEED) // 100
"""Data of a seed above would meet the test episodes."""


def check(seeds: Sequence[int], labels: int, futures: int, epochs: int, out: Path) -> None:
    """Refuse seeds whose data would be the test's, and networks that are there and were trained otherwise.

    The parameters are those of :func:`train`.

    :raises ValueError: naming the option
    """
    for seed in seeds:
        if not 0 <= seed < MOST_SEEDS:
            raise ValueError(f"--seeds {seed}: must be from 0 to {MOST_SEEDS - 1}")
        folder = out / f"seed_{seed}"
        if not (folder / MODEL_FILE).exists():
            continue
        run = load_model(folder).run
        for name, value in {"labels": labels, "futures": futures, "epochs": epochs}.items():
            if run.get(name) != value:
                raise ValueError(
                    f"--models {folder}: was trained with {name}={run.get(name)}, not {value}; "
                    "name another folder"
                )


def train(seeds: Sequence[int], labels: int, futures: int, epochs: int, out: Path) -> pd.DataFrame:
    """Record rollouts and distill them, once for each seed, into ``OUT/seed_K``; what is there stays.

    Every seed has its own data, of all :data:`TRAINING_LOADS`.

    :param seeds: of the trainings
    :param labels: decisions recorded for each, in equal shares of the loads
    :param futures: of the teacher's rollouts
    :param epochs: passes over the data
    :param out: folder of the models
    :return: ``seed``, ``labels``, ``seconds`` of processor time, ``regret`` and ``agreement`` on held-out
        states
    """
    for seed in seeds:
        if not (out / f"seed_{seed}" / MODEL_FILE).exists():
            _train(seed, labels, futures, epochs, out / f"seed_{seed}")
    records = [load_model(out / f"seed_{seed}").run for seed in seeds]
    return pd.DataFrame(records)[["seed", "labels", "seconds", "regret", "agreement"]]


def _train(seed: int, labels: int, futures: int, epochs: int, folder: Path) -> None:
    began = time.process_time()
    training_tasks = [Scenario(ENV_ID, {**STUDENT, "offered_load": load}) for load in TRAINING_LOADS]
    clone = distill_rollouts(training_tasks, labels, futures, epochs, seed, progress=True)
    last = clone.history.iloc[-1]
    clone.save(
        folder,
        labels=labels,
        futures=futures,
        epochs=epochs,
        seconds=time.process_time() - began,
        regret=float(last["validation_regret"]),
        agreement=float(last["validation_agreement"]),
    )


def study(seeds: Sequence[int], out: Path, episodes: int) -> pd.DataFrame:
    """Judge the networks of :func:`train` beside rollouts, on the pool they know and on a larger one.

    Columns: ``env_id``, ``load``, ``policy``, ``mean`` (value of jobs on time over that of all jobs),
    ``low``, ``high``, ``gain`` over ``deadline_never`` and ``of_rollouts`` over the best that does not learn,
    each in per cent with ``_low`` and ``_high``. Intervals are over trainings and episodes. Rollouts and the
    random choice act under the networks' mask, rules under the ordinary one.

    :param seeds: of the trainings
    :param out: folder of the models
    :param episodes: test episodes, which training never met; on the larger pool a quarter of them
    """
    models: list[Any] = [load_model(out / f"seed_{seed}").model for seed in seeds]
    parts = []
    for env_id, loads, played in (
        (ENV_ID, TEST_LOADS, episodes),
        (LARGER, LARGER_LOADS, -(-episodes // LARGER_SHARE)),
    ):
        env = make_vec_env(env_id, 1, **STUDENT)
        fitting = [resize(model, env.observation_space, env.action_space) for model in models]
        env.close()
        for load in loads:
            ordinary: dict[str, Any] = {"offered_load": load}
            masked = {**ordinary, **STUDENT}
            rules = evaluate(
                [REFERENCE, BACKFILLED], env_id, played, TEST_SEED, env_kwargs=ordinary, progress=True
            )
            others = evaluate(
                [CHANCE, FEW, ROLLOUTS], env_id, played, TEST_SEED, env_kwargs=masked, progress=True
            )
            students = evaluate(
                {LEARNED: fitting}, env_id, played, TEST_SEED, env_kwargs=masked, progress=True
            )
            results = pd.concat([rules, others, students], ignore_index=True)
            table = estimates(results, RATIO, REFERENCE)
            against = estimates(results, RATIO, ROLLOUTS)
            for column in ("gain", "gain_low", "gain_high"):
                table[column.replace("gain", "of_rollouts")] = against[column]
            table["utilization"] = table["policy"].map(results.groupby("policy")["utilization"].mean())
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
            interval(row, "of_rollouts", "of_rollouts_low", "of_rollouts_high", "+.2f"),
            f"{row['utilization']:.3f}",
        ]
        for _, row in table.iterrows()
    ]
    heads = [
        "pool",
        "load",
        "policy",
        "share of value",
        f"% over {REFERENCE}",
        "% over 512 futures",
        "utilization",
    ]
    return markdown(heads, rows)
