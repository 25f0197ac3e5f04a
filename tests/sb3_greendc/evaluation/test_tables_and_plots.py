from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console

import greendc
from sb3_greendc.core.files import atomic_write, write_json
from sb3_greendc.evaluation.comparisons import profiles
from sb3_greendc.evaluation.metrics import LOWER_IS_BETTER, main_metrics, trade_off
from sb3_greendc.evaluation.plots import bars, intervals, save_figure, short_names
from sb3_greendc.evaluation.plots_comparison import draw_profiles
from sb3_greendc.evaluation.statistics import summarize
from sb3_greendc.evaluation.tables import fitted_table, interval, number, summary_tables


def results(metrics: int = 2) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {"env_id": env_id, "policy": policy, "seed": seed, "undefined": np.nan}
            | {f"metric_{k}": base + rng.normal() for k in range(metrics)}
            for env_id in ("A-v0", "B-v0")
            for policy, base in (("first", -5.0), ("second", 1234.5))
            for seed in range(4)
        ]
    )


def test_every_metric_of_every_family_is_known_to_be_better_high_or_low() -> None:
    better_high = {
        *("carbon_no_delay_kg", "flexible_work_done", "utilization", "mean_vcc", "submitted_work"),
        *("executed_work", "total_job_value", "total_job_value_ratio", "total_job_value_ratio_inside"),
        *("arrived_jobs", "completed_jobs", "completion_ratio", "on_time_ratio", "utilization_powered"),
        *("accrued_reward", "time_steps", "solar_kwh", "wind_kwh", "critical_kwh", "pool_kwh"),
        *("battery_charged_kwh", "battery_discharged_kwh", "finished_jobs", "value", "on_time_share"),
    }
    found: set[str] = set()
    for env_id in ("VCC-2019", "ResourcePoolCarbon-10", "ClusterGreen"):  # with all that they can have
        simulator = greendc.make_simulator(env_id)
        simulator.reset_env(0, np.random.default_rng(0))
        found |= simulator.episode_metrics(0).keys()
    assert found - LOWER_IS_BETTER == better_high


