"""RLScheduler's table: which tasks there are, and what is made of their results."""

from __future__ import annotations

import dataclasses
import inspect
import json
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from greendc.baselines.cluster import GuardedRollout
from greendc.cluster import lublin_jobs
from greendc.cluster.rlscheduler import JOBS, PRINTED, TRACES
from sb3_greendc.experiments.experiment import Budget, Results
from sb3_greendc.experiments.registry import load_experiment
from sb3_greendc.experiments.rlscheduler import evolved, learned, power, table, windows
from sb3_greendc.experiments.tasks import Outcome, Scenario
from sb3_greendc.experiments.training import Training

needs_cmaes = pytest.mark.skipif(find_spec("cmaes") is None, reason="the extra 'tune' is not installed")
CHEAP = {**learned.TEACHER, "futures": 2, "horizon": 4}
LINE = "{k} {k} 0 {run} 2 -1 -1 2 {run} -1 1 -1 -1 -1 -1 -1 -1 -1"


@needs_cmaes
def test_generated_jobs_stand_in_for_traces_and_a_folder_adds_them(tmp_path):
    quick = table.items(Budget(quick=True))
    assert {item.labels["trace"] for item in quick} == {windows.GENERATED}
    assert len(quick) == 2 * (3 * 2 + 1 + 4)
    with pytest.raises(ValueError, match=r"must have lublin_256.swf \(plain or .gz\)"):
        table.traces(Budget(job_log=str(tmp_path)))
    for file in TRACES.values():
        (tmp_path / file).write_text("; MaxProcs: 4\n")
    full = table.items(Budget(job_log=str(tmp_path)))
    assert {item.labels["trace"] for item in full} == {*TRACES, windows.GENERATED}
    assert len(full) == 4 * 2 * (3 * 2 + 1) + 2 * 4 * 3 * 4 * 10
    assert {item.labels["profile"] for item in full} == {table.BENCHMARK}


def test_other_profiles_and_logs_have_an_experiment_of_their_own(tmp_path):
    for file in (*TRACES.values(), "KTH-SP2.swf", "notes.txt"):
        (tmp_path / file).write_text("; MaxProcs: 4\n")
    found = power.items(Budget(quick=True, job_log=str(tmp_path)))
    assert {item.labels["trace"] for item in found} == {*TRACES, windows.GENERATED, "KTH-SP2"}
    assert {item.labels["profile"] for item in found} == {"easy", "green"}
    assert {item.labels["backfill"] for item in found} == {"none", "easy", "conservative"}
    searched = [item for item in found if item.task.search is not None]
    assert {item.labels["seed"] for item in searched} == {table.REPORTED}
    assert len(found) == 5 * 2 * 3 * 4
    budget = Budget(quick=True)
    analysis = power.analyze(Results(power.items(budget), Store()), budget)
    comparison = analysis.tables["comparison"]
    assert len(comparison) == 6
    assert set(comparison["rule"]) == {"SAF"}  # FCFS, the least in seed 1, was not chosen
    assert comparison["difference"].tolist() == pytest.approx([-7.0] * 6)
    assert len(analysis.figures["figure"].axes) == 2
    assert set(analysis.tables["results"]["policy"]) == {*windows.RULES, windows.ROLLOUT}


def test_a_task_plays_rules_or_rollouts_on_each_sequence(monkeypatch):
    monkeypatch.setattr(windows, "window_starts", lambda seed, jobs=0: np.array([1100, 1500]))
    monkeypatch.setattr(windows, "RULES", {"FCFS": "fcfs", "SAF that fits": "saf that fits"})
    simulator = windows.benchmark_simulator
    small = lambda jobs, backfill, **options: simulator(jobs, backfill, episode_jobs=40, **options)  # noqa: E731
    monkeypatch.setattr(windows, "benchmark_simulator", small)
    differ = 0
    for profile in windows.PROFILES:
        task = windows.Windows(windows.GENERATED, None, "easy", profile, 1)
        rows = task.compute().tables["episodes"]
        assert rows["policy"].tolist() == ["FCFS", "SAF that fits", windows.RANDOM] * 2
        searched = dataclasses.replace(task, search=CHEAP, draws=2).compute().tables["episodes"]
        assert searched["policy"].tolist() == [windows.ROLLOUT] * 4
        assert searched["draw"].tolist() == [0, 1, 0, 1]
        assert np.isfinite(rows["mean_bounded_slowdown"]).all()
        assert (searched["mean_bounded_slowdown"] >= 1).all()
        assert searched["start"].tolist() == [1100, 1100, 1500, 1500]
        differ += searched.groupby("start")["mean_bounded_slowdown"].nunique().max() > 1
    assert differ > 0  # each draw has other futures


