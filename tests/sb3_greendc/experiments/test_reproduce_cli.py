from __future__ import annotations

import dataclasses
import json
import re

import pandas as pd
import pytest
from experiment_cases import toy_experiment

from sb3_greendc.cli import reproduce
from sb3_greendc.experiments import pages
from sb3_greendc.experiments.bounds import Bounds
from sb3_greendc.experiments.experiment import Budget
from sb3_greendc.experiments.registry import load_experiment
from sb3_greendc.experiments.training import Training


@pytest.fixture
def run(tmp_path, monkeypatch):
    def command(*arguments, numbers=(1, 2, 3)):
        monkeypatch.setattr(reproduce, "load_experiment", lambda name: toy_experiment(tmp_path, numbers))
        return reproduce.main(["toys", "--engine", "serial", "--out", str(tmp_path / "out"), *arguments])

    return command


def computed(tmp_path):
    return [int(line) for line in (tmp_path / "computed.txt").read_text().split()]


def test_tasks_run_once_the_longest_first(run, tmp_path):
    assert run() == 0
    assert computed(tmp_path) == [3, 2, 1]
    assert run() == 0
    assert computed(tmp_path) == [3, 2, 1]


def test_a_failed_run_keeps_what_is_finished_and_goes_on_from_there(run, tmp_path, capsys):
    (tmp_path / "fail-2").touch()
    assert run() == 1
    assert "toy 2 failed" in capsys.readouterr().err
    assert computed(tmp_path) == [3]
    (tmp_path / "fail-2").unlink()
    assert run() == 0
    assert computed(tmp_path) == [3, 2, 1]


def test_only_new_settings_are_computed(run, tmp_path):
    run()
    assert run(numbers=(2, 3, 4)) == 0
    assert computed(tmp_path) == [3, 2, 1, 4]


def test_test_episodes_reach_the_record(run, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "check_effects", lambda *given: None)  # toys have none
    run("--quick", "--test-episodes", "7")
    record = json.loads((tmp_path / "out" / "toys" / "run.json").read_text())
    assert record["test_episodes"] == 7
    assert pages._command(record) == "python scripts/reproduce.py toys --quick --test-episodes 7"
    assert Budget(quick=True).episodes == 32
    assert Budget().episodes == 256


@pytest.mark.parametrize("experiment", ["rare-fig4", "rare-table1", "crr-online", "discrete-sac-curves"])
def test_test_episodes_are_those_of_experiments_with_their_own_numbers_too(experiment):
    items = load_experiment(experiment).items(Budget(quick=True, test_episodes=7))
    tasks = [item.task for item in items if not isinstance(item.task, Bounds)]
    judged = [task for task in tasks if hasattr(task, "episodes")]
    assert {task.episodes for task in judged} == {7}


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("experiment", ["rare-fig4", "discrete-sac-curves", "as-printed", "sc20-fig6"])
def test_all_policies_of_a_comparison_play_the_same_episodes(experiment, quick):
    items = load_experiment(experiment).items(Budget(quick=quick))
    tasks = [item.task for item in items if not isinstance(item.task, Bounds)]
    assert len({task.episodes for task in tasks if hasattr(task, "episodes")}) == 1


@pytest.mark.parametrize(
    ("experiment", "option", "value"),
    [
        ("vcc-shift", "--test-episodes", "7"),
        ("learners", "--test-episodes", "7"),
        ("rare-fig3", "--test-episodes", "7"),
        ("rare-fig3", "--seeds", "7"),
        ("rare-fig3", "--rollouts", None),
        ("rare-fig3", "--job-log", "{path}/log.swf"),
        ("rlscheduler", "--job-log", "{path}/log.swf"),
        ("rare-fig5", "--google", "{path}"),
        ("rare-fig5", "--weather", "{path}/log.swf"),
    ],
)
def test_options_that_would_do_nothing_are_refused(experiment, option, value, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reproduce, "_run", lambda *given: pytest.fail("accepted"))
    (tmp_path / "log.swf").touch()
    given = [] if value is None else [value.format(path=tmp_path)]
    with pytest.raises(SystemExit):
        reproduce.main([experiment, "--quick", option, *given])
    assert f"{option}: has no effect on {experiment}" in capsys.readouterr().err


