"""Recorded and simulated waits: those that a rule of the simulator made are found again under that rule."""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np
import pandas as pd
import pytest

from greendc.cluster import ClusterJobs
from greendc.traces.defects import Inspection
from greendc.traces.job_logs import InspectedLog
from greendc.traces.lublin import LublinModel, generate_log
from greendc.traces.swf import SWF_FIELDS, format_swf
from sb3_greendc.cli import reproduce
from sb3_greendc.experiments import my_site
from sb3_greendc.experiments.my_site.validation import (
    CHANCE,
    RULES,
    WARM_UP,
    factor_apart,
    simulated_waits,
)

JOBS = 600
WAIT, RUN, REQUEST, STATUS = (
    SWF_FIELDS.index(name) for name in ("wait_time", "run_time", "requested_time", "status")
)


@pytest.fixture(scope="module")
def log():
    """Return jobs of a model that ask for up to three times of what they run, on a small machine."""
    found = generate_log(3, JOBS, LublinModel(nodes=64))
    table = found.table.copy()
    run = found.column("run_time")
    table[:, REQUEST] = np.ceil(run * np.random.default_rng(0).uniform(1.0, 3.0, JOBS))
    return dataclasses.replace(found, table=table)


def with_waits(log, rule):
    table = log.table.copy()
    table[:, WAIT] = simulated_waits(ClusterJobs.from_log(log), *rule)
    return InspectedLog(dataclasses.replace(log, table=table), Inspection(log.source, (), b""), "SWF")


@pytest.mark.parametrize("rule", RULES, ids="+".join)
def test_waits_that_a_rule_made_are_found_again_under_that_rule(log, rule):
    found = my_site.validate(with_waits(log, rule))
    nearest = found.by_rule.iloc[0]
    order, backfill = rule
    name = order.upper() if order in ("fcfs", "sjf", "saf", "wfp3") else order
    assert nearest["rule"] == {"none": name, "easy": f"{name} + EASY"}.get(backfill, f"{name} + {backfill}")
    assert nearest["factor"] == 1.0
    assert nearest["rank_correlation"] == pytest.approx(1.0)
    other = "None of the other rules tried comes nearer" in " ".join(found.notes)
    assert other == (rule == ("fcfs", "easy"))


def test_the_sites_own_rule_is_the_one_that_is_judged(log):
    own = with_waits(log, ("f1", "conservative"))
    found = my_site.validate(own, site_rule=("f1", "conservative"))
    assert found.rule == "f1 + conservative" == found.by_rule["rule"].iloc[0]
    assert found.by_width["recorded_mean"].tolist() == found.by_width["simulated_mean"].tolist()
    assert found.notes[0].startswith("f1 + conservative gives waits of")
    assert "None of the other rules tried comes nearer" in found.notes[1]
    assert not any("f1" in name for name in my_site.validate(own).by_rule["rule"])


def test_a_random_order_stands_beside_the_rules(log):
    table = my_site.validate(with_waits(log, ("smallest", "easy"))).by_rule.set_index("rule")
    chance = table.loc[CHANCE[0] + " + EASY"]
    assert chance["factor"] > 1.1
    assert 0.0 < chance["rank_correlation"] < 0.95
    waits = simulated_waits(ClusterJobs.from_log(log), *CHANCE)
    rules = [simulated_waits(ClusterJobs.from_log(log), *rule) for rule in RULES]
    assert "apart, for comparison" in " ".join(my_site.validate(with_waits(log, ("smallest", "easy"))).notes)
    blind = my_site.validate(with_waits(log, CHANCE))
    assert blind.by_rule["rule"].iloc[0] == CHANCE[0] + " + EASY"
    assert "nothing is known of the site's order" in " ".join(blind.notes)
    assert "random order + EASY comes nearest" not in " ".join(blind.notes)
    assert len(waits) == JOBS and not any((waits == other).all() for other in rules)


