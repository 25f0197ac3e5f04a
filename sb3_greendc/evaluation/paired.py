"""Policies of any kind judged on the same episodes, as a tidy table: a row per policy, run and episode."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from stable_baselines3.common.vec_env import VecEnv

import greendc
from greendc.config import require, require_kinds
from sb3_greendc.core.engine import map_tasks
from sb3_greendc.core.progress import Bar, progress_bar
from sb3_greendc.core.vec_env import SimulatorVecEnv, make_vec_env
from sb3_greendc.evaluation.episodes import Batch, BatchResult, Recording, run_batch, run_episodes
from sb3_greendc.evaluation.policy_sources import Policy, PolicySource, ReadsOthers, policy_sources

__all__ = ["FIRST_SEED", "Evaluation", "evaluate", "run_episodes", "run_evaluations"]

FIRST_SEED = 50_000
"""Seed of the first episode that commands judge policies on; trainings have seeds far below."""


def evaluate(
    policies: Mapping[str, Policy | Sequence[Policy]] | Sequence[Policy],
    env_id: str,
    n_episodes: int = 10,
    seed: int = 0,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    deterministic: bool = True,
    batch_size: int = 128,
    progress: bool = False,
    engine: str = "serial",
    jobs: int | None = None,
    ray_address: str | None = None,
    trust: bool = False,
    work_conserving: bool = False,
) -> pd.DataFrame:
    """Run every policy on the same episodes.

    Episode ``k`` of every policy is the first one of an environment seeded ``seed + k``, so that
    policies are compared pair by pair. The episodes of a policy run as one batch. Returns are those of
    the environment itself, also for models trained under ``VecNormalize``, whose normaliser is applied
    to what they observe. Policies that take action masks get them. Policies that want to know what the
    others did (:class:`~sb3_greendc.evaluation.policy_sources.ReadsOthers`) run after them.

    :param policies: policies, or a mapping that gives each its name in the table; a list in it, or a
        pattern that several saved models fit, is several runs of one policy
    :param env_id: an environment id, with or without a version
    :param n_episodes: episodes of each run of each policy
    :param seed: seed of the first episode. Trainings begin at small seeds: :data:`FIRST_SEED`, the default of
        the command, is far above them
    :param env_kwargs: keyword arguments of the environment
    :param deterministic: ask policies for their most likely action; otherwise sampling is seeded too
    :param batch_size: episodes that run side by side at most
    :param progress: show a progress bar
    :param engine: where batches run, see :func:`~sb3_greendc.core.engine.map_tasks`; the results do not
        depend on it. Processes and machines load saved models themselves, by their paths
    :param jobs: batches that run at once
    :param ray_address: of a running Ray cluster
    :param trust: load saved models that hold pickled code, such as SB3's zip files, and run it
    :param work_conserving: guard every policy of a resource pool, as ``work_conserving:POLICY`` does one: it
        does not leave an empty pool idle (:class:`~greendc.baselines.resource_pool.WorkConserving`)
    :return: columns ``policy``, ``run``, ``env_id``, ``episode``, ``seed``, ``return``, ``length``, ``cost``
        (the sum of ``info["cost"]``, NaN where an environment has none), and every episode metric
    :raises ValueError: for an unknown id, policy or keyword value, a model of other spaces, a policy
        that needs masks where there are none, or two policies of one name
    :raises TypeError: for an unknown keyword argument of the environment, or option of a baseline
    :raises sb3_greendc.core.engine.TaskError: if a policy or the environment raises in an episode
    """
    checked = Evaluation(
        policies, env_id, n_episodes, seed, env_kwargs, deterministic, batch_size, trust, work_conserving
    )
    return checked.run(progress, engine, jobs, ray_address)


class EvaluationInterrupted(KeyboardInterrupt):  # no error: Ctrl-C
    """Ctrl-C ended an evaluation.

    :param results: the episodes that had been run, as :func:`evaluate` returns them; of whole batches
    """

    def __init__(self, results: pd.DataFrame) -> None:
        super().__init__()
        self.results = results


class Evaluation:
    """What :func:`evaluate` is asked for, checked when built, so that nothing runs before all of it fits.

    The parameters, and the errors, are those of :func:`evaluate`.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy | Sequence[Policy]] | Sequence[Policy],
        env_id: str,
        n_episodes: int = 10,
        seed: int = 0,
        env_kwargs: Mapping[str, Any] | None = None,
        deterministic: bool = True,
        batch_size: int = 128,
        trust: bool = False,
        work_conserving: bool = False,
    ) -> None:
        kinds = {"n_episodes": "int", "seed": "int", "deterministic": "bool", "batch_size": "int"}
        require_kinds(kinds, locals())
        require(n_episodes >= 1, "n_episodes", n_episodes, "1 or more")
        require(seed >= 0, "seed", seed, "0 or more")
        require(batch_size >= 1, "batch_size", batch_size, "1 or more")
        self.env_id = greendc.resolve_env_id(env_id)
        self.env_kwargs = dict(env_kwargs or {})
        self.n_episodes, self.seed, self.batch_size = n_episodes, seed, batch_size
        self.deterministic = deterministic
        self.sources = policy_sources(policies, self.env_id, trust, work_conserving)
        with contextlib.closing(make_vec_env(self.env_id, 1, self.seed, **self.env_kwargs)) as env:
            self.metrics = _metrics_of(env)
        self._reads_others = [self._check(one) for one in self.sources]

    def _check(self, one: PolicySource) -> bool:
        """Raise ``ValueError`` unless a policy fits what it acts in; tell whether it shows its thoughts."""
        env = make_vec_env(self.env_id, 1, self.seed, **{**self.env_kwargs, **one.choice})
        with contextlib.closing(env):
            return isinstance(one.policy_for(one.prepare_env(env)), ReadsOthers)

    def run(
        self,
        progress: bool = False,
        engine: str = "serial",
        jobs: int | None = None,
        ray_address: str | None = None,
    ) -> pd.DataFrame:
        """Run every episode of every policy and return the table of :func:`evaluate`."""
        return run_evaluations([self], progress, engine, jobs, ray_address)

    def batches(self) -> tuple[list[Batch], list[bool]]:
        """Return all batches in the order of the table, and which of them come after the others."""
        record = any(self._reads_others)
        batches, last = [], []
        for source, reads_others in zip(self.sources, self._reads_others, strict=True):
            for first in range(0, self.n_episodes, self.batch_size):
                batch = Batch(
                    source,
                    self.env_id,
                    first,
                    min(self.batch_size, self.n_episodes - first),
                    self.seed + first,
                    self.env_kwargs,
                    self.deterministic,
                    record=record and not reads_others,
                )
                batches.append(batch)
                last.append(reads_others)
        return batches, last


