"""From weather files to kW: formats, clocks, physics, and the real files."""

import gzip
import sys
from datetime import datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from greendc.traces import TraceError, read_power
from greendc.traces.site_power import Generators, _clock, site_power
from greendc.traces.turbine import at_height, turbine_kw
from greendc.traces.weather import read_weather

HOURS = 48
NSRDB_HEADER = (
    "Source,Location ID,City,State,Country,Latitude,Longitude,Time Zone,Elevation,Local Time Zone",
    "NSRDB,1,-,-,-,33.6,-101.9,-6,1000,-6",
    "Year,Month,Day,Hour,Minute,GHI,DHI,DNI,Wind Speed,Temperature",
)
SRW_HEADER = (
    "1,city,TX,country,2021,33.6,-101.9,Not Available,1,{rows}",
    "WIND Toolkit data",
    "Temperature,Pressure,Speed,Direction,Temperature,Pressure,Speed,Direction",
    "C,atm,m/s,Degrees,C,atm,m/s,Degrees",
    "80,80,80,80,100,100,100,100",
)
EPW_HEADER = ("LOCATION,Somewhere,TX,USA,TMY3,722700,33.6,-101.9,-6.0,1000.0", *["HEADER"] * 7)


def hours(first=datetime(2021, 6, 20), count=HOURS):
    return [first + timedelta(hours=hour) for hour in range(count)]


def sun(hour):
    """Return GHI, DNI and DHI of a day with an hour of twilight."""
    return (800, 900, 80) if 7 <= hour < 19 else (0, 0, 0)


def nsrdb(stamps=None, **cells):
    lines = list(NSRDB_HEADER)
    for row, at in enumerate(stamps or hours()):
        ghi, dni, dhi = sun(at.hour)
        values = [at.year, at.month, at.day, at.hour, 30, ghi, dhi, dni, 2.5, 20.0]
        lines.append(",".join(str(cells.get(f"r{row}c{column}", v)) for column, v in enumerate(values)))
    return lines


def toolkit(speeds, **cells):
    rows = [[15, 0.9, speed, 180, 14, 0.89, 1.1 * speed, 180] for speed in speeds]
    lines = [
        ",".join(str(cells.get(f"r{r}c{c}", value)) for c, value in enumerate(row))
        for r, row in enumerate(rows)
    ]
    return [SRW_HEADER[0].format(rows=len(lines)), *SRW_HEADER[1:], *lines]


def epw(stamps=None, **cells):
    lines = list(EPW_HEADER)
    for row, at in enumerate(stamps or hours()):
        ghi, dni, dhi = sun(at.hour)
        values = ["0"] * 35
        known = {0: at.year, 1: at.month, 2: at.day, 3: at.hour + 1, 4: 0, 6: 20.0, 9: 90_000}
        known |= {13: ghi, 14: dni, 15: dhi, 21: 7.0}
        for column, value in known.items():
            values[column] = str(cells.get(f"r{row}c{column}", value))
        lines.append(",".join(values))
    return lines


def write(tmp_path, name, lines):
    path = tmp_path / name
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


@pytest.mark.parametrize(
    ("speed", "kw"),
    [(0, 0), (2.9, 0), (3, 0), (12.7, 300), (20, 300), (24.9, 300), (25, 0), (40, 0)],
)
def test_the_power_curve(speed, kw):
    assert turbine_kw(np.array([float(speed)]))[0] == pytest.approx(kw, abs=1e-9)


def test_the_power_curve_rises_within_the_limit_of_betz():
    speed = np.linspace(3.0, 12.7, 100)
    power = turbine_kw(speed)
    assert (np.diff(power) > 0).all()
    in_the_wind = 0.5 * 1.225 * np.pi * 13.5**2 * speed**3 / 1000
    coefficient = (power / in_the_wind)[speed >= 6]
    assert coefficient.min() > 0.36
    assert coefficient.max() < 0.43
    # Thin air carries less, as a slower wind would.
    np.testing.assert_allclose(turbine_kw(speed, 1.225 * 0.9), turbine_kw(speed * 0.9 ** (1 / 3)))
    assert at_height(np.array([7.0]), 10.0, 80.0)[0] == pytest.approx(7.0 * 8 ** (1 / 7))


