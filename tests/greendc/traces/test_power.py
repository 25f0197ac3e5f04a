"""Power and carbon traces: units and clocks are understood or refused by name and line."""

import gzip
import pickle
from datetime import date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from greendc.traces import CarbonTrace, PowerTrace, TraceError, UnclearTraceError, read_carbon, read_power
from greendc.traces.power import format_power
from greendc.traces.prices import PriceTrace

HOURS = ["2021-03-01 00:00", "2021-03-01 01:00", "2021-03-01 02:00", "2021-03-01 03:00"]


def write(tmp_path, header, rows, name="trace.csv"):
    path = tmp_path / name
    text = "\n".join([header, *rows]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def power_file(tmp_path, stamps=HOURS, solar=(0, 1, 2, 3), name="trace.csv"):
    rows = [f"{stamp},{value},{10 * i}" for i, (stamp, value) in enumerate(zip(stamps, solar, strict=True))]
    return write(tmp_path, "time,solar_kw,wind_kw", rows, name)


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_a_plain_trace(tmp_path, name):
    trace = read_power(power_file(tmp_path, name=name))
    np.testing.assert_array_equal(trace.solar_kw, [0, 1, 2, 3])
    np.testing.assert_array_equal(trace.wind_kw, [0, 10, 20, 30])
    np.testing.assert_array_equal(trace.total_kw, [0, 11, 22, 33])
    assert trace.step_hours == 1.0
    assert trace.start == datetime(2021, 3, 1)
    assert set(trace.counts.values()) == {0}


def test_parquet_and_a_time_index(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"Solar [MW]": [0.5, 1.0]}, index=pd.DatetimeIndex(HOURS[:2], name="Time", tz="UTC"))
    frame.to_parquet(tmp_path / "trace.parquet")
    trace = read_power(tmp_path / "trace.parquet")
    np.testing.assert_array_equal(trace.solar_kw, [500, 1000])
    np.testing.assert_array_equal(trace.wind_kw, [0, 0])
    assert trace.start == datetime(2021, 3, 1, tzinfo=timezone.utc)
    frame["Solar [MW]"] = [0.5, np.nan]
    frame.to_parquet(tmp_path / "trace.parquet")
    with pytest.raises(TraceError, match=r"trace.parquet, row 2: Solar \[MW\] is missing"):
        read_power(tmp_path / "trace.parquet")


def test_parquet_without_pyarrow_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match=r"trace.parquet: reading Parquet needs pyarrow: pip install pyarrow"
    ):
        read_power(tmp_path / "trace.parquet")