def run_evaluations(
    evaluations: Sequence[Evaluation],
    progress: bool = False,
    engine: str = "serial",
    jobs: int | None = None,
    ray_address: str | None = None,
) -> pd.DataFrame:
    """Run several evaluations, of several environments, as one list of batches; return one table.

    :param evaluations: what to run
    :param progress: show a progress bar
    :param engine: where batches run, see :func:`~sb3_greendc.core.engine.map_tasks`
    :param jobs: batches that run at once
    :param ray_address: of a running Ray cluster
    :raises ValueError: for an engine that is not known, or a policy that cannot be sent to other processes
    :raises EvaluationInterrupted: after Ctrl-C, with the episodes that had been run
    """
    run = partial(_run, engine=engine, jobs=jobs, ray_address=ray_address)
    batches: list[Batch] = []
    last: list[bool] = []
    for evaluation in evaluations:
        of_one = evaluation.batches()
        batches += of_one[0]
        last += of_one[1]
    if engine != "serial":
        _check_that_they_travel(batches)
    results: dict[int, BatchResult] = {}
    n_episodes = sum(batch.n_episodes for batch in batches)
    with progress_bar(n_episodes, "episode", disable=not progress) as bar:
        for now in (False, True):
            chosen = [index for index, waits in enumerate(last) if waits is now]
            tasks = [
                replace(batches[i], recordings=_recordings(batches[i], batches, results)) for i in chosen
            ]
            try:
                run(tasks, bar, partial(_keep, results, chosen))
            except KeyboardInterrupt as stop:
                raise EvaluationInterrupted(_table(batches, results)) from stop
    return _table(batches, results)


def _keep(results: dict[int, BatchResult], chosen: Sequence[int], index: int, result: BatchResult) -> None:
    results[chosen[index]] = result


def _run(
    batches: list[Batch],
    bar: Bar,
    keep: Callable[[int, BatchResult], object],
    engine: str,
    jobs: int | None,
    ray_address: str | None,
) -> None:
    """Run batches with an engine, and keep each result; within this process the bar shows each step."""

    def run_and_show(batch: Batch) -> BatchResult:
        bar.set_description(batch.source.name)
        return run_batch(batch, _show_steps(bar))

    def count(index: int, result: BatchResult) -> None:
        keep(index, result)
        bar.update(len(result.episodes))

    function = run_and_show if engine == "serial" else run_batch
    map_tasks(function, batches, engine, jobs, ray_address, count)


def _recordings(
    batch: Batch, batches: Sequence[Batch], results: Mapping[int, BatchResult]
) -> tuple[Recording, ...]:
    """Return what others did in the episodes of a batch."""
    found = []
    for index, result in results.items():
        other = batches[index]
        same_episodes = (other.env_id, other.env_kwargs, other.seed) == (
            batch.env_id,
            batch.env_kwargs,
            batch.seed,
        )
        if same_episodes and result.actions is not None:
            found.append(result.actions)
    return tuple(found)


def _table(batches: Sequence[Batch], results: Mapping[int, BatchResult]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for index, batch in enumerate(batches):
        if index not in results:
            continue
        head = {"policy": batch.source.name, "run": batch.source.run, "env_id": batch.env_id}
        for k, episode in enumerate(results[index].episodes):
            rows.append({**head, "episode": batch.first + k, "seed": batch.seed + k, **episode})
    return pd.DataFrame(rows)


def _metrics_of(env: VecEnv) -> tuple[str, ...] | None:
    """Return the names of an environment's episode metrics, ``None`` if they are known at its end only."""
    if not isinstance(env, SimulatorVecEnv):
        return None
    env.seed(0)
    env.reset()
    return tuple(env.simulator.episode_metrics(0))


def _check_that_they_travel(batches: Sequence[Batch]) -> None:
    for source in {id(batch.source): batch.source for batch in batches}.values():
        try:
            pickle.dumps(source)
        except Exception as error:  # whatever an object's own code raises
            raise ValueError(
                f"policy {source.name!r} cannot be sent to other processes ({error}): give the path of "
                "a saved model, or use engine 'serial'"
            ) from error


def _show_steps(bar: Bar) -> Callable[[int], None]:
    def show(steps: int) -> None:
        if steps % 24 == 0:
            bar.set_postfix(step=steps, refresh=False)
            bar.update(0)

    return show
