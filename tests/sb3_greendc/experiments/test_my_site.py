from __future__ import annotations

import argparse
import dataclasses
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from greendc.resource_pool.workloads import make_workload
from greendc.traces.defects import DefectsError
from greendc.traces.power import CarbonTrace, PowerTrace, read_power
from greendc.traces.swf import read_swf
from sb3_greendc.cli import evaluate as evaluate_cli
from sb3_greendc.cli import reproduce
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.experiments import my_site
from sb3_greendc.experiments.comparison import compare
from sb3_greendc.experiments.episodes import TEST_SEED, Variant
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.learners import DISCRETE_SAC
from sb3_greendc.experiments.my_site import Site, frontier, judging

DAY = 24
QUICK = Budget(quick=True)


def power(start, hours):
    return PowerTrace(np.full(hours, 50.0), np.full(hours, 300.0), start=start)


def carbon(start, hours):
    """Count hours, in 4096ths: so that they are emissions that a grid can have, and exact."""
    return CarbonTrace(np.arange(hours) / 4096.0, start=start)


def test_a_series_of_the_same_time_is_taken_as_it_is():
    laid, same = my_site.lay_on(carbon(datetime(2021, 1, 1), 10 * DAY), power(datetime(2021, 1, 3), DAY))
    assert same
    assert (4096.0 * laid).tolist() == list(range(2 * DAY, 3 * DAY))


def test_the_clock_is_moved():
    laid, _ = my_site.lay_on(carbon(datetime(2021, 1, 1), 10 * DAY), power(datetime(2021, 1, 3), DAY), -6.0)
    assert 4096.0 * laid[0] == 2 * DAY + 6


def test_clocks_that_tell_their_offsets_are_brought_to_one():
    """Midnight two hours east of Greenwich is 22:00 in UTC, the day before."""
    east, utc = timezone(timedelta(hours=2)), timezone.utc
    laid, same = my_site.lay_on(
        carbon(datetime(2021, 5, 31, tzinfo=utc), 40 * DAY), power(datetime(2021, 6, 1, tzinfo=east), DAY)
    )
    assert same and 4096.0 * laid[0] == 22
    told = my_site.lay_on(  # the offsets may be wrong
        carbon(datetime(2021, 5, 31, tzinfo=utc), 40 * DAY),
        power(datetime(2021, 6, 1, tzinfo=east), DAY),
        1.0,
    )
    assert 4096.0 * told[0][0] == 23
    year = carbon(datetime(2021, 1, 1, tzinfo=utc), 365 * DAY)
    laid, same = my_site.lay_on(year, power(datetime(2012, 3, 2, tzinfo=east), DAY))
    assert not same and 4096.0 * laid[0] == (31 + 28 + 1) * DAY - 2
    naive = power(datetime(2021, 6, 1), DAY)  # whose clock it is, is not known: that of the series
    assert 4096.0 * my_site.lay_on(carbon(datetime(2021, 5, 31, tzinfo=utc), 9 * DAY), naive)[0][0] == DAY


def test_steps_of_less_than_an_hour_keep_their_minutes():
    quarters = CarbonTrace(np.arange(96 * 40) / 4096.0, 0.25, datetime(2021, 5, 31, 0, 45))
    trace = PowerTrace(np.ones(96), np.ones(96), 0.25, datetime(2021, 6, 1))
    laid, same = my_site.lay_on(quarters, trace)
    assert same and 4096.0 * laid[0] == 96 - 3
    middle = dataclasses.replace(quarters, start=datetime(2021, 5, 31, 0, 52, 30))
    assert 4096.0 * my_site.lay_on(middle, trace)[0][0] == 96 - 3


