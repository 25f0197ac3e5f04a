from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from my_site_cases import by_subject, export, kept_qos, prepared

from greendc.traces.defects import DefectsError
from greendc.traces.power import read_carbon, read_power
from sb3_greendc.cli import evaluate as evaluate_cli
from sb3_greendc.cli import reproduce
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.experiments import my_site
from sb3_greendc.experiments.carbon.envelope import QUICK_BOUND_PRICES
from sb3_greendc.experiments.comparison import compare
from sb3_greendc.experiments.episodes import TEST_SEED, Variant
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.learners import DISCRETE_SAC
from sb3_greendc.experiments.my_site import Site, frontier, judging, report

DAY = 24
QUICK = Budget(quick=True)


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
    text = (out / "my-site" / "report.md").read_text()
    for part in (
        "log.swf (SWF): 400 jobs",
        "laid onto the power's calendar",
        "mean 0.300 kg/kWh",
        "deadline_never",
        "chooses among the 32 jobs that must start soonest",
    ):
        assert part in text
    assert text.index("## What was assumed") < text.index("## Verdict") < text.index("## Policies")
    verdicts = [line for line in text.splitlines() if " against the best non-learning baseline " in line]
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
    assert text.index("## Policies") < text.index("## Machines and battery commanded")
    assert "Machines and battery commanded, at 60 % of the carbon of every unit on" in text
    assert (site / "frontier.png").is_file()
    commanded = pd.read_csv(site / "frontier.csv").set_index("limit_share")
    assert list(commanded.index) == [0.45, 0.6, 0.75]
    assert commanded["limit_kg"].is_monotonic_increasing
    assert (commanded["bound"] >= commanded["rules"].fillna(0.0)).all()
    assert text.index("Machines and battery commanded, at 45 %") < text.index(verdicts[0])
    energies = pd.read_csv(site / "energies.csv").set_index("policy")
    assert energies.loc["grid_on", "brown_kwh"] > energies.loc["grid_off", "brown_kwh"] > 0
    assert "Where the energy came from" in page
    _check_the_folder_can_be_carried(site / "model", policies, tmp_path, capsys)


def test_carbon_is_a_decision_where_the_grid_serves_everything(inputs, tmp_path):
    closed = prepared(inputs, tmp_path / "closed").scenario
    assert not frontier.commands(closed)
    assert all("part" not in item.labels for item in judging.site_experiment(Site(closed, {})).items(QUICK))
    more = ("--grid=open", "--units=10", "--total-kw=480", "--critical-kw=160")
    site = prepared(inputs, tmp_path / "open", *more).scenario
    assert frontier.commanded(site).env_kwargs["power_levels"] == (0, 2, 4, 6, 8, 10)
    assert frontier.unit_kg(site) == pytest.approx(32.0 / 2 * 0.3)  # of two types
    *found, bounds = [item.task for item in frontier.items(site, QUICK)]
    prices = {v.options["kg_price"] for task in found for v in task.variants if v.name == "power_plan"}
    scale = frontier.PRESET_UNIT_KG / (32.0 / 2 * 0.3)
    assert sorted(prices) == pytest.approx([0.1 * scale, 0.25 * scale], rel=5e-3)
    assert bounds.prices == pytest.approx([price * scale for price in QUICK_BOUND_PRICES], rel=5e-3)
    assert any(variant.name == "random_actions" for task in found for variant in task.variants)
    make_vec_env(site.env_id, 1, **found[0].scenario.env_kwargs).close()


def test_carbon_is_no_decision_where_the_grid_emits_none(inputs, tmp_path):
    lines = (tmp_path / "carbon.csv").read_text().splitlines()
    clean = [f"{line.rpartition(',')[0]},0" for line in lines[1:]]
    (tmp_path / "carbon.csv").write_text("\n".join([lines[0], *clean]) + "\n")
    site = prepared(inputs, tmp_path / "kept", "--grid=open").scenario
    assert frontier.unit_kg(site) == 0
    assert all("part" not in item.labels for item in judging.site_experiment(Site(site, {})).items(QUICK))