def test_nsrdb_and_wind_toolkit(tmp_path):
    pytest.importorskip("pvlib")
    speeds = np.linspace(2.0, 16.0, HOURS)
    files = [write(tmp_path, "wind.srw.gz", toolkit(speeds)), write(tmp_path, "sun.csv", nsrdb())]
    weather = read_weather(files, hub_height=50.0)
    assert weather.wind_height == 80.0
    assert str(weather.middle[0]) == "2021-06-20 00:30:00-06:00"
    trace = site_power(weather)
    assert trace.start == datetime(2021, 6, 20, tzinfo=timezone(timedelta(hours=-6)))
    assert (len(trace), trace.step_hours, trace.counts["restamped"]) == (HOURS, 1.0, 0)
    density = 0.9 * 101_325 / (287.05 * 288.15)
    expected = 3 * 0.92 * turbine_kw(speeds * (50 / 80) ** (1 / 7), density)
    np.testing.assert_allclose(trace.wind_kw, expected)
    # The order of the files does not matter; the nearest height is taken.
    assert read_weather(files[::-1], hub_height=95.0).wind_height == 100.0
    day = trace.solar_kw.reshape(2, 24)
    assert day[:, :6].max() == 0
    assert day[:, 20:].max() == 0
    assert 80 < day.max() < 125
    assert (site_power(weather, Generators(pv_kw=75, turbines=0)).total_kw <= day.ravel()).all()
    assert site_power(weather, Generators(inverter_kw=40)).solar_kw.max() == pytest.approx(40, rel=1e-6)


def test_epw(tmp_path):
    pytest.importorskip("pvlib")
    weather = read_weather([write(tmp_path, "place.epw", epw())], hub_height=50.0)
    # Hour 1 ends at one o'clock.
    assert str(weather.middle[0]) == "2021-06-20 00:30:00-06:00"
    assert (weather.latitude, weather.longitude, weather.altitude) == (33.6, -101.9, 1000)
    trace = site_power(weather)
    density = 90_000 / (287.05 * 293.15)
    hub = 7.0 * 5 ** (1 / 7)
    np.testing.assert_allclose(trace.wind_kw, 3 * 0.92 * turbine_kw(np.full(HOURS, hub), density))
    both = read_weather(
        [write(tmp_path, "sun.csv", nsrdb()), write(tmp_path, "wind.srw", toolkit(np.ones(HOURS)))], 50.0
    )
    # Wind at 10 m is stronger than NSRDB's 2.5 m/s, so that panels are cooler: a little more power.
    assert site_power(both).solar_kw.sum() == pytest.approx(trace.solar_kw.sum(), rel=0.05)
    assert site_power(both).solar_kw.sum() < trace.solar_kw.sum()


def test_a_year_without_29_february_is_stamped_as_2021(tmp_path):
    pytest.importorskip("pvlib")
    year = [at for at in hours(datetime(2012, 1, 1), 8784) if (at.month, at.day) != (2, 29)]
    trace = site_power(read_weather([write(tmp_path, "place.epw.gz", epw(year))], 50.0))
    assert trace.start.replace(tzinfo=None) == datetime(2021, 1, 1)
    assert (len(trace), trace.counts["restamped"]) == (8760, 8760)


def test_a_leap_year_that_begins_in_the_last_minutes_of_the_year_before_is_stamped_with_its_own():
    """Values at the full hour are means of the hour around it."""
    middle = pd.date_range("2020-01-01", periods=8784, freq="h", tz="Etc/GMT+6")
    middle = middle[(middle.month != 2) | (middle.day != 29)]
    _, start, counts = _clock(middle)
    assert start.replace(tzinfo=None) == datetime(2020, 12, 31, 23, 30)
    assert counts == {"restamped": 8760}