def test_another_year_is_laid_onto_the_calendar():
    year = carbon(datetime(2021, 1, 1), 365 * DAY)
    laid, same = my_site.lay_on(year, power(datetime(2012, 2, 28, 0, 30), 3 * DAY))
    assert not same
    first = (31 + 27) * DAY
    assert (4096.0 * laid[:DAY]).tolist() == list(range(first, first + DAY))
    assert (4096.0 * laid[DAY : 2 * DAY] == first + DAY - 1).all()  # 29 February: the hour before
    assert 4096.0 * laid[2 * DAY] == first + DAY


def test_a_part_of_another_year_is_refused():
    january = carbon(datetime(2021, 1, 1), 31 * DAY)
    with pytest.raises(ValueError, match=r"--carbon: covers 78% of the .* nothing for 02 February"):
        my_site.lay_on(january, power(datetime(2012, 1, 4, 0, 0), 36 * DAY))


@pytest.fixture
def inputs(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["; MaxProcs: 16", "; UnixStartTime: 1600000000"]
    for job in range(1, 401):
        run_time, size = int(rng.integers(600, 20_000)), int(rng.integers(1, 8))
        fields = [job, job * 3600, 0, run_time, size, -1, -1, size, run_time, -1, 1, *[1] * 7]
        lines.append(" ".join(map(str, fields)))
    (tmp_path / "log.swf").write_text("\n".join(lines) + "\n")
    times = pd.date_range("2020-03-01", periods=60 * DAY, freq="h")
    sun_and_wind = {"time": times, "solar_kw": 40.0, "wind_kw": 20.0 * (np.arange(len(times)) % 24)}
    pd.DataFrame(sun_and_wind).to_csv(tmp_path / "power.csv", index=False)
    dirt = {"time": times + pd.Timedelta(days=365), "carbon gCO2/kWh": 300.0}
    pd.DataFrame(dirt).to_csv(tmp_path / "carbon.csv", index=False)
    return [
        f"--{name}={tmp_path / file}"
        for name, file in (
            ("jobs", "log.swf"),
            ("power", "power.csv"),
            ("carbon", "carbon.csv"),
        )
    ]


PRICED = Variant("carbon_threshold", {"kg_price": 0.1})


def test_from_three_files_to_a_report_and_a_folder_to_carry(inputs, tmp_path, monkeypatch, capsys):
    tiny = dataclasses.replace(DISCRETE_SAC, quick_decisions=400)
    monkeypatch.setattr(judging, "pool_learners", lambda budget: [tiny])
    monkeypatch.setattr(Budget, "episodes", 3)
    monkeypatch.setattr(Budget, "test_steps", 72)
    monkeypatch.setattr(Budget, "labels", lambda budget, long_queues: 600)
    monkeypatch.setattr(frontier, "QUICK_RULES", (Variant("grid_on"), Variant("grid_off"), PRICED))
    monkeypatch.setattr(frontier, "QUICK_PRICES", (0.1,))
    out = tmp_path / "out"
    arguments = ["my-site", *inputs, "--quick", "--engine=serial", f"--out={out}", "--battery-kwh=0"]
    arguments += ["--set", "units=8", "--grid=open"]
    assert reproduce.main(arguments) == 0
    report = (out / "my-site" / "report.md").read_text()
    for part in (
        "log.swf (SWF): 400 jobs",
        "laid onto the power's calendar",
        "mean 0.300 kg/kWh",
        "deadline_never",
        "chooses among the 32 jobs that must start soonest",
    ):
        assert part in report
    assert report.index("## What was assumed") < report.index("## Verdict") < report.index("## Policies")
    verdicts = [line for line in report.splitlines() if " against the best non-learning baseline " in line]
    assert len(verdicts) == 2  # one for each learner
    site = out / "my-site"
    assert (site / "figure.png").is_file()
    assert (site / "tradeoff.png").is_file()
    page = (site / "report.html").read_text()
    for option in ("--units", "--total-kw", "--battery-kwh", "--grid", "--deadlines", "--too-large"):
        assert option in page
    policies = pd.read_csv(site / "policies.csv")
    first = ["policy", "total_job_value_ratio", "carbon_kg", "carbon_per_value", "brown_kwh"]
    assert list(policies.columns[:5]) == first
    assert {"carbon_kg_percent", "brown_kwh_theirs"} <= set(pd.read_csv(site / "comparison.csv").columns)
    assert (policies["carbon_kg"] > 0).all()
    assert all("CO2 for each unit of value" in verdict for verdict in verdicts)
    assert report.index("## Policies") < report.index("## Machines and battery commanded")
    assert "Machines and battery commanded, at 60 % of the carbon of every unit on" in report
    assert (site / "frontier.png").is_file()
    commanded = pd.read_csv(site / "frontier.csv").set_index("limit_share")
    assert list(commanded.index) == [0.45, 0.6, 0.75]
    assert commanded["limit_kg"].is_monotonic_increasing
    _check_the_folder_can_be_carried(site / "model", policies, tmp_path, capsys)


def test_carbon_is_a_decision_where_the_grid_serves_everything(inputs, tmp_path):
    closed = prepared(inputs, tmp_path / "closed").scenario
    assert not frontier.commands(closed)
    assert all("part" not in item.labels for item in judging.site_experiment(Site(closed, {})).items(QUICK))
    more = ("--grid=open", "--units=10", "--total-kw=480", "--critical-kw=160")
    site = prepared(inputs, tmp_path / "open", *more).scenario
    assert frontier.commanded(site).env_kwargs["power_levels"] == (0, 2, 4, 6, 8, 10)
    assert frontier.unit_kg(site) == pytest.approx(32.0 / 2 * 0.3)  # of two types
    found = [item.task for item in frontier.items(site, QUICK)]
    prices = {v.options["kg_price"] for task in found for v in task.variants if v.name == "power_plan"}
    scale = frontier.PRESET_UNIT_KG / (32.0 / 2 * 0.3)
    assert sorted(prices) == pytest.approx([0.1 * scale, 0.25 * scale], rel=5e-3)
    assert any(variant.name == "random_actions" for task in found for variant in task.variants)
    make_vec_env(site.env_id, 1, **found[0].scenario.env_kwargs).close()


def test_rules_are_chosen_by_other_episodes_than_they_are_judged_on():
    def of(policy, baseline, pairs):
        head = {"policy": policy, "baseline": baseline, "settled_carbon_kg": 0.0}
        return [
            {**head, "episode": k, "carbon_kg": kg, "total_job_value_ratio": value}
            for k, (kg, value) in enumerate(pairs)
        ]

    rows = of("grid_on", "grid_on", [(100, 0.8)] * 4) + of("grid_off", "grid_off", [(20, 0.4)] * 4)
    rows += of("lucky", "grid_qos", [(60, 0.5), (60, 0.9)] * 2)  # good in the episodes that judge alone
    rows += of("power_plan/0.1", "power_plan", [(60, 0.7)] * 4)
    rows += of("random_actions", "random_actions", [(50, 0.1)] * 4)
    table = frontier.at_limits(pd.DataFrame(rows)).set_index("limit_share")
    assert table.loc[0.6, ["limit_kg", "every unit on", "rules", "plan", "chance"]].tolist() == pytest.approx(
        [60.0, 0.8, 0.6, 0.7, 0.1]
    )
    assert table.loc[0.6, "plan_over_rules_percent"] == pytest.approx(100 / 6)
    assert np.isnan(table.loc[0.45, "plan"])
    said = frontier.verdicts(table.reset_index())
    assert "at 60 % of the carbon of every unit on (60 kg an episode): rules earn 75 %" in said[1]
    assert "rules earn 75 % and the plan earns 88 % of its value" in said[1]


def _check_the_folder_can_be_carried(model, policies, tmp_path, capsys):
    elsewhere = tmp_path / "elsewhere" / "policy"
    shutil.move(model, elsewhere)
    for file in ("log.swf", "power.csv", "carbon.csv"):
        (tmp_path / file).unlink()
    shutil.rmtree(tmp_path / "out")
    results = tmp_path / "again.csv"
    arguments = ["--policies", "hvf:dispatch=skip,scope=ready", f"best={elsewhere}", "--episodes=3"]
    assert evaluate_cli.main([*arguments, f"--seed={TEST_SEED}", f"--out={results}", "--no-progress"]) == 0
    capsys.readouterr()
    again = pd.read_csv(results).groupby("policy", sort=False)["total_job_value_ratio"].mean()
    before = policies.set_index("policy")["total_job_value_ratio"]
    learners = before[["distilled policy", "DiscreteSAC"]]
    assert again.iloc[0] == pytest.approx(before["hvf/skip/ready"], rel=1e-5)
    assert again["best"] == pytest.approx(learners.max(), rel=1e-5)


@pytest.mark.parametrize(
    ("file", "header", "message"),
    [
        ("power", "time,heat", "solar or wind power among 'time', 'heat': say --solar or --wind"),
        ("power", "time,solar", "(W, kW, MW or GW): say --power-unit"),
        ("power", "hour,solar_kw", "begins with time or date): say --power-time"),
        ("carbon", "time,dirt", "no column of carbon intensity among 'time', 'dirt': say --carbon-column"),
        ("carbon", "time,carbon", "(such as kg/kWh): say --carbon-unit"),
        ("carbon", "hour,carbon_g_per_kwh", "begins with time or date): say --carbon-time"),
    ],
)
def test_unclear_files_are_one_line_that_names_the_option(inputs, tmp_path, capsys, file, header, message):
    (tmp_path / f"{file}.csv").write_text(f"{header}\n2020-01-01 00:00,1\n2020-01-01 01:00,1\n")
    with pytest.raises(SystemExit) as stopped:
        reproduce.main(["my-site", *inputs, f"--out={tmp_path / 'out'}"])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_options_tell_what_files_do_not(inputs, tmp_path):
    for file, header in (("power", "hour,sun"), ("carbon", "hour,dirt")):
        rows = pd.read_csv(tmp_path / f"{file}.csv").to_numpy()[:, [0, 1]]
        pd.DataFrame(rows, columns=header.split(",")).to_csv(tmp_path / f"{file}.csv", index=False)
    parser = argparse.ArgumentParser()
    my_site.add_options(parser)
    told = ["--solar=sun", "--power-time=hour", "--power-unit=MW"]
    told += ["--carbon-column=dirt", "--carbon-time=hour", "--carbon-unit=kg/MWh"]
    facts = my_site.prepare_site(parser.parse_args([*inputs, *told]), tmp_path / "kept").facts
    assert "mean 40000 kW of sun and 0 kW of wind" in facts["power"]
    assert "mean 0.300 kg/kWh" in facts["carbon"]


def test_gaps_of_the_power_are_closed_by_days_and_filled_by_hours_and_both_are_said(inputs, tmp_path):
    path = tmp_path / "power.csv"
    table = pd.read_csv(path)
    table.drop(index=[*range(5 * DAY, 6 * DAY), 200, 201]).to_csv(path, index=False)
    told = prepared(inputs, tmp_path / "kept")
    assert "26 missing steps, 2 gaps, 2 interpolated steps" in told.facts["power"]
    kept = read_power(told.scenario.env_kwargs["trace"])
    expected = np.delete(table["wind_kw"].to_numpy(), range(5 * DAY, 6 * DAY))
    assert expected[200 - DAY] == 20.0 * (200 % DAY)
    np.testing.assert_allclose(kept.wind_kw, expected)


def prepared(inputs, folder, *more):
    parser = argparse.ArgumentParser()
    my_site.add_options(parser)
    return my_site.prepare_site(parser.parse_args([*inputs, *more]), folder)


def by_subject(site):
    return {one.about: one for one in site.assumptions}


def test_what_is_assumed_is_said_and_what_is_told_is_no_assumption(inputs, tmp_path):
    rows = by_subject(prepared(inputs, tmp_path / "kept"))
    assert "10 units stand for the log's 16 processors, 1.6 each" in rows["size of the pool"].said
    assert "MaxProcs in the log's header" in rows["size of the machine"].said
    assert "240 kW" in rows["power of the site"].said
    assert "1000 kWh" in rows["battery"].said
    assert "drawn at random" in rows["deadlines and values"].said
    assert not any(one.told for one in rows.values())
    assert all(one.option.startswith("--") for one in rows.values())
    told = ["--units=8", "--processors=32", "--total-kw=100", "--critical-kw=20", "--battery-kwh=0"]
    site = prepared(inputs, tmp_path / "kept", *told, "--resource-types=1", "--set", "horizon=4")
    rows = by_subject(site)
    assert {about for about, one in rows.items() if one.told} == {
        *("size of the machine", "size of the pool", "power of the site", "battery", "longest job"),
    }
    assert "other resources" not in rows
    assert "8 units stand for the log's 32 processors, 4 each" in rows["size of the pool"].said
    assert rows["battery"].said == "none"
    assert site.scenario.env_kwargs["site"]["total_kw"] == 100.0
    assert [one.told for one in site.assumptions] == sorted(one.told for one in site.assumptions)


def test_shares_that_rounding_adds_are_exact(tmp_path, inputs):
    # Two jobs: 3 of 16 processors for half an hour, 8 of 16 for 90 minutes, on 4 units in steps of an hour.
    fields = "{0} {1} 0 {2} {3} -1 -1 {3} {2} -1 1 1 1 1 1 1 1 1"
    lines = ["; MaxProcs: 16", fields.format(1, 0, 1800, 3), fields.format(2, 60, 5400, 8)]
    (tmp_path / "log.swf").write_text("\n".join(lines) + "\n")
    rows = by_subject(prepared(inputs, tmp_path / "kept", "--units=4", "--set", "horizon=1"))
    # 3 become 4: (4 * .5 + 8 * 1.5) / (3 * .5 + 8 * 1.5) = 14 / 13.5
    assert "which adds 4 % to the processor-hours" in rows["size of the pool"].said
    # half an hour becomes one, 90 minutes two: (3 + 16) / 13.5
    assert "which adds 41 % to the processor-hours" in rows["time"].said
    # the second job is cut from two steps to one: 8 of 19 processor-hours
    assert "1 of 2 jobs are longer and were cut to that, which takes away 42.1 %" in rows["longest job"].said


def test_the_offered_load_is_the_work_that_arrives_also_where_wide_jobs_run_long(tmp_path, inputs):
    # In a day, one unit for an hour and four for ten: 41 unit-hours of the 4 * 24 that four units can do.
    # The mean run time times the mean size would say 2 * 5.5 * 2.5 = 27.5.
    fields = "{0} {1} 0 {2} {3} -1 -1 {3} {2} -1 1 1 1 1 1 1 1 1"
    lines = ["; MaxProcs: 16", fields.format(1, 0, 3600, 4), fields.format(2, 60, 36_000, 16)]
    (tmp_path / "log.swf").write_text("\n".join(lines) + "\n")
    site = prepared(inputs, tmp_path / "kept", "--units=4")
    assert "offered load 0.43 of a full pool" in site.facts["jobs"]
    assert "work for 43 % of the full pool" in by_subject(site)["arrivals"].said
    stretched = prepared(inputs, tmp_path / "kept", "--units=4", "--set", "offered_load=1.0")
    assert "offered load 1.00 of a full pool" in stretched.facts["jobs"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--units=4", "--set", "units=5"], "units is in --set, too"),
        (["--total-kw=9", "--set", "site={total_kw: 8}"], "there is an option for it, too"),
        (["--job-columns=x.csv"], "needs --deadlines, --priorities or --values"),
        (["--deadlines=due"], "no field 'due' of the Standard Workload Format"),
        (["--priorities=queu"], "did you mean 'queue'"),
    ],
)
def test_options_that_contradict_or_name_nothing(inputs, tmp_path, more, message):
    with pytest.raises(ValueError, match=message):
        prepared(inputs, tmp_path / "kept", *more)