def test_learners_train_on_the_device_that_is_asked_for(monkeypatch):
    seen = []

    def prepare(*given, device, **more):
        seen.append(device)
        raise InterruptedError

    monkeypatch.setattr("sb3_greendc.experiments.training.prepare", prepare)
    items = load_experiment("as-printed").items(Budget(quick=True, device="cuda"))
    trainings = [item.task for item in items if isinstance(item.task, Training)]
    with pytest.raises(InterruptedError):
        trainings[0].compute()
    assert seen == ["cuda"]
    # What was trained elsewhere is the same task: rounding apart, so is the result.
    others = [item.task for item in load_experiment("as-printed").items(Budget(quick=True))]
    assert {task.identity for task in trainings} < {task.identity for task in others}


def test_a_device_that_is_missing_is_named_before_anything_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reproduce, "_run", lambda *given: pytest.fail("accepted"))
    with pytest.raises(SystemExit):
        reproduce.main(["as-printed", "--quick", "--device", "cuda:77", "--out", str(tmp_path)])
    assert "--device cuda:77: cannot be used on this machine" in capsys.readouterr().err


def test_a_device_that_no_learner_is_trained_on_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reproduce, "_run", lambda *given: pytest.fail("accepted"))
    with pytest.raises(SystemExit):
        reproduce.main(["vcc-shift", "--quick", "--device", "cuda", "--out", str(tmp_path)])
    assert "--device cuda: has no effect" in capsys.readouterr().err


def test_results_of_a_device_that_is_missing_can_be_shown(tmp_path):
    toy = toy_experiment(tmp_path, (1,))
    items = toy.items(Budget())
    object.__setattr__(items[0].task, "device", "cuda:77")

    class Finished:
        def has(self, task):
            return True

    reproduce.check_device("cuda:77", items, Finished())


def test_the_device_reaches_the_record(run, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "check_device", lambda *given: None)  # toys learn nothing
    run("--device", "cuda")
    record = json.loads((tmp_path / "out" / "toys" / "run.json").read_text())
    assert pages._command(record) == "python scripts/reproduce.py toys --device cuda"


def test_more_seeds_than_do_not_meet_the_tests_are_refused(capsys):
    with pytest.raises(SystemExit):
        reproduce.main(["rare-table1", "--seeds", "21"])
    assert "--seeds=21: must be at most 20" in capsys.readouterr().err


def test_the_record_says_what_was_done(run, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "check_effects", lambda *given: None)  # toys have none
    run("--quick", "--seeds", "2")
    record = json.loads((tmp_path / "out" / "toys" / "run.json").read_text())
    assert (record["budget"], record["seeds"], record["tasks"]) == ("quick", 2, 3)
    assert record["notes"] == ["a note"]
    assert (record["seeds_by_learner"], record["rollouts"]) == ({}, False)
    assert (tmp_path / "out" / "toys" / "results.csv").read_text().count("\n") == 7


