"""The mutation run: every mutation fits the source, and a run tells the killed from the survivors."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import mutants
import pytest
from mutants import Mutation, MutationError, run_tests, try_mutation
from mutants_list import MUTATIONS


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_mutation_fits_the_source_and_its_tests_are_there(mutation: Mutation) -> None:
    mutation.check(mutants.ROOT)


def test_there_are_many_and_each_has_a_name() -> None:
    assert len(MUTATIONS) >= 100
    assert Counter(mutation.name for mutation in MUTATIONS).most_common(1)[0][1] == 1
    kinds = Counter(mutation.path.split("/")[1] for mutation in MUTATIONS)
    assert {"crr", "discrete_sac", "pid_ppo", "core", "bc", "datasets", "runs", "evaluation"} < set(kinds)


SOURCE = "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n"
TESTS = "from package import double\n\n\ndef test_double():\n    assert double(2) == 4\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "package.py").write_text(SOURCE)
    (tmp_path / "test_of_a_mutated_package.py").write_text(TESTS)
    return tmp_path


def mutation(old: str, new: str, test: str = "test_of_a_mutated_package.py::test_double") -> Mutation:
    return Mutation("name", "package.py", old, new, (test,))


def test_text_that_is_not_there_once_is_refused(tree: Path) -> None:
    for old, found in (("3 * x", 0), ("def ", 2)):
        with pytest.raises(MutationError, match=rf"'name': package.py: .* is there {found} times"):
            mutation(old, "nothing").apply(tree)
    with pytest.raises(MutationError, match="no Python any more"):
        mutation("2 * x", "2 *").check(tree)
    with pytest.raises(MutationError, match=r"no test test_of_a_mutated_package.py::test_half"):
        mutation("2 * x", "3 * x", "test_of_a_mutated_package.py::test_half").check(tree)
    with pytest.raises(MutationError, match=r"other.py: no such file"):
        Mutation("name", "other.py", "a", "b", ()).check(tree)
    assert (tree / "package.py").read_text() == SOURCE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_run_tells_the_killed_from_the_survivors(tree: Path) -> None:
    assert run_tests(tree, ["test_of_a_mutated_package.py"]).outcome == "survived"
    killed = try_mutation(mutation("2 * x", "3 * x"), tree)
    assert (killed.outcome, killed.noticed_by) == ("killed", "test_of_a_mutated_package.py::test_double")
    assert try_mutation(mutation("x / 2", "x / 3"), tree).outcome == "survived"
    assert try_mutation(mutation("def double", "def triple"), tree).outcome == "invalid"
    assert (tree / "package.py").read_text() == SOURCE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_tests_that_never_end_have_noticed(tree: Path) -> None:
    endless = "import time\n\n\ndef test_double():\n    while True:\n        time.sleep(1)\n"
    (tree / "test_of_a_mutated_package.py").write_text(endless)
    outcome = run_tests(tree, ["test_of_a_mutated_package.py"], limit=2.0)
    assert (outcome.outcome, outcome.noticed_by) == ("killed", "no end after 2 s")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_the_command_writes_a_table_and_fails_where_one_survives(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        Mutation("a", "package.py", "2 * x", "3 * x", ("test_of_a_mutated_package.py",)),
        Mutation("b", "package.py", "x / 2", "x / 3", ("test_of_a_mutated_package.py",)),
    ]
    monkeypatch.setattr(mutants, "ROOT", tree)
    monkeypatch.setattr(mutants, "COPIED", ("package.py", "test_of_a_mutated_package.py"))
    monkeypatch.setattr(mutants, "LIBRARIES", ("pytest", "there_is_no_such_library"))
    monkeypatch.setattr("mutants_list.MUTATIONS", found)
    assert mutants.main(["--out", str(tmp_path / "out"), "--jobs", "1"]) == 1
    told = capsys.readouterr().out
    assert "2 mutations: 1 killed, 1 survived, 0 invalid" in told and "without there_is_no_such_lib" in told
    rows = (tmp_path / "out" / "mutants.csv").read_text().splitlines()
    assert rows[0] == "mutation,file,outcome,noticed_by,seconds,source"
    assert rows[1].startswith("a,package.py,killed,test_of_a_mutated_package.py::test_double,")
    assert rows[2].startswith("b,package.py,survived,,")
    assert mutants.main(["a", "--out", str(tmp_path / "out"), "--jobs", "1"]) == 0
    again = (tmp_path / "out" / "mutants.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in again] == ["mutation", "a", "b"]  # the row of b has stayed
    capsys.readouterr()
    assert mutants.main(["--rest", "--out", str(tmp_path / "out"), "--jobs", "1"]) == 1
    assert "1 mutations: 0 killed, 1 survived" in capsys.readouterr().out
    (tree / "package.py").write_text(SOURCE + "# changed\n")
    assert mutants.main(["--rest", "a", "--out", str(tmp_path / "out"), "--jobs", "1"]) == 0
    assert "1 mutations: 1 killed" in capsys.readouterr().out
    (tree / "test_of_a_mutated_package.py").write_text("def test_double():\n    raise ValueError\n")
    with pytest.raises(
        MutationError, match=r"do not pass before any mutation: test_of_a_mutated_package.py::test_double"
    ):
        mutants.main(["a", "--out", str(tmp_path / "out")])