def kept_qos(site):
    return read_swf(site.scenario.env_kwargs["workload"]).qos


def test_deadlines_priorities_and_values_come_from_columns(inputs, tmp_path):
    log = read_swf(tmp_path / "log.swf")
    run, submit = log.column("run_time"), log.column("submit_time")
    due = submit + 2.0 * run
    due[0], due[1] = np.nan, submit[1] + 1.0  # one without, one that cannot be met
    worth = run * log.processors * (1.0 + np.arange(len(run)) % 3)
    frame = pd.DataFrame({"job": log.column("job"), "due": due, "worth": worth, "rank": np.arange(len(run))})
    frame.sample(frac=1.0, random_state=0).to_csv(tmp_path / "mine.csv", index=False)
    mine = f"--job-columns={tmp_path / 'mine.csv'}"
    site = prepared(inputs, tmp_path / "kept", mine, "--deadlines=due")
    qos = kept_qos(site)
    assert qos[2:] == pytest.approx(0.5)
    assert qos[1] == 1.0
    assert 0.1 <= qos[0] <= 0.9
    said = by_subject(site)["deadlines and values"]
    assert said.told
    assert "1 deadlines too early to be met" in said.said
    assert "1 drawn at random, for want of a value" in said.said
    values = kept_qos(prepared(inputs, tmp_path / "kept", mine, "--values=worth"))
    assert values == pytest.approx(0.9 * (1.0 + np.arange(len(run)) % 3) / 3.0)
    ranks = kept_qos(prepared(inputs, tmp_path / "kept", mine, "--priorities=rank"))
    assert ranks == pytest.approx(np.linspace(0.1, 0.9, len(run)))
    of_log = kept_qos(prepared(inputs, tmp_path / "kept", "--priorities=run_time"))
    assert (np.argsort(of_log, kind="stable") == np.argsort(run, kind="stable")).all()