@pytest.mark.parametrize(
    ("column", "unit", "factor"),
    [
        ("pv_w", None, 1e-3),
        ("PV power (kW)", None, 1.0),
        ("solar MW", None, 1e3),
        ("solar_gw", None, 1e6),
        ("solar", "kW", 1.0),
        ("solar_mw", "MW", 1e3),
    ],
)
def test_units_of_power(tmp_path, column, unit, factor):
    path = write(tmp_path, f"time,{column}", [f"{stamp},2" for stamp in HOURS])
    np.testing.assert_allclose(read_power(path, unit=unit).solar_kw, 2 * factor)


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        ("time,solar_kwh,wind_kw", {}, "column 'solar_kwh' does not name a unit of power"),
        ("time,solar,wind_kw", {}, "column 'solar' does not name a unit of power"),
        ("time,solar_kw,Wind Speed (m/s)", {}, "column 'Wind Speed \\(m/s\\)' is a speed, not power; needed"),
        ("time,solar_kw,wind_kw", {"unit": "MW"}, "column 'solar_kw' is named in kw, not in unit='MW'"),
        (
            "time,PV 5 MW park (kW),b",
            {},
            r"'PV 5 MW park \(kW\)' names several units of power .*: say unit=...$",
        ),
        ("time,PV 5 MW park (kW),b", {"unit": "W"}, "is named in mw and kw, not in unit='W'"),
        ("time,solar_kw,wind_kw", {"unit": "kWh"}, "unit='kWh': must be W, kW, MW or GW"),
        ("time,wind_kw,wind_kw_2", {}, r"2 columns of wind \(.*\): say wind=\.\.\.$"),
        ("time,solar_kw,wnid_kw", {}, "no column of wind, but 'wnid_kw' is nearly one .*: say wind=...$"),
        ("time,soler_kw,wind_kw", {}, "no column of solar, but 'soler_kw' is nearly one .*: say solar=...$"),
        *(
            (f"time,{word}_kw,wind_kw", {}, f"no column of solar, but '{word}_kw' is nearly one .*: say")
            for word in ("SolarPower", "photovoltaics", "pv1", "PVPower")
        ),
        ("time,solar_kw,WindPark", {}, "no column of wind, but 'WindPark' is nearly one .*: say wind=...$"),
        ("time,Solar and wind (MW),b", {}, "'Solar and wind .MW.' would count twice, as solar and"),
        (
            "time,solar_kw,b",
            {"wind": "solar_kw"},
            "column 'solar_kw' would count twice.*say solar=.* or",
        ),
        ("time,a,b", {}, "no column of .* among 'time', 'a', 'b': say solar=... or wind=...$"),
        ("time,solar_kw,wind_kw", {"solar": "solr_kw"}, "no column 'solr_kw'; did you mean 'solar_kw'"),
        ("hour,solar_kw,wind_kw", {}, "no column of time stamps .*: say time=...$"),
        ("hour,solar_kw,wind_kw", {"time": "our"}, "no column 'our'; did you mean 'hour'"),
        ("time,solar_kw,wind_kw", {"gaps": "fill"}, "gaps='fill': must be one of"),
    ],
)
def test_columns_that_are_not_understood_are_refused_by_name(tmp_path, header, options, message):
    path = write(tmp_path, header, [f"{stamp},1,2" for stamp in HOURS])
    with pytest.raises(ValueError, match=message):
        read_power(path, **options)


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        *((f"time,solar_kw,{word}", "1,2") for word in ("kind", "window", "grind", "quality", "window_kw")),
        *((f"time,solar_kw,{word}", "1,2") for word in ("windows", "winding_kw")),
        ("time,wind_kw,polar", "1,2"),
        ("time,wind_kw,pvc", "1,2"),
        ("time,solar_kw,winds", "1,calm"),  # no numbers, no unit
    ],
)
def test_other_words_are_no_misspelled_wind_or_solar(tmp_path, header, cells):
    assert len(read_power(write(tmp_path, header, [f"{stamp},{cells}" for stamp in HOURS]))) == len(HOURS)


def test_a_unit_that_is_given_tells_which_of_several_in_a_name_it_is(tmp_path):
    path = write(tmp_path, "time,PV 5 MW park (kW)", [f"{stamp},1500" for stamp in HOURS])
    assert read_power(path, unit="kW").solar_kw.tolist() == [1500.0] * 4
    assert len(read_power(write(tmp_path, "time,wind kW (mean kW)", [f"{stamp},1" for stamp in HOURS]))) == 4


def test_an_empty_name_says_that_there_is_none(tmp_path):
    lines = [f"{stamp},1,2" for stamp in HOURS]
    for column in ("wnid", "wnid_kw", "wind_kw"):
        path = write(tmp_path, f"time,solar_kw,{column}", lines)
        if column != "wind_kw":
            with pytest.raises(
                TraceError, match=f"'{column}' is nearly one .wind=\"\" if there is none.: say"
            ):
                read_power(path)
        trace = read_power(path, wind="")
        assert (trace.solar_kw.tolist(), trace.wind_kw.tolist()) == ([1.0] * 4, [0.0] * 4)
    with pytest.raises(TraceError, match="no column of solar or wind power"):
        read_power(path, wind="", solar="")
    total = read_power(write(tmp_path, "time,solar_wind_kw,b", lines), wind="")
    assert (total.solar_kw.tolist(), total.wind_kw.tolist()) == ([1.0] * 4, [0.0] * 4)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ("Solar Rad - W/m^2", "irradiance"),
        ("solar_radiation_w", "irradiance"),
        ("PV irradiance (kW)", "irradiance"),
        ("Solar (W m-2)", "irradiance"),
        ("solar W/m²", "irradiance"),
        ("Solar [Wm-2]", "irradiance"),
        ("solar_kw_per_m2", "irradiance"),
        ("Solar (kWh/sq m2)", "irradiance"),
        ("pv W per square metre", "irradiance"),
        ("solar_ghi_w", "irradiance"),
        ("wind_speed", "a speed"),
        ("Wind (m/s)", "a speed"),
        ("wind_gust_kw", "a speed"),
        ("wind mph", "a speed"),
        ("wind_direction", "a direction"),
        ("Wind Dir (deg)", "a direction"),
    ],
)
@pytest.mark.parametrize("unit", [None, "kW"])
def test_weather_is_not_taken_for_power(tmp_path, column, what, unit):
    path = write(tmp_path, f"time,{column}", [f"{stamp},900" for stamp in HOURS])
    kind = "wind" if "wind" in column.lower() else "solar"
    for chosen in ({}, {kind: column}):  # named by the user, it is no power either
        with pytest.raises(TraceError) as raised:
            read_power(path, unit=unit, **chosen)
        said = str(raised.value)
        assert f"column {column!r} is {what}, not power; needed is" in said and "\n" not in said