def test_the_table_has_the_waits_of_each_width(log):
    own = with_waits(log, ("fcfs", "easy"))
    found = my_site.validate(own).by_width
    kept = slice(int(WARM_UP * JOBS), None)
    hours, width = own.log.table[kept, WAIT] / 3600.0, own.log.processors[kept]
    assert found["jobs"].iloc[:-1].sum() == found["jobs"].iloc[-1] == len(hours)
    row = found.set_index("processors").loc["5 to 16"]
    of_class = hours[(width >= 5) & (width <= 16)]
    assert row["recorded_mean"] == row["simulated_mean"] == pytest.approx(of_class.mean())
    assert row["recorded_p95"] == pytest.approx(np.quantile(of_class, 0.95))


def test_jobs_without_a_wait_and_parts_of_jobs_are_left_out_and_said(log):
    own = with_waits(log, ("fcfs", "easy"))
    own.log.table[10, WAIT] = np.nan
    own.log.table[20, STATUS] = 3.0
    own.log.table[30, REQUEST] = 1.0
    said = " ".join(my_site.validate(own).notes)
    assert f"{JOBS - 2} of {JOBS} jobs were played on 64 processors" in said
    assert "1 jobs have no recorded wait" in said
    assert "1 jobs did not run, are parts of others or larger than the machine, and were left out" in said
    assert "1 jobs ran longer than they asked for" in said


def test_the_size_of_the_machine_and_what_the_file_has_beside_are_said(log):
    own = with_waits(log, ("fcfs", "easy"))
    header = {key: value for key, value in own.log.header.items() if not key.startswith("Max")}
    counts = {"still_running": 12, "requeued": 0, "steps": 90}
    export = InspectedLog(dataclasses.replace(own.log, header=header, counts=counts), own.inspection, "sacct")
    notes = my_site.validate(export).notes
    size = f"{export.log.machine_processors} processors"
    assert any(size in note and "sacct does not export" in note and "--processors" in note for note in notes)
    assert "of the file, not among these jobs or changed: 12 still running." in notes
    told = my_site.validate(own, told_size=True).notes
    assert "size of the machine: 64 processors: as you said (--processors)." in told
    assert not any("of the file" in note for note in told)


def test_the_machine_is_that_of_the_whole_log_also_where_its_widest_job_is_not_played(log):
    own = with_waits(log, ("fcfs", "easy"))
    widest = int(own.log.processors.argmax())
    own.log.table[widest, SWF_FIELDS.index("allocated_processors")] = 256.0
    header = {key: value for key, value in own.log.header.items() if not key.startswith("Max")}
    bare = dataclasses.replace(own, log=dataclasses.replace(own.log, header=header))
    assert f"{JOBS} of {JOBS} jobs were played on 256 processors" in " ".join(my_site.validate(bare).notes)
    own.log.table[widest, WAIT] = np.nan
    for most in (30_000, JOBS - 50):
        said = " ".join(my_site.validate(bare, most=most).notes)
        assert "size of the machine: 256 processors: the largest job" in said
        assert "jobs were played on 256 processors" in said


def test_too_few_waits_are_refused(log):
    own = with_waits(log, ("fcfs", "easy"))
    own.log.table[99:, WAIT] = np.nan
    says = rf"99 of {len(own.log):,} jobs can be played and have a recorded wait; --validate needs 100$"
    with pytest.raises(ValueError, match=says):
        my_site.validate(own)
    own.log.table[:7, RUN] = -5.0
    with pytest.raises(ValueError, match=r"92 of .*100 \(left out: 7 without a run time above 0\)$"):
        my_site.validate(own)


def test_the_distance_is_a_factor():
    waits = np.array([0.0, 60.0, 540.0])
    assert factor_apart(waits, waits[::-1]) == 1.0
    assert factor_apart(waits, 2.0 * waits + 60.0) == pytest.approx(2.0)
    assert factor_apart(2.0 * waits + 60.0, waits) == pytest.approx(2.0)


