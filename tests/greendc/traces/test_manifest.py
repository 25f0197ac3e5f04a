"""The data folder is found, its manifest is complete, and nothing altered is ever read."""

import dataclasses
import hashlib
from pathlib import Path

import pytest

from greendc.traces import manifest
from greendc.traces.manifest import Entry, data_folder, format_manifest, load_checked, read_manifest
from greendc.traces.trace_files import TraceError

ENTRY = Entry(
    file="moer/x.csv",
    sha256=hashlib.sha256(b"content").hexdigest(),
    license="CC BY 4.0",
    attribution='Somebody "quoted", \\ and é',
    source="two\nlines",
    units="kg CO2 per kWh",
    time_zone="UTC",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "moer").mkdir()
    (tmp_path / "moer" / "x.csv").write_bytes(b"content")
    (tmp_path / "MANIFEST.toml").write_text(format_manifest([ENTRY]), encoding="utf-8")
    monkeypatch.setenv("GREENDC_TRACES", str(tmp_path))
    return tmp_path


def test_manifest_and_shipped_files_agree() -> None:
    folder = data_folder()
    entries = read_manifest(folder)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {*entries, "MANIFEST.toml"}
    for name in entries:
        assert hashlib.sha256(load_checked(name)).hexdigest() == entries[name].sha256
    assert {"moer/pge.csv.gz", "moer/sce.csv.gz"} <= set(entries)
    assert sum((folder / name).stat().st_size for name in entries if name.startswith("moer/")) < 2e6


def test_entries_survive_writing_and_reading(folder: Path) -> None:
    assert read_manifest(folder) == {"moer/x.csv": ENTRY}
    other = dataclasses.replace(ENTRY, file="a.csv")
    assert format_manifest([ENTRY, other]) == format_manifest([other, ENTRY])


def test_content_is_returned_and_checked(folder: Path) -> None:
    assert load_checked("moer/x.csv") == b"content"
    for wrong in (b"conten", b"cOntent", b""):
        (folder / "moer" / "x.csv").write_bytes(wrong)
        with pytest.raises(TraceError, match=r"x\.csv: altered or truncated"):
            load_checked("moer/x.csv")
    (folder / "moer" / "x.csv").unlink()
    with pytest.raises(TraceError, match=r"x\.csv: cannot be read"):
        load_checked("moer/x.csv")


def test_unknown_name_is_an_error_that_names_the_nearest(folder: Path) -> None:
    (folder / "y.csv").write_bytes(b"here, but not in the manifest")
    with pytest.raises(TraceError, match=r"knows no 'moer/z\.csv'; did you mean 'moer/x\.csv'"):
        load_checked("moer/z.csv")
    with pytest.raises(TraceError, match=r"knows no 'y\.csv'"):
        load_checked("y.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[trace]\n", "not TOML"),
        ("a = 1\n", r"\[\[trace\]\] tables and nothing else"),
        ("trace = 1\n", r"\[\[trace\]\] tables and nothing else"),
        (format_manifest([ENTRY, ENTRY]), "is there twice"),
        (
            format_manifest([ENTRY]).replace("sha256 =", "sha265 ="),
            "unknown option 'sha265'; did you mean 'sha256'",
        ),
        (format_manifest([ENTRY]).replace('units = "kg CO2 per kWh"\n', ""), "number 1: .*units"),
        (format_manifest([ENTRY]).replace('"kg CO2 per kWh"', '""'), "units=''"),
        (format_manifest([ENTRY]).replace('"kg CO2 per kWh"', "7"), "units=7"),
        (format_manifest([ENTRY]).replace("moer/x.csv", "../x.csv"), "a path inside the data folder"),
        (format_manifest([ENTRY]).replace("moer/x.csv", "/x.csv"), "a path inside the data folder"),
    ],
)
def test_damaged_manifest(folder: Path, text: str, message: str) -> None:
    (folder / "MANIFEST.toml").write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=f"(?s)MANIFEST.toml.*{message}"):
        load_checked("moer/x.csv")


def test_variable_must_name_a_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENDC_TRACES", str(tmp_path / "nowhere"))
    with pytest.raises(TraceError, match=r"GREENDC_TRACES=.*nowhere"):
        data_folder()


def test_the_installed_copy_comes_before_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GREENDC_TRACES", raising=False)
    module = tmp_path / "envs" / "greendc" / "traces" / "manifest.py"
    monkeypatch.setattr(manifest, "__file__", str(module))
    with pytest.raises(TraceError, match="install the package again, or set GREENDC_TRACES"):
        data_folder()
    for place in (tmp_path / "traces", tmp_path / "envs" / "greendc" / "_data" / "traces"):
        place.mkdir(parents=True)
        (place / "MANIFEST.toml").write_text(format_manifest([]), encoding="utf-8")
        assert data_folder() == place
