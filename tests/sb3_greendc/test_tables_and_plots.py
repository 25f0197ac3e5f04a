from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console

from sb3_greendc.common.files import atomic_write, write_json
from sb3_greendc.common.plots import bars, save_figure
from sb3_greendc.common.statistics import summarize
from sb3_greendc.common.tables import number, summary_tables


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


def printed(summary: pd.DataFrame, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    for table in summary_tables(summary, "the title", width):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_cells_are_the_summary() -> None:
    summary = summarize(results(), ["metric_0", "undefined"], reference="first")
    text = "\n".join(printed(summary[summary["env_id"] == "A-v0"], 120))
    assert text.startswith("the title")
    row = summary[(summary["policy"] == "second") & (summary["metric"] == "metric_0")].iloc[0]
    assert number(row["estimate"]) in text
    assert f"{number(row['low'])}…{number(row['high'])}" in text
    assert f"Δ {number(row['difference'])}" in text
    assert "–…–" in text


@pytest.mark.parametrize("width", [80, 120, 200])
def test_nothing_is_cut_off(width: int) -> None:
    metrics = [f"metric_{k}" for k in range(7)]
    summary = summarize(results(7), metrics, reference="first")
    lines = printed(summary[summary["env_id"] == "A-v0"], width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    assert all(text.count(metric) == 1 for metric in metrics)
    intervals = summary[summary["env_id"] == "A-v0"]
    for row in intervals.to_dict("records"):
        assert f"{number(row['low'])}…{number(row['high'])}" in text


def test_numbers() -> None:
    assert [number(x) for x in (0.0, 0.0012345, -3.14159, 999.96, 1234.5, -1e6, np.nan)] == [
        *("0", "0.001234", "-3.142", "1000", "1,234", "-1,000,000", "–")
    ]


def test_bars(tmp_path: Path) -> None:
    summary = summarize(results(4), [f"metric_{k}" for k in range(4)])
    figure = bars(summary)
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in panels] == [
        f"{env}: metric_{k}" for env in ("A-v0", "B-v0") for k in range(4)
    ]
    for axes in panels:
        rows = summary[(summary["env_id"] + ": " + summary["metric"]) == axes.get_title()]
        assert [bar.get_width() for bar in axes.patches] == rows["estimate"].tolist()
        bottom, top = axes.get_ylim()
        assert bottom > top, "the first policy is on top"
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["first", "second"]
    save_figure(figure, tmp_path / "new" / "figure.png")
    with Image.open(tmp_path / "new" / "figure.png") as picture:
        assert picture.format == "PNG"


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
