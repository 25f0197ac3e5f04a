"""What pandas lets pass in silence: rows of another length, cut ends, other encodings, absurd values."""

import gzip
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from greendc.cluster import ClusterConfig, ClusterSimulator
from greendc.traces import TraceError, read_carbon, read_moer_archive, read_power, read_swf
from greendc.traces.limits import LIMITS
from greendc.traces.moer import read_moer
from greendc.traces.moer_archive import ARCHIVE_COLUMNS
from greendc.traces.table_reader import clean_text, read_table
from greendc.traces.trace_files import read_file, unpack
from greendc.traces.weather import read_weather

STAMPS = [f"2021-03-01 {hour:02}:00" for hour in range(6)]
CARBON = [
    "time,direct gCO2/kWh carbon,zone",
    *(f"{stamp},{340 + i},TEX" for i, stamp in enumerate(STAMPS)),
]
POWER = ["time,solar_kw,wind_kw", *(f"{stamp},{i}.5,791.806" for i, stamp in enumerate(STAMPS))]
JOB = "100 5 3600 4 -1 -1 8 7200 -1 1 3 2 -1 0 -1 -1 -1"
SWF = ["; MaxProcs: 1024", *(f"{job} {JOB}" for job in (1, 2, 3))]


def write(path: Path, lines: list[str], end: str = "\n") -> Path:
    path.write_bytes(("\n".join(lines) + end).encode())
    return path


def changed(lines: list[str], line: int, old: str, new: str) -> list[str]:
    """Replace a text in one line; lines count from 1."""
    assert old in lines[line - 1]
    return [*lines[: line - 1], lines[line - 1].replace(old, new), *lines[line:]]


# --- rows and columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gaps", ["error", "interpolate"])
def test_a_row_that_lost_a_cell_is_refused_not_shifted(tmp_path: Path, gaps: str) -> None:
    header = "time,zone,carbon g/kWh (direct),LCA g/kWh"
    rows = [f"{stamp},TEX,{340 + i},{440 + i}" for i, stamp in enumerate(STAMPS)]
    path = write(tmp_path / "carbon.csv", [header, *rows])
    assert read_carbon(path).kg_per_kwh.tolist() == pytest.approx([0.340, 0.341, 0.342, 0.343, 0.344, 0.345])
    write(path, [header, *rows[:2], rows[2].replace("TEX,", ""), *rows[3:]])
    with pytest.raises(TraceError, match=r"carbon\.csv, line 4: 3 fields instead of 4"):
        read_carbon(path, gaps=gaps)


def test_two_rows_whose_errors_cancel_are_refused(tmp_path: Path) -> None:
    """The number of commas is right in total; one row lacks one and another has one too many."""
    lines = changed(changed(POWER, 3, ",791.806", ""), 5, "791.806", "791.806,1")
    with pytest.raises(TraceError, match=r"p\.csv, line 3: 2 fields instead of 3"):
        read_power(write(tmp_path / "p.csv", lines))
    lines = changed(changed(POWER, 3, "791.806", "791.806,1"), 5, ",791.806", "")
    with pytest.raises(TraceError, match=r"p\.csv, line 3: 4 fields instead of 3"):
        read_power(write(tmp_path / "p.csv", lines))


def test_doubled_columns_are_refused_by_name(tmp_path: Path) -> None:
    for header in ("time,wind_kw,wind_kw", "time,wind_kw, wind_kw", 'time,wind_kw,"wind_kw"'):
        with pytest.raises(TraceError, match=r"p\.csv, line 1: two columns are named 'wind_kw'"):
            read_power(write(tmp_path / "p.csv", [header, *POWER[1:]]))


