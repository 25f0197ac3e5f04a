from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from sb3_greendc.cli.plot import main
from sb3_greendc.evaluation.comparisons import profiles
from sb3_greendc.evaluation.plots_comparison import curves_of, draw_profiles, draw_trade_off
from sb3_greendc.evaluation.plots_training import draw_constrained_training, draw_learning_curves
from sb3_greendc.evaluation.progress import COST, MULTIPLIER, REWARD, STEPS, curve, read_runs
from sb3_greendc.evaluation.result_files import write_results
from sb3_greendc.evaluation.statistics import summarize

POLICIES = {
    "always_on": (300.0, 0.0),
    "<b>&threshold": (290.0, 4.0),
    "pid@5": (280.0, 5.0),
    "pid@20": (270.0, 19.0),
}


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WHAT_IS_SEEN = """
addEventListener("load", () => {
  const images = [...document.images].map(image => {
    const box = image.getBoundingClientRect();
    return {left: box.left, right: box.right, loaded: image.complete && image.naturalWidth > 0};
  });
  const root = document.documentElement;
  const seen = {images, width: root.clientWidth, scrolls: root.scrollWidth};
  document.body.insertAdjacentText("beforeend", "SEEN" + JSON.stringify(seen));
});
"""


def write_evaluation(path: Path, env_ids: tuple[str, ...] = ("VCC-2021-v1",)) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {"policy": policy, "run": run, "env_id": env_id, "episode": seed, "seed": seed}
        | {"return": -carbon + rng.normal(), "cost": delay, "carbon_kg": carbon + seed, "overdue_work": delay}
        for env_id in env_ids
        for policy, (carbon, delay) in POLICIES.items()
        for run in range(2 if "@" in policy else 1)
        for seed in range(6)
    ]
    table = pd.DataFrame(rows)
    write_results(path, table, {"command": "evaluate --set 'a<b'", "versions": {"numpy": "9.9"}})
    return table


def write_run(folder: Path, end: int, level: float, columns: bool = True) -> None:
    """Write a log whose return is ``level`` plus a thousandth of the steps."""
    folder.mkdir(parents=True)
    steps = np.arange(100, end + 1, 100)
    table = pd.DataFrame({REWARD: level + steps / 1000, STEPS: steps})
    if columns:
        table[COST] = 30.0 - level
        table[MULTIPLIER] = np.where(steps > 100, 0.5, np.nan)
    table.to_csv(folder / "progress.csv", index=False)
    record = {"command": "train --seed 0", "hyperparameters": {"cost_limit": 12.5}}
    (folder / "run.json").write_text(json.dumps(record))


