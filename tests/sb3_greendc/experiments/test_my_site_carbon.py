"""Carbon series on the steps of a power trace: whose hours they are, and what the report says of it."""

import dataclasses
from datetime import datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from my_site_cases import by_subject, prepared

from greendc.traces.power import CarbonTrace, PowerTrace, read_carbon
from sb3_greendc.experiments import my_site

DAY = 24
NEITHER = (
    "neither file has offsets from UTC; both were taken to have the same clock: say --carbon-clock if they "
    "have not"
)


def power(start, hours):
    return PowerTrace(np.full(hours, 50.0), np.full(hours, 300.0), start=start)


def carbon(start, hours):
    """Count hours, in 4096ths: so that they are emissions that a grid can have, and exact."""
    return CarbonTrace(np.arange(hours) / 4096.0, start=start)


def lay(*given):
    """Return what was laid onto the power in 4096ths, and how many steps by the calendar."""
    laid = my_site.lay_on(*given)
    return 4096.0 * laid.kg_per_kwh, laid.by_calendar


def test_a_series_of_the_same_time_is_taken_as_it_is():
    laid, by_calendar = lay(carbon(datetime(2021, 1, 1), 10 * DAY), power(datetime(2021, 1, 3), DAY))
    assert by_calendar == 0
    assert laid.tolist() == list(range(2 * DAY, 3 * DAY))


def test_the_clock_is_moved():
    laid, _ = lay(carbon(datetime(2021, 1, 1), 10 * DAY), power(datetime(2021, 1, 3), DAY), -6.0)
    assert laid[0] == 2 * DAY + 6


@pytest.mark.parametrize("hours", ["1e9", "inf", "-inf", "nan", "48.5", "-1e400", "1_0", "a day", ""])
def test_hours_between_clocks_are_a_number_of_at_most_two_days(inputs, tmp_path, capsys, hours):
    with pytest.raises(SystemExit) as stopped:
        prepared(inputs, tmp_path / "kept", f"--carbon-clock={hours}")
    said = capsys.readouterr().err.splitlines()[-1]
    assert stopped.value.code == 2
    assert said.endswith(f"argument --carbon-clock: {hours!r}: must be a number of hours from -48 to 48")


def test_clocks_that_tell_their_offsets_are_brought_to_one():
    """Midnight two hours east of Greenwich is 22:00 in UTC, the day before."""
    east, utc = timezone(timedelta(hours=2)), timezone.utc
    before = carbon(datetime(2021, 5, 31, tzinfo=utc), 40 * DAY)
    june = power(datetime(2021, 6, 1, tzinfo=east), DAY)
    laid, by_calendar = lay(before, june)
    assert by_calendar == 0 and laid[0] == 22
    assert lay(before, june, 1.0)[0][0] == 23  # the offsets may be wrong
    year = carbon(datetime(2021, 1, 1, tzinfo=utc), 365 * DAY)
    laid, by_calendar = lay(year, power(datetime(2012, 3, 2, tzinfo=east), DAY))
    assert by_calendar == DAY and laid[0] == (31 + 28 + 1) * DAY - 2
    naive = power(datetime(2021, 6, 1), DAY)  # whose clock it is, is not known: that of the series
    assert lay(carbon(datetime(2021, 5, 31, tzinfo=utc), 9 * DAY), naive)[0][0] == DAY


def test_a_file_that_alone_has_offsets_is_said_and_the_clock_asked_for():
    utc = timezone.utc
    aware, naive = datetime(2021, 5, 31, tzinfo=utc), datetime(2021, 5, 31)
    found = {
        (a, b): my_site.lay_on(carbon(a, 9 * DAY), power(b, DAY))
        for a in (aware, naive)
        for b in (aware, naive)
    }
    assert "the carbon file alone has offsets from UTC" in found[aware, naive].clock
    assert "say --carbon-clock" in found[aware, naive].clock
    assert "the power file alone has offsets from UTC" in found[naive, aware].clock
    assert found[aware, aware].clock == "both files have the same clock"
    assert found[naive, naive].clock == NEITHER and found[naive, naive].unclear
    assert not found[aware, aware].unclear
    told = my_site.lay_on(carbon(aware, 9 * DAY), power(naive, DAY), 0.0)
    assert told.clock == "+0 h were added to it"