@pytest.mark.parametrize("column", ["pv_m2_kw", "Wind_Farm_3_MW", "Wind DE-South kW", "solar_radcliffe_kw"])
def test_meters_and_places_are_no_weather(tmp_path, column):
    path = write(tmp_path, f'time,"{column}"', [f"{stamp},2" for stamp in HOURS])
    assert read_power(path).total_kw[0] in (2.0, 2000.0)


def test_what_is_unclear_can_be_told_in_other_words_and_sent_between_processes(tmp_path):
    path = write(tmp_path, "time,a,b", [f"{stamp},1,2" for stamp in HOURS])
    with pytest.raises(UnclearTraceError) as raised:
        read_power(path)
    error = pickle.loads(pickle.dumps(raised.value))
    assert str(error) == str(raised.value)
    assert error.options == ("solar", "wind")
    assert error.with_options(["--sun"]).endswith("among 'time', 'a', 'b': say --sun")


def test_columns_can_be_chosen(tmp_path):
    path = write(tmp_path, "when,time,solar_kw,wind_kw_a,wind_kw_b", [f"{s},x,1,2,3" for s in HOURS])
    trace = read_power(path, time="when", wind="wind_kw_b")
    assert trace.wind_kw[0] == 3


@pytest.mark.parametrize(
    ("stamps", "solar", "message"),
    [
        (HOURS, (0, "", 2, 3), "line 3: solar_kw is missing"),
        (HOURS, (0, "nan", 2, 3), "line 3: solar_kw is missing"),
        (HOURS, (0, 1, "off", 3), "line 4: solar_kw='off': must be a finite number"),
        (HOURS, (0, 1, "inf", 3), "line 4: solar_kw='inf': must be a finite number"),
        (HOURS, (0, 1, 2, -0.1), "line 5: solar_kw=-0.1: must be from 0 to 1e\\+09 kW"),
        (
            [*HOURS[:2], "2021-03-01 04:00", "2021-03-01 05:00"],
            (0, 1, 2, 3),
            "line 4: a gap of 2 missing step",
        ),
        ([HOURS[0], HOURS[2], HOURS[1], HOURS[3]], (0, 1, 2, 3), "line 4: the time does not come after"),
        ([*HOURS[:2], HOURS[1], HOURS[3]], (0, 1, 2, 3), "line 4: the time does not come after"),
        ([*HOURS[:3], "2021-03-01 03:30"], (0, 1, 2, 3), "line 5: irregular: 1.5 h .* are 1 h apart"),
        ([*HOURS[:3], "noon"], (0, 1, 2, 3), "line 5: time='noon': must be a date and time"),
        ([*HOURS[:3], "now"], (0, 1, 2, 3), "line 5: time='now': must be a date and time"),
        ([*HOURS[:3], "today"], (0, 1, 2, 3), "line 5: time='today': must be a date and time"),
        ([*HOURS[:3], ""], (0, 1, 2, 3), "line 5: time is missing"),
        ([0, 1, 2, 3], (0, 1, 2, 3), "line 2: time='0': must be a date and time"),
    ],
)
def test_bad_rows_are_named_by_line(tmp_path, stamps, solar, message):
    with pytest.raises(TraceError, match=f"trace.csv, {message}"):
        read_power(power_file(tmp_path, stamps, solar))


def test_one_row_no_row_no_file(tmp_path):
    with pytest.raises(TraceError, match="one row; at least two"):
        read_power(power_file(tmp_path, HOURS[:1], (0,)))
    with pytest.raises(TraceError, match="the table has no rows"):
        read_power(power_file(tmp_path, [], ()))
    with pytest.raises(TraceError, match=r"none.csv: cannot be read"):
        read_power(tmp_path / "none.csv")
    pytest.importorskip("pyarrow")
    (tmp_path / "not.parquet").write_bytes(b"PAR2 nonsense")
    with pytest.raises(TraceError, match=r"not.parquet: not a Parquet table"):
        read_power(tmp_path / "not.parquet")