def printed(summary: pd.DataFrame, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    for table in summary_tables(summary, "the title", width):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_cells_are_the_summary() -> None:
    summary = summarize(results(), ["metric_0", "undefined"], reference="first")
    lines = printed(summary[summary["env_id"] == "A-v0"], 120)
    assert lines[0].startswith("the title")
    row = summary[(summary["policy"] == "second") & (summary["metric"] == "metric_0")].iloc[0]
    (policy,) = [i for i, line in enumerate(lines) if line.split()[:1] == ["second"] and i < 9]
    assert lines[policy].split() == ["second", number(row["estimate"]), "–"]
    assert lines[policy + 1].split() == [interval(row["low"], row["high"]), "–…–"]
    (heading,) = [i for i, line in enumerate(lines) if "Δ: less first on the same episode" in line]
    differences = "\n".join(lines[heading:])
    assert "first" not in differences.partition("\n")[2], "the reference differs from itself by nothing"
    assert number(row["difference"]) in differences
    assert interval(row["difference_low"], row["difference_high"]) in differences


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_nothing_is_cut_off(width: int) -> None:
    summary = summarize(results(7), [f"metric_{k}" for k in range(7)], reference="first")
    of_env = summary[summary["env_id"] == "A-v0"].replace(
        {"policy": {"second": "runs/a_long_name/model.zip"}}
    )
    of_env["metric"] = [f"a_long_name_of_{metric}" for metric in of_env["metric"]]
    lines = printed(of_env, width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    for k in range(7):
        assert sum(line.count(f"metric_{k}") for line in lines) == 2, (
            "once with estimates, once with differences"
        )
    for row in of_env.to_dict("records"):
        assert interval(row["low"], row["high"]) in text
        assert number(row["estimate"]) in text
    assert "runs/a_long_name/model.z" in text


def test_wide_terminals_get_one_table() -> None:
    summary = summarize(results(7), [f"metric_{k}" for k in range(7)])
    of_env = summary[summary["env_id"] == "A-v0"]
    assert [len(summary_tables(of_env, "", width)) for width in (30, 200)] == [7, 1]


def test_numbers() -> None:
    assert [number(x) for x in (0.0, 0.0012345, -3.14159, 999.96, 1234.5, -1e6, np.nan)] == [
        *("0", "0.001234", "-3.142", "1000", "1,234", "-1,000,000", "–")
    ]


def test_intervals_are_as_long_as_they_are_precise() -> None:
    pairs = [(299.412, 311.98), (-0.014781, -0.012690), (12345.6, 23456.7), (0.5, 0.5), (np.nan, np.nan)]
    assert [interval(*pair) for pair in pairs] == [
        *("299…312", "-0.0148…-0.0127", "12,346…23,457", "0.5…0.5", "–…–")
    ]
    assert interval(-63.2, -0.4) == "-63…0"
    assert interval(1e-9, 3e-9) == "1.00e-09…3.00e-09"


@pytest.mark.parametrize("env_ids", [["A-v0", "B-v0"], ["B-v0"]])
def test_bars_and_intervals(env_ids: list[str]) -> None:
    table = results(4)
    summary = summarize(table[table["env_id"].isin(env_ids)], [f"metric_{k}" for k in range(4)])
    for draw in (bars, intervals):
        figure = draw(summary)
        panels = [axes for axes in figure.axes if axes.axison]
        assert len(panels) == 4 * len(env_ids)
        for i, axes in enumerate(panels):
            env_id, metric = env_ids[i // 4], f"metric_{i % 4}"
            rows = summary[(summary["env_id"] == env_id) & (summary["metric"] == metric)]
            assert metric.replace("_", " ") in axes.get_title().replace("_", " ")
            assert axes.get_figure(root=False).get_suptitle() == env_id
            shown = (
                [bar.get_width() for bar in axes.patches]
                if draw is bars
                else axes.lines[0].get_xdata().tolist()
            )
            assert shown == rows["estimate"].tolist()
            bottom, top = axes.get_ylim()
            assert bottom > top, "the first policy is on top"
        assert [label.get_text() for label in panels[0].get_yticklabels()] == ["first", "second"]


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_files_of_figures(tmp_path: Path, suffix: str) -> None:
    figure = intervals(summarize(results(1), ["metric_0"]))
    path = tmp_path / "new" / f"figure.{suffix}"
    save_figure(figure, path)
    content = path.read_bytes()
    assert content.startswith({"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[suffix])
    save_figure(intervals(summarize(results(1), ["metric_0"])), path)
    assert path.read_bytes() == content, "the same figure is the same file"
    if suffix == "png":
        with Image.open(path) as picture:
            assert picture.size[0] == 1400
    if suffix == "pdf":
        assert b"/Type3" not in content, "journals refuse Type 3 fonts"


def test_other_files_of_figures(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"figure\.gif: must end in \.png, \.pdf, \.svg"):
        save_figure(intervals(summarize(results(1), ["metric_0"])), tmp_path / "figure.gif")


def test_atomic_write_leaves_the_old_file_when_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"a": 1})

    def write_half() -> None:
        with atomic_write(path) as file:
            file.write(b"half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == '{\n  "a": 1\n}\n'
    assert list(tmp_path.iterdir()) == [path]


STRANGE = (r"$\foo$", "[/red]", r"a\[b]", "$", "a_{b}", "[bold]x[/bold]", "x\\")


def test_names_are_printed_as_they_are() -> None:
    """Square brackets are rich's markup: a policy named ``[/red]`` ended the program, ``[red]`` was lost."""
    frames = results()[lambda table: table["policy"] == "first"]
    table = pd.concat([frames.assign(policy=name) for name in STRANGE])
    summary = summarize(table, ["metric_0"], reference="[/red]")
    text = "\n".join(printed(summary[summary["env_id"] == "A-v0"], 120))
    for name in STRANGE:
        assert name in text
    assert "Δ: less [/red] on the same episode" in " ".join(text.split())


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    r"""Dollar signs begin a formula of Matplotlib's: ``$\foo$`` ended the program when saved."""
    frames = results(1)[lambda table: table["policy"] == "first"]
    table = pd.concat([frames.assign(policy=name) for name in STRANGE]).replace("A-v0", r"$\env$")
    summary = summarize(table.rename(columns={"metric_0": r"$\m$"}), [r"$\m$"], reference=STRANGE[0])
    for draw in (bars, intervals):
        figure = draw(summary)
        save_figure(figure, tmp_path / "x.svg")
        ticks = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert [tick.replace(r"\$", "$") for tick in ticks] == list(STRANGE)
        shown = (tmp_path / "x.svg").read_text()
        assert r"$\foo$" in shown and r"$\env$" in shown


def test_figures_that_compare_draw_names_as_they_are(tmp_path: Path) -> None:
    from sb3_greendc.evaluation.comparisons import improvements, profiles
    from sb3_greendc.evaluation.plots_comparison import draw_improvements, draw_profiles, draw_trade_off

    frames = results(2)[lambda table: table["policy"] == "first"]
    table = pd.concat([frames.assign(policy=name, run=0) for name in STRANGE]).replace("A-v0", r"$\env$")
    table = table.rename(columns={"metric_0": r"$\m$", "metric_1": r"$\n$"})
    summary = summarize(table, [r"$\m$", r"$\n$"])
    for figure in (
        draw_profiles(profiles(table, [r"$\m$"])),
        draw_improvements(improvements(table, [r"$\m$"], reference=STRANGE[0]), STRANGE[0]),
        draw_trade_off(summary, r"$\m$", r"$\n$"),
    ):
        save_figure(figure, tmp_path / "x.svg")
        assert r"$\foo$" in (tmp_path / "x.svg").read_text()


def test_names_of_training_runs_are_drawn_as_they_are(tmp_path: Path) -> None:
    from sb3_greendc.evaluation.plots_training import draw_learning_curves
    from sb3_greendc.evaluation.progress import REWARD, STEPS, read_runs

    (tmp_path / "progress.csv").write_text(f"{STEPS},{REWARD},$\\c$\n100,1.5,1\n200,2.5,2\n")
    runs = read_runs(str(tmp_path))
    save_figure(draw_learning_curves({r"$\foo$": runs}, [REWARD, r"$\c$"]), tmp_path / "x.svg")
    assert r"$\foo$" in (tmp_path / "x.svg").read_text()


LONG = "rollout:futures=32,min_qos=0.25,depth=24,dispatch=easy"


@pytest.mark.parametrize(
    ("policies", "short"),
    [
        (["hvf", "always_on"], ["hvf", "always_on"]),
        ([LONG, "hvf"], ["rollout …", "hvf"]),
        ([LONG, f"{LONG},prior=pretrained"], ["rollout …", "rollout: prior=pretrained …"]),
        (["runs/a/long/way/down/ppo/seed_*", "x"], ["ppo", "x"]),
        (["/some/where/far/away/from/dqn/model.zip"], ["dqn"]),
        (["here/in/a/very/long/folder/ppo", "there/in/a/very/long/folder/ppo"], None),
        (["a_name_without_a_colon_that_is_far_too_long"], ["a_name_without_a_c…_too_long"]),
    ],
)
def test_names_in_figures_are_short_and_differ(policies: list[str], short: list[str] | None) -> None:
    assert list(short_names(policies).values()) == (policies if short is None else short)


def test_profiles_say_what_they_show_in_words_and_numbers() -> None:
    table = results(2)[lambda table: table["env_id"] == "A-v0"].assign(run=0)
    table["policy"] = table["policy"].replace({"first": LONG})
    table = table.rename(columns={"metric_0": "carbon_kg"})
    table["carbon_kg"] += 20_000
    figure = draw_profiles(profiles(table, ["carbon_kg", "metric_1"]))
    carbon, other = (panel for panel in figure.axes if panel.axison)
    assert (carbon.get_title(), other.get_title()) == ("carbon (kg CO₂) ↓", "metric 1 ↑")
    assert carbon.get_xlabel() == "τ (kg CO₂)"
    assert carbon.get_ylabel() == "share of episodes\nbetter than τ"
    figure.draw_without_rendering()
    ticks = [tick.get_text() for tick in carbon.get_xticklabels()]
    assert len(ticks) <= 6
    assert "20,000" in ticks
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["rollout …", "second"]
    several = draw_profiles(profiles(results(1).assign(run=0), ["metric_0"]))
    assert [panel.get_title().splitlines()[0] for panel in several.axes[:2]] == ["A-v0", "B-v0"]


def episodes(**metrics: float) -> pd.DataFrame:
    return pd.DataFrame([{"policy": "a", "cost": np.nan, "return": 1.0, **metrics}] * 2)


def test_carbon_is_shown_where_there_is_carbon() -> None:
    pool = {"total_job_value": 1.0, "total_job_value_ratio": 0.5}
    assert not {"carbon_kg", "brown_kwh"} & set(main_metrics(episodes(**pool)))
    assert main_metrics(episodes(**pool, carbon_kg=3.0, brown_kwh=9.0))[-2:] == ("carbon_kg", "brown_kwh")
    assert "carbon_kg" not in main_metrics(episodes(**pool, carbon_kg=0.0, brown_kwh=9.0))
    cluster = {"mean_bounded_slowdown": 2.0}
    assert "carbon_kg" not in main_metrics(episodes(**cluster, carbon_kg=0.0))
    assert main_metrics(episodes(**cluster, carbon_kg=2.0)).count("carbon_kg") == 1
    assert "carbon_kg" in main_metrics(episodes(carbon_kg=2.0, overdue_work=0.0))
    assert main_metrics(episodes(carbon_kg=2.0)) == ("return", "cost", "length")


def test_carbon_is_traded_where_there_is_no_cost() -> None:
    pool = {"total_job_value": 1.0}
    assert trade_off(episodes(**pool)) == ("total_job_value", "cost")
    assert trade_off(episodes(**pool, carbon_kg=3.0)) == ("total_job_value", "carbon_kg")
    assert trade_off(episodes(**pool, carbon_kg=3.0, cost=1.0)) == ("total_job_value", "cost")


ROWS = [
    [
        "10",
        "distilled policy (10)",
        "best of the papers' (`hvf/skip/ready`)",
        "",
        "+21.4 [+18.7, +24.1]",
        "70.6",
    ],
    [
        "300",
        "PPO (1)",
        "best non-learning baseline (`rollout/32/0.25/24/easy`)",
        "",
        "-2.1 [-3.3, -1.0]",
        "–",
    ],
]
HEADS = ["point", "learner", "against", "verdict", "ours, %", "of the bound, %"]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 1_000])
def test_a_table_fits_and_tells_what_it_leaves_out(width: int) -> None:
    table, left_out = fitted_table("the title", HEADS, ROWS, width, right=["point"])
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text, "nothing is cut off"
    shown = ["point", "learner", "against", "ours, %", "of the bound, %"]
    assert "verdict" not in [*left_out, *text.split()], "a column without texts is left out"
    assert left_out == shown[len(shown) - len(left_out) :]
    for head in shown:
        assert (head in text) != (head in left_out)
    if width >= 80:
        assert all(row[4] in text for row in ROWS)
    if width == 1_000:
        assert left_out == []
        assert len(text.splitlines()) == 2 + 2 + len(ROWS) + 1
