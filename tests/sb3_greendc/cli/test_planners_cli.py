"""The studies of planners: tables that add up, bounds on top, a figure, and errors in one line."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from sb3_greendc.bc.distill import distill
from sb3_greendc.cli import planners
from sb3_greendc.core.files import RescuedError
from sb3_greendc.evaluation.bounds import add_share_of_bound
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.evaluation.paired import evaluate
from sb3_greendc.experiments.planners import distilled, divisible, effort, forecasts
from sb3_greendc.experiments.planners.common import ROLLOUTS, STUDENT, estimates
from sb3_greendc.experiments.rollouts import strong

needs_cpsat = pytest.mark.skipif(find_spec("ortools") is None, reason="the extra 'oracle' is not installed")

FIGURE = ("figure", "--parts", "missing.csv", "--divisible", "missing.csv", "--values")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GREENDC_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    data = collect(["rollout:futures=4"], "ResourcePool-10", 600, env_kwargs=STUDENT, labels=["advantages"])
    for seed in (0, 1):
        distill(data, n_epochs=1, seed=seed).save(folder / f"seed_{seed}")
    return folder


def run(study, out, *arguments):
    with contextlib.redirect_stderr(io.StringIO()) as shown:
        assert planners.main([study, "--out", str(out), *map(str, arguments)]) == 0
    assert "(100 %)" in shown.getvalue()  # long work shows how far it is
    return pd.read_csv(out)


def test_gains_are_paired_and_in_per_cent():
    results = pd.DataFrame(
        {
            "env_id": "x",
            "policy": ["a"] * 3 + ["b"] * 3,
            "seed": [0, 1, 2] * 2,
            "run": 0,
            "value": [1.0, 2.0, 3.0, 1.1, 2.1, 3.1],
        }
    )
    table = estimates(results, "value", "a").set_index("policy")
    assert table.loc["b", ["gain", "gain_low", "gain_high"]].tolist() == pytest.approx([5.0, 5.0, 5.0])
    assert table.loc["a", "low"] < table.loc["a", "high"]


@needs_cpsat
def test_tables_and_figure(models, tmp_path, capsys):
    some = ["--loads", 0.6, 0.8, "--episodes", 2, "--model", f"{models}/seed_*"]
    policies = ["--policies", "sjf", "rollout"]
    values = run("loads", tmp_path / "values.csv", *some, *policies)
    assert "| `sjf` |" in capsys.readouterr().out
    for _, rows in values.groupby("load"):
        table = rows.set_index("policy")
        assert set(table.index) == {
            "sjf",
            "rollout",
            "deadline_never",
            "distilled",
            "bound (lp)",
        }
        assert (table["mean"] <= table.loc["bound (lp)", "mean"] + 1e-9).all()
        assert table["share"].between(0, 1 + 1e-6).all()
        assert table.loc["deadline_never", "gain"] == 0.0
        assert (table.drop("bound (lp)")["milliseconds"] > 0).all()
    parts = run("optimum", tmp_path / "parts.csv", *some, "--steps", 60)
    sums = parts.loc[parts["load"] == 0.8, ["bound", "lp"]].sum()
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| optimum |")]
    assert f"| {100 * sums['bound'] / sums['lp']:.1f} [" in found[0]
    assert parts["proved"].all()
    assert (parts["lp"] >= parts["bound"] - 1e-4).all()
    for policy in ("deadline_never", ROLLOUTS, "distilled"):
        assert (parts["bound"] >= parts[policy] - 1e-6).all()
    few = ("--loads", 0.6, 0.8, "--episodes", 2, "--steps", 60, "--futures", 2, "--depth", 8)
    run("divisible", tmp_path / "divisible.csv", *few)
    picture = tmp_path / "figure.png"
    arguments = ["--values", tmp_path / "values.csv", "--parts", tmp_path / "parts.csv"]
    arguments += ["--divisible", tmp_path / "divisible.csv"]
    assert planners.main(["figure", "--out", str(picture), *map(str, arguments)]) == 0
    assert picture.stat().st_size > 10_000


def test_distillation_and_judging(tmp_path, monkeypatch, capsys):
    few_futures = strong(8).spec
    monkeypatch.setattr(distilled, "TEST_LOADS", (1.0,))
    monkeypatch.setattr(distilled, "TRAINING_LOADS", (0.8, 1.0))
    monkeypatch.setattr(distilled, "ROLLOUTS", few_futures)
    few = ["--seeds", 3, 4, "--labels", 600, "--futures", 4, "--epochs", 1, "--episodes", 2]
    table = run("distill", tmp_path / "distilled.csv", *few, "--models", tmp_path / "models")
    assert sorted(path.name for path in (tmp_path / "models").glob("seed_*")) == ["seed_3", "seed_4"]
    assert "agreement" in capsys.readouterr().out
    assert table["env_id"].unique().tolist() == ["ResourcePool-10", "ResourcePool-50"]
    other = [
        "distill",
        "--out",
        tmp_path / "x.csv",
        *few[:4],
        1200,
        *few[5:],
        "--models",
        tmp_path / "models",
    ]
    with pytest.raises(SystemExit):
        planners.main([*map(str, other)])
    told = capsys.readouterr().err
    assert f"--models {tmp_path / 'models' / 'seed_3'}: was trained with labels=600, not 1200" in told
    of_rollouts = table[table["policy"] == few_futures]
    assert (of_rollouts["of_rollouts"] == 0.0).all()
    assert (of_rollouts["gain"] > 0.0).any()
    of_students = table[table["policy"] == "distilled"]
    assert len(of_students) == 2
    assert of_students["mean"].between(0.1, 1.0).all()
    on_ten = table[table["env_id"] == "ResourcePool-10"].set_index("policy")
    alone = evaluate([few_futures], "ResourcePool-10", 2, 50_000, env_kwargs={"offered_load": 1.0, **STUDENT})
    assert on_ten.loc[few_futures, "utilization"] == pytest.approx(alone["utilization"].mean(), abs=1e-5)
    assert on_ten.loc["random", "mean"] < on_ten.loc[few_futures, "mean"]


def test_value_stands_against_the_time_of_a_decision(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(effort, "BOUNDED", 2)
    monkeypatch.setattr(effort, "DIVISIBLE", {"episodes": 2, "steps": 50, "futures": 2, "depth": 10})
    picture = tmp_path / "effort.png"
    some = ("--futures", 16, 4, "--episodes", 3, "--figure", picture)
    table = run("effort", tmp_path / "effort.csv", *some)
    assert picture.stat().st_size > 10_000
    by_kind = table.groupby("kind")
    assert by_kind.size().to_dict() == {
        "bound (lp)": 1,
        "chance": 1,
        "divisible jobs, arrivals unknown": 1,
        "guided rollouts": 2,
        "network": 1,
        "network, NumPy": 1,
        "raced rollouts": 2,
        "rollouts": 2,
        "rules": len(effort.RULES),
    }
    assert table["mean"].max() == table.loc[table["kind"] == "bound (lp)", "mean"].item()
    lines = table[table["milliseconds"].isna()].set_index("kind")["mean"]
    divided = divisible.study([1.0], **effort.DIVISIBLE, first_seed=effort.FIRST_SEED).sum()
    assert lines[divisible.LABEL] / lines["bound (lp)"] == pytest.approx(
        divided["divisible"] / divided["bound"]
    )
    rolled = by_kind.get_group("rollouts").set_index("futures")
    assert 0 < rolled.loc[4, "milliseconds"] < rolled.loc[16, "milliseconds"]
    raced = by_kind.get_group("raced rollouts").set_index("futures")
    assert raced.loc[[4, 16], "mean"].tolist() == rolled.loc[[4, 16], "mean"].tolist()  # of 16 none is saved
    network = by_kind.get_group("network").iloc[0]
    alone = evaluate(
        ["pretrained"], "ResourcePool-10", 3, 60_000, env_kwargs={"offered_load": 1.0, **STUDENT}
    )
    assert network["mean"] == pytest.approx(alone["total_job_value_ratio"].mean(), abs=1e-5)
    assert "| rules | `deadline_never` |" in capsys.readouterr().out


def test_a_large_pool(tmp_path):
    table = run("large", tmp_path / "large.csv", "--episodes", 1, "--steps", 60)
    assert table["seconds"].between(0, 60).all()


def test_divisible_jobs_are_below_the_bound(tmp_path, capsys):
    options = ("--episodes", 2, "--steps", 50, "--futures", 2, "--depth", 10)
    table = run("divisible", tmp_path / "divisible.csv", "--loads", 0.8, 1.2, *options)
    assert table["load"].tolist() == [0.8, 0.8, 1.2, 1.2]
    assert (table["divisible"] <= table["bound"] + 1e-6).all()
    assert (table["bound"] <= table["arrived"] + 1e-6).all()
    sums = table[table["load"] == 0.8].sum()
    described = capsys.readouterr().out
    assert f"| % of the bound | {100 * sums['divisible'] / sums['bound']:.1f} [" in described


def test_perfect_information_is_worth_something(tmp_path, monkeypatch):
    def of_ten_days(policies, env_id, episodes, env_kwargs, **options):
        return evaluate(policies, env_id, episodes, env_kwargs={**env_kwargs, "days": 10}, **options)

    def bound_of_ten_days(results, kind, env_kwargs, **options):
        return add_share_of_bound(results, kind, {**env_kwargs, "days": 10}, **options)

    # A third of the month: each hour takes a plan.
    monkeypatch.setattr(forecasts, "evaluate", of_ten_days)
    monkeypatch.setattr(forecasts, "add_share_of_bound", bound_of_ten_days)
    monkeypatch.setattr(forecasts, "ENV_IDS", ("VCC-2019",))
    monkeypatch.setattr(forecasts, "FORECASTS", ("oracle", "persistence"))
    table = run("forecasts", tmp_path / "forecasts.csv", "--episodes", 1).set_index("forecast")
    assert table.loc["oracle", "worth"] == 0.0
    assert table.loc["persistence", "worth"] > 0.0
    assert table.loc["persistence", "share"] < table.loc["oracle", "share"] < 1.0
    difference = np.diff(table.loc[["oracle", "persistence"], "saving"])[0]
    assert table.loc["persistence", "worth"] == pytest.approx(-difference, abs=1e-3)


def test_knowing_what_comes_is_worth_something(tmp_path, capsys):
    out = tmp_path / "foresight.csv"
    table = run("foresight", out, "--loads", 0.6, "--known-arrivals", 48, 0, "--episodes", 12)
    described = capsys.readouterr().out
    rival, blind, informed = (row for _, row in table.iterrows())
    assert (blind["known_arrivals"], informed["known_arrivals"], rival["gain"]) == (0, 48, 0.0)
    assert rival["policy"].partition(":")[0] in ("sjf", "qos", "hvf", "fcfs", "edf")
    assert 0.0 < blind["gain"] < informed["gain"]
    assert rival["share"] < blind["share"] < informed["share"] < 1.0
    assert f"| 48 | {informed['gain']:+.1f} [" in described
    assert f"`{rival['policy']}`" in described


def test_foresight_takes_other_pools_and_rivals(tmp_path):
    scenario = ("--env", "ResourcePoolSuspend-10", "--set", "workload=bernoulli", "episode_steps=60")
    named = (*scenario, "--rivals", "hvf", "--loads", 0.6)
    table = run("foresight", tmp_path / "foresight.csv", *named, "--known-arrivals", 0, "--episodes", 4)
    rival, blind = (row for _, row in table.iterrows())
    assert rival["policy"].startswith("hvf:")
    assert blind["gain"] > 0.0
    alone = evaluate(
        ["hvf:dispatch=skip,scope=ready", "hvf:dispatch=skip,scope=queue"],
        "ResourcePoolSuspend-10",
        4,
        env_kwargs={"workload": "bernoulli", "episode_steps": 60, "offered_load": 0.6},
    )
    values = alone.groupby("policy")["total_job_value_ratio"].mean()
    assert rival["mean"] == pytest.approx(values.max(), abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foresight", "--known-arrivals", "-1"], "--known-arrivals -1"),
        (["foresight", "--set", "workloud=bernoulli"], "workloud"),
        (["foresight", "--env", "ResourcePool-11"], "ResourcePool-11"),
        (["loads", "--policies", "sjff"], "sjff"),
        (["distill", "--models", "models", "--seeds", "0", "300"], "--seeds 300: must be from 0 to 299"),
        (["distill", "--models", "models", "--seeds", "-1"], "--seeds -1: must be from 0 to 299"),
        (["loads", "--model", "nowhere/seed_*"], "nowhere"),
        (["optimum", "--loads", "-1"], "--loads -1"),
        (["effort", "--load", "-1"], "--load -1"),
        (["loads", "--loads", "20"], "--loads 20.0: must be from 0 to 10"),
        (["loads", "--loads", "inf"], "--loads inf: must be from 0 to 10"),
        (["loads", "--policies", "sjf:foo=1"], "foo"),
        (["optimum", "--time-limit", "-1"], "--time-limit -1: must be a number of seconds above 0"),
        (["optimum", "--time-limit", "nan"], "--time-limit nan: must be a number of seconds above 0"),
        (["effort", "--figure", "x.txt"], "--figure x.txt: must end in .png, .pdf, .svg"),
        (["large", "--out", "."], "--out .: is a folder; must be a file"),
        (["large", "--out", "file/x.csv"], "--out file: cannot be written"),
        ([*FIGURE, "missing.csv"], "missing.csv"),
        ([*FIGURE, "other.csv"], "other.csv: no column 'load'; must be written by `planners loads`"),
        ([*FIGURE, "file"], "file: No columns to parse from file"),
        ([*FIGURE, "missing.csv", "--out", "x.csv"], "--out x.csv: must end in .png, .pdf, .svg"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit) as stopped:
        planners.main([arguments[0], "--out", "out.png", *arguments[1:]])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_a_full_disk_does_not_lose_the_table(tmp_path, monkeypatch):
    def full(path):
        if path == tmp_path / "out.csv":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(path)

    written = planners.atomic_write
    monkeypatch.setattr(planners, "atomic_write", full)
    monkeypatch.setattr(planners.optimum, "large", lambda *_: pd.DataFrame({"a": [1.0]}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RescuedError, match="the table is in "):
        planners.main(["large", "--out", str(tmp_path / "out.csv")])
    assert len(list(tmp_path.glob("greendc-rescued-*/out.csv"))) == 1


def test_a_figure_that_fails_costs_no_table(tmp_path, monkeypatch):
    monkeypatch.setattr(planners.effort, "study", lambda *_: pd.DataFrame({"a": [1.0]}))
    monkeypatch.setattr(planners.effort, "describe", lambda _: "")
    with pytest.raises(KeyError):
        planners.main(["effort", "--figure", str(tmp_path / "x.png"), "--out", str(tmp_path / "out.csv")])
    assert pd.read_csv(tmp_path / "out.csv")["a"].tolist() == [1.0]


def test_without_a_solver_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    arguments = ["optimum", "--loads", "0.8", "--episodes", "1", "--out", str(tmp_path / "out.csv")]
    assert planners.main(arguments) == 2
    assert "pip install 'sb3-greendc[oracle]'" in capsys.readouterr().err