def test_rules_are_chosen_by_other_episodes_than_they_are_judged_on():
    def of(policy, baseline, pairs):
        energies = dict.fromkeys(("settled_carbon_kg", "solar_kwh", "wind_kwh", "curtailed_kwh"), 0.0)
        head = {"policy": policy, "baseline": baseline, **energies}
        return [
            {
                **head,
                "episode": k,
                "carbon_kg": kg,
                "total_job_value_ratio": value,
                "total_job_value": 100 * value,
            }
            for k, (kg, value) in enumerate(pairs)
        ]

    rows = of("grid_on", "grid_on", [(100, 0.8)] * 4) + of("grid_off", "grid_off", [(20, 0.4)] * 4)
    rows += of("lucky", "grid_qos", [(60, 0.5), (60, 0.9)] * 2)  # good in the episodes that judge alone
    rows += of("power_plan/0.1", "power_plan", [(60, 0.7)] * 4)
    rows += of("random_actions", "random_actions", [(50, 0.1)] * 4)
    bounds = pd.DataFrame({"episode": range(4), "kg_price": 0.1, "bound": [0.0, 84.0, 0.0, 84.0]})
    table = frontier.at_limits(pd.DataFrame(rows), bounds).set_index("limit_share")
    shown = ["limit_kg", "every unit on", "rules", "plan", "bound", "chance"]
    # Of 100 of value no policy has more than 84 + .1 * 60 at 60 kg.
    assert table.loc[0.6, shown].tolist() == pytest.approx([60.0, 0.8, 0.6, 0.7, 0.9, 0.1])
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


def test_power_that_is_too_short_is_named_by_its_option(inputs, tmp_path, capsys):
    power = pd.read_csv(tmp_path / "power.csv")
    power[:240].to_csv(tmp_path / "power.csv", index=False)
    with pytest.raises(SystemExit):
        reproduce.main(["my-site", *inputs, f"--out={tmp_path / 'out'}"])
    assert "my-site: error: --power '240 steps': must be at least episode_steps" in capsys.readouterr().err


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
        (["--set", "carbon=0.3"], "--set carbon=0.3: --carbon gives it"),
        (["--set", "trace=other.csv"], "--set trace=other.csv: --power gives it"),
        (["--set", "site=5"], "--set site: 5: must be names and values"),
        (["--set", "site={battery: 5}"], "battery: ...}: 5: must be names and values"),
        (["--job-columns=x.csv"], "needs --deadlines, --priorities or --values"),
        (["--deadlines=due"], "no field 'due' of the Standard Workload Format"),
        (["--priorities=queu"], "did you mean 'queue'"),
    ],
)
def test_options_that_contradict_or_name_nothing(inputs, tmp_path, more, message):
    with pytest.raises(ValueError, match=message):
        prepared(inputs, tmp_path / "kept", *more)


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


def test_a_log_without_one_sound_line_is_listed_beside_the_other_files(inputs, tmp_path):
    """And what can be mended is said once, at the end."""
    times = "01/02/2024-00:00:00|01/02/2024-00:00:00|01/02/2024-01:00:00"
    (tmp_path / "jobs.txt").write_text(f"JobID|Submit|Start|End|NCPUS|State\n1|{times}|4|COMPLETED\n")
    with (tmp_path / "carbon.csv").open("a") as file:
        file.write("generated by logger\n")
    with pytest.raises(DefectsError) as raised:
        prepared([f"--jobs={tmp_path / 'jobs.txt'}", *inputs[1:]], tmp_path / "kept")
    assert [line.partition(":")[0][-8:] for line in raised.value.lines] == ["jobs.txt", "rbon.csv"]
    assert str(raised.value).count("defect(s)") == 1
    assert raised.value.advice.startswith("2 defect(s) in the input; --repair mends 1 of them")


