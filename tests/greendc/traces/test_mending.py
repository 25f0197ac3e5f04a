"""Defects of series and logs: all are listed with their lines, and what is mended reads as it should."""

import numpy as np
import pandas as pd
import pytest

from greendc.traces import TraceError
from greendc.traces.defects import Defect, DefectsError, Inspection
from greendc.traces.job_logs import inspect_swf
from greendc.traces.mending import inspect_series
from greendc.traces.power import read_power
from greendc.traces.swf import format_swf, parse_swf

HOURS = 60
SOUND = ["time,solar_kw,wind_kw,remark"] + [
    f"2024-01-0{1 + k // 24} {k % 24:02d}:00,{k},{2 * k}.5,fine" for k in range(HOURS)
]


def inspect(lines, **options):
    return inspect_series(
        ("\n".join(lines) + "\n").encode(), "p.csv", lambda name: name.endswith("_kw"), **options
    )


def mended(inspection, tmp_path):
    path = tmp_path / "mended.csv"
    path.write_bytes(inspection.mended)
    return read_power(path)


def test_a_sound_file_is_not_touched():
    inspection = inspect(SOUND)
    assert inspection.defects == ()
    assert inspection.mended.decode().split("\n")[:-1] == SOUND


def test_everything_is_listed_at_once_and_mended(tmp_path):
    lines = list(SOUND)
    lines[5] = lines[5].replace("2024-01-01 04:00", "")  # line 6: an empty stamp
    lines[9] = lines[9].replace(",8,", ",offline,")  # line 10
    lines[12] = lines[12].replace(",22.5,", ",,")  # line 13
    lines[20], lines[21] = lines[21], lines[20]  # line 22 goes back
    lines[30] = lines[30].replace(",29,", ",-0.1,")  # line 31
    lines[40:40] = ["*** logger restarted ***"]  # line 41
    lines.append("Total,1770,3570.0,")  # a footer
    inspection = inspect(lines)
    assert [defect.line for defect in inspection.defects] == [6, 10, 13, 22, 31, 41, 63]
    assert inspection.hopeless == ()
    assert inspection.counts == {
        "stamps_filled_in": 1,
        "values_interpolated": 2,
        "unsorted_rows": 1,
        "negative_values": 1,
        "lines_left_out": 2,
    }
    power = mended(inspection, tmp_path)
    solar = np.arange(HOURS, dtype=float)
    solar[29] = 0.0
    assert power.solar_kw.tolist() == solar.tolist()
    assert power.wind_kw.tolist() == [2 * k + 0.5 for k in range(HOURS)]
    error = DefectsError([inspection], ["c.csv: no column"])
    assert "p.csv:10: solar_kw='offline': no number; --repair: interpolated" in error.lines
    assert error.lines[-1] == "c.csv: no column"
    assert "8 defect(s) in the input; --repair mends 7 of them" in str(error)
    hopeless = Inspection("q.csv", (Defect(1, "not UTF-8"), Defect(2, "negative", "set to 0")), b"")
    assert "2 defect(s) in the input; --repair mends 1 of them" in str(DefectsError([hopeless]))


def test_a_word_that_pandas_takes_for_the_time_of_reading_is_no_stamp(tmp_path):
    lines = list(SOUND)
    lines[5] = lines[5].replace("2024-01-01 04:00", "now")
    inspection = inspect(lines)
    assert inspection.counts == {"stamps_filled_in": 1}
    assert mended(inspection, tmp_path).solar_kw.tolist() == list(range(HOURS))


def test_a_number_too_large_for_a_computer_is_interpolated(tmp_path):
    lines = list(SOUND)
    lines[9] = lines[9].replace(",8,", ",1e999,")
    lines[11] = lines[11].replace(",10,", ",off,")
    inspection = inspect(lines)
    assert inspection.counts == {"values_interpolated": 2}
    assert mended(inspection, tmp_path).solar_kw.tolist() == np.arange(HOURS, dtype=float).tolist()


def test_semicolons_decimal_commas_and_dotted_dates(tmp_path):
    lines = ["Date;solar_kw;wind_kw"]
    lines += [f"{1 + k // 24:02d}.01.2024 {k % 24}:00;{k},25;1.000,5" for k in range(HOURS)]
    inspection = inspect(lines)
    assert inspection.counts == {"semicolons_for_commas": 1, "decimal_commas": 120, "dotted_dates": 60}
    assert len(inspection.lines()) == 3  # one line for each kind, however many cells
    power = mended(inspection, tmp_path)
    assert power.solar_kw.tolist() == [k + 0.25 for k in range(HOURS)]
    assert power.wind_kw.tolist() == [1000.5] * HOURS
    assert power.start.isoformat() == "2024-01-01T00:00:00"