def test_networks_are_trained_on_no_job_that_they_are_judged_on(tmp_path):
    for file in TRACES.values():
        (tmp_path / file).write_text("; MaxProcs: 4\n")
    networks = [
        item.task
        for item in table.items(Budget(job_log=str(tmp_path)))
        if "train_seed" in item.labels and not isinstance(item.task, evolved.JudgedRule)
    ]
    assert {type(task.training) for task in networks} == {learned.ClusterDistillation, Training}
    for task in networks:
        distilled = task.name == learned.DISTILLED
        if distilled:
            assert task.training.search == learned.TEACHER
        for kwargs in task.training.training_jobs if distilled else [task.training.scenario.env_kwargs]:
            assert kwargs["backfill"] == task.backfill
            if kwargs["workload"] == "lublin":
                assert kwargs["workload_seed"] != windows.GENERATED_SEED
            else:
                assert kwargs["workload"].endswith(TRACES["HPC2N"])
                assert kwargs["first_job"] >= JOBS
    assert len({task.key for task in networks}) == len(networks)


@needs_cmaes
def test_rules_are_evolved_on_no_job_that_they_are_judged_on(tmp_path, monkeypatch):
    monkeypatch.setattr(evolved, "GENERATED", (2, 5, 0.5))
    monkeypatch.setattr(evolved, "VARIED", (3, 6, 0.3))
    monkeypatch.setattr(evolved, "JOBS", 2200)
    monkeypatch.setattr(evolved, "LOG_ROWS", (2200, 8800))
    seeds = []
    make = lambda seed, jobs: seeds.append(seed) or lublin_jobs(seed, jobs)  # noqa: E731
    monkeypatch.setattr(evolved, "lublin_jobs", make)
    log = tmp_path / "log.swf"
    lines = [LINE.format(k=k, run=100 + k % 7) for k in range(1, 9001)]
    log.write_text("\n".join(["; MaxProcs: 4", *lines, ""]))
    plain, other, logged = evolved.practices("easy", str(log), 1)
    budget = Budget(job_log=None)
    trained = {
        one.task.training.seed for one in table.items(budget) if isinstance(one.task, evolved.JudgedRule)
    }
    assert trained == set(range(10))
    assert windows.GENERATED_SEED not in {
        evolved.FIRST_SEED + 100 * seed + k for seed in trained for k in range(28)
    }
    assert seeds == [evolved.FIRST_SEED + 100 + k for k in range(5)]
    assert (plain.share, other.share, logged.share) == (0.5, 0.3, evolved.LOGGED[2])
    assert (plain.first, other.first, logged.first) == (0, 0, 2200)
    assert {len(one.jobs) for one in logged.simulators} == {8800}
    loads = [utilization(one.jobs) for one in (*plain.simulators, *other.simulators, *logged.simulators)]
    own = [utilization(lublin_jobs(seed, 2200)) for seed in seeds]
    assert loads[:2] == own[:2]
    changes = np.array(loads[2:5]) / own[2:]
    assert ((changes > 0.85) & (changes < 1.2)).all()
    assert len(set(np.round(changes, 3))) == 3
    assert np.array(loads[5:]) / loads[7] == pytest.approx([0.9, 0.95, 1.0, 1.05, 1.1], rel=1e-3)


def utilization(jobs):
    return float(jobs.processors @ jobs.run) / float(jobs.machine * jobs.submit[-1])


@needs_cmaes
def test_an_evolution_and_what_it_is_worth(monkeypatch):
    monkeypatch.setattr(evolved, "window_starts", lambda seed: np.array([1100, 1500]))
    simulator = evolved.benchmark_simulator
    small = lambda jobs, backfill: simulator(jobs, backfill, episode_jobs=40)  # noqa: E731
    monkeypatch.setattr(evolved, "benchmark_simulator", small)
    monkeypatch.setattr(evolved, "GENERATED", (1, 2, 0.5))
    monkeypatch.setattr(evolved, "VARIED", (1, 2, 0.5))
    evolution = evolved.Evolution("easy", None, 2, 0)
    made = evolution.compute()
    assert made.tables["history"]["generation"].tolist() == [1, 2]
    judged = evolved.JudgedRule(evolution, windows.GENERATED, None, 1)
    assert judged.needs == (evolution,)
    rows = judged.given(made.files).compute().tables["episodes"]
    own = small(windows.benchmark_jobs(None), "easy")
    for start, slowdown in zip(rows["start"], rows["mean_bounded_slowdown"], strict=True):
        own.reset_env(0, np.random.default_rng(0), {"start": int(start)})
        own.play(0, "evolved", weights=json.loads(made.files[evolved.WEIGHTS_FILE]))
        assert own.episode_metrics(0)["mean_bounded_slowdown"] == slowdown