def test_a_site_may_have_no_wind(inputs, tmp_path):
    table = pd.read_csv(tmp_path / "power.csv").rename(columns={"wind_kw": "wnd_kw"})
    table.to_csv(tmp_path / "power.csv", index=False)
    with pytest.raises(DefectsError, match=r"'wnd_kw' is nearly one.*say --wind"):
        prepared(inputs, tmp_path / "kept")
    site = prepared(inputs, tmp_path / "kept", "--wind", "")
    trace = read_power(site.scenario.env_kwargs["trace"])
    assert trace.solar_kw.max() == table["solar_kw"].max()
    assert not trace.wind_kw.any()


def test_numbers_that_may_be_thousands_or_decimals_are_one_error_that_names_file_and_column(inputs, tmp_path):
    table = pd.read_csv(tmp_path / "power.csv").assign(solar_kw="1,234", wind_kw=7)
    table.to_csv(tmp_path / "power.csv", index=False, sep=";")
    with pytest.raises(DefectsError, match=r"power.csv:2: solar_kw='1,234': 1.234 or 1234\?") as raised:
        prepared(inputs, tmp_path / "kept", "--repair")
    assert len(raised.value.lines) == 2  # and the semicolons


def test_generators_that_the_trace_exceeds_are_as_large_as_its_peak_and_said(inputs, tmp_path):
    small = prepared(inputs, tmp_path / "kept")
    assert "site" not in small.scenario.env_kwargs
    assert not {"photovoltaics", "wind power"} & set(by_subject(small))
    table = pd.read_csv(tmp_path / "power.csv")
    table.assign(solar_kw=1234.2, wind_kw=950.0).to_csv(tmp_path / "power.csv", index=False)
    site = prepared(inputs, tmp_path / "kept", "--units=8", "--set", "site={wind_kw: 2000.0}")
    assert site.scenario.env_kwargs["site"] == {"wind_kw": 2000.0, "pv_kw": 1235.0}
    row = by_subject(site)["photovoltaics"]
    assert row.said == "1,235 kW are installed: the peak of the trace"
    assert row.option == "--set 'site={pv_kw: ...}'" and not row.told
    assert "wind power" not in by_subject(site)
    make_vec_env(site.scenario.env_id, 1, **site.scenario.env_kwargs).close()
    told = prepared(inputs, tmp_path / "kept", "--set", "site={pv_kw: 200.0}").scenario.env_kwargs["site"]
    assert told == {"pv_kw": 200.0, "wind_kw": 950.0}  # which the environment refuses: another unit?


@pytest.mark.parametrize("indent", [None, 2])
def test_carbon_may_be_json_without_an_end_of_its_last_line(inputs, tmp_path, indent):
    table = pd.read_csv(tmp_path / "carbon.csv")
    rows = [{"time": time, "duration": 60, "value": 300.0} for time in table["time"]]
    (tmp_path / "carbon.json").write_text(json.dumps(rows, indent=indent))
    more = [f"--carbon={tmp_path / 'carbon.json'}", "--carbon-unit=g/kWh"]
    site = prepared([*inputs[:2], *more], tmp_path / "kept")
    assert "mean 0.300 kg/kWh" in site.facts["carbon"]


def test_the_command_for_the_policy_is_what_works_where_the_report_was_made(monkeypatch):
    for file, words in (
        ("/usr/bin/greendc", "greendc evaluate"),
        ("/x/sb3_greendc/__main__.py", "python -m sb3_greendc evaluate"),
        ("scripts/reproduce.py", "python scripts/evaluate.py"),
    ):
        monkeypatch.setattr("sys.argv", [file])
        first, _ = report.commands(Path("my-site/model"), "hvf/skip/ready", 64)
        assert first.startswith(f"{words} --policies hvf:dispatch=skip,scope=ready my-site/model ")


def test_what_was_mended_is_counted_among_the_inputs_and_long_gaps_are_refused(inputs, tmp_path):
    for file, column in (("power", "solar_kw"), ("carbon", "carbon gCO2/kWh")):
        table = pd.read_csv(tmp_path / f"{file}.csv")
        text = table[column].astype(object)
        text.iloc[100:112] = "offline"
        table.assign(**{column: text}).to_csv(tmp_path / f"{file}.csv", index=False)
    site = prepared(inputs, tmp_path / "kept", "--repair")
    assert site.facts["power"].endswith("; 12 values interpolated")
    assert site.facts["carbon"].endswith("; 12 values interpolated")
    table.drop(index=range(100, 160)).to_csv(tmp_path / "carbon.csv", index=False)
    with pytest.raises(DefectsError, match="no values for 60 h; more than a day in a row is not made up"):
        prepared(inputs, tmp_path / "kept", "--repair")