def test_steps_of_less_than_an_hour_keep_their_minutes():
    quarters = CarbonTrace(np.arange(96 * 40) / 4096.0, 0.25, datetime(2021, 5, 31, 0, 45))
    trace = PowerTrace(np.ones(96), np.ones(96), 0.25, datetime(2021, 6, 1))
    laid, by_calendar = lay(quarters, trace)
    assert by_calendar == 0 and laid[0] == 96 - 3
    middle = dataclasses.replace(quarters, start=datetime(2021, 5, 31, 0, 52, 30))
    assert lay(middle, trace)[0][0] == 96 - 3


def test_a_step_has_the_mean_of_the_series_over_its_own_time():
    halves = CarbonTrace(np.arange(48 * 4) / 4096.0, 0.5, datetime(2021, 5, 31, 23, 30))
    laid, by_calendar = lay(halves, power(datetime(2021, 6, 1), DAY))
    assert by_calendar == 0 and laid == pytest.approx(2 * np.arange(DAY) + 1.5)
    utc, india = timezone.utc, timezone(timedelta(hours=5, minutes=30))
    hours = carbon(datetime(2021, 5, 31, tzinfo=utc), 9 * DAY)
    laid, by_calendar = lay(hours, power(datetime(2021, 6, 1, tzinfo=india), DAY))
    assert by_calendar == 0 and laid == pytest.approx(np.arange(DAY) + 18.5)  # 18:30 in UTC
    middles = carbon(datetime(2021, 5, 31, 0, 30, tzinfo=utc), 9 * DAY)  # stamps of hours in the middle
    assert lay(middles, power(datetime(2021, 6, 1, tzinfo=india), DAY))[0] == pytest.approx(laid)


def test_steps_after_days_that_are_missing_have_the_carbon_of_their_own_time():
    gone = dataclasses.replace(
        power(datetime(2021, 1, 3), 3 * DAY), closed_up=((DAY, 2 * DAY), (2 * DAY, 4 * DAY))
    )
    laid, by_calendar = lay(carbon(datetime(2021, 1, 1), 20 * DAY), gone)
    days = [2, 5, 10]
    assert by_calendar == 0
    assert laid.tolist() == [day * DAY + hour for day in days for hour in range(DAY)]
    laid, by_calendar = lay(carbon(datetime(2020, 1, 1), 20 * DAY), gone)  # by the calendar, too
    assert by_calendar == 3 * DAY
    assert laid.tolist() == [day * DAY + hour for day in days for hour in range(DAY)]


def test_several_years_are_averaged_only_where_the_series_does_not_cover_the_power():
    utc, texas = timezone.utc, timezone(timedelta(hours=-6))
    kg = np.repeat([0.6, 0.2], [365 * DAY, 366 * DAY])
    series = CarbonTrace(kg, start=datetime(2023, 1, 1, tzinfo=utc))
    laid = my_site.lay_on(series, power(datetime(2024, 1, 1, tzinfo=texas), 366 * DAY))
    assert laid.by_calendar == 6
    assert (laid.kg_per_kwh[:-6] == 0.2).all()
    assert laid.kg_per_kwh[-6:] == pytest.approx(0.4)
    assert laid.said == (
        "at the times of the power, but for 6 of 8,784 steps that it does not cover: for these it was laid "
        "onto the power's calendar"
    )


def test_another_year_is_laid_onto_the_calendar():
    year = carbon(datetime(2021, 1, 1), 365 * DAY)
    laid, by_calendar = lay(year, power(datetime(2012, 2, 28, 0, 30), 3 * DAY))
    assert by_calendar == 3 * DAY
    first = (31 + 27) * DAY
    assert laid[:DAY].tolist() == list(range(first, first + DAY))
    assert (laid[DAY : 2 * DAY] == first + DAY - 1).all()  # 29 February: the hour before
    assert laid[2 * DAY] == first + DAY


