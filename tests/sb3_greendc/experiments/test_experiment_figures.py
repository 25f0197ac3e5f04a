from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from sb3_greendc.experiments.claims import BEST_OF_PAPER
from sb3_greendc.experiments.cocorl.loads import points
from sb3_greendc.experiments.comparison import BEST_MASKED
from sb3_greendc.experiments.controls import UNIFORM_MASKED
from sb3_greendc.experiments.distilled import NAME, SEARCHED
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.figures import color_of, curves, panels
from sb3_greendc.experiments.known.online import draw
from sb3_greendc.experiments.line_names import name_lines, spread, written
from sb3_greendc.experiments.sc20 import training
from sb3_greendc.experiments.sc20.fig6 import learners
from sb3_greendc.experiments.sweep import BEST, ROLLOUTS


def test_no_two_policies_of_a_figure_share_a_color():
    for quick in (True, False):
        budget = Budget(quick=quick)
        own = [learner.name for point in points(budget)[-2:] for learner in (*point.printed, *point.learners)]
        drawn = {*own, *(learner.name for learner in learners(budget))}
        baselines = [BEST_OF_PAPER, BEST_MASKED, UNIFORM_MASKED, BEST, ROLLOUTS]
        names = [*baselines, *sorted(drawn), NAME, SEARCHED]
        assert len({color_of(name, names) for name in names}) == len(names) >= 8


def test_a_curve_has_its_color_in_every_panel():
    _, axes = panels(["all", "two of them"])
    rows = pd.DataFrame(
        [
            {
                "curve": curve,
                "train_seed": seed,
                "trained_decisions": at,
                "episode": k,
                "seed": k,
                "value": 1.0,
            }
            for curve in ("20%", "40%", "60%")
            for seed in (0, 1)
            for at in (0, 100)
            for k in range(3)
        ]
    )
    for panel, shown in zip(axes, (rows, rows[rows["curve"] != "40%"]), strict=True):
        curves(shown, "value", "trained_decisions", panel, by="curve", among=["20%", "40%", "60%"])
    colors = [{line.get_label(): line.get_color() for line in panel.get_lines()} for panel in axes]
    assert len(set(colors[0].values())) == 3
    assert colors[1] == {name: colors[0][name] for name in ("20%", "60%")}


class Rows:
    """Results that are a table."""

    def __init__(self, *of_series):
        self._rows = pd.DataFrame(
            {
                "series": name,
                "curve": "60 %",
                "train_seed": seed,
                "trained_decisions": at,
                "episode": k,
                "r": 1.0,
            }
            for name, decisions in of_series
            for at in decisions
            for seed in (0, 1)
            for k in range(2)
        )

    def table(self):
        return self._rows


def test_a_curve_is_shown_twice_from_its_first_steps_on_and_titles_say_how_far(monkeypatch):
    monkeypatch.setitem(training.TITLES, "r", "reward")
    results = Rows(("ours", (0, 100_000, 2_500_000)), ("theirs", (0, 200_000, 500_000)))
    figure = training.curves_figure(results, "r")
    ends = {panel.get_title(): panel.get_lines()[0].get_xdata()[-1] for panel in figure.axes}
    assert ends == {
        "ours, first 200 k steps": 100_000,
        "ours, all 2.5 million steps": 2_500_000,
        "theirs, first 200 k steps": 200_000,
        "theirs, all 0.5 million steps": 500_000,
    }
    assert "2.5 million of the paper's 2.5 million decisions (theirs: 0.5), 2 training" in training.budget(
        results
    )


def test_a_short_training_is_shown_once(monkeypatch):
    monkeypatch.setitem(training.TITLES, "r", "reward")
    figure = training.curves_figure(Rows(("ours", (0, 100_000))), "r")
    assert [panel.get_title() for panel in figure.axes if panel.get_title()] == ["ours"]


def test_chance_and_what_is_published_have_their_names_beside_the_curves():
    about = {"series": "CartPole", "episode": 0}
    learned = [
        {**about, "policy": "PPO", "train_seed": 0, "trained_decisions": at, "return": at} for at in (0, 400)
    ]
    chance = {**about, "policy": "random", "return": 22.0}
    [panel, *_] = draw(pd.DataFrame([*learned, chance])).axes
    heights = {line.get_label(): line.get_ydata()[-1] for line in panel.get_lines()}
    assert heights == {"PPO": 400, "random": 22, "published: solved": 475}
    assert {text.get_text() for text in panel.texts} == set(heights)


def crowded():
    """A panel with six lines that end almost in one point, a level among them, and one that ends early."""
    figure, (panel, other) = panels(["many", "one"])
    for k in range(6):
        panel.plot([0, 1], [k, 2.0 + k / 1000], label=f"line {k}")
    panel.plot([0, 0.5], [1, 1], label="early")
    panel.axhline(2.0, label="level")
    panel.plot([0, 1], [0, 0])  # without a name
    other.plot([0, 1], [1, 0], label="line 3")
    name_lines(figure, {"line 3": "3 seeds"})
    figure.draw_without_rendering()
    return figure, panel, other


def test_each_line_has_its_name_at_its_end_once():
    _, panel, other = crowded()
    expected = ["early", "level", *(f"line {k}" for k in range(6))]
    assert sorted(text.get_text().partition("\n")[0] for text in panel.texts) == expected
    assert [text.get_text() for text in panel.texts if "line 3" in text.get_text()] == ["line 3\n3 seeds"]
    assert [text.get_text() for text in other.texts] == ["line 3"]
    assert other.texts[0].xy == (pytest.approx(1.0, abs=0.1), pytest.approx(0.0, abs=0.1))


def test_names_of_lines_do_not_overlap_and_keep_the_order_of_the_lines():
    figure, panel, _ = crowded()
    boxes = sorted((Text.get_window_extent(text) for text in panel.texts), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))
    frame = panel.get_window_extent()
    assert boxes[0].y0 >= frame.y0 - 1
    assert boxes[-1].y1 <= frame.y1 + 1
    order = [
        text.get_text().partition("\n")[0] for text in sorted(panel.texts, key=lambda text: text.xyann[1])
    ]
    assert [name for name in order if name.startswith("line")] == [f"line {k}" for k in range(6)]
    assert figure.bbox.width > max(text.get_window_extent().x1 for text in panel.texts)


def test_names_are_moved_as_little_as_they_must():
    heights = np.array([0.1, 0.1, 0.1])
    assert spread([0.2, 0.5, 0.8], heights) == pytest.approx([0.2, 0.5, 0.8])
    assert spread([0.5, 0.5, 0.8], heights) == pytest.approx([0.45, 0.55, 0.8])
    assert spread([0.0, 0.0, 1.0], heights) == pytest.approx([0.05, 0.15, 0.95])


def test_pale_colors_are_written_darker_and_others_as_they_are():
    assert written("#c0392b") == "#c0392b"
    assert written("#000000") == "#000000"
    red, green, blue = to_rgb(written("#dddddd"))
    assert 0.2126 * red + 0.7152 * green + 0.0722 * blue <= 0.46