def test_repair_does_not_hide_what_cannot_be_mended(inputs, tmp_path):
    spoil(tmp_path)
    (tmp_path / "carbon.csv").write_text("time,carbon g/kWh\n2020-01-01,9e9\n2020-01-02,1\n2020-01-03,1\n")
    with pytest.raises(DefectsError, match=r"must be from 0 to 5 kg/kWh") as raised:
        prepared(inputs, tmp_path / "kept", "--repair")
    assert "power.csv:6:" in str(raised.value)  # the others are shown with it


def test_an_export_of_sacct_takes_the_place_of_the_log(inputs, tmp_path):
    (tmp_path / "jobs.txt").write_text(export(range(50)))
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


def test_a_size_that_the_header_does_not_tell_is_not_said_to_be_from_it(inputs, tmp_path):
    text = (tmp_path / "log.swf").read_text()
    for entry in ("MaxProcs: -1", "MaxProcs: unknown", "MaxProcs: 0", "MaxProcs: -1\n; MaxNodes: 16"):
        (tmp_path / "log.swf").write_text(text.replace("MaxProcs: 16", entry))
        said = by_subject(prepared(inputs, tmp_path / "kept"))["size of the machine"].said
        expected = "16 processors: MaxNodes in" if "MaxNodes" in entry else "7 processors: the largest job"
        assert said.startswith(expected)


def test_the_clocks_of_power_and_log_are_said_and_can_be_brought_to_one(inputs, tmp_path):
    power = pd.read_csv(tmp_path / "power.csv")
    text = (tmp_path / "log.swf").read_text()
    for zone, offset, said in (
        ("", "", "of the two one tells its offset from UTC: say --power-clock if they differ"),
        ("; TimeZone: 0\n", "", "of the two none tells its offset from UTC: say --power-clock if"),
        ("; TimeZone: 7200\n", "+02:00", "both have the same offset from UTC"),
        ("; TimeZone: 7200\n", "Z", "offset from UTC of 2 h, the power has 0 h: say --power-clock 2 if"),
        ("; TimeZone: -5400\n", "+01:00", "of -1.5 h, the power has 1 h: say --power-clock -2.5 if both"),
    ):
        (tmp_path / "log.swf").write_text(zone + text)
        power.assign(time=power["time"] + offset).to_csv(tmp_path / "power.csv", index=False)
        row = by_subject(prepared(inputs, tmp_path / "kept"))["clock of the power file"]
        assert row.said.startswith("midnight by it is midnight by the job log; ")
        assert said in row.said
        assert not row.told
    power.to_csv(tmp_path / "power.csv", index=False)
    (tmp_path / "log.swf").write_text(text.replace("; UnixStartTime: 1600000000\n", ""))
    row = by_subject(prepared(inputs, tmp_path / "kept"))["clock of the power file"]
    assert "the log's second 0 is taken for midnight, for its header has no UnixStartTime" in row.said
    site = prepared(inputs, tmp_path / "kept", "--power-clock=-6")
    row = by_subject(site)["clock of the power file"]
    assert row.said.startswith("-6 h were added to it")
    assert row.told
    moved = read_power(site.scenario.env_kwargs["trace"])
    assert moved.start == pd.Timestamp("2020-02-29 18:00")
    np.testing.assert_allclose(moved.wind_kw, power["wind_kw"])
    assert read_carbon(site.scenario.env_kwargs["carbon"]).start == moved.start
    with pytest.raises(ValueError, match=r"^--power-clock -6: has no effect with --set offered_load"):
        prepared(inputs, tmp_path / "kept", "--power-clock=-6", "--set", "offered_load=1.0")
    assert "clock of the power file" not in by_subject(
        prepared(inputs, tmp_path / "kept", "--set", "offered_load=1.0")
    )