def test_records_name_every_setting_of_the_search():
    own = inspect.signature(GuardedRollout).parameters
    assert dict(windows.SEARCH) == {name: own[name].default for name in windows.SEARCH}
    assert set(own) - set(windows.SEARCH) == {"simulator", "seed"}
    farther = {**windows.SEARCH, "horizon": 32}
    played = windows.Windows(windows.GENERATED, None, "easy", "easy", 1, windows.SEARCH)
    taught = learned.ClusterDistillation((learned.generated("easy", 1),), windows.SEARCH, 3 * 64, 2, 0)
    for task in (played, taught):
        assert task.key != dataclasses.replace(task, search=farther).key


def test_networks_without_an_argument_for_masks_find_them_in_observations(small):
    class Network:
        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            return np.argmax(observation["action_mask"], axis=1), None

    rows = learned.play(Network(), windows.benchmark_jobs(None), "none", 1)
    simulator = windows.benchmark_simulator(windows.benchmark_jobs(None), "none", episode_jobs=40)
    simulator.reset_env(0, np.random.default_rng(0), {"start": 1100})
    simulator.play(0, "fcfs")  # the first row is the oldest job
    assert rows[0]["mean_bounded_slowdown"] == simulator.episode_metrics(0)["mean_bounded_slowdown"]


@pytest.fixture
def small(monkeypatch):
    """Make sequences short and batches small."""
    monkeypatch.setattr(learned, "window_starts", lambda seed, jobs=0: np.array([1100, 1500]))
    monkeypatch.setattr(learned, "SEQUENCE", 40)
    monkeypatch.setattr(learned, "N_ENVS", 4)


def test_the_margin_goes_to_what_the_base_rule_of_the_teacher_takes(small):
    made = learned.generated("easy", 1)
    plain, raised = (learned.record(made, CHEAP, 50, 0, margin) for margin in (0.0, 1.5))
    more = raised.labels["advantages"] - plain.labels["advantages"]
    assert (np.nansum(more, axis=1) == 1.5).all() and np.isin(more[~np.isnan(more)], (0.0, 1.5)).all()
    taken = np.nanargmax(more, axis=1)
    env = learned.make_vec_env(learned.ENV_ID, learned.N_ENVS, seed=0, **made)
    base = learned.HEURISTICS[learned.TEACHER["base"]](env.simulator, predicted=True)
    assert (taken[: learned.N_ENVS] == base.act(env.reset())).all()
    assert len(np.unique(taken)) > 1
    env.close()


def test_a_network_is_distilled_from_rollouts_and_then_judged(small):
    training_jobs = (learned.generated("easy", 1),)
    distillation = learned.ClusterDistillation(training_jobs, CHEAP, 3 * 4 * 100, 2, 0)
    outcome = distillation.compute()
    assert outcome.tables["history"]["train_loss"].is_monotonic_decreasing
    judged = learned.Judged(learned.DISTILLED, distillation, windows.GENERATED, None, "easy", 1)
    assert judged.needs == (distillation,)
    rows = judged.given(outcome.files).compute().tables["episodes"]
    assert rows["policy"].tolist() == [learned.DISTILLED] * 2
    assert rows["start"].tolist() == [1100, 1500]
    simulator = windows.benchmark_simulator(windows.benchmark_jobs(None), "easy", episode_jobs=40)
    simulator.reset_env(0, np.random.default_rng(0), {"start": 1500})
    with learned.unpacked(outcome.files) as folder:
        model = learned.load_model(folder).model
    out = simulator.empty_observations()
    simulator.observe(out)
    while not simulator.state.cluster["over"][0]:
        actions, _ = model.predict(out, action_masks=out["action_mask"], deterministic=True)
        simulator.step(actions, out)
    found = rows.set_index("start").loc[1500]
    assert found["mean_bounded_slowdown"] == simulator.episode_metrics(0)["mean_bounded_slowdown"]


def test_labels_are_as_sharp_as_the_task_says(small, monkeypatch):
    def stop(data, logit_scale, **options):
        raise InterruptedError(logit_scale)

    monkeypatch.setattr(learned, "distill", stop)
    task = learned.ClusterDistillation(
        (learned.generated("none", 1),), CHEAP, 3 * 4 * 5, 2, 0, logit_scale=0.5
    )
    with pytest.raises(InterruptedError, match=r"0\.5"):
        task.compute()