GAPPY = (["2021-03-01 00:00", "2021-03-01 01:00", "2021-03-01 04:00", "2021-03-01 05:00"], (0, "", 4, 5))


def test_interpolated_steps_and_values_are_counted(tmp_path):
    trace = read_power(power_file(tmp_path, *GAPPY), gaps="interpolate")
    np.testing.assert_allclose(trace.solar_kw, [0, 1, 2, 3, 4, 5])
    np.testing.assert_allclose(trace.wind_kw, [0, 10, 40 / 3, 50 / 3, 20, 30])
    assert trace.counts == {"missing_steps": 2, "gaps": 1, "missing_values": 1}


@pytest.mark.parametrize(("solar", "row"), [(("", 1, 2, 3), 2), ((0, 1, 2, ""), 5)])
def test_nothing_is_extrapolated(tmp_path, solar, row):
    with pytest.raises(TraceError, match=f"line {row}: solar_kw is missing"):
        read_power(power_file(tmp_path, HOURS, solar), gaps="interpolate")


DAYLESS = ["2021-02-28 22:00", "2021-02-28 23:00", "2021-03-02 00:00", "2021-03-02 01:00"]


def test_joined_days_are_counted_and_empty_cells_stay_an_error(tmp_path):
    for gaps in ("join", "mend"):
        trace = read_power(power_file(tmp_path, DAYLESS), gaps=gaps)
        np.testing.assert_array_equal(trace.solar_kw, [0, 1, 2, 3])
        assert trace.counts["missing_steps"] == 24 and trace.counts["gaps"] == 1
        with pytest.raises(TraceError, match="line 3: solar_kw is missing"):
            read_power(power_file(tmp_path, DAYLESS, GAPPY[1]), gaps=gaps)


def test_a_gap_that_is_not_of_whole_days_is_not_joined_but_mended(tmp_path):
    """Joined, the hours of the rest of the file would be wrong."""
    path = power_file(tmp_path, GAPPY[0])
    with pytest.raises(TraceError, match=r'line 4: a gap of 2 .* not of whole days.*gaps="interpolate"'):
        read_power(path, gaps="join")
    trace = read_power(path, gaps="mend")
    np.testing.assert_allclose(trace.solar_kw, [0, 1, 4 / 3, 5 / 3, 2, 3])
    assert trace.counts == {"missing_steps": 2, "gaps": 1, "missing_values": 0, "interpolated_steps": 2}
    far = [*DAYLESS[:2], "2021-03-02 05:00", "2021-03-02 06:00"]
    with pytest.raises(
        TraceError, match=r"line 4: a gap of 29 .* neither of whole days nor shorter than one"
    ):
        read_power(power_file(tmp_path, far), gaps="mend")
    both = [*DAYLESS[:3], "2021-03-02 02:00"]
    trace = read_power(power_file(tmp_path, both), gaps="mend")
    np.testing.assert_allclose(trace.solar_kw, [0, 1, 2, 2.5, 3])


def test_energies_are_powers_in_steps_of_an_hour_alone(tmp_path):
    hourly, quarters = HOURS, [f"2021-01-01 00:{minute:02}" for minute in (0, 15, 30, 45)]
    for stamps, unit, message in (
        (quarters, "kW", r"'Solar \(kWh\)' is energy in kwh of steps of 0.25 h, not power"),
        (hourly, "MW", r"named in kwh, not in unit='MW'"),
        (hourly, None, "does not name a unit of power"),
    ):
        path = write(tmp_path, "time,Solar (kWh)", [f"{stamp},{k}" for k, stamp in enumerate(stamps)])
        with pytest.raises(TraceError, match=message):
            read_power(path, unit=unit)
    path = write(tmp_path, "time,Solar (kWh)", [f"{stamp},{k}" for k, stamp in enumerate(hourly)])
    assert read_power(path, unit="kW").solar_kw.tolist() == list(range(len(hourly)))


def test_rows_with_different_offsets_are_on_one_clock(tmp_path):
    """A clock that is set forward in spring: 02:00 to 03:00 does not exist, no row is missing."""
    stamps = [
        "2021-03-14 00:00-06:00",
        "2021-03-14 01:00-06:00",
        "2021-03-14 03:00-05:00",
        "2021-03-14 04:00-05:00",
    ]
    trace = read_power(power_file(tmp_path, stamps))
    assert trace.counts["missing_steps"] == 0
    assert trace.start == datetime(2021, 3, 14, tzinfo=timezone(timedelta(hours=-6)))