def test_other_jumps_of_the_clock_are_refused(tmp_path):
    pytest.importorskip("pvlib")
    stamps = hours()
    weather = read_weather([write(tmp_path, "place.epw", epw([*stamps[:10], *stamps[12:]]))], 50.0)
    with pytest.raises(TraceError, match="jumps from 2021-06-20 09:30:00-06:00 to 2021-06-20 12:30:00-06:00"):
        site_power(weather)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (epw(r3c13=9999), "a.txt, line 12: ghi is missing"),
        (epw(r3c21=999), "a.txt, line 12: wind_speed is missing"),
        (epw(r3c6="warm"), "a.txt, line 12: 6='warm': must be a finite number"),
        (epw(r0c1=13), "a.txt, line 9: the time must be a date and an hour"),
        ([*epw(), "1,2"], f"a.txt, line {8 + HOURS + 1}: 2 fields instead of 35"),
        (["LOCATION,here", *epw()[1:]], "a.txt, line 1: 2 fields instead of 10"),
        (epw()[:8], "a.txt: has no rows after its header"),
        (["some", "text"], "a.txt: neither EPW, nor NSRDB"),
        (nsrdb(), "weather files of kind NSRDB: needed are one EPW file, or one NSRDB file and"),
        (toolkit(np.ones(2)), "weather files of kind WIND Toolkit: needed are"),
    ],
)
def test_bad_weather_files(tmp_path, lines, message):
    with pytest.raises(TraceError, match=message):
        read_weather([write(tmp_path, "a.txt", lines)], 50.0)


@pytest.mark.parametrize(
    ("sun_lines", "wind_lines", "message"),
    [
        (nsrdb(r2c7=""), toolkit(np.ones(HOURS)), "sun.csv, line 6: DNI is missing"),
        (nsrdb(r2c1=0), toolkit(np.ones(HOURS)), "sun.csv, line 6: the time must be a date"),
        (
            nsrdb(),
            toolkit(np.ones(HOURS), r1c2="gust"),
            "wind.srw, line 7: Speed in m/s at 80 m='gust': must be a finite",
        ),
        (nsrdb(), toolkit(np.ones(HOURS - 1)), "wind.srw: has 47 rows, but .*sun.csv has 48"),
        (
            [*NSRDB_HEADER[:2], NSRDB_HEADER[2].replace("DNI", "XXX"), *nsrdb()[3:]],
            toolkit(np.ones(HOURS)),
            "sun.csv: no column 'DNI'",
        ),
        (nsrdb(), nsrdb(), "wind.srw: the second NSRDB file"),
        (nsrdb(), toolkit(np.ones(HOURS))[:-1], "wind.srw: has 47 rows, but line 1 promises 48"),
        # A cell that is lost from the line of values would move the longitude under the latitude.
        (
            [NSRDB_HEADER[0], NSRDB_HEADER[1].replace("33.6,", ""), *nsrdb()[2:]],
            toolkit(np.ones(HOURS)),
            "sun.csv, line 2: 9 fields instead of 10",
        ),
        (nsrdb(r2c5=-500), toolkit(np.ones(HOURS)), "sun.csv, line 6: GHI=-500: must be from 0 to 2000 W/m²"),
        (nsrdb(r2c2=20), toolkit(np.ones(HOURS), r3c2=-20), "wind.srw, line 9: Speed=-20: must be from 0 to"),
        (
            nsrdb(),
            toolkit(np.ones(HOURS), r3c1=900),
            "line 9: Pressure=900 is 9.11925e\\+07 Pa: must be from",
        ),
        (nsrdb(r2c3=1), toolkit(np.ones(HOURS)), "sun.csv, line 6: the time does not come after"),
        *(
            (
                nsrdb(),
                [line.replace(old, new) for line in toolkit(np.ones(HOURS))],
                f"wind.srw, line 1: year {said}; but .*sun.csv: year 2021, latitude 33.6, longitude -101.9, "
                "step in hours 1; needed are the same place and time",
            )
            for old, new, said in (
                ("2021,", "1999,", "1999, latitude 33.6, longitude -101.9, step in hours 1"),
                ("33.6,", "60.0,", "2021, latitude 60, longitude -101.9, step in hours 1"),
                ("-101.9,", "-101.7,", "2021, latitude 33.6, longitude -101.7, step in hours 1"),
                (",1,48", ",0.0833,48", "2021, latitude 33.6, longitude -101.9, step in hours 0.0833"),
            )
        ),
        (
            nsrdb(),
            [*SRW_HEADER[:4], "80,80,80,80,80,100,100,100", *toolkit(np.ones(HOURS))[5:]],
            "wind.srw, lines 3 to 5: two columns of Temperature in C at 80 m",
        ),
        (
            nsrdb(),
            [*SRW_HEADER[:4], "80,80,80,80,100,100,100", *toolkit(np.ones(HOURS))[5:]],
            "wind.srw, line 5: 7 fields instead of 8",
        ),
    ],
)
def test_bad_pairs_of_weather_files(tmp_path, sun_lines, wind_lines, message):
    files = [write(tmp_path, "sun.csv", sun_lines), write(tmp_path, "wind.srw", wind_lines)]
    with pytest.raises(TraceError, match=message):
        read_weather(files, 50.0)


