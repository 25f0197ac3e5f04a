"""The HTML report shows every name as it is given, and needs its own template alone."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from sb3_greendc.evaluation.report import Section, Source, write_report
from sb3_greendc.evaluation.statistics import summarize

HOSTILE = """<script>alert("1")</script>' onload='x{{ 7 * 7 }}&amp;"""
MADE_BY = {"date": "2026-01-02T03:04:05", "versions": {"sb3-greendc": "1.2.3"}}


class Shown(HTMLParser):
    """The elements of a page, and the texts of those that readers see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[tuple[str, frozenset[str]]] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add((tag, frozenset(name for name, _ in attrs)))
        self.texts += [value for name, value in attrs if name == "alt" and value]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def write(path: Path, name: str) -> str:
    """Write a report in which everything that has a name is called ``name``."""
    rows = [
        {"policy": policy, "run": 0, "env_id": name, "seed": seed, name: value + seed}
        for policy, value in (("first", 1.0), (name, 2.0))
        for seed in range(3)
    ]
    summary = summarize(pd.DataFrame(rows), [name], reference="first")
    section = Section(name, name, [summary], [(Figure(), name)])
    record = {"command": name, "commit": name, "versions": {name: "1"}, "policies": {name: [name]}}
    write_report(path, name, [section], [Source(Path(name), record)], {**MADE_BY, "commit": name})
    return path.read_text()


def test_names_are_shown_and_never_become_elements(tmp_path: Path) -> None:
    plain = Shown(write(tmp_path / "plain.html", "plainest"))
    hostile = Shown(write(tmp_path / "hostile.html", HOSTILE))
    assert hostile.elements == plain.elements
    places = sum(text.count("plainest") for text in plain.texts)
    said = [re.sub(r"\s+", " ", text) for text in hostile.texts]
    assert places == 17
    assert sum(text.count(HOSTILE) for text in said) == places


def test_best_of_each_column_is_bold(tmp_path: Path) -> None:
    rows = [
        {"policy": policy, "env_id": "e", "seed": 0, "return": value, "overdue_work": value}
        for policy, value in (("low", 1.5), ("middle", 2.5), ("high", 3.5))
    ]
    section = Section("Results", tables=[summarize(pd.DataFrame(rows), ["return", "overdue_work"])])
    write_report(tmp_path / "a.html", "a", [section], [], MADE_BY)
    assert re.findall(r"<b>(.*?)</b>", (tmp_path / "a.html").read_text()) == ["1.5", "3.5"]
    write_report(tmp_path / "b.html", "b", [section], [], MADE_BY, frozenset({"return"}))
    assert re.findall(r"<b>(.*?)</b>", (tmp_path / "b.html").read_text()) == ["1.5", "3.5"]
    assert "return ↓" in (tmp_path / "b.html").read_text()
    assert "return ↑" in (tmp_path / "a.html").read_text()


def test_file_without_a_record_is_said_to_have_none(tmp_path: Path) -> None:
    write_report(tmp_path / "a.html", "a", [], [Source(Path("results.csv"))], MADE_BY)
    page = (tmp_path / "a.html").read_text()
    assert 'results.csv</h3>\n<p class="note">No record lies beside this file' in page
    assert "an installed package" in page


def test_report_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")
    with pytest.raises(KeyError):
        write_report(path, "a", [], [], {"date": "2026"})
    assert path.read_text() == "old"