@pytest.mark.parametrize(
    ("column", "unit", "factor"),
    [
        ("Carbon Intensity gCO₂eq/kWh (LCA)", None, 1e-3),
        ("carbon_kg_per_kwh", None, 1.0),
        ("co2 (lb/MWh)", None, 0.45359237e-3),
        ("co2_kg_per_MWh", "kg/MWh", 1e-3),
        ("carbon_intensity_avg", "gCO2eq/kWh", 1e-3),
        ("moer", "t/MWh", 1.0),
        ("carbon_intensity_g/kWh", None, 1e-3),
        ("Carbon [kg CO2 eq / kWh]", None, 1.0),
    ],
)
def test_units_of_carbon_intensity(tmp_path, column, unit, factor):
    value = 400 if factor < 0.1 else 0.4
    path = write(
        tmp_path, f"datetime,{column},Low Carbon Percentage", [f"{stamp},{value},1" for stamp in HOURS]
    )
    np.testing.assert_allclose(read_carbon(path, unit=unit).kg_per_kwh, value * factor)


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        ("time,carbon_intensity,b", {}, "does not name a unit of carbon intensity"),
        ("time,carbon_g_per_kwh,b", {"unit": "kg/kWh"}, "names another unit than unit='kg/kWh'"),
        ("time,carbon,b", {"unit": "grams"}, "unit='grams': must be a mass per energy"),
        ("time,carbon mg/kWh,b", {}, "does not name a unit of carbon intensity"),
        ("time,carbon (µg/kWh),b", {}, "does not name a unit of carbon intensity"),
        ("time,carbon,b", {"unit": "mg/kWh"}, "unit='mg/kWh': must be a mass per energy"),
        ("time,co2_g_per_kwh,co2_kg_per_kwh", {}, r"2 columns of carbon .*\): say column=\.\.\.$"),
        ("time,a,b", {}, "no column of carbon intensity"),
    ],
)
def test_carbon_columns_that_are_not_understood_are_refused_by_name(tmp_path, header, options, message):
    with pytest.raises(ValueError, match=message):
        read_carbon(write(tmp_path, header, [f"{stamp},1,2" for stamp in HOURS]), **options)


def test_traces_are_checked_when_built():
    good = np.ones(3)
    for solar, wind, message in (
        (good, np.ones(2), "PowerTrace.wind_kw: has 2 steps"),
        (np.empty(0), np.empty(0), "PowerTrace.solar_kw: has 0 steps"),
        (np.array([1.0, np.nan, 1.0]), good, r"PowerTrace.solar_kw\[1\]=nan: must be from 0 to 1e\+09 kW"),
        (good, np.array([1.0, 1.0, -1.0]), r"PowerTrace.wind_kw\[2\]=-1.0"),
        (np.ones(3, dtype=np.int64), good, "PowerTrace.solar_kw: must be a one-dimensional float64"),
    ):
        with pytest.raises(ValueError, match=message):
            PowerTrace(solar, wind)
    for step in (0.0, np.nan, "1", None, True):
        with pytest.raises(ValueError, match=rf"CarbonTrace.step_hours='?{step}'?: must be finite"):
            CarbonTrace(good, step)
    for start in ("2021-01-01", None, np.datetime64("2021-01-01"), date(2021, 1, 1)):
        for build in (lambda at: PowerTrace(good, good, 1.0, at), lambda at: PriceTrace(good, 1.0, at)):
            with pytest.raises(ValueError, match=r"(Power|Price)Trace.start=.*: must be a datetime$"):
                build(start)
    with pytest.raises(ValueError, match=r"PowerTrace.solar_kw: must be a one-dimensional float64 array"):
        PowerTrace(None, good)