def test_the_command_needs_neither_power_nor_carbon(log, tmp_path, capsys):
    (tmp_path / "log.swf").write_bytes(format_swf(with_waits(log, ("sjf", "easy")).log))
    arguments = ["my-site", "--validate", f"--jobs={tmp_path / 'log.swf'}", f"--out={tmp_path}"]
    assert reproduce.main(arguments) == 0
    assert "SJF + EASY comes nearest to the log" in " ".join(capsys.readouterr().out.split())
    folder = tmp_path / "my-site"
    assert len(pd.read_csv(folder / "waits_by_rule.csv")) == len(RULES) + 1
    text = (folder / "validation.md").read_text()
    assert "Waits in hours, with FCFS + EASY, by" in text
    assert "priorities, fair share" in text
    assert (folder / "validation.png").is_file()
    assert "data:image/svg+xml" in (folder / "validation.html").read_text()


def test_the_command_takes_the_sites_rule(log, tmp_path, capsys):
    (tmp_path / "log.swf").write_bytes(format_swf(with_waits(log, ("sjf", "none")).log))
    arguments = ["my-site", f"--jobs={tmp_path / 'log.swf'}", f"--out={tmp_path}", "--backfill=none"]
    assert reproduce.main([*arguments, "--validate", "--order=sjf"]) == 0
    assert "waits in hours, SJF" in capsys.readouterr().out
    assert "Waits in hours, with SJF, by" in (tmp_path / "my-site" / "validation.md").read_text()
    files = ["--power=power.csv", "--carbon=carbon.csv"]
    with pytest.raises(SystemExit):
        reproduce.main([*arguments, *files])
    assert "--backfill none: only --validate plays the site's own rule" in capsys.readouterr().err


def test_options_that_validate_does_not_read_are_refused(tmp_path, capsys):
    arguments = ["my-site", "--validate", f"--jobs={tmp_path / 'none.swf'}", f"--out={tmp_path}", "--wide"]
    for more, said in (
        (["--units=7"], "--units: has no effect with --validate, which plays the job log alone"),
        (
            [
                "--power=x",
                "--carbon=y",
                "--deadlines=d",
                "--units=7",
                "--set=a=1",
                "--seeds=3",
                "--carbon-clock=9",
            ],
            "--power, --carbon, --carbon-clock, --deadlines, --units, --set, --seeds: have no effect with "
            "--validate, which plays the job log alone",
        ),
        (["--quick", "--workers=1"], "--quick, --workers: have no effect with --validate, which"),
    ):
        with pytest.raises(SystemExit) as stopped:
            reproduce.main([*arguments, *more])
        [line] = capsys.readouterr().err.splitlines()
        assert stopped.value.code == 2 and line.startswith(f"my-site: error: {said}")
    for more in ([], ["--order=sjf", "--backfill=none", "--processors=9", "--repair"]):
        with pytest.raises(SystemExit):
            reproduce.main([*arguments, *more])
        assert "none.swf" in capsys.readouterr().err  # the log was looked for


def test_a_misspelled_option_is_told_by_the_command_itself(capsys):
    for given, hint in (
        (["--bakfill", "none"], "--bakfill none; did you mean '--backfill'?"),
        (["--carbon_clock=3"], "--carbon_clock=3; did you mean '--carbon-clock'?"),
        (["some words", "--xyzxyz"], "'some words' --xyzxyz"),
    ):
        with pytest.raises(SystemExit) as stopped:
            reproduce.main(["my-site", "--validate", "--jobs=log.swf", *given])
        *usage, error = capsys.readouterr().err.splitlines()
        assert stopped.value.code == 2
        assert "my-site" in error and error.endswith(f": error: unrecognized arguments: {hint}")
        assert "--battery-kwh" in " ".join(usage) and "--google" not in " ".join(usage)


def test_without_validate_power_and_carbon_are_needed(tmp_path):
    parser = argparse.ArgumentParser()
    my_site.add_options(parser)
    with pytest.raises(ValueError, match="--power: missing"):
        my_site.prepare_site(parser.parse_args(["--jobs=x.swf"]), tmp_path)


def test_nobody_is_killed_who_ran_on_in_the_log(log):
    found = []
    for request in (log.column("run_time"), np.ones(JOBS)):
        own = with_waits(log, ("sjf", "easy"))
        own.log.table[:, REQUEST] = request
        found.append(my_site.validate(own).by_width)
    pd.testing.assert_frame_equal(*found)
