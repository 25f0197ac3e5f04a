"""One table of environments of several families: each has its own metrics, and its own bound."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pandas as pd
import pytest
from command_cases import one_line_error

from sb3_greendc.cli import evaluate as command
from sb3_greendc.cli import plot
from sb3_greendc.cli.evaluate import main
from sb3_greendc.evaluation.bounds import SHARE
from sb3_greendc.evaluation.plots import intervals
from sb3_greendc.evaluation.plots_comparison import draw_trade_off
from sb3_greendc.evaluation.statistics import summarize
from sb3_greendc.evaluation.tables import summary_tables

ENVS = ("VCC-2021", "ResourcePool-10", "CartPole-v1")
RANDOM = ("--policies", "random", "--episodes", "2", "--no-progress")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mixed") / "results.csv"
    assert main(["--env", *ENVS, *RANDOM, "--out", str(path)]) == 0
    return path


def test_each_environment_has_its_own_metrics_and_bound(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["--env", *ENVS, *RANDOM, "--out", str(tmp_path / "results.csv"), "--plot"]) == 0
    curve, pool, pole = capsys.readouterr().out.split(": mean of")[1:]
    assert "carbon_" in curve and "value_ratio" not in curve and "share_of" not in curve
    assert "value_ratio" in pool and "carbon_" not in pool and "share_of" in pool
    assert "length" in pole and "carbon_" not in pole and "share_of" not in pole
    assert not any("–" in text for text in (curve, pool, pole))
    shares = pd.read_csv(tmp_path / "results.csv").groupby("env_id")[SHARE].count()
    assert shares.to_dict() == {"VCC-2021-v1": 0, "ResourcePool-10-v0": 2, "CartPole-v1": 0}


def test_metrics_of_one_family_are_shown_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = ("--metrics", "carbon_kg", "total_job_value_ratio")
    assert main(["--env", *ENVS[:2], *RANDOM, "--bound", "none", *metrics]) == 0
    curve, pool = capsys.readouterr().out.split("95 %")[1:]
    assert "carbon_" in curve and "value_ratio" not in curve
    assert "value_ratio" in pool and "carbon_" not in pool
    said = one_line_error("evaluate", main, ["--env", *ENVS[:2], *RANDOM, "--metrics", "carbon_k"], capsys)
    assert "VCC-2021-v1 and ResourcePool-10-v0 have none of that name; did you mean 'carbon_kg'?" in said


def test_figures_show_the_environments_that_have_both_metrics(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles: list[str] = []

    def draw(*arguments, **options):
        figure = draw_trade_off(*arguments, **options)
        titles.extend(axes.get_title() for axes in figure.axes if axes.get_title())
        return figure

    monkeypatch.setattr(plot, "draw_trade_off", draw)
    assert plot.main([str(results), "--out", str(tmp_path)]) == 0
    assert titles == ["VCC-2021-v1"]


def test_the_record_says_where_the_policies_of_each_environment_came_from(tmp_path: Path) -> None:
    policies = ("--policies", "random", "pretrained", "--episodes", "1", "--bound", "none", "--no-progress")
    out = ("--out", str(tmp_path / "results.csv"))
    assert main(["--env", "DiscreteVCC-2021", "ResourcePool-10", *policies, *out]) == 0
    assert json.loads((tmp_path / "results.json").read_text())["policies"] == {
        "random": ["random"],
        "pretrained": ["pretrained:DiscreteVCC-2021-v1", "pretrained:ResourcePool-10-v0"],
    }


def test_figures_have_no_empty_panels(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    titles: dict[str, list[str]] = {}

    def draw(*arguments, **options):
        figure = intervals(*arguments, **options)
        for part in figure.subfigs:
            panels = [axes for axes in part.axes if axes.axison]
            titles[part.get_suptitle()] = [axes.get_title() for axes in panels]
            assert all(pd.notna(axes.lines[0].get_xdata()).any() for axes in panels)
        return figure

    monkeypatch.setattr(plot, "intervals", draw)
    report = tmp_path / "report.html"
    assert plot.main([str(results), "--out", str(tmp_path), "--html", str(report)]) == 0
    assert {env_id: len(panels) for env_id, panels in titles.items()} == {
        "VCC-2021-v1": 8, "ResourcePool-10-v0": 7, "CartPole-v1": 2
    }  # fmt: skip
    assert "total job value ratio ↑" in titles["ResourcePool-10-v0"]
    assert "–" not in report.read_text().partition("<figure")[0], "nothing is undefined in the tables"


def test_a_trade_off_is_drawn_where_there_are_both(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pd.read_csv(results)
    figure = draw_trade_off(summarize(rows, ["carbon_kg", "return"]), "carbon_kg", "return")
    assert [axes.get_title() for axes in figure.axes if axes.axison] == ["VCC-2021-v1"]
    pair = ("--trade-off", "carbon_kg", "total_job_value")
    said = one_line_error("plot", plot.main, [str(results), "--out", str(tmp_path / "x"), *pair], capsys)
    assert "--trade-off carbon_kg total_job_value: no environment has values of both" in said


def test_an_interrupted_evaluation_shows_what_there_is(results: Path) -> None:
    rows = pd.read_csv(results)
    asked = {"metrics": None, "statistic": "mean", "reference": "other"}
    other = rows[rows["env_id"] == "VCC-2021-v1"].assign(policy="other")
    begun = pd.concat([rows, other], ignore_index=True)  # the reference has played one environment
    shown = command._summary(begun, Namespace(**asked), completed=False)
    assert shown.groupby("env_id")["difference"].count().gt(0).to_dict() == {
        "VCC-2021-v1": True, "ResourcePool-10-v0": False, "CartPole-v1": False
    }  # fmt: skip
    for env_id in shown["env_id"].unique():
        assert summary_tables(shown[shown["env_id"] == env_id], str(env_id), 100)
    first = rows[rows["env_id"] == "VCC-2021-v1"].dropna(axis=1, how="all")
    wanted = ["total_job_value_ratio", "carbon_kg"]
    shown = command._summary(first, Namespace(**{**asked, "metrics": wanted}), completed=False)
    assert set(shown["metric"]) == {"carbon_kg"}
