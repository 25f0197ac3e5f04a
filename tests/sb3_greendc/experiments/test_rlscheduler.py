"""RLScheduler's table: which tasks there are, and what is made of their results."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from greendc.cluster.rlscheduler import PRINTED, TRACES
from sb3_greendc.experiments.experiment import Budget, Results
from sb3_greendc.experiments.registry import load_experiment
from sb3_greendc.experiments.rlscheduler import table, windows
from sb3_greendc.experiments.tasks import Outcome

LINE = "{k} {k} 0 {run} 2 -1 -1 2 {run} -1 1 -1 -1 -1 -1 -1 -1 -1"


def test_generated_jobs_stand_in_for_traces_and_a_folder_adds_them(tmp_path):
    quick = table.items(Budget(quick=True))
    assert {item.labels["trace"] for item in quick} == {windows.GENERATED}
    assert len(quick) == 2 * 3 * 3
    with pytest.raises(ValueError, match=r"must have lublin_256.swf \(plain or .gz\)"):
        table.traces(Budget(job_log=str(tmp_path)))
    for file in TRACES.values():
        (tmp_path / file).write_text("; MaxProcs: 4\n")
    full = table.items(Budget(job_log=str(tmp_path)))
    assert {item.labels["trace"] for item in full} == {*TRACES, windows.GENERATED}
    assert len(full) == 4 * 3 * 2 * 3 * 3


def test_a_task_plays_rules_or_rollouts_on_each_sequence(monkeypatch):
    monkeypatch.setattr(windows, "window_starts", lambda seed: np.array([1100, 1500]))
    monkeypatch.setattr(windows, "RULES", {"FCFS": "fcfs", "SAF that fits": "saf that fits"})
    simulator = windows.benchmark_simulator
    small = lambda jobs, backfill, **options: simulator(jobs, backfill, episode_jobs=40, **options)  # noqa: E731
    monkeypatch.setattr(windows, "benchmark_simulator", small)
    for profile in windows.PROFILES:
        task = windows.Windows(windows.GENERATED, None, "easy", profile, 1)
        rows = task.compute().tables["episodes"]
        assert rows["policy"].tolist() == ["FCFS", "SAF that fits", windows.RANDOM] * 2
        search = dataclasses.replace(task, search="searched", options={"futures": 2, "horizon": 4})
        searched = search.compute().tables["episodes"]
        assert searched["policy"].tolist() == ["searched"] * 2
        assert np.isfinite(rows["mean_bounded_slowdown"]).all()
        assert (searched["mean_bounded_slowdown"] >= 1).all()
        assert searched["start"].tolist() == [1100, 1500]


class Store:
    """The searches' figures are the least, and FCFS's the least of the fixed ones in seed 1 alone."""

    def table(self, task, name):
        if task.search is not None:
            figures = {task.search: 5.0 if task.search == windows.ROLLOUT else 6.0}
        else:
            figures = {policy: 20.0 + k for k, policy in enumerate(windows.RULES)}
            figures["SAF"] = 12.0
            if task.seed == 1:
                figures["FCFS"] = 7.0
        rows = [
            {"policy": policy, "start": start, **dict.fromkeys(windows.METRICS, figure + 0.1 * k)}
            for policy, figure in figures.items()
            for k, start in enumerate((3, 4, 5))
        ]
        return Outcome({name: pd.DataFrame(rows)}).tables[name]


def test_the_fixed_rule_is_chosen_on_other_sequences(tmp_path):
    experiment = load_experiment("rlscheduler")
    for file in TRACES.values():
        (tmp_path / file).write_text("; MaxProcs: 4\n")
    budget = Budget(job_log=str(tmp_path))
    analysis = experiment.analyze(Results(experiment.items(budget), Store()), budget)
    comparison = analysis.tables["comparison"]
    assert set(comparison["rule"]) == {"SAF"}
    assert comparison["rollouts"].tolist() == pytest.approx([5.1] * 24)
    assert comparison["rollouts_predicted"].tolist() == pytest.approx([6.1] * 24)
    assert comparison["difference"].tolist() == pytest.approx([-7.0] * 24)
    ours = comparison[comparison["profile"] == "rlscheduler"].set_index(["trace", "backfill"])
    assert ours.loc[("HPC2N", "none"), "printed_best"] == 117.01
    assert np.isnan(ours.loc[(windows.GENERATED, "none"), "printed_best"])
    lines = analysis.tables["table"].set_index(["trace", "profile", "backfill", "policy"])
    printed = PRINTED["Lublin-1", "easy"]["SJF"]
    assert lines.loc[("Lublin-1", "rlscheduler", "easy", "SJF"), "printed"] == printed
    assert np.isnan(lines.loc[("Lublin-1", "easy", "easy", "SJF"), "printed"])
    assert len(analysis.figures["figure"].axes) == 3
