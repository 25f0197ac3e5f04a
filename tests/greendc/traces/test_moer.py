"""MOER: hourly means are exact, months start at local midnight, and bad files are named with their line."""

import gzip
import pickle
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from greendc.traces import MoerSeries, TraceError, hourly_moer, load_moer, read_moer_archive
from greendc.traces.moer import read_moer
from greendc.traces.moer_archive import ARCHIVE_COLUMNS, format_hourly

HEADER = ",".join(("time", *ARCHIVE_COLUMNS))


def archive_rows(first: str, n: int) -> list[str]:
    """Rows whose values tell their stamp: moer is the 5-minute step since 2020 / 1e6, f_k adds k / 1000."""
    rows = []
    for stamp in pd.date_range(first, periods=n, freq="5min", tz="UTC"):
        step = (stamp - pd.Timestamp("2020-01-01", tz="UTC")) // pd.Timedelta("5min")
        values = (f"{step / 1e6 + k / 1000:.9f}" for k in range(37))
        rows.append(",".join((str(stamp), *values)))
    return rows


def write(path: Path, lines: list[str]) -> Path:
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.fixture
def two_files(tmp_path: Path) -> list[Path]:
    """Two files, of which one is packed, that share two hours."""
    a = write(tmp_path / "a.csv.gz", [HEADER, *archive_rows("2020-01-01 00:00", 60)])
    b = write(tmp_path / "b.csv", [HEADER, *archive_rows("2020-01-01 03:00", 60)])
    return [a, b]


def test_overlapping_files_join_in_any_order(two_files: list[Path]) -> None:
    joined = read_moer_archive(two_files)
    assert list(joined.columns) == ["time", *ARCHIVE_COLUMNS]
    assert len(joined) == 96
    assert str(joined["time"].dt.tz) == "UTC"
    np.testing.assert_array_equal(joined["time"].diff().dropna(), pd.Timedelta("5min"))
    np.testing.assert_allclose(joined["f36"], np.arange(96) / 1e6 + 0.036, rtol=0, atol=1e-12)
    pd.testing.assert_frame_equal(read_moer_archive(two_files[::-1]), joined)


def test_hourly_means_by_hand(two_files: list[Path]) -> None:
    hourly = hourly_moer(read_moer_archive(two_files))
    assert len(hourly) == 8
    assert hourly["time"].iloc[0] == pd.Timestamp("2020-01-01 00:00", tz="UTC")
    hours = np.arange(8)
    # Steps 12 h … 12 h + 11 average to 12 h + 5.5; leads 1-12, 13-24, 25-36 to 6.5, 18.5 and 30.5.
    np.testing.assert_allclose(hourly["moer"], (12 * hours + 5.5) / 1e6, rtol=0, atol=1e-12)
    for name, lead in (("f1", 6.5), ("f2", 18.5), ("f3", 30.5)):
        np.testing.assert_allclose(hourly[name], 12 * hours / 1e6 + lead / 1000, rtol=0, atol=1e-12)


def test_hourly_csv_survives_writing_and_reading(two_files: list[Path], tmp_path: Path) -> None:
    hourly = hourly_moer(read_moer_archive(two_files))
    text = format_hourly(hourly)
    lines = text.decode().splitlines()
    assert lines[0] == "time,moer,f1,f2,f3"
    assert lines[2].startswith("2020-01-01T01:00Z,0.00001")
    assert lines[2].endswith(",0.006512,0.018512,0.030512")
    (tmp_path / "hourly.csv").write_bytes(text)
    series = read_moer(tmp_path / "hourly.csv", "test")
    assert series.start == np.datetime64("2020-01-01T00", "h")
    np.testing.assert_allclose(series.moer, hourly["moer"], rtol=0, atol=5.1e-7)
    np.testing.assert_allclose(series.forecast, hourly[["f1", "f2", "f3"]], rtol=0, atol=5.1e-7)


@pytest.mark.parametrize("part", [slice(1, None), slice(0, -1)])
def test_hourly_means_need_whole_hours(two_files: list[Path], part: slice) -> None:
    with pytest.raises(TraceError, match="twelve 5-minute rows"):
        hourly_moer(read_moer_archive(two_files).iloc[part])


