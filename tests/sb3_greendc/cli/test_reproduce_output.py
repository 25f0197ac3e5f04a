"""What ``reproduce`` prints: names and folders are text, whatever signs are in them."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from sb3_greendc.cli import reproduce

STRANGE = ["[/red]", "[red]", r"$\foo$", r"a\[b]", "[bold]x[/bold]"]


def test_square_brackets_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are rich's: a folder named ``[/red]`` ended the program when its results were written."""
    comparison = pd.DataFrame({"policy": STRANGE, "[/value]": 0.5})
    analysis = SimpleNamespace(tables={"comparison": comparison}, notes=["a note on [/red]"])
    monkeypatch.setattr(reproduce, "write_analysis", lambda *_: analysis)
    monkeypatch.setattr(reproduce, "margins", lambda table: table)
    console = Console(file=io.StringIO(), width=200)
    experiment: Any = SimpleNamespace(name="a", title="b")
    nothing: Any = None
    reproduce._show(experiment, nothing, nothing, Path("runs[/red]"), console)
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    for text in (*STRANGE, "[/value]", "- a note on [/red]", "wrote runs[/red]"):
        assert text in said


def test_a_place_that_cannot_be_written_is_found_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(reproduce, "_run", lambda *_: pytest.fail("worked first"))
    with pytest.raises(SystemExit):
        reproduce.main(["rare-fig3", "--quick", "--out", str(tmp_path / "file")])
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"reproduce: error: --out {tmp_path / 'file'}: cannot be written")


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"budget": "quick", "seeds": null, "core_seconds": "x"}']
)
def test_damaged_records_are_listed(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    assert reproduce.was_run(tmp_path) == ("quick" if "quick" in content else "unreadable")
    assert reproduce.core_time(tmp_path) == ""