def test_seeds_are_given_to_all_or_to_single_learners():
    assert reproduce.parse_seeds([]) == (None, {})
    assert reproduce.parse_seeds(["3"]) == (3, {})
    assert reproduce.parse_seeds(["distilled policy=10", "2", "PPO=1"]) == (
        2,
        {"distilled policy": 10, "PPO": 1},
    )
    for given, said in (
        (["many"], "--seeds many: 'many': must be a positive whole number"),
        (["PPO=0"], "--seeds PPO=0: '0': must be a positive whole number"),
        (["2", "3"], "--seeds 3: given twice"),
        (["PPO=2", "PPO=3"], "--seeds PPO=3: given twice"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            reproduce.parse_seeds(given)


def test_a_learner_that_is_not_there_is_named(run, capsys):
    with pytest.raises(SystemExit):
        run("--seeds", "PPPO=3")
    assert "--seeds PPPO=...: no learner of this name in these experiments" in capsys.readouterr().err
    assert run("--seeds", "toy=3") == 0


def test_the_command_of_a_page_repeats_the_seeds():
    record = {
        "experiment": "rare-fig4",
        "budget": "quick",
        "seeds": 2,
        "seeds_by_learner": {"distilled policy": 10},
    }
    said = pages._command(record)
    assert said == "python scripts/reproduce.py rare-fig4 --quick --seeds 2 'distilled policy=10'"
    assert pages._command({**record, "rollouts": True}) == f"{said} --rollouts"
    assert pages._command({**record, "problems": ["CartPole", "job shop 10 × 5"]}) == (
        f"{said} --problems CartPole 'job shop 10 × 5'"
    )


def test_problems_are_chosen_by_name(capsys):
    both = [load_experiment(name) for name in ("learners", "learners-offline")]
    wanted = Budget(quick=True, problems=("CartPole",))
    assert reproduce.with_problems(wanted, both) == both
    series = {item.labels["series"] for one in both for item in one.items(wanted)}
    assert {name.partition(",")[0] for name in series} == {"CartPole"}
    limits = load_experiment("learners-limits")
    wanted = Budget(quick=True, problems=("grid with a cost",))
    assert reproduce.with_problems(wanted, [*both, limits]) == [limits]
    for experiment, name, said in (
        ("learners-offline", "CatPole", "these experiments have CartPole"),
        ("what-earns-the-margin", "SC2", "these experiments have RARE, SC20, CoCoRL"),
        ("rare-fig5", "HPC log (modelled)", "these experiments have no problems"),
    ):
        with pytest.raises(SystemExit):
            reproduce.main([experiment, "--quick", "--problems", name])
        assert f"--problems {name}: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "series"),
    [
        (("RARE, 100 units",), {"RARE, 100 units"}),
        (("RARE",), {"RARE, 10 units", "RARE, 100 units", "RARE, 300 units"}),
        (("CoCoRL, load 60%", "SC20"), {"CoCoRL, load 60%", "SC20, 60 % arrivals"}),
    ],
)
def test_points_asked_for_by_name_train_their_learners_in_the_quick_budget_too(names, series):
    experiment, budget = load_experiment("what-earns-the-margin"), Budget(quick=True, problems=names)
    assert reproduce.with_problems(budget, [experiment, load_experiment("rare-fig5")]) == [experiment]
    items = experiment.items(budget)
    assert {item.labels["series"] for item in items} == series
    trained = {item.labels["series"] for item in items if isinstance(item.task, Training)}
    assert trained == series


@pytest.mark.parametrize(
    ("quick", "problems", "rungs"),
    [(True, (), 0), (True, ("RARE, 300 units",), 5), (False, (), 5)],
)
def test_large_pools_train_learners_where_they_are_asked_for(quick, problems, rungs):
    budget = Budget(quick=quick, seeds=1, problems=problems)
    items = load_experiment("what-earns-the-margin").items(budget)
    of_300 = [item.task for item in items if item.labels["series"] == "RARE, 300 units"]
    assert sum(isinstance(task, Training) for task in of_300) == rungs


def test_processes_give_the_same(run, tmp_path):
    assert run("--engine", "process", "--jobs", "2") == 0
    assert sorted(computed(tmp_path)) == [1, 2, 3]


def test_unknown_names_and_files_are_one_line(capsys, tmp_path):
    log = tmp_path / "bad.swf"
    log.write_text("x y\n")
    for arguments, said in (
        (["cocorl-fig10", "--quick", "--job-log", str(log)], "bad.swf, line 1: a job has 18 fields"),
        (["cocorl-fig10", "--quick", "--job-log", str(tmp_path)], f"{tmp_path}: "),
        (["rare-fig44"], "rare-fig4"),
        (["rare-fig5", "--job-log", "nowhere.swf"], "nowhere.swf: no such file"),
        (["rare-fig3", "--weather", "nowhere.csv"], "--weather nowhere.csv: no such file"),
        (["vcc-shift", "--google", "nowhere"], "--google nowhere: no such folder"),
    ):
        with pytest.raises(SystemExit) as stopped:
            reproduce.main(arguments)
        assert stopped.value.code == 2
        assert said in capsys.readouterr().err


def test_list_names_all(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert reproduce.main(["list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in reproduce.experiment_names())


def test_headlines_have_the_best_learner_of_each_point():
    against = ("best of the papers'", "best heuristic", "best non-learning baseline")
    learners = {"weak": (1.0, 10.0), "strong": (2.0, 30.0)}
    rows = [
        {
            **{"series": "jobs", "x": x, "metric": "total_job_value", "learner": name, "seeds": 1},
            **{"against": rival, "form": "hvf/skip", "ours": value, "theirs": 1.0, "kind": "learner"},
            **{"printed_low": 18.0, "printed_high": 25.0, "verdict": "within"},
            **{
                "margin_percent": margin - 5 * k,
                "low": 0.0,
                "high": 40.0,
                "percent_of_bound": 70.0,
                "bound_percent": 55.0,
            },
        }
        for x in (10, 20)
        for name, (value, margin) in learners.items()
        for k, rival in enumerate(against)
    ]
    chance = [
        {**row, "learner": "uniformly random, masked", "kind": "control", "ours": 9.0, "margin_percent": 7.0}
        for row in rows
        if row["against"] == against[0] and row["learner"] == "weak"
    ]
    table = pages.headlines(pd.DataFrame([*rows, *chance]))
    assert table["uniformly random, masked, %"].tolist() == ["+7.0 [+0.0, +40.0]"] * 2
    assert table["printed, %"].tolist() == ["18 to 25"] * 2
    assert table["best learner"].tolist() == ["strong (1)"] * 2
    assert table["over the papers' best, %"].tolist() == ["+30.0 [+0.0, +40.0]"] * 2
    assert table["over the best non-learning baseline, %"].str.startswith("+20.0").all()


def test_margins_show_a_form_once_at_each_point():
    rivals = {
        "hvf": "hvf/skip",
        "best of the papers'": "hvf/skip",
        "best heuristic": "edf/skip",
        "best non-learning baseline": "edf/skip",
    }
    common = {
        "series": "jobs",
        "learner": "network",
        "seeds": 1,
        "margin_percent": 9.0,
        "low": 8.0,
        "high": 10.0,
    }
    rows = [
        {
            **common,
            **{"x": x, "against": against, "form": form, "percent_of_bound": 70.0},
            "printed_low": 18.0 if (x, against) == (10, "hvf") else float("nan"),
            "printed_high": 18.0,
            "verdict": "below",
        }
        for x in (10, 20)
        for against, form in rivals.items()
    ]
    table = pages.margins(pd.DataFrame(rows))
    shown = list(zip(table["point"], table["against"], strict=True))
    assert shown == [
        (10, "hvf (`hvf/skip`)"),
        (10, "best non-learning baseline (`edf/skip`)"),
        (20, "best of the papers' (`hvf/skip`)"),
        (20, "best non-learning baseline (`edf/skip`)"),
    ]


def test_an_estimate_stands_with_its_interval_and_no_row_is_left_out():
    rows = pd.DataFrame(
        {"series": k, "carbon_percent": -5.0, "carbon_low": -6.0, "carbon_high": -4.0, "share_percent": 1.0}
        for k in range(50)
    )
    table = pages.margins(rows)
    assert list(table.columns) == ["series", "carbon, %", "share_percent"]
    assert table["carbon, %"].tolist() == ["-5.0 [-6.0, -4.0]"] * 50


def test_list_says_which_budgets_were_run(tmp_path):
    assert reproduce.was_run(tmp_path) == "no"
    for record, said in (
        ({"budget": "quick", "seeds": None}, "quick"),
        ({"budget": "full", "seeds": 1}, "full, 1 seed(s)"),
    ):
        (tmp_path / "run.json").write_text(json.dumps(record))
        assert reproduce.was_run(tmp_path) == said


@pytest.mark.parametrize(("seeds", "listed"), [(None, False), (3, False), (2, True)])
def test_a_run_with_as_many_seeds_as_the_full_budget_was_run_in_full(
    run, tmp_path, monkeypatch, seeds, listed
):
    """Tasks of toys are those of the full budget unless other seeds are asked for."""

    def toys(budget):
        return toy_experiment(tmp_path, range(budget.seeds or 3)).items(budget)

    run()
    path = tmp_path / "out" / "toys" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "seeds": seeds}))
    with_seeds = dataclasses.replace(toy_experiment(tmp_path), items=toys)
    monkeypatch.setattr(pages, "load_experiment", lambda name: with_seeds)
    assert ("`toys`" in pages._not_in_full(tmp_path / "out", ["toys"])) == listed


def test_pages_keep_what_was_not_run_again(run, tmp_path, monkeypatch):
    run("--quick")
    monkeypatch.setattr(pages, "experiment_names", lambda: ("toys", "others"))
    monkeypatch.setattr(pages, "load_experiment", lambda name: toy_experiment(tmp_path, (1, 9)))
    target = tmp_path / "docs"
    target.mkdir()
    (target / "introduction.txt").write_text("# Results\n")
    (target / "remarks.json").write_text('{"toys": "Toys are small."}')
    page = pages.publish(tmp_path / "out", target).read_text() + (target / "beyond.md").read_text()
    in_full = "| `toys` | `python scripts/reproduce.py toys --quick` | 10 s |"
    for part in ("# Results", "toys --quick", "Toys are small.", "`others`", "toys/results.csv", in_full):
        assert part in page
    again = pages.publish(tmp_path / "nothing", target).read_text() + (target / "beyond.md").read_text()
    assert again == page
    (tmp_path / "out" / "toys" / "results.csv").unlink()
    published = {path: path.read_bytes() for path in (target / "toys").iterdir()}
    with pytest.raises(FileNotFoundError):
        pages.publish(tmp_path / "out", target)
    assert {path: path.read_bytes() for path in (target / "toys").iterdir()} == published
    assert not [path for path in target.iterdir() if path.name.startswith("tmp")]
