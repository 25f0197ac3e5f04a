"""Damaged files: every reader raises one error that names the file, or returns what is there."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the readers of Parquet files are among those that are tried")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import fuzz_readers
from fuzz_readers import Reader, Verdict, fuzz, judge, readers
from reader_oracles import Files, Refuse, Unsure, Values

COUNT = 200


@pytest.mark.parametrize("name", readers())
def test_damaged_files_are_refused_by_name_or_read_right(name: str, tmp_path: Path) -> None:
    if name == "power-parquet":
        pytest.importorskip("pyarrow")
    if name == "manifest" and sys.version_info < (3, 11):
        pytest.skip("needs tomllib")
    outcomes = fuzz(name, COUNT, seed=20_261_124, out=tmp_path)
    why = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*/why.txt")]
    assert outcomes["failure"] == 0, why
    assert outcomes["unsure"] <= 0.05 * COUNT
    assert outcomes["error"] > 0 and outcomes["value"] > 0, "both were seen"


def returning(values: Values) -> Callable[[Path], Values]:
    return lambda folder: values


def raising(error: Exception) -> Callable[[Path], Values]:
    def read(folder: Path) -> Values:
        raise error

    return read


def told(values: Values | Exception) -> Callable[[Files], Values]:
    def oracle(files: Files) -> Values:
        if isinstance(values, Exception):
            raise values
        return values

    return oracle


X = {"x": np.array([1.0, np.nan])}


@pytest.mark.parametrize(
    ("read", "oracle", "outcome"),
    [
        (returning(X), told({"x": np.array([1.0, np.nan])}), "value"),
        (returning(X), told({"x": np.array([1.0 + 1e-12, np.nan])}), "failure"),
        (returning(X), told({"x": np.array([1.0, 0.0])}), "failure"),
        (returning(X), told({"x": np.array([1.0])}), "failure"),
        (returning({"x": True}), told({"x": 1}), "failure"),
        (returning({}), told({"x": 1}), "failure"),
        (returning(X), told(Refuse("cut")), "failure"),
        (returning(X), told(Unsure("time")), "unsure"),
        (raising(ValueError("a.csv, line 2: no")), told(X), "error"),
        (raising(ValueError("line 2: no")), told(X), "failure"),
        (raising(ValueError("a.csv: no\nno")), told(X), "failure"),
        (raising(MemoryError("a.csv")), told(Refuse("huge")), "failure"),
        (raising(KeyError("a.csv")), told(Refuse("huge")), "failure"),
    ],
)
def test_verdicts(
    tmp_path: Path, read: Callable[[Path], Values], oracle: Callable[[Files], Values], outcome: str
) -> None:
    assert judge(Reader({"a.csv": b"x"}, read, oracle), {"a.csv": b"x"}, tmp_path).outcome == outcome


def test_a_reader_that_is_slow_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_readers, "SLOW", -1.0)
    verdict = judge(Reader({"a.csv": b"x"}, returning(X), told(X)), {"a.csv": b"x"}, tmp_path)
    assert verdict.outcome == "failure" and "took" in verdict.why


def test_failures_are_kept_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader that takes whatever pandas makes of a short row is found out."""
    import pandas as pd

    def lenient(folder: Path) -> Values:
        try:
            frame = pd.read_csv(folder / "a.csv", index_col=False)
            return {"x": frame["x"].to_numpy(float)}
        except (ValueError, KeyError) as error:
            raise ValueError(f"a.csv: {' '.join(str(error).split())}") from None

    def oracle(files: Files) -> Values:
        from reader_oracles import column, table_of

        return {"x": column(table_of(files["a.csv"]), "x", -1e9, 1e9)}

    bad = {"bad": Reader({"a.csv": b"t,x,y\n0,1.5,a\n1,2.5,b\n2,3.5,c\n"}, lenient, oracle)}
    monkeypatch.setattr(fuzz_readers, "readers", lambda: bad)
    monkeypatch.setattr(fuzz_readers, "check_intact", lambda *_: None)
    assert fuzz_readers.main(["--count", "100", "--out", str(tmp_path)]) == 1
    assert "failures are in" in capsys.readouterr().out
    kept = sorted(tmp_path.iterdir())
    assert len(kept) > 10
    number = int(kept[0].name.rpartition("-")[2])
    assert fuzz_readers.case(bad["bad"], "bad", 0, number)["a.csv"] == (kept[0] / "a.csv").read_bytes()
    assert "accepted, but must be refused" in (kept[0] / "why.txt").read_text(encoding="utf-8")


def test_an_unknown_reader_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fuzz_readers.main(["swff"])
    assert "unknown reader 'swff'" in capsys.readouterr().err


def test_verdicts_are_plain() -> None:
    assert Verdict("value") == Verdict("value", "")