def test_the_rollouts_judge_the_states_that_the_network_comes_to(small):
    class Student:
        def predict(self, observations, action_masks, deterministic):
            rows = action_masks.shape[1] - 1 - np.argmax(action_masks[:, ::-1], axis=1)
            return rows, None  # the last valid one: the job that came last

    source = learned.generated("none", 1)
    alone, watched = (learned.record(source, CHEAP, 30, 0, 0.0, student) for student in (None, Student()))
    for data in (alone, watched):
        assert (data.actions == np.nanargmax(data.labels["advantages"], axis=1)).all()
        assert np.isfinite(data.labels["advantages"][data.observations["action_mask"] == 1]).all()
    assert (alone.observations["jobs"] != watched.observations["jobs"]).any()


class Store:
    """The searches' figures are the least, and FCFS's the least of the fixed ones in seed 1 alone."""

    def table(self, task, name):
        if isinstance(task, evolved.JudgedRule):
            found = [(evolved.EVOLVED, 3.0 + task.training.seed / 100, np.nan)]
        elif isinstance(task, learned.Judged):
            figure = 4.0 + task.training.seed / 100 if task.name == learned.DISTILLED else 9.0
            found = [(task.name, figure, np.nan)]
        elif task.search is not None:
            found = [(task.rollouts, 4.9, 0), (task.rollouts, 5.1, 1)]
        else:
            figures = {policy: 20.0 + k for k, policy in enumerate(windows.RULES)}
            figures["SAF"] = 12.0
            if task.seed == 1:
                figures["FCFS"] = 7.0
            found = [(policy, figure, np.nan) for policy, figure in figures.items()]
        rows = [
            {
                "policy": policy,
                "start": start,
                "draw": draw,
                **dict.fromkeys(windows.METRICS, figure + 0.1 * k),
            }
            for policy, figure, draw in found
            for k, start in enumerate((3, 4, 5))
        ]
        return Outcome({name: pd.DataFrame(rows)}).tables[name]


@needs_cmaes
def test_the_fixed_rule_is_chosen_on_other_sequences(tmp_path):
    experiment = load_experiment("rlscheduler")
    for file in TRACES.values():
        (tmp_path / file).write_text("; MaxProcs: 4\n")
    budget = Budget(job_log=str(tmp_path))
    analysis = experiment.analyze(Results(experiment.items(budget), Store()), budget)
    comparison = analysis.tables["comparison"]
    assert set(comparison["rule"]) == {"SAF"}
    assert comparison["rollouts"].tolist() == pytest.approx([5.1] * 8)
    assert comparison["teacher"].tolist() == pytest.approx([5.1] * 8)
    assert comparison["rollouts_best_draw"].tolist() == pytest.approx([5.0] * 8)
    assert comparison["rollouts_worst_draw"].tolist() == pytest.approx([5.2] * 8)
    assert comparison["difference"].tolist() == pytest.approx([-7.0] * 8)
    assert comparison["evolved"].tolist() == pytest.approx([3.1 + 0.045] * 8)  # the mean of ten
    assert comparison["evolved_difference"].tolist() == pytest.approx([3.045 - 12.0] * 8)
    ours = comparison.set_index(["trace", "backfill"])
    assert ours["distilled_best_seed"].tolist() == pytest.approx([4.1] * 8)
    assert ours["distilled_worst_seed"].tolist() == pytest.approx([4.1 + 0.09] * 8)  # of ten
    assert ours.loc[("HPC2N", "none"), "printed_best"] == 117.01
    assert np.isnan(ours.loc[(windows.GENERATED, "none"), "printed_best"])
    lines = analysis.tables["table"].set_index(["trace", "profile", "backfill", "policy"])
    printed = PRINTED["Lublin-1", "easy"]["SJF"]
    assert lines.loc[("Lublin-1", "rlscheduler", "easy", "SJF"), "printed"] == printed
    assert len(analysis.figures["figure"].axes) == 1
    legend = {text.get_text() for text in analysis.figures["figure"].legends[0].get_texts()}
    assert legend >= {
        windows.ROLLOUT,
        evolved.EVOLVED,
        learned.DISTILLED,
        windows.RANDOM,
        "MaskablePPO",
        "DiscreteSAC",
    }


@pytest.mark.slow
def test_an_order_is_learned_from_rewards_alone():
    learner = learned.FROM_SCRATCH[1]
    practice = Scenario(learned.ENV_ID, learned.generated("none", 1, learned.PRACTICE))
    training = Training(practice, learner, 15_000, 0, episodes=1)
    judged = learned.Judged(learner.name, training, windows.GENERATED, None, "none", 1)
    ours = judged.compute().tables["episodes"]["mean_bounded_slowdown"].mean()
    rules = windows.Windows(windows.GENERATED, None, "none", table.BENCHMARK, 1).compute().tables["episodes"]
    means = rules.groupby("policy")["mean_bounded_slowdown"].mean()
    assert ours < 2.0 * means.min() and ours < 0.1 * means[windows.RANDOM]