def changed(lines: list[str], line: int, column: int, value: str) -> list[str]:
    """Put ``value`` into a cell; lines count from 1."""
    cells = lines[line - 1].split(",")
    cells[column] = value
    return [*lines[: line - 1], ",".join(cells), *lines[line:]]


GOOD = [HEADER, *archive_rows("2020-01-01", 24)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (changed(GOOD, 1, 1, "carbon"), r"no column 'moer'"),
        (changed(GOOD, 1, 37, "f63"), r"no column 'f36'"),
        (GOOD[:1], r"holds no rows"),
        (changed(GOOD, 5, 1, ""), r"line 5: moer is missing"),
        (changed(GOOD, 6, 2, "nan"), r"line 6: f1 is missing"),
        (changed(GOOD, 6, 3, "inf"), r"line 6: f2='inf': must be a finite number"),
        (changed(GOOD, 7, 37, "0.3x"), r"line 7: f36='0.3x': must be a finite number"),
        (changed(GOOD, 8, 1, "-0.1"), r"line 8: moer=-0.1: must be from 0 to 5 kg/kWh"),
        (changed(GOOD, 8, 9, "-1e-9"), r"line 8: f8=-1e-09: must be from 0"),
        (changed(GOOD, 3, 0, ""), r"line 3: time is missing"),
        (changed(GOOD, 3, 0, "yesterday"), r"line 3: time='yesterday': must be a date and time"),
        (changed(GOOD, 3, 0, "2020-01-01 00:06Z"), r"line 3: time must be a multiple of 5"),
        ([*GOOD[:9], GOOD[8], *GOOD[9:]], r"line 10: time is that of the line before"),
        ([*GOOD[:9], GOOD[4], *GOOD[9:]], r"line 10: time goes back"),
        ([*GOOD[:9], *GOOD[10:]], r"line 10: time must be 5 minutes after"),
        ([*GOOD[:9], "", *GOOD[9:]], r"line 10: 1 field instead of 38"),
        ([*GOOD[:-1], GOOD[-1][:80]], r"line 25: \d fields instead of 38"),
        ([*GOOD[:4], GOOD[4] + ",1,2", *GOOD[5:]], r"line 5: 40 fields instead of 38"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, lines: list[str], message: str) -> None:
    path = write(tmp_path / "bad.csv", lines)
    with pytest.raises(TraceError, match=rf"bad\.csv.*({message})"):
        read_moer_archive(path)


def test_missing_truncated_and_empty_files(tmp_path: Path, two_files: list[Path]) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.csv: cannot be read"):
        read_moer_archive(tmp_path / "nowhere.csv")
    packed = two_files[0].read_bytes()
    for cut in (packed[: len(packed) // 2], packed[:-1], packed[:5], b"no gzip at all"):
        two_files[0].write_bytes(cut)
        with pytest.raises(TraceError, match=r"a\.csv\.gz: truncated or damaged gzip"):
            read_moer_archive(two_files)
    plain = two_files[1].read_bytes()
    two_files[1].write_bytes(plain[:-4])
    with pytest.raises(TraceError, match=r"b\.csv, line 61: the file is truncated"):
        read_moer_archive(two_files[1])
    two_files[1].write_bytes(b"")
    with pytest.raises(TraceError, match=r"b\.csv: the file is empty"):
        read_moer_archive(two_files[1])
    with pytest.raises(TraceError, match="no MOER archive file"):
        read_moer_archive([])


def test_files_that_differ_or_leave_a_gap(tmp_path: Path) -> None:
    a = write(tmp_path / "a.csv", [HEADER, *archive_rows("2020-01-01 00:00", 36)])
    b = write(tmp_path / "b.csv", changed([HEADER, *archive_rows("2020-01-01 02:00", 36)], 7, 4, "0.5"))
    with pytest.raises(TraceError, match=r"b\.csv, line 7: differs from another file"):
        read_moer_archive([a, b])
    c = write(tmp_path / "c.csv", [HEADER, *archive_rows("2020-01-01 03:05", 12)])
    with pytest.raises(TraceError, match=r"no rows for 2020-01-01T03:00"):
        read_moer_archive([a, c])


def test_hourly_file_with_bad_rows(tmp_path: Path) -> None:
    good = ["time,moer,f1,f2,f3", *(f"2020-01-01T{hour:02}:00Z,0.1,0.2,0.3,0.4" for hour in range(5))]
    assert read_moer(write(tmp_path / "x.csv", good), "test").moer.tolist() == [0.1] * 5
    for lines, message in (
        (good[:1], "holds no rows"),
        ([*good[:3], *good[4:]], "line 4: time must be 60 minutes after"),
        (changed(good, 3, 4, "-1"), "line 3: f3=-1: must be from 0 to 5 kg/kWh"),
        (changed(good, 3, 0, "2020-01-01T01:30Z"), "line 3: time must be a multiple of 60"),
    ):
        with pytest.raises(TraceError, match=message):
            read_moer(write(tmp_path / "x.csv", lines), "test")


def series(hours: int, start: str = "2019-04-30T00") -> MoerSeries:
    return MoerSeries("test", np.datetime64(start, "h"), np.zeros(hours), np.zeros((hours, 3)))


def test_months_begin_at_local_midnight() -> None:
    a_year = series(366 * 24)
    for month, offset in (("2019-05", -8), ("2019-12", -8), ("2019-12", 0), ("2019-12", 3)):
        index = a_year.month_slice(month, utc_offset=offset)
        assert a_year.times(offset)[index] == np.datetime64(f"{month}-01T00", "h")
        # By UTC, the local midnight of a zone west of Greenwich comes later.
        assert a_year.times()[index] == np.datetime64(f"{month}-01T00", "h") - np.timedelta64(offset, "h")
    assert a_year.month_slice("2019-05") == 24 + 8


def test_a_month_needs_all_its_hours_and_those_around_it() -> None:
    enough = 32 + 720 + 24
    assert series(enough).month_slice("2019-05") == 32
    assert series(enough - 24).month_slice("2019-05", extra=0) == 32
    with pytest.raises(ValueError, match="month='2019-05': the MOER of test runs from 2019-04-30T00:00"):
        series(enough - 1).month_slice("2019-05")
    with pytest.raises(ValueError, match="33 h before"):
        series(enough).month_slice("2019-05", past=33)


@pytest.mark.parametrize("month", ["2019-5", "2019-13", "2019-00", "May 2019", "2019-05-01", "", 201905])
def test_a_month_is_written_in_one_way(month: str) -> None:
    with pytest.raises(ValueError, match="must be written 'YYYY-MM'"):
        load_moer().month_slice(month)


@pytest.mark.parametrize("month", ["2019-04", "2021-09", "1999-01"])
def test_a_month_outside_the_archive_is_an_error_that_names_the_range(month: str) -> None:
    with pytest.raises(ValueError, match=rf"month='{month}'.*\(months 2019-05 to 2021-08\)"):
        load_moer("PGE").month_slice(month)


@pytest.mark.parametrize("region", ["PGE", "SCE"])
def test_shipped_series(region: str) -> None:
    moer = load_moer(region)
    assert load_moer(region) is moer
    assert moer.region == region
    assert moer.start == np.datetime64("2019-04-30T00", "h")
    assert moer.times()[-1] == np.datetime64("2021-09-01T23", "h")
    assert moer.moer.shape == (20_544,)
    assert moer.forecast.shape == (20_544, 3)
    # The cap of the signal is 12.5 MMBtu/MWh at 53.1 kg/MMBtu; a few forecasts pass it.
    assert 0.6 < moer.moer.max() <= 0.67
    with pytest.raises(ValueError, match="read-only"):
        moer.moer[0] = 1.0


def test_shipped_series_has_the_known_levels() -> None:
    """PG&E: means .147 and .247 kg/kWh over May of 2019 and 2021, 13 % and 3.5 % of hours at zero."""
    moer = load_moer("PGE")
    for year, mean, zeros in (("2019", 0.147, 0.13), ("2021", 0.247, 0.035)):
        start = moer.month_slice(f"{year}-05", utc_offset=0)
        of_may = moer.moer[start : start + 744]
        assert of_may.mean() == pytest.approx(mean, abs=0.002)
        assert (of_may == 0).mean() == pytest.approx(zeros, abs=0.008)


def test_shipped_forecasts_are_of_the_hours_they_say() -> None:
    """Column k correlates best with the hour k ahead of its stamp, and nearer hours are forecast better."""
    moer = load_moer("PGE")
    errors = []
    for lead in range(3):
        shifted = [
            np.abs(moer.forecast[50:-50, lead] - np.roll(moer.moer, -hour)[50:-50]).mean()
            for hour in range(-2, 6)
        ]
        assert int(np.argmin(shifted)) - 2 == lead
        errors.append(min(shifted))
    assert errors == sorted(errors)


def test_unknown_region() -> None:
    with pytest.raises(ValueError, match="region='PGX': must be one of 'PGE', 'SCE'; did you mean 'PGE'"):
        load_moer("PGX")


def test_shipped_file_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moer = load_moer()
    manifest = (Path(__file__).resolve().parents[3] / "traces" / "MANIFEST.toml").read_text(encoding="utf-8")
    (tmp_path / "MANIFEST.toml").write_text(manifest, encoding="utf-8")
    monkeypatch.setenv("GREENDC_TRACES", str(tmp_path))
    with pytest.raises(TraceError, match=r"pge\.csv\.gz: cannot be read"):
        load_moer()
    (tmp_path / "moer").mkdir()
    (tmp_path / "moer" / "pge.csv.gz").write_bytes(gzip.compress(b"time,moer,f1,f2,f3\n"))
    with pytest.raises(TraceError, match=r"pge\.csv\.gz: altered"):
        load_moer()
    monkeypatch.delenv("GREENDC_TRACES")
    assert load_moer() is moer


def test_a_series_checks_its_arrays_and_pickles() -> None:
    hour = np.datetime64("2020-01-01T00", "h")
    with pytest.raises(ValueError, match=r"forecast\.shape"):
        MoerSeries("x", hour, np.zeros(4), np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"moer\.shape=\(0,\): must be at least one hour long"):
        MoerSeries("x", hour, np.zeros(0), np.zeros((0, 3)))
    half, none = np.datetime64("2020-01-01T00:30"), np.datetime64("NaT")
    for start in (half, none, "2020-01-01", None, datetime(2020, 1, 1)):
        with pytest.raises(ValueError, match=r"start=.*: must be a numpy.datetime64 of a whole hour"):
            MoerSeries("x", start, np.zeros(4), np.zeros((4, 3)))  # type: ignore[arg-type]
    assert MoerSeries("x", np.datetime64("2020-01-01"), np.zeros(4), np.zeros((4, 3))).start == hour
    for bad in (-1.0, np.nan, np.inf, 5.1):
        with pytest.raises(ValueError, match=r"moer=.*must be from 0 to 5 kg/kWh"):
            MoerSeries("x", hour, np.array([0.0, bad]), np.zeros((2, 3)))
    copy = pickle.loads(pickle.dumps(load_moer()))
    np.testing.assert_array_equal(copy.moer, load_moer().moer)


def test_archive_files_give_the_shipped_hours(moer_folder: Path) -> None:
    """The 5-minute files themselves, where they are at hand, give what ships to the last digit."""
    for region, months in (
        ("PGE", ("2019-05", "2019-06")),
        ("PGE", ("2021-04", "2021-05", "2021-06")),
        ("SCE", ("2019-05",)),
    ):
        hourly = hourly_moer(
            read_moer_archive(moer_folder / f"SGIP_CAISO_{region}_{month}.csv.gz" for month in months)
        )
        shipped = load_moer(region)
        first = hourly["time"].dt.tz_localize(None).to_numpy()[0].astype("datetime64[h]")
        start = int((first - shipped.start).astype(int))
        part = slice(start, start + len(hourly))
        np.testing.assert_array_equal(hourly["moer"].round(6), shipped.moer[part])
        np.testing.assert_array_equal(hourly[["f1", "f2", "f3"]].round(6), shipped.forecast[part])