class Page(HTMLParser):
    """What a page shows and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.loads, self.open = "", [], []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value for key, value in attrs if key in ("src", "href")]
        if tag not in ("meta", "img", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data


def test_every_figure_and_the_report(tmp_path: Path) -> None:
    table = write_evaluation(tmp_path / "results.csv")
    for seed in range(3):
        write_run(tmp_path / "runs" / f"seed_{seed}", 1000 + 100 * seed, float(seed))
    out, report = tmp_path / "figures", tmp_path / "report.html"
    arguments = [str(tmp_path / "results.csv"), "--out", str(out), "--html", str(report)]
    assert main([*arguments, "--progress", f"pid={tmp_path}/runs/seed_*"]) == 0
    names = {"intervals", "performance_profiles", "probability_of_improvement", "trade_off"}
    names |= {"learning_curves", "constrained_training"}
    assert {path.name for path in out.iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("png", "pdf")
    }
    for name in names:
        with Image.open(out / f"{name}.png") as picture:
            assert np.asarray(picture.convert("L")).std() > 5, "not a blank page"
    page = Page(report.read_text())
    assert page.open == [], "every element is closed"
    assert all(load.startswith("data:image/svg+xml;base64,") for load in page.loads), "nothing from elsewhere"
    assert len(page.loads) == 6
    mean = table[table["policy"] == "pid@20"]["carbon_kg"].mean()
    for shown in (
        "<b>&threshold",
        f"{mean:.4g}",
        "2 runs",
        "evaluate --set 'a<b'",
        "numpy 9.9",
        "train --seed 0",
    ):
        assert shown in page.text, shown
    assert "plot" in page.text or "pytest" in page.text, "the command that wrote the report"


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)")
def test_the_report_in_a_browser(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "results.csv")
    report = tmp_path / "report.html"
    arguments = [str(tmp_path / "results.csv"), "--out", str(tmp_path / "figures")]
    assert main([*arguments, "--statistic", "iqm", "--html", str(report)]) == 0
    report.write_text(report.read_text().replace("</body>", f"<script>{WHAT_IS_SEEN}</script></body>"))
    for width in (1200, 500):
        seen = json.loads(Page(in_browser(report, width)).text.rpartition("SEEN")[2])
        assert len(seen["images"]) == 4
        assert all(image["left"] > 0 and image["right"] <= seen["width"] for image in seen["images"])
        assert all(image["right"] - image["left"] > 300 and image["loaded"] for image in seen["images"])
        assert seen["scrolls"] <= seen["width"], "nothing is cut off at the right"


def in_browser(page: Path, width: int) -> str:
    """Return a page as Chromium has it after its scripts."""
    assert CHROMIUM is not None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},800"]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [CHROMIUM, *options, profile, "--dump-dom", page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def test_relative_to_a_reference_over_environments(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "results.csv", ("A-v0", "B-v0"))
    report = tmp_path / "report.html"
    arguments = [
        str(tmp_path / "results.csv"),
        "--out",
        str(tmp_path),
        "--html",
        str(report),
        "--formats",
        "svg",
    ]
    assert main([*arguments, "--relative", "--metrics", "carbon_kg", "--statistic", "iqm"]) == 0
    page = Page(report.read_text())
    assert "all environments" in page.text
    assert "-9.9" in page.text, "270 against 300, six seeds more"
    assert "per cent" in page.text and "kg CO₂" not in page.text
    assert (tmp_path / "intervals.svg").exists()


def test_some_policies_in_some_order(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "results.csv")
    report = tmp_path / "report.html"
    arguments = [str(tmp_path / "results.csv"), "--out", str(tmp_path), "--html", str(report)]
    assert main([*arguments, "--formats", "png", "--policies", "pid@20", "always_on"]) == 0
    text = report.read_text()
    assert text.index(">pid@20") < text.index(">always_on")
    assert "pid@5" not in text


class TestCurves:
    def test_runs_of_different_length(self, tmp_path: Path) -> None:
        for seed, end in enumerate((1000, 1500)):
            write_run(tmp_path / f"seed_{seed}", end, float(seed))
        found = curve(read_runs(f"{tmp_path}/seed_*"), REWARD)
        assert (found.steps[0], found.steps[-1]) == (100, 1000), "where both have values"
        np.testing.assert_allclose(found.mean, 0.5 + found.steps / 1000)
        np.testing.assert_allclose(found.high - found.low, 1.0), "of two runs the interval is their range"
        missing = curve(read_runs(f"{tmp_path}/seed_*"), MULTIPLIER)
        assert missing.steps[0] == 200
        np.testing.assert_allclose(missing.mean, 0.5)

    def test_interval_over_runs(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        levels = rng.normal(size=30)
        for seed, level in enumerate(levels):
            write_run(tmp_path / f"seed_{seed}", 300, float(level))
        found = curve(read_runs(f"{tmp_path}/seed_*"), REWARD)
        half = 1.96 * levels.std() / math.sqrt(30)
        np.testing.assert_allclose((found.high - found.low) / 2, half, rtol=0.1)

    def test_a_log_that_is_still_being_written(self, tmp_path: Path) -> None:
        write_run(tmp_path / "run", 1000, 0.0)
        with (tmp_path / "run" / "progress.csv").open("a") as file:
            file.write("7.0")
        assert curve(read_runs(str(tmp_path / "run")), REWARD).steps[-1] == 1000


def test_limits_come_from_the_runs_records(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 500, 0.0)
    figure = draw_constrained_training({"pid": read_runs(str(tmp_path / "run"))})
    _, costs, multipliers = figure.axes
    assert [line.get_ydata()[0] for line in costs.lines if line.get_linestyle() == "--"] == [12.5]
    np.testing.assert_allclose(multipliers.lines[-1].get_ydata(), 0.5)
    figure = draw_constrained_training({"pid": read_runs(str(tmp_path / "run"))}, cost_limit=7.0)
    assert [line.get_ydata()[0] for line in figure.axes[1].lines if line.get_linestyle() == "--"] == [7.0]


def test_lines_of_many_algorithms_differ(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 500, 0.0)
    groups = {f"algorithm {k}": read_runs(str(tmp_path / "run")) for k in range(12)}
    for figure in (draw_learning_curves(groups, [REWARD]), draw_constrained_training(groups)):
        for lines in (figure.legends[0].get_lines(), figure.axes[0].lines):
            assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 12


def test_legends_of_long_names_are_not_cut(tmp_path: Path) -> None:
    names = [f"runs/2024/experiment_{k}/ppo_with_a_long_name/seed_*" for k in range(5)]
    table = write_evaluation(tmp_path / "results.csv")
    long = pd.concat([table[table["policy"] == "always_on"].assign(policy=name) for name in names])
    write_run(tmp_path / "run", 500, 0.0)
    groups = {name: read_runs(str(tmp_path / "run")) for name in names}
    for figure in (
        draw_profiles(profiles(long, ["return"])),
        draw_learning_curves(groups, [REWARD]),
        draw_constrained_training(groups),
    ):
        figure.draw_without_rendering()
        legend, whole = figure.legends[0].get_window_extent(), figure.bbox
        assert legend.x0 >= whole.x0 and legend.x1 <= whole.x1
        assert all(legend.y1 <= axes.get_tightbbox().y0 for axes in figure.axes)


def test_limits_of_one_name_are_a_curve_in_their_order(tmp_path: Path) -> None:
    assert curves_of(["a", "p@20", "x@y", "p@5"]) == {
        "a": [(None, "a")],
        "p": [(5.0, "p@5"), (20.0, "p@20")],
        "x@y": [(None, "x@y")],
    }
    table = write_evaluation(tmp_path / "results.csv")
    figure = draw_trade_off(summarize(table, ["carbon_kg", "cost"]), "carbon_kg", "cost")
    (line,) = (line for line in figure.axes[0].lines if len(line.get_xdata()) == 2)
    assert list(line.get_xdata()) == [5.0, 19.0]
    assert list(line.get_ydata()) == [282.5, 272.5]


class TestBadInput:
    def error(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
        with pytest.raises(SystemExit) as error:
            main(arguments)
        assert error.value.code == 2
        err = capsys.readouterr().err
        assert re.fullmatch(r"plot: error: .*\n", err)
        return err

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--metrics", "carbon"], "metric 'carbon': not in the results; did you mean 'carbon_kg'?"),
            (
                ["--policies", "alwayson"],
                "--policies alwayson: not in the results; did you mean 'always_on'?",
            ),
            (
                ["--policies", "always_on", "always_on"],
                "--policies always_on always_on: each policy may be given once",
            ),
            (["--title", "A"], "--title: has no effect without --html"),
            (["--curves", REWARD], "--curves: has no effect without --progress"),
            (["--cost-limit", "0"], "--cost-limit: has no effect without --progress"),
            (["--reference", "pid@6"], "--reference pid@6: must be one of always_on"),
            (
                ["--trade-off", "carbon_kg", "costs"],
                "metric 'costs': not in the results; did you mean 'cost'?",
            ),
            (["--lower-is-better", "costs"], "metric 'costs': not in the results; did you mean 'cost'?"),
            (["--html", "."], "--html .: is a folder; must be a file"),
            (["--progress", "runs/none_*"], "progress runs/none_*: none there"),
        ],
    )
    def test_names(
        self, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_evaluation(tmp_path / "results.csv")
        arguments = [str(tmp_path / "results.csv"), "--out", str(tmp_path / "figures"), *options]
        assert message in self.error(arguments, capsys)
        assert not (tmp_path / "figures").exists()

    @pytest.mark.parametrize(
        "option",
        [
            *(["--metrics", "cost"], ["--relative"], ["--trade-off", "carbon_kg", "cost"]),
            ["--statistic", "mean"],
        ],
    )
    def test_options_of_results_without_any(
        self, option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_run(tmp_path / "run", 300, 0.0)
        arguments = ["--out", str(tmp_path / "figures"), "--progress", str(tmp_path / "run"), *option]
        assert f"{option[0]}: has no effect without RESULTS" in self.error(arguments, capsys)

    def test_metrics_without_values(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        table = write_evaluation(tmp_path / "results.csv").assign(cost=np.nan, carbon_kg=0.0)
        table.to_csv(tmp_path / "none.csv", index=False)
        arguments = [str(tmp_path / "none.csv"), "--out", str(tmp_path / "figures"), "--metrics"]
        assert "metric 'cost': no episode has a value\n" in self.error([*arguments, "cost"], capsys)
        error = self.error([*arguments, "carbon_kg", "--relative"], capsys)
        assert "metric 'carbon_kg': no episode has a value other than 0 for always_on" in error
        table[["policy", "env_id", "seed", "run"]].assign(score=1.0).to_csv(tmp_path / "own.csv", index=False)
        arguments[0] = str(tmp_path / "own.csv")
        error = self.error(arguments[:-1], capsys)
        assert "no usual metric is in the results: name metrics with --metrics" in error
        assert not (tmp_path / "figures").exists()
        assert main([*arguments, "score"]) == 0

    def test_nothing(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "nothing to draw" in self.error(["--out", str(tmp_path)], capsys)

    def test_files(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "none.csv" in self.error([str(tmp_path / "none.csv"), "--out", str(tmp_path)], capsys)
        (tmp_path / "other.csv").write_text("a,b\n1,2\n")
        error = self.error([str(tmp_path / "other.csv"), "--out", str(tmp_path)], capsys)
        assert "other.csv: no column 'policy' (every table of episodes has policy, env_id, seed)" in error
        error = self.error(["--progress", str(tmp_path / "other.csv"), "--out", str(tmp_path)], capsys)
        assert "other.csv: no column 'time/total_timesteps'" in error

    def test_the_same_episodes_twice(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_evaluation(tmp_path / "a.csv")
        write_evaluation(tmp_path / "b.csv")
        error = self.error([str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--out", str(tmp_path)], capsys)
        assert "policy 'always_on' has seed 0 of VCC-2021-v1 twice" in error

    def test_columns_of_logs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_run(tmp_path / "run", 300, 0.0, columns=False)
        arguments = ["--out", str(tmp_path / "figures"), "--progress", str(tmp_path / "run")]
        error = self.error([*arguments, "--curves", "rollout/ep_rew_men"], capsys)
        assert "no column 'rollout/ep_rew_men'; did you mean 'rollout/ep_rew_mean'?" in error
        assert "no log has the column" in self.error([*arguments, "--cost-limit", "3"], capsys)
        assert "--cost-limit=nan: must be a finite number" in self.error(
            [*arguments, "--cost-limit", "nan"], capsys
        )


def test_a_folder_that_cannot_be_written_is_found_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("sb3_greendc.cli.plot.read_all", None)
    for out, html in ((tmp_path / "file", tmp_path / "x.html"), (tmp_path / "new", tmp_path / "file" / "x")):
        with pytest.raises(SystemExit):
            main([str(tmp_path / "results.csv"), "--out", str(out), "--html", str(html)])
        [line] = capsys.readouterr().err.splitlines()
        assert "file: cannot be written: " in line