def rows_of(cells, separator=";"):
    """Return a series of hours with a column ``solar_kw`` of these cells, and a wind of whole numbers."""
    lines = [separator.join(("time", "solar_kw", "wind_kw"))]
    return lines + [
        separator.join((f"2024-01-01 {hour:02d}:00", cell, str(hour))) for hour, cell in enumerate(cells)
    ]


@pytest.mark.parametrize(
    ("separator", "cells", "numbers", "counts"),
    [
        (";", ["987,5", "1.234", "1.234,5"], [987.5, 1234, 1234.5], (2, 1)),
        (";", ["987.5", "1,234", "1,234.5"], [987.5, 1234, 1234.5], (0, 2)),
        (";", ["0,125", "1,234", "12"], [0.125, 1.234, 12], (2, 0)),
        (";", ["1,234,567", "1,234", "9"], [1234567, 1234, 9], (0, 2)),
        (";", ["1234,567", "-1.234", "9"], [1234.567, 0, 9], (1, 1)),
        (";", ["987.5", "12,5", "9"], [987.5, 12.5, 9], (1, 0)),  # no cell is unclear
        (",", ['"1,234"', "987.5", "9"], [1234, 987.5, 9], (0, 1)),
        (",", ['"987,5"', "1.234", "9"], [987.5, 1234, 9], (1, 1)),
        (",", ["1.234", "987", "9"], [1.234, 987, 9], (0, 0)),
    ],
)
def test_the_other_cells_of_a_column_tell_thousands_from_decimals(
    tmp_path, separator, cells, numbers, counts
):
    inspection = inspect(rows_of(cells, separator))
    assert mended(inspection, tmp_path).solar_kw.tolist() == numbers
    kinds = ("decimal_commas", "thousands_separators")
    assert tuple(inspection.counts.get(kind, 0) for kind in kinds) == counts


@pytest.mark.parametrize(
    ("separator", "cells", "example"),
    [
        (";", ["1,234", "987", "9"], "1,234"),
        (";", ["987", "1.234", "9"], "1.234"),
        (";", ["987.5", "12,5", "1,234"], "1,234"),
        (",", ["987", '"1,234"', "9"], "1,234"),
    ],
)
def test_numbers_that_may_be_one_or_the_other_are_refused(separator, cells, example):
    inspection = inspect(rows_of(cells, separator))
    (hopeless,) = inspection.hopeless
    assert hopeless.what.startswith(f"solar_kw={example!r}: 1.234 or 1234? no other cell tells")
    assert hopeless.line == 2 + [cell.strip('"') for cell in cells].index(example)
    assert "values_interpolated" not in inspection.counts


def test_other_columns_tell_where_a_column_does_not(tmp_path):
    lines = rows_of(["1.234", "2.000", "987"])
    lines = [line + (";1,5" if k else ";degrees") for k, line in enumerate(lines)]
    assert mended(inspect(lines), tmp_path).solar_kw.tolist() == [1234, 2000, 987]


def test_a_line_that_may_be_cut_and_a_second_row_of_a_time_are_left_out(tmp_path):
    text = "\n".join([*SOUND, SOUND[-1].replace("59", "58"), "2024-01-03 12:00,7"])
    inspection = inspect_series(text.encode(), "p.csv", lambda name: name.endswith("_kw"))
    assert inspection.counts == {"cut_lines": 1, "doubled_rows": 1}
    assert mended(inspection, tmp_path).solar_kw.tolist() == list(range(HOURS))


@pytest.mark.parametrize(
    "text", [SOUND[0], "\r".join(SOUND) + "\r"], ids=["header alone", "old Mac line ends"]
)
def test_a_text_without_line_ends_is_left_to_the_reader(text):
    inspection = inspect_series(text.encode(), "p.csv", lambda name: name.endswith("_kw"))
    assert (inspection.defects, inspection.mended) == ((), text.encode())


def test_empty_cells_are_no_defect_where_the_reader_interpolates_but_at_the_ends():
    lines = list(SOUND)
    for row in (1, 7, HOURS):
        lines[row] = lines[row].replace(f",{row - 1},", ",,")
    assert [defect.line for defect in inspect(lines, empty_allowed=True).defects] == [2, HOURS + 1]


def test_what_is_mostly_made_up_is_not_mended():
    lines = [line.replace(f",{k - 1},", ",offline,") if k % 3 else line for k, line in enumerate(SOUND)]
    stray = [SOUND[0], *(more for line in SOUND[1:] for more in (line, "*** restarted ***"))]
    for damaged in (lines, stray):
        (hopeless,) = inspect(damaged).hopeless
        assert "more than a tenth of the file" in hopeless.what


def test_a_column_of_the_other_sign_is_not_set_to_0():
    turned = [line.replace(f",{k - 1},", f",-{k - 1}.5,") for k, line in enumerate(SOUND)]
    (defect,) = inspect(turned).defects
    assert (defect.line, defect.mend) == (2, "")
    assert "solar_kw=-0.5: negative" in defect.what and "sign turned" in defect.what
    night = [line.replace(f",{k - 1},", ",-0.02,") if k < 30 else line for k, line in enumerate(SOUND)]
    assert inspect(night).counts == {"negative_values": 29}