def test_what_wind_toolkit_does_not_say_is_not_compared(tmp_path):
    about = f"1,city,TX,country,unknown,,-101.95,Not Available,,{HOURS}"
    files = [write(tmp_path, "sun.csv", nsrdb())]
    files.append(write(tmp_path, "wind.srw", [about, *toolkit(np.ones(HOURS))[1:]]))
    assert len(read_weather(files, 50.0).wind_speed) == HOURS


@pytest.mark.parametrize(
    ("field", "value"),
    [("pv_kw", -1), ("inverter_kw", 0), ("tilt", 91), ("azimuth", -1), ("turbines", -1), ("hub_height", 0)],
)
def test_generators_are_checked(field, value):
    with pytest.raises(ValueError, match=f"{field}={value}: must be"):
        Generators(**{field: value})


def test_without_pvlib_the_line_to_install_it(tmp_path, monkeypatch):
    weather = read_weather([write(tmp_path, "place.epw", epw())], 50.0)
    monkeypatch.setitem(sys.modules, "pvlib", None)
    with pytest.raises(ImportError, match=r"pip install 'sb3-greendc\[power\]'"):
        site_power(weather)


def test_the_real_weather_gives_about_the_reference_series(shared_file):
    pytest.importorskip("pvlib")
    stem = "weather/35.2018863_-101.945027_"
    files = [
        shared_file(f"{stem}psmv3_60_2012.csv.gz"),
        shared_file(f"{stem}windtoolkit_2012_60min_80m_100m.srw.gz"),
    ]
    path = shared_file("derived/gleamm_like_2012_hourly.csv.gz")
    small, large = (
        read_power(path, wind=wind, gaps="join") for wind in ("wind_kw_v27_32m", "wind_kw_300kw_80m")
    )
    trace = site_power(read_weather(files, 50.0))
    # The same method for the sun. The wind series are of other turbines: one lower, one higher.
    np.testing.assert_allclose(trace.solar_kw, small.solar_kw, atol=0.3)
    assert np.corrcoef(trace.wind_kw, small.wind_kw)[0, 1] > 0.98
    assert np.corrcoef(trace.wind_kw, large.wind_kw)[0, 1] > 0.95
    assert small.wind_kw.mean() < trace.wind_kw.mean() < large.wind_kw.mean()
    for kw in (80.0, 240.0):
        shares = [(series.total_kw >= kw).mean() for series in (small, trace, large)]
        assert shares == sorted(shares)
    assert np.corrcoef(trace.solar_kw, trace.wind_kw)[0, 1] == pytest.approx(-0.3, abs=0.04)


def test_the_real_typical_year(shared_file):
    pytest.importorskip("pvlib")
    path = shared_file("weather/USA_TX_El.Paso.Intl.AP.722700_TMY3.epw.gz")
    trace = site_power(read_weather([path], 50.0))
    assert len(trace) == 8760
    assert trace.solar_kw.mean() == pytest.approx(31, abs=1)
    assert trace.wind_kw.mean() == pytest.approx(84, abs=2)
