"""Shares of the bound beside results: at most one, cached by the sequence, and left out with one message."""

from __future__ import annotations

import json
import sys
import warnings
from types import SimpleNamespace

import gymnasium as gym
import pandas as pd
import pytest

import greendc
from greendc.baselines.linear import NoBoundError
from sb3_greendc.cli import evaluate as command
from sb3_greendc.evaluation import bounds
from sb3_greendc.evaluation.paired import evaluate

SHORT = {"episode_steps": 60, "offered_load": 0.8}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GREENDC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bounds"


@pytest.fixture(scope="module")
def results():
    return evaluate(["sjf", "deadline_never"], "ResourcePool-10", 3, seed=5, env_kwargs=SHORT)


@pytest.mark.parametrize("method", ["lp", "cpsat"])
def test_every_policy_gets_its_share(results, method):
    if method == "cpsat":
        pytest.importorskip("ortools", reason="the extra 'oracle' is not installed")
    table = bounds.add_share_of_bound(results, method, SHORT)
    assert table["policy"].tolist() == results["policy"].tolist()
    assert (table["share_of_bound"] == table["total_job_value"] / table["bound"]).all()
    assert table["share_of_bound"].between(0, 1 + 1e-6).all()
    assert table.groupby("seed")["bound"].nunique().eq(1).all()
    if method == "cpsat":
        lp = bounds.add_share_of_bound(results, "lp", SHORT)
        assert (table["bound"] <= lp["bound"] + 1e-4).all()


def test_none_adds_nothing(results):
    assert list(bounds.add_share_of_bound(results, "none", SHORT).columns) == list(results.columns)


def test_bounds_are_kept_by_the_sequence(results, own_cache, monkeypatch):
    first = bounds.episode_bounds("ResourcePool-10", [5, 6, 5], "lp", SHORT)
    assert len(list(own_cache.iterdir())) == 2
    monkeypatch.setattr(bounds, "lp_bound", lambda *_: pytest.fail("computed again"))
    # The rules for late jobs change neither jobs nor power.
    again = bounds.episode_bounds("ResourcePool-10", [5, 6], "lp", {**SHORT, "late_jobs": "leave"})
    assert again.equals(first)
    monkeypatch.undo()
    for path in own_cache.iterdir() if own_cache.exists() else ():
        path.write_text("{")
    assert bounds.episode_bounds("ResourcePool-10", [5, 6], "lp", SHORT, cache=own_cache).equals(first)
    assert all(json.loads(path.read_text())["value"] > 0 for path in own_cache.iterdir())


def test_without_a_bound_the_results_stand(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.warns(UserWarning, match="pip install") as caught:
        table = bounds.add_share_of_bound(results, "cpsat", SHORT)
    assert [w.category for w in caught].count(UserWarning) == 1
    assert table.equals(results)


def test_episodes_without_a_bound_leave_the_others_theirs(results, monkeypatch):
    solve, calls = bounds.lp_bound, []

    def sometimes(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise NoBoundError("the linear programme was not solved: time limit reached")
        return solve(*arguments)

    monkeypatch.setattr(bounds, "lp_bound", sometimes)
    with pytest.warns(UserWarning, match="time limit reached") as caught:
        table = bounds.add_share_of_bound(results, "lp", SHORT)
    assert [w.category for w in caught].count(UserWarning) == 1
    assert table["share_of_bound"].isna().tolist() == (table["seed"] == 6).tolist()
    assert table["total_job_value"].tolist() == results["total_job_value"].tolist()


def test_of_a_capacity_curve_it_is_the_share_of_the_saving(monkeypatch):
    problem = {"days": 3, "forecast": "oracle", "carbon_weight": 2.0}
    costs = evaluate(["always_on", "rolling"], "VCC-2019", 2, env_kwargs=problem)
    table = bounds.add_share_of_bound(costs, "lp", problem)
    shares = table.groupby("policy")["share_of_bound"].mean()
    assert shares["always_on"] == pytest.approx(0.0, abs=0.02)
    assert 0.1 < shares["rolling"] < 1.0
    assert (table["bound"] <= table["total_cost"]).all()
    for nothing in (
        {"carbon_weight": 0.0, "days": 2},
        {"carbon_weight": 1e-15, "days": 2},
    ):  # but for rounding
        free = evaluate(["always_on", "random"], "VCC-2019", 2, env_kwargs=nothing)
        assert (bounds.add_share_of_bound(free, "lp", nothing)["share_of_bound"] == 1.0).all()
    monkeypatch.setattr(bounds, "cost_bound", lambda *_, **__: pytest.fail("computed again"))
    assert bounds.add_share_of_bound(costs, "lp", problem).equals(table)
    with pytest.warns(UserWarning, match="'lp' alone"):
        assert bounds.add_share_of_bound(costs, "cpsat", problem).equals(costs)


def test_a_variant_weighs_carbon_as_it_says(monkeypatch):
    monkeypatch.setattr(bounds, "cost_bound", lambda *_, **__: SimpleNamespace(value=1.0))
    if "WeighedVCC-v0" not in gym.registry:
        greendc.register_variant("WeighedVCC-v0", "VCC-2019", days=1, carbon_weight=2.0)
    costs = evaluate(["moer_threshold:low=0.3,quantile=0.6"], "WeighedVCC", 1)
    table = bounds.add_share_of_bound(costs, "lp")
    at_once = 2.0 * costs["carbon_no_delay_kg"]
    assert (table["bound"] < at_once).all()
    shares = (at_once - costs["total_cost"]) / (at_once - table["bound"])
    assert table["share_of_bound"].tolist() == shares.tolist()


def test_in_a_table_of_several_families_shares_are_those_of_each_alone(results):
    costs = evaluate(["always_on", "rolling"], "VCC-2019", 2, env_kwargs={"days": 3})
    alone = bounds.add_share_of_bound(costs, "lp", {"days": 3})["share_of_bound"]
    both = pd.concat([results, costs], ignore_index=True)
    with pytest.MonkeyPatch.context() as patch:  # keyword arguments fit one family alone
        bound = bounds.episode_bounds
        given = {"ResourcePool-10-v0": SHORT, "VCC-2019-v1": {"days": 3}}
        patch.setattr(
            bounds,
            "episode_bounds",
            lambda env_id, seeds, method, _: bound(env_id, seeds, method, given[env_id]),
        )
        table = bounds.add_share_of_bound(both, "lp")
    assert table["share_of_bound"].iloc[len(results) :].tolist() == alone.tolist()
    pools = table.iloc[: len(results)]
    assert (pools["share_of_bound"] == pools["total_job_value"] / pools["bound"]).all()


def test_unknown_methods_are_named():
    with pytest.raises(ValueError, match="bound='simplex'"):
        bounds.episode_bounds("ResourcePool-10", [0], "simplex")


def test_the_command_shows_the_share(capsys, tmp_path):
    out = tmp_path / "results.csv"
    arguments = ["--env", "ResourcePool-10", "--policies", "sjf", "rollout:futures=4", "--episodes", "2"]
    arguments += ["--set", "episode_steps=60", "--bound", "lp", "--out", str(out), "--no-progress"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert command.main(arguments) == 0
    assert "share_of_bound" in out.read_text().splitlines()[0]
    assert "share" in capsys.readouterr().out