def without(lines, first, last, cell=""):
    """Return a series with no numbers of sun in these hours."""
    return [
        line.replace(f",{k - 1},", f",{cell},", 1) if first <= k - 1 < last else line
        for k, line in enumerate(lines)
    ]


LONG = ["time,solar_kw,wind_kw"] + [
    f"{time:%Y-%m-%d %H:%M},{k},0.5"
    for k, time in enumerate(pd.date_range("2024-01-01", periods=400, freq="h"))
]


def test_a_day_in_a_row_is_interpolated_and_no_more(tmp_path):
    day = inspect(without(LONG, 100, 124))
    assert day.hopeless == () and day.counts == {"values_interpolated": 24}
    assert mended(day, tmp_path).solar_kw == pytest.approx(np.arange(400))
    rows_gone_too = [line for k, line in enumerate(without(LONG, 100, 112)) if not 112 <= k - 1 < 126]
    for lines in (without(LONG, 100, 125, "offline"), rows_gone_too):
        (hopeless,) = inspect(lines).hopeless
        assert hopeless.line == 102
        assert "solar_kw: no numbers for 2" in hopeless.what
        assert "more than a day in a row is not made up" in hopeless.what
    (hopeless,) = inspect(without(LONG, 0, 25)).hopeless  # at an end
    assert "solar_kw: no numbers for 25 h" in hopeless.what


JOB = "{0} {1} 5 3600 4 -1 -1 8 7200 -1 1 3 2 -1 0 -1 -1 -1"


def test_every_bad_line_of_a_log_is_listed_and_left_out():
    lines = ["; MaxProcs: 16", *(JOB.format(k, 100 * k) for k in range(1, 8))]
    lines[2] = lines[2].replace(" 3600 ", " offline ")
    lines[3] = lines[3].replace(" 3 2 ", " x 2 ")  # its user: not needed
    lines[4] = "*** end of January ***"
    lines[6] = lines[1]
    data = ("\n".join(lines) + "\n").encode()
    with pytest.raises(TraceError, match="line 3"):
        parse_swf(data, "log.swf")
    inspection = inspect_swf(data, "log.swf")
    assert [defect.line for defect in inspection.defects] == [3, 4, 5, 7]
    assert inspection.counts == {"lines_left_out": 3, "fields_emptied": 1}
    log = parse_swf(inspection.mended, "log.swf")
    assert log.column("job").tolist() == [1, 3, 5, 7]
    assert np.isnan(log.column("user")[1])
    assert log.machine_processors == 16


def test_a_sound_log_is_not_touched_though_it_is_not_sorted():
    data = (JOB.format(1, 300) + "\n" + JOB.format(2, 100) + "\n").encode()
    inspection = inspect_swf(data, "log.swf")
    assert inspection.defects == ()
    assert inspection.mended is data


def test_a_log_is_written_as_it_was_read_and_may_say_how_urgent_jobs_are():
    log = parse_swf(
        ("; MaxProcs: 16\n" + JOB.format(1, 100) + "\n" + JOB.format(2, 200.5) + "\n").encode(), "log"
    )
    again = parse_swf(format_swf(log), "again")
    assert np.array_equal(again.table, log.table, equal_nan=True)
    assert again.header == log.header
    assert again.qos is None
    large = "".join(JOB.format(123456789012 + k, 1234567890.5) + "\n" for k in range(2))
    big = parse_swf(large.encode(), "log")
    assert np.array_equal(parse_swf(format_swf(big), "again").table, big.table, equal_nan=True)
    assert format_swf(big).startswith(b"123456789012 1234567890.5 5 3600 ")
    urgent = parse_swf(format_swf(log, np.array([0.25, 1.0])), "urgent")
    assert urgent.qos.tolist() == [0.25, 1.0]
    with pytest.raises(TraceError, match=r"job 1: think_time=2: must be in \(0, 1\]"):
        _ = parse_swf(format_swf(log, np.array([2.0, 1.0])), "wrong").qos


def test_the_peak_counts_jobs_that_follow_each_other_once():
    lines = [JOB.format(1, 0), JOB.format(2, 1800), JOB.format(3, 3600)]  # an hour each, four processors
    assert parse_swf(("\n".join(lines) + "\n").encode(), "log").peak_processors == 8


def test_a_field_without_end_is_a_line_left_out():
    lines = list(SOUND)
    lines[5] = f"2024-01-01 04:00,4,8.5,{'x' * 200_000}"
    inspection = inspect(lines)
    (defect,) = inspection.defects
    assert (defect.line, defect.kind) == (6, "lines_left_out")
    assert len(str(defect)) < 1_000