def test_a_part_of_another_year_is_refused():
    january = carbon(datetime(2021, 1, 1), 31 * DAY)
    with pytest.raises(ValueError, match=r"--carbon: covers 78% of the .* nothing for 02 February"):
        my_site.lay_on(january, power(datetime(2012, 1, 4, 0, 0), 36 * DAY))


def test_the_carbon_of_days_after_missing_ones_is_of_these_days(inputs, tmp_path):
    path = tmp_path / "power.csv"
    table = pd.read_csv(path)
    kg = 1e-4 * np.arange(len(table))
    pd.DataFrame({"time": table["time"], "carbon kg/kWh": kg}).to_csv(tmp_path / "carbon.csv", index=False)
    table.drop(index=range(5 * DAY, 7 * DAY)).to_csv(path, index=False)
    site = prepared(inputs, tmp_path / "kept")
    kept = read_carbon(site.scenario.env_kwargs["carbon"])
    assert kept.kg_per_kwh == pytest.approx(np.delete(kg, range(5 * DAY, 7 * DAY)))
    assert "at the times of the power;" in site.facts["carbon"]
    assert by_subject(site)["clock of the carbon file"].said == NEITHER


def test_a_column_of_times_may_say_that_they_are_in_utc(inputs, tmp_path):
    def said(power_time, carbon_time, *more):
        for name, column in (("power", power_time), ("carbon", carbon_time)):
            table = pd.read_csv(tmp_path / f"{name}.csv")
            table.columns = [column, *table.columns[1:]]
            table.to_csv(tmp_path / f"{name}.csv", index=False)
        return by_subject(prepared(inputs, tmp_path / "kept", *more))["clock of the carbon file"].said

    utc, same = "is in UTC, by the name of its column of times", "file was taken to have the same clock: say"
    assert f"the carbon file alone {utc}; the power {same} --carbon-clock" in said("time", "Datetime (UTC)")
    assert f"the power file alone {utc}; the carbon {same} --carbon-clock" in said("DateUTC", "time")
    assert "both files" not in said("time (UTC)", "date_gmt")  # nothing is unclear
    assert "--carbon-clock" not in said("time (UTC)", "date_gmt")
    for other in ("time (UTC+1)", "time, UTC offset 0", "time utcx", "datetime_gmt-06:00"):
        assert NEITHER in said("time", other)
    path = tmp_path / "power.csv"
    table = pd.read_csv(path)
    table["time"] = [f"{time}-06:00" for time in table["time"]]
    table.to_csv(path, index=False)
    assert "begins" in said("time", "time (UTC)") and "--carbon-clock" not in said("time", "time (UTC)")


def test_times_in_utc_by_their_column_are_brought_to_the_clock_of_the_others():
    naive, texas = datetime(2021, 5, 31), timezone(timedelta(hours=-6))
    trace = power(datetime(2021, 6, 1, tzinfo=texas), DAY)
    laid = my_site.lay_on(carbon(naive, 9 * DAY), trace, None, ["carbon"])
    assert 4096.0 * laid.kg_per_kwh[0] == DAY + 6 and not laid.unclear
    assert laid.clock == (
        "the carbon file is in UTC, by the name of its column of times, the power file has offsets from UTC; "
        "they were brought to one clock"
    )


def test_full_hours_of_utc_are_full_hours_in_zones_of_half_hours():
    utc, india = timezone.utc, timezone(timedelta(hours=5, minutes=30))
    at = {zone: datetime(2021, 6, 1, tzinfo=utc).astimezone(zone) for zone in (utc, india)}
    for a in at.values():
        for b in at.values():
            laid, by_calendar = lay(carbon(a, 2 * DAY), power(b, DAY))
            assert by_calendar == 0 and laid.tolist() == list(range(DAY))
    halves = PowerTrace(np.ones(48), np.ones(48), 0.5, at[india])
    assert lay(carbon(at[utc], 2 * DAY), halves)[0][:4] == pytest.approx([0.0, 0.0, 1.0, 1.0])
    six = at[india] + timedelta(minutes=30)  # half past in UTC
    assert lay(carbon(at[utc], 2 * DAY), power(six, DAY))[0] == pytest.approx(np.arange(DAY) + 0.5)