def test_resampling_conserves_energy():
    rng = np.random.default_rng(0)
    trace = PowerTrace(rng.random(24), rng.random(24))
    np.testing.assert_allclose(trace.resample(0.25).solar_kw, np.repeat(trace.solar_kw, 4))
    np.testing.assert_allclose(trace.resample(3.0).wind_kw, trace.wind_kw.reshape(8, 3).mean(axis=1))
    odd = trace.resample(1.5)
    assert (len(odd), odd.step_hours, odd.start) == (16, 1.5, trace.start)
    assert odd.total_kw.sum() * 1.5 == pytest.approx(trace.total_kw.sum())
    assert len(trace.resample(5.0)) == 4  # an incomplete last step is left out
    with pytest.raises(ValueError, match=r"step_hours=25.0: must be at most the trace's length, 24 h"):
        trace.resample(25.0)
    assert CarbonTrace(trace.solar_kw).resample(2.0).kg_per_kwh[0] == pytest.approx(trace.solar_kw[:2].mean())


def test_a_written_trace_reads_back(tmp_path):
    trace = PowerTrace(np.array([0.0, 1.5]), np.array([2.25, 3.0]), 0.5, datetime(2020, 2, 28, 23, 30))
    path = tmp_path / "out.csv"
    path.write_bytes(format_power(trace))
    back = read_power(path)
    assert back.start == trace.start
    assert back.step_hours == 0.5
    np.testing.assert_array_equal(back.total_kw, trace.total_kw)


def test_the_real_power_series(shared_file):
    path = shared_file("derived/gleamm_like_2012_hourly.csv.gz")
    with pytest.raises(TraceError, match=r"2 columns of wind .'wind_kw_v27_32m', 'wind_kw_300kw_80m'"):
        read_power(path)
    with pytest.raises(TraceError, match="line 1418: a gap of 24 missing"):  # 29 February
        read_power(path, wind="wind_kw_300kw_80m")
    trace = read_power(path, wind="wind_kw_300kw_80m", gaps="join")
    assert len(trace) == 8760
    assert trace.counts["missing_steps"] == 24
    assert trace.wind_kw.max() == pytest.approx(855.0)


def test_the_real_carbon_series(shared_file):
    for year, mean in ((2021, 0.357207), (2022, 0.338172)):
        path = shared_file(f"carbon/US-TEX-ERCO_{year}_hourly.csv.gz")
        with pytest.raises(TraceError, match="2 columns of carbon intensity"):
            read_carbon(path)
        trace = read_carbon(path, column="Carbon Intensity gCO₂eq/kWh (direct)")
        assert len(trace) == 8760
        assert trace.kg_per_kwh.mean() == pytest.approx(mean, abs=1e-6)
    path = shared_file("carbon/US-CAL-CISO_raw_mix_2020-2022.csv.gz")
    with pytest.raises(TraceError, match="line 11090: carbon_intensity_avg is missing"):
        read_carbon(path, unit="g/kWh")
    trace = read_carbon(path, unit="g/kWh", gaps="interpolate")
    assert (len(trace), trace.counts["missing_values"]) == (26304, 7)


def many(count, gone=(), empty=()):
    """Return a carbon series of hours, of which some rows are gone and some empty."""
    times = pd.date_range("2021-03-01", periods=count, freq="h")
    cells = ["" if k in empty else f"{k / 1000}" for k in range(count)]
    rows = [f"{times[k]:%Y-%m-%d %H:%M},{cells[k]}" for k in range(count) if k not in gone]
    return "time,kg_per_kwh_co2\n" + "\n".join(rows) + "\n"


def test_a_series_is_bridged_for_a_day_in_a_row_and_a_tenth_of_its_steps(tmp_path):
    path = tmp_path / "carbon.csv"
    path.write_text(many(400, gone=range(100, 112), empty=[*range(112, 124), 300]))
    trace = read_carbon(path, gaps="bridge")
    assert trace.kg_per_kwh == pytest.approx(np.arange(400) / 1000)
    assert trace.counts == {"missing_steps": 12, "gaps": 1, "missing_values": 13}
    path.write_text(many(400, gone=range(100, 112), empty=range(112, 125)))
    with pytest.raises(TraceError, match=r"line 102: kg_per_kwh_co2: no values for 25 h; more than a day"):
        read_carbon(path, gaps="bridge")
    for gone in ({"gone": range(1, 399, 9)}, {"empty": range(1, 399, 9)}):
        path.write_text(many(400, **gone))
        with pytest.raises(TraceError, match=r"line 3: .*no values for 45 steps; more than a tenth"):
            read_carbon(path, gaps="bridge")
    path.write_text(many(400, gone=range(1, 399, 9)).replace("kg_per_kwh_co2", "solar_kw"))
    with pytest.raises(TraceError, match=r"line 3: a gap of 1 .* more than a tenth"):
        read_power(path, gaps="mend")
