"""``fetch_traces power`` and ``jobs``: whole files or none, and errors of one line."""

from __future__ import annotations

import gzip
import http.server
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request

import pytest

from greendc.traces import read_power, read_swf
from sb3_greendc.cli.fetch_jobs import INTREPID
from sb3_greendc.cli.fetch_traces import main

LOG = b"; MaxProcs: 8\n" + b"".join(
    b"%d %d -1 60 4 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n" % (n, 10 * n) for n in range(20)
)
PAGES = {
    "/log.swf": LOG,
    "/log.swf.gz": gzip.compress(LOG),
    "/cut.swf.gz": gzip.compress(LOG)[:-9],
    "/page.swf": b"<html>moved</html>\n",
}


class _Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path)
        self.send_response(404 if page is None else 200)
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def epw(path: Path, hours: int = 48) -> Path:
    lines = ["LOCATION,Here,TX,USA,TMY3,1,33.6,-101.9,-6.0,1000.0", *["HEADER"] * 7]
    for hour in range(hours):
        cells = ["0"] * 35
        noon = hour % 24 == 12
        values = {0: 2021, 1: 6, 2: 20 + hour // 24, 3: hour % 24 + 1, 6: 20, 9: 90_000, 21: 9}
        for column, value in (values | {13: 800 * noon, 14: 900 * noon, 15: 80 * noon}).items():
            cells[column] = str(value)
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")
    return path


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("fetch: error: ")
    return error


@pytest.mark.parametrize("name", ["out/power.csv", "out/power.csv.gz"])
def test_power(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    pytest.importorskip("pvlib")
    out = tmp_path / name
    argv = ["power", "--weather", str(epw(tmp_path / "here.epw")), "--out", str(out)]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{out}: 48 steps of 1 h from 2021-06-20 00:00; solar up to ")
    trace = read_power(out)
    assert len(trace) == 48
    assert trace.solar_kw.reshape(2, 24).argmax(axis=1).tolist() == [12, 12]
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    # Each option changes what it names, and nothing else.
    assert main([*argv, "--turbines", "6", "--pv-kw", "75"]) == 0
    other = read_power(out)
    assert other.wind_kw == pytest.approx(2 * trace.wind_kw, abs=0.002)
    assert 0.45 < other.solar_kw.max() / trace.solar_kw.max() < 0.55
    assert main([*argv, "--hub-height", "100"]) == 0
    assert read_power(out).wind_kw.min() > trace.wind_kw.min()
    assert main([*argv, "--tilt", "90", "--azimuth", "0"]) == 0
    assert read_power(out).solar_kw.max() < 0.5 * trace.solar_kw.max()
    assert main([*argv, "--inverter-kw", "20"]) == 0
    assert read_power(out).solar_kw.max() == pytest.approx(20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tilt", "100"], "tilt=100.0: must be in [0, 90]"),
        (["--weather", "none.epw"], "none.epw: cannot be read"),
    ],
)
def test_power_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    out = tmp_path / "power.csv"
    assert main(["power", "--weather", str(epw(tmp_path / "here.epw")), "--out", str(out), *options]) == 2
    assert message in error_of(capsys)
    assert not out.exists()


def test_power_without_pvlib(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pvlib", None)
    out = tmp_path / "power.csv"
    assert main(["power", "--weather", str(epw(tmp_path / "here.epw")), "--out", str(out)]) == 2
    assert "pip install 'sb3-greendc[power]'" in error_of(capsys)
    assert not out.exists()


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_jobs(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    name: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["jobs", "--url", f"{address}/{name}"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{address}/{name}"
    assert printed[1] == f"{name}: 20 jobs on 8 processors; odd lines: none"
    assert (tmp_path / name).read_bytes() == PAGES[f"/{name}"]
    assert len(read_swf(tmp_path / name)) == 20
    assert main(["jobs", "--url", f"{address}/{name}", "--out", f"sub/other.{name}"]) == 0
    assert (tmp_path / "sub" / f"other.{name}").exists()


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("/cut.swf.gz", "truncated or damaged gzip"),
        ("/page.swf", "line 1: a job has 18 fields"),
        ("/none.swf", "the server answered 404"),
    ],
)
def test_an_answer_that_is_no_log_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str, page: str, message: str
) -> None:
    out = tmp_path / page[1:]
    assert main(["jobs", "--url", address + page, "--out", str(out)]) == 2
    assert message in error_of(capsys)
    assert list(tmp_path.iterdir()) == []


def test_jobs_without_a_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of ANL Intrepid is printed, and used."""

    def offline(request: Request, timeout: float) -> None:
        assert request.full_url == INTREPID
        raise OSError("no route")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    monkeypatch.chdir(tmp_path)
    assert main(["jobs"]) == 2
    captured = capsys.readouterr()
    assert captured.out == f"{INTREPID}\n"
    error = "fetch: error: www.cs.huji.ac.il cannot be reached (no route): this needs a network\n"
    assert captured.err == error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--url", "ftp://host/log.swf"], "must be an http or https address"),
        (
            ["--url", "http://host/log.swf.gz", "--out", "log.swf"],
            "must end in .gz if and only if the log does",
        ),
    ],
)
def test_jobs_errors(capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert main(["jobs", *options]) == 2
    assert message in error_of(capsys)


def test_no_secret_of_an_address_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def offline(request: Request, timeout: float) -> None:
        assert request.full_url.endswith("token=hunter2")
        raise OSError("no route")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    monkeypatch.chdir(tmp_path)
    assert main(["jobs", "--url", "https://here.invalid/x.swf?token=hunter2"]) == 2
    captured = capsys.readouterr()
    shown = "https://here.invalid/x.swf?token=***"
    assert captured.out == f"{shown}\n"
    assert captured.err.startswith("fetch: error: here.invalid cannot be reached (no route)")
