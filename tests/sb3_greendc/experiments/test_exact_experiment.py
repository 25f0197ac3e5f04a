"""Tiny pools: policies are judged by what their actions lose; tables have their share of the optimum."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from greendc.baselines.resource_pool.job_classes import ClassWorkload, JobClass
from sb3_greendc.evaluation.policy_sources import ObjectSource, policy_sources
from sb3_greendc.experiments.episodes import Variant
from sb3_greendc.experiments.exact import experiment, pools
from sb3_greendc.experiments.exact.judging import LOST, ExactContestant, UniformlyRandom, judge
from sb3_greendc.experiments.exact.pools import POOLS, STEPS, USUAL_RULES, TinyPool, solved
from sb3_greendc.experiments.exact.tasks import (
    CLAIRVOYANT,
    DIVISIBLE,
    EXACT,
    Distillation,
    Judged,
    Lines,
    Values,
)
from sb3_greendc.experiments.experiment import Budget

NAME = "test"
CLASSES = (JobClass(3, 1, 0.6), JobClass(2, 3, 0.95), JobClass(1, 3, 0.55))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setitem(POOLS, NAME, TinyPool(3, ClassWorkload(CLASSES, 0.5)))
    yield
    pools.solved.cache_clear()


def test_the_optimum_loses_nothing_and_a_rule_what_is_computed():
    model, optimum = solved(NAME)
    rows = judge(ExactContestant("optimum", NAME), NAME, 20, skip_forced=True)
    assert [row[LOST] for row in rows] == pytest.approx([0.0] * 20, abs=1e-9)
    (rule,) = policy_sources(["deadline_never"], "ResourcePool-10-v0")
    lost = np.array([row[LOST] for row in judge(rule, NAME, 300, skip_forced=True)])
    exact = model.first_value(optimum) - model.first_value(model.evaluate(model.deadline_never()))
    assert exact > 1.0
    assert abs(lost.mean() - exact) < 3.0 * lost.std(ddof=1) / np.sqrt(300)


def test_episodes_are_the_same_for_all_and_do_not_depend_on_the_batch(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("sb3_greendc.experiments.exact.judging._AT_ONCE", 3)
        few = judge(ExactContestant("optimum", NAME), NAME, 8)
    many = judge(ExactContestant("optimum", NAME), NAME, 8)
    assert [row["total_job_value"] for row in few] == [row["total_job_value"] for row in many]
    assert [row["episode"] for row in few] == list(range(8))


def test_under_other_rules_nothing_is_said_of_losses():
    (row,) = judge(ObjectSource("random", 0, UniformlyRandom()), NAME, 1, **USUAL_RULES)
    assert LOST not in row


def test_random_choice_is_uniform_over_valid_actions():
    masks = np.tile(np.array([1, 0, 1, 1], np.int8), (6000, 1))
    actions, _ = UniformlyRandom().predict({"action_mask": masks})
    counts = np.bincount(actions, minlength=4) / 6000
    assert counts == pytest.approx([1 / 3, 0.0, 1 / 3, 1 / 3], abs=0.03)


def test_exact_values_are_shares_of_the_optimum():
    table = Values(NAME).compute().tables["exact"].set_index("policy")["percent"]
    assert table["optimum"] == pytest.approx(100.0)
    assert table["deadline_never"] < table["improvement 1"] <= table["improvement 2"] < 100.0 + 1e-9
    assert 98.0 < table["optimum, no clock"] < 100.0


def test_the_lines_above_are_of_the_test_episodes():
    rows = Lines(NAME, 6, futures=2, depth=8).compute().tables["episodes"]
    value = rows.pivot(index="episode", columns="policy", values="total_job_value")
    optimum = [row["total_job_value"] for row in judge(ExactContestant("optimum", NAME), NAME, 6)]
    assert (value[CLAIRVOYANT] >= value[DIVISIBLE] - 1e-6).all()
    assert (value[CLAIRVOYANT] >= np.array(optimum) - 1e-6).all()
    assert np.corrcoef(value[CLAIRVOYANT], optimum)[0, 1] > 0.5


def test_a_network_learns_from_exact_values():
    task = Distillation(NAME, EXACT, labels=8000, epochs=12, seed=0)
    judged = Judged(task, NAME, "network", 30).compute().tables["episodes"]
    guided = Judged(task, NAME, "guided", 4, Variant("rollout", {"futures": 4, "depth": 6})).compute()
    model, optimum = solved(NAME)
    share = 1.0 - judged[LOST].mean() / model.first_value(optimum)
    rule = model.first_value(model.evaluate(model.deadline_never())) / model.first_value(optimum)
    assert share > rule + 0.015
    assert set(guided.tables["episodes"]["policy"]) == {"guided"}


class Fixed:
    """Two test episodes of an optimum that earns 50 on average, computed as 48."""

    def table(self, name="episodes"):
        head = {"series": "pool A", "pool": "A"}
        if name == "exact":
            values = {"optimum": 48.0, "deadline_never": 45.0}
            rows = [{**head, "policy": key, "value": value} for key, value in values.items()]
            return pd.DataFrame(rows).assign(percent=[100.0, 93.75], states=7, seconds=1.0, load=1.0)
        played = [
            ("optimum", np.nan, (40.0, 60.0), (0.0, 0.0)),
            ("deadline_never", np.nan, (40.0, 50.0), (2.4, 4.8)),
            ("random, usual rules", np.nan, (10.0, 15.0), (np.nan, np.nan)),
            ("network", 0, (40.0, 59.0), (0.0, 0.48)),
            ("network", 1, (40.0, 59.0), (0.48, 0.96)),
        ]
        return pd.DataFrame(
            {
                **head,
                "policy": policy,
                "train_seed": seed,
                "episode": k,
                "total_job_value": earned[k],
                LOST: lost[k],
            }
            for policy, seed, earned, lost in played
            for k in range(2)
        )


def test_shares_are_of_what_actions_lose(monkeypatch):
    monkeypatch.setattr(experiment, "POOLS", {"A": POOLS["A"]})
    analysis = experiment.analyze(Fixed(), Budget(quick=True))
    table = analysis.tables["results"].set_index("policy")
    share = table["share_percent"]
    assert share["optimum"] == share["optimum, played"] == 100.0
    assert share["deadline_never"] == 93.75
    assert share["deadline_never, played"] == pytest.approx(100 - 100 * 3.6 / 48)
    assert share["random, usual rules"] == pytest.approx(25.0)
    assert share["network"] == pytest.approx(99.0)
    assert table.loc["network", ["seeds", "episodes"]].tolist() == [2, 2]
    assert table.loc["network", "share_low"] < 99.0 < table.loc["network", "share_high"]
    assert table.loc["deadline_never", "episodes"] == 0
    assert "50.00 played and 48.00 computed" in analysis.notes[-1]
    (panel,) = analysis.figures["figure"].axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["deadline_never", "network", "optimum"]


def test_the_pools_are_what_the_page_says():
    for name, load in (("A", 0.98), ("B", 1.24), ("C", 1.0)):
        assert POOLS[name].load == pytest.approx(load, abs=0.01)
        assert POOLS[name].scenario().env_kwargs["episode_steps"] == STEPS


@pytest.mark.parametrize(
    ("budget", "episodes"), [(Budget(), 256), (Budget(quick=True), 32), (Budget(test_episodes=7), 7)]
)
def test_policies_are_judged_on_as_many_episodes_as_are_asked_for(budget, episodes):
    judged = [
        item.task
        for item in experiment.items(budget)
        if hasattr(item.task, "episodes") and not isinstance(item.task, Lines)
    ]
    assert len(judged) > 20
    assert {task.episodes for task in judged} == {episodes}


def test_the_seconds_to_solve_a_pool_are_not_those_of_finding_it_solved():
    solved(NAME)
    assert (Values(NAME).compute().tables["exact"]["seconds"] > 1e-4).all()