def test_the_environment_plays_the_jobs_own_urgency(inputs, tmp_path):
    site = prepared(inputs, tmp_path / "kept", "--priorities=run_time")
    workload = make_workload(site.scenario.env_kwargs["workload"], units=10, resource_types=1, horizon=48)
    jobs = workload.sample(np.random.default_rng(0), 100)
    longest, shortest = jobs.qos[jobs.duration == jobs.duration.max()], jobs.qos[jobs.duration == 1]
    assert longest.min() > shortest.max()
    assert workload.mean_value([1.0]) == pytest.approx(
        (workload.duration * workload.cpu * workload.qos).mean()
    )


def spoil(tmp_path):
    for file in ("power.csv", "carbon.csv"):
        lines = (tmp_path / file).read_text().splitlines()
        lines[5] = lines[5].replace(lines[5].split(",")[0], "")
        lines[9] = ",".join([*lines[9].split(",")[:-1], "offline"])
        lines.append("generated by logger")
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    log = (tmp_path / "log.swf").read_text().splitlines()
    log[7] = "*** end of week 1 ***"
    (tmp_path / "log.swf").write_text("\n".join(log) + "\n")


def test_all_defects_of_all_files_are_shown_at_once_and_repair_mends_and_counts_them(
    inputs, tmp_path, capsys
):
    sound = prepared(inputs, tmp_path / "sound")
    spoil(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        reproduce.main(["my-site", *inputs, f"--out={tmp_path / 'out'}"])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    for place in ("log.swf:8:", "power.csv:6:", "power.csv:10:", "carbon.csv:6:", "carbon.csv:10:"):
        assert place in said
    assert "7 defect(s) in the input; --repair mends 7 of them" in said
    mended = prepared(inputs, tmp_path / "mended", "--repair")
    assert len(mended.mended) == 7
    assert "1 lines left out" in by_subject(mended)["jobs left out or changed"].said
    for name in ("trace", "carbon"):
        paths = [Path(site.scenario.env_kwargs[name]) for site in (sound, mended)]
        assert paths[0].name == paths[1].name  # their names are hashes: filled in as they were


def test_repair_does_not_hide_what_cannot_be_mended(inputs, tmp_path):
    spoil(tmp_path)
    (tmp_path / "carbon.csv").write_text("time,carbon g/kWh\n2020-01-01,9e9\n2020-01-02,1\n2020-01-03,1\n")
    with pytest.raises(DefectsError, match=r"must be from 0 to 5 kg/kWh") as raised:
        prepared(inputs, tmp_path / "kept", "--repair")
    assert "power.csv:6:" in str(raised.value)  # the others are shown with it


def test_an_export_of_sacct_takes_the_place_of_the_log(inputs, tmp_path):
    submit = pd.date_range("2024-03-01 10:00", periods=50, freq="40min")
    lines = ["JobID|Submit|Start|End|Elapsed|Timelimit|NCPUS|State|Priority"]
    for job, at in enumerate(submit):
        start, end = at + pd.Timedelta("5min"), at + pd.Timedelta("65min")
        times = "|".join(f"{time:%Y-%m-%dT%H:%M:%S}" for time in (at, start, end))
        lines.append(f"{job}|{times}|01:00:00|02:00:00|{1 + job % 4}|COMPLETED|{100 - job}")
    (tmp_path / "jobs.txt").write_text("\n".join(lines) + "\n")
    arguments = [f"--jobs={tmp_path / 'jobs.txt'}", *inputs[1:], "--priorities=Priority"]
    site = prepared(arguments, tmp_path / "kept")
    assert "jobs.txt (sacct): 50 jobs" in site.facts["jobs"]
    assert "sacct does not export the machine's size" in by_subject(site)["size of the machine"].said
    assert kept_qos(site) == pytest.approx(np.linspace(0.9, 0.1, 50))


def episodes(policy, value, carbon, baseline=None):
    columns = {"policy": policy, "baseline": baseline, "episode": range(len(value))}
    learned = {"train_seed": np.nan, "trained_decisions": np.nan} if baseline else {"train_seed": 0.0}
    learned = {"trained_decisions": 1.0, **learned}
    numbers = {"total_job_value": value, "carbon_kg": carbon, "brown_kwh": np.multiply(carbon, 2.0)}
    return pd.DataFrame({**columns, **learned, **numbers, "total_job_value_ratio": np.divide(value, 100.0)})


def test_the_verdict_names_what_a_margin_emits():
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.99, 1.01, 40)
    rows = pd.concat(
        [
            episodes("distilled policy", 52.0 * noise, 111.0 * noise),
            episodes("hvf/skip/ready", 50.0 * noise, 100.0 * noise, "hvf"),
        ],
        ignore_index=True,
    ).assign(series="my site", x=0.0)
    comparison = judging.with_emissions(compare(rows, ["distilled policy"]), rows)
    (said,) = judging.verdicts(comparison)
    assert "it earns more value but emits more CO2 (+6.7 % CO2 for each unit of value)" in said
    assert "Value +4.0 % [" in said
    assert "CO2 +11.0 % [" in said
    assert "energy from the grid +11.0 % [" in said
    table = judging.policies_table(rows)
    assert table["carbon_per_value"].tolist() == pytest.approx([111.0 / 52.0, 2.0])
    fewer = rows.assign(carbon_kg=rows["carbon_kg"].where(rows["baseline"].notna(), 90.0 * np.tile(noise, 2)))
    (said,) = judging.verdicts(judging.with_emissions(compare(fewer, ["distilled policy"]), fewer))
    assert "earns more value and emits less CO2" in said