def test_other_separators_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="line 1: names one column; are the fields separated by commas"):
        read_power(write(tmp_path / "p.csv", [line.replace(",", ";") for line in POWER]))
    with pytest.raises(TraceError, match="line 2: 5 fields instead of 3"):  # decimal commas
        read_power(write(tmp_path / "p.csv", [POWER[0], *(row.replace(".", ",") for row in POWER[1:])]))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("1,024", "line 3: 4 fields instead of 3"),
        ('"1,024"', "line 3: wind_kw='1,024': must be a finite number"),
        ("1 024", "line 3: wind_kw='1 024': must be a finite number"),
        ("0x1f", "line 3: wind_kw='0x1f'"),
        ("1_000", "line 3: wind_kw='1_000'"),
        ("1e999", "line 3: wind_kw='1e999': must be a finite number"),
        ("true", "line 3: wind_kw='true': must be a finite number"),
        ("−5", "line 3: wind_kw='−5': must be a finite number"),
    ],
)
def test_cells_that_are_nearly_numbers(tmp_path: Path, cell: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_power(write(tmp_path / "p.csv", changed(POWER, 3, "791.806", cell)))


def test_a_column_of_truth_values_is_no_column_of_ones(tmp_path: Path) -> None:
    rows = [f"{stamp},1,true" for stamp in STAMPS]
    with pytest.raises(TraceError, match="line 2: wind_kw='true': must be a finite number"):
        read_power(write(tmp_path / "p.csv", ["time,solar_kw,wind_kw", *rows]))
    log = [" ".join(["true", *JOB.split()])] * 2
    with pytest.raises(TraceError, match="line 1: job='true': must be a number"):
        read_swf(write(tmp_path / "a.swf", log))


def test_quoted_cells_hold_commas_quotes_and_lines() -> None:
    text = b'time,note,x\n1,"a, b",1.5\n2,"c\nd",2.5\n3,"say ""x""",3.5\n'
    table = read_table(text, "q.csv")
    frame = table.read(["x"], ["note"])
    assert frame["note"].tolist() == ["a, b", "c\nd", 'say "x"']
    assert frame["x"].tolist() == [1.5, 2.5, 3.5]
    assert [table.place(row) for row in range(3)] == ["line 2", "line 3", "line 5"]
    for bad, message in (
        (b'time,x\n1,"2\n', r"q\.csv, line \d: not a CSV table"),
        (b'time,x\n1,"2"3\n', r"q\.csv, line 2: not a CSV table"),
        (b'time,x\n"1",2\n3\n', r"q\.csv, line 3: 1 field instead of 2"),
    ):
        with pytest.raises(TraceError, match=message):
            read_table(bad, "q.csv")


# --- encodings and ends -----------------------------------------------------------------------------------


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    plain = read_power(write(tmp_path / "p.csv", POWER))
    (tmp_path / "p.csv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "p.csv").read_bytes())
    np.testing.assert_array_equal(read_power(tmp_path / "p.csv").wind_kw, plain.wind_kw)
    log = write(tmp_path / "a.swf", SWF)
    log.write_bytes(b"\xef\xbb\xbf" + log.read_bytes())
    assert read_swf(log).machine_processors == 1024
    write(tmp_path / "p.csv", [POWER[0], "\ufeff" + POWER[1], *POWER[2:]])  # pandas drops it here, too
    with pytest.raises(TraceError, match=r"p\.csv, line 2: a byte-order mark within the text"):
        read_power(tmp_path / "p.csv")
    (tmp_path / "p.csv").write_bytes("\n".join(POWER).encode("utf-16"))
    with pytest.raises(TraceError, match=r"p\.csv: encoded as UTF-16: must be UTF-8"):
        read_power(tmp_path / "p.csv")


def test_line_ends_of_windows_and_what_is_neither(tmp_path: Path) -> None:
    text = "\n".join(POWER) + "\n"
    (tmp_path / "p.csv").write_bytes(text.replace("\n", "\r\n").encode())
    assert len(read_power(tmp_path / "p.csv")) == 6
    # pandas ends a line at a lone carriage return, and a cell at a NUL.
    for code, name in (("\r", "0x0d"), ("\0", "0x00"), ("\x0b", "0x0b"), ("\x7f", "0x7f")):
        (tmp_path / "p.csv").write_bytes(text.replace("2.5", f"2{code}5").encode())
        with pytest.raises(TraceError, match=rf"p\.csv, line 4: control character {name}"):
            read_power(tmp_path / "p.csv")
    (tmp_path / "p.csv").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(TraceError, match=r"is it packed\? then its name must end in \.gz"):
        read_power(tmp_path / "p.csv")
    (tmp_path / "p.csv").write_bytes(text.replace("01:00", "01:0\xe9").encode("latin-1"))
    with pytest.raises(TraceError, match=r"p\.csv, line 3: must be UTF-8"):
        read_power(tmp_path / "p.csv")


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_file_cut_within_its_last_number_is_refused(tmp_path: Path, cut: int) -> None:
    """791.806 would be read as 79, or as 7."""
    packed = tmp_path / "p.csv.gz"
    for path, text in ((tmp_path / "p.csv", None), (packed, gzip.compress)):
        data = ("\n".join(POWER) + "\n").encode()[:-cut]
        path.write_bytes(text(data) if text else data)
        with pytest.raises(TraceError, match=r"p\.csv(\.gz)?, line 7: the file is truncated"):
            read_power(path)
    log = write(tmp_path / "a.swf", SWF)
    log.write_bytes(log.read_bytes()[:-cut])
    with pytest.raises(TraceError, match=r"a\.swf, line 4: the file is truncated"):
        read_swf(log)


def test_a_packed_file_is_whole_or_refused() -> None:
    text = ("\n".join(POWER) + "\n").encode()
    packed = gzip.compress(text[:40]) + gzip.compress(text[40:])  # a file may have several members
    assert unpack(packed, "p.csv.gz") == text
    assert unpack(packed + b"\0\0", "p.csv.gz") == text
    for cut in range(1, len(packed)):
        if cut != len(gzip.compress(text[:40])):
            with pytest.raises(TraceError, match=r"p\.csv\.gz: truncated or damaged gzip"):
                unpack(packed[:cut], "p.csv.gz")
    for at in (len(packed) - 3, len(packed) - 7):  # the size and the checksum
        with pytest.raises(TraceError, match=r"truncated or damaged gzip"):
            unpack(packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :], "p.csv.gz")


def test_what_unpacks_to_more_than_a_trace_can_hold_is_refused_before(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    (tmp_path / "b.csv.gz").write_bytes(bomb)
    (tmp_path / "b.csv").write_bytes(b"x" * 2000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TraceError, match=r"b\.csv\.gz: larger than 1 MiB; a trace must not be"):
        read_file(tmp_path / "b.csv.gz", most=1 << 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 32 << 10  # KiB
    with pytest.raises(TraceError, match=r"b\.csv: larger than"):
        read_file(tmp_path / "b.csv", most=1999)


def test_lines_without_anything_at_the_end_do_not_count() -> None:
    assert clean_text(b"a,b\n1,2\n\n\n", "x") == b"a,b\n1,2\n"
    for nothing in (b"", b"\n\n", b" \n"):
        with pytest.raises(TraceError, match="x: the file is empty"):
            clean_text(nothing, "x")


# --- limits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("340", "1e308", r"carbon=1e\+308 is 1e\+305 kg/kWh: must be from 0 to 5 kg/kWh"),
        ("340", "5001", r"carbon=5001 is 5\.001 kg/kWh: must be"),
        ("340", "-1", "carbon=-1 is -0.001 kg/kWh: must be"),
    ],
)
def test_carbon_beyond_nature(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write(tmp_path / "c.csv", changed(CARBON, 2, old, new))
    with pytest.raises(TraceError, match=rf"c\.csv, line 2: direct gCO2/kWh {message}"):
        read_carbon(path)


def test_grams_taken_for_kilograms_are_beyond_nature(tmp_path: Path) -> None:
    lines = ["time,carbon", *(line.rsplit(",", 1)[0] for line in CARBON[1:])]
    path = write(tmp_path / "c.csv", lines)
    assert read_carbon(path, unit="g/kWh").kg_per_kwh[0] == pytest.approx(0.34)
    with pytest.raises(TraceError, match="line 2: carbon=340: must be from 0 to 5 kg/kWh"):
        read_carbon(path, unit="kg/kWh")


def test_more_power_than_the_world_has(tmp_path: Path) -> None:
    lines = changed(POWER, 4, "791.806", "1e308")
    with pytest.raises(TraceError, match=r"p\.csv, line 4: wind_kw=1e\+308: must be from 0 to 1e\+09 kW"):
        read_power(write(tmp_path / "p.csv", lines))
    lines = [line.replace("wind_kw", "wind_gw") for line in lines]
    with pytest.raises(TraceError, match=r"line 4: wind_gw=1e\+308 is inf kW: must be"):
        read_power(write(tmp_path / "p.csv", lines))


def epw(**cells: object) -> list[str]:
    """A day of June; a cell is ``row_column``, of which row 1 is that of the place."""
    rows = [["LOCATION", "Somewhere", "TX", "USA", "TMY3", "722700", "33.6", "-101.9", "-6.0", "1000.0"]]
    rows += [["HEADER"]] * 6 + [["DATA PERIODS", "1", "1", "Data", "Sunday", " 6/20", " 6/20"]]
    for hour in range(1, 25):
        values = {0: 2021, 1: 6, 2: 20, 3: hour, 6: 20.0, 9: 90_000, 13: 100, 14: 200, 15: 50, 21: 7.0}
        rows.append([str(values.get(column, 0)) for column in range(35)])
    for cell, value in cells.items():
        row, column = map(int, cell.removeprefix("c").split("_"))
        rows[row - 1][column] = str(value)
    return [",".join(row) for row in rows]


@pytest.mark.parametrize(
    ("cell", "value", "message"),
    [
        ("c9_13", -500, "line 9: ghi=-500: must be from 0 to 2000 W/m²"),
        ("c10_14", 1501, "line 10: dni=1501: must be from 0 to 1500 W/m²"),
        ("c11_15", -1, "line 11: dhi=-1: must be"),
        ("c9_21", -20, "line 9: wind_speed=-20: must be from 0 to 115 m/s"),
        ("c9_6", -400, "line 9: temperature=-400: must be from -90 to 60 °C"),
        ("c9_9", 900, "line 9: pressure=900: must be from 30000 to 110000 Pa"),
        ("c1_6", 400, "line 1: latitude='400': must be from -90 to 90 degrees"),
        ("c1_7", "-181", "line 1: longitude='-181': must be from -180 to 180 degrees"),
        ("c1_8", 25, "line 1: utc_offset='25': must be from -12 to 14 h"),
        ("c1_8", "-0.006", "line 1: utc_offset='-0.006': must be a multiple of a quarter hour"),
        ("c1_9", "high", "line 1: altitude='high': must be from -500 to 9000 m"),
        ("c12_3", "3.5", "line 12: the time must be made of whole numbers"),
        ("c12_3", 3, "line 12: the time does not come after that of the row before"),
        ("c12_3", 0, "line 12: the time must be a date and an hour"),
        ("c9_0", 0, "line 9: year=0: must be from 1900 to 2100"),
        ("c32_3", 25, "line 32: the time must be a date and an hour"),
    ],
)
def test_weather_beyond_nature(tmp_path: Path, cell: str, value: object, message: str) -> None:
    assert len(read_weather([write(tmp_path / "w.epw", epw())], 50.0).ghi) == 24
    with pytest.raises(TraceError, match=rf"w\.epw, {message}"):
        read_weather([write(tmp_path / "w.epw", epw(**{cell: value}))], 50.0)


def test_weather_that_ends_before_its_header_says(tmp_path: Path) -> None:
    message = r"w\.epw, line 31: the file ends here, but line 8 promises data up to  6/20"
    with pytest.raises(TraceError, match=message):
        read_weather([write(tmp_path / "w.epw", epw()[:-1])], 50.0)


def test_names_of_places_in_any_encoding_do_not_matter(tmp_path: Path) -> None:
    lines = changed(epw(), 1, "Somewhere", "São Paulo")
    (tmp_path / "w.epw").write_bytes(("\n".join(lines) + "\n").encode("latin-1"))
    assert len(read_weather([tmp_path / "w.epw"], 50.0).ghi) == 24


def test_the_page_on_data_has_the_limits() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    for quantity in list(LIMITS)[: list(LIMITS).index("job")]:
        limit = LIMITS[quantity]
        assert f"| `{quantity}` | {limit.low:g} | {limit.high:g} | {limit.unit} |\n" in page


def test_every_limit_has_room_and_names_its_unit() -> None:
    for limit in LIMITS.values():
        assert limit.low < limit.high
        assert str(limit).startswith("from ")
        assert limit.outside(np.array([np.nan, limit.low, limit.high, np.inf])).tolist() == [1, 0, 0, 1]


# --- clocks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gaps", ["error", "interpolate", "join"])
def test_a_stamp_far_away_is_refused_before_room_is_made_for_it(tmp_path: Path, gaps: str) -> None:
    path = write(tmp_path / "p.csv", changed(POWER, 7, "2021-03", "2200-03"))
    with pytest.raises(TraceError, match=r"p\.csv, line 7: time='2200.*: must be of the years from 1900 to"):
        read_power(path, gaps=gaps)
    write(path, changed(POWER, 7, "2021-03", "9999-03"))
    with pytest.raises(TraceError, match=r"p\.csv, line 7: time='9999"):
        read_power(path, gaps=gaps)


def test_no_other_reader_makes_room_for_a_stamp_far_away(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    for gaps in ("error", "interpolate"):
        write(path, changed(CARBON, len(CARBON), "2021-", "2200-"))
        with pytest.raises(
            TraceError, match=rf"c\.csv, line {len(CARBON)}: .*'2200.*of the years from 1900 to"
        ):
            read_carbon(path, gaps=gaps)
    moer = ["time,moer,f1,f2,f3", *(f"2021-03-01T{hour:02}:00Z,.2,.3,.3,.3" for hour in range(6))]
    write(path, changed(moer, 7, "2021", "2200"))
    with pytest.raises(TraceError, match=r"c\.csv, line 7: time='2200.*of the years from 1900 to"):
        read_moer(path, "PGE")


def test_a_job_submitted_in_the_year_2200_takes_no_more_room_than_another(tmp_path: Path) -> None:
    """SWF counts seconds: up to 10**11 of them are read, and no array is as long as they are."""
    jobs = [f"{i} {60 * i} 0 100 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1" for i in range(1, 6)]
    late = changed(jobs, 5, "5 300", f"5 {230 * 366 * 86_400}")
    assert read_swf(write(tmp_path / "a.swf", late)).table[4, 1] == 230 * 366 * 86_400
    cluster = ClusterSimulator(ClusterConfig(workload=str(tmp_path / "a.swf"), episode_jobs=5))
    assert sum(part.nbytes for part in (*cluster.world, *cluster.state)) < 10**5
    cluster.reset_env(0, np.random.default_rng(0))
    cluster.play(0, "sjf")
    assert cluster.state.cluster[0]["over"]
    write(tmp_path / "b.swf", changed(jobs, 5, "5 300", f"5 {10**12}"))
    with pytest.raises(
        TraceError, match=r"b\.swf, line 5: submit_time=1000000000000: must be at most 1e\+11"
    ):
        read_swf(tmp_path / "b.swf")


def test_no_more_steps_are_made_up_than_are_there(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", changed(POWER, 7, "2021-03", "2099-03"))
    with pytest.raises(
        TraceError, match=r"p\.csv, line 7: a gap of 683\d+ missing step.*than the 6 that are"
    ):
        read_power(path, gaps="interpolate")
    assert len(read_power(write(path, changed(POWER, 7, "05:00", "11:00")), gaps="interpolate")) == 12
    with pytest.raises(TraceError, match="a gap of 7 missing"):
        read_power(write(path, changed(POWER, 7, "05:00", "12:00")), gaps="interpolate")


def test_rows_are_a_second_to_a_year_apart(tmp_path: Path) -> None:
    for stamps, message in (
        (["1900-01-01", "2000-01-01"], "rows are 876576 h apart; must be from 0.00027"),
        (["2000-01-01T00:00:00.000001", "2000-01-01T00:00:00.000002"], "rows are 2.77778e-10 h apart"),
    ):
        with pytest.raises(TraceError, match=message):
            read_power(write(tmp_path / "p.csv", ["time,wind_kw", *(f"{stamp},1" for stamp in stamps)]))


def test_a_row_that_lost_its_offset_from_utc_is_refused(tmp_path: Path) -> None:
    lines = [POWER[0], *(row.replace(":00,", ":00-06:00,") for row in POWER[1:])]
    assert len(read_power(write(tmp_path / "p.csv", lines))) == 6
    odd = [*POWER[:6], POWER[6].replace("05:00", "05-00")]  # as long as the others, but an hour and an offset
    with pytest.raises(TraceError, match=r"p\.csv, line 7: time=.*must be without an offset from UTC"):
        read_power(write(tmp_path / "p.csv", odd))
    for line in (2, 4):
        path = write(tmp_path / "p.csv", changed(lines, line, "-06:00", ""))
        with pytest.raises(
            TraceError, match=r"p\.csv, line \d: time=.*must be with(out)? an offset from UTC"
        ):
            read_power(path, gaps="join")


def test_two_archive_files_far_apart_need_no_room(tmp_path: Path) -> None:
    header = ",".join(("time", *ARCHIVE_COLUMNS))
    values = ",".join(["0.1"] * len(ARCHIVE_COLUMNS))
    files = [
        write(
            tmp_path / f"{year}.csv", [header, f"{year}-01-01 00:00,{values}", f"{year}-01-01 00:05,{values}"]
        )
        for year in (1990, 2099)
    ]
    with pytest.raises(TraceError, match="no rows for 1990-01-01T00:10:00 UTC"):
        read_moer_archive(files)


# --- job logs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "processors"),
    [
        ("1024", 1024),
        ("1,024", 1024),
        ("1,024,000 (in racks)", 1_024_000),
        ("128 (of 144)", 128),
        ("1024; later 2048", 1024),
        ("-1", 4),
        ("unknown", 4),
        ("", 4),
    ],
)
def test_sizes_in_a_header(tmp_path: Path, size: str, processors: int) -> None:
    log = read_swf(write(tmp_path / "a.swf", [f"; MaxProcs: {size}", *SWF[1:]]))
    assert log.machine_processors == processors


@pytest.mark.parametrize("size", ["1.024", "1,02", "10,24", "-5", "1e3", "+7", "9" * 20, "0x10"])
def test_sizes_that_could_be_read_in_two_ways(tmp_path: Path, size: str) -> None:
    with pytest.raises(TraceError, match=r"a\.swf, line 1: MaxProcs='.*': must begin with a whole number"):
        read_swf(write(tmp_path / "a.swf", [f"; MaxProcs: {size}", *SWF[1:]]))


def test_doubled_jobs_are_refused_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"a\.swf, line 5: job=2 is that of line 3, too"):
        read_swf(write(tmp_path / "a.swf", [*SWF, f"2 {JOB}"]))
    # Jobs without a number are not doubled, nor are the parts of a job, which have a line of the whole.
    assert len(read_swf(write(tmp_path / "a.swf", [*SWF, *[f"-1 {JOB}"] * 2]))) == 5
    words = JOB.split()
    parts = [" ".join(["2", *words[:9], status, *words[10:]]) for status in ("2", "3")]
    log = read_swf(write(tmp_path / "a.swf", [*SWF, *parts]))
    assert (len(log), log.counts["partial"]) == (5, 2)


def test_a_word_for_nothing_in_a_nineteenth_field_is_no_end_of_the_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"a\.swf, line 3: a job has 18 fields, but this line has 19"):
        read_swf(write(tmp_path / "a.swf", changed(SWF, 3, JOB, f"{JOB} nan")))


# --- every reader -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [read_power, read_carbon, read_swf, read_moer_archive])
@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\x00" * 100, b"\xff\xfeabc", b"a", b"a\n", b'"', b",,,\n,\n"]
)
def test_what_is_no_trace_is_a_named_error(
    tmp_path: Path, read: Callable[[Path], object], content: bytes
) -> None:
    path = tmp_path / "trace.dat"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"trace\.dat"):
        read(path)
