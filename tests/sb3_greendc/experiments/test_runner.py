"""Tasks whose processes are killed end no others, and are reported."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from experiment_cases import Follower, Toy
from rich.console import Console

from sb3_greendc.cli import reproduce
from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.runner import LostTasksError, run_tasks
from sb3_greendc.experiments.store import Store
from sb3_greendc.experiments.tasks import Item, Outcome


@dataclass(frozen=True)
class Hungry(Toy):
    """Ends its process, as the kernel does when memory is short: the first time, or each time."""

    always: bool = False

    @property
    def title(self) -> str:
        return f"hungry {self.number}"

    def compute(self) -> Outcome:
        killed = Path(self.folder) / f"killed-{self.number}"
        if self.always or not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().compute()


def test_a_killed_process_ends_no_other_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path)
    lost, found = Hungry(9, folder, always=True), Hungry(8, folder)
    waiting = [Follower(lost), Follower(found), Follower(Follower(lost))]
    tasks = [lost, found, Toy(1, folder), Toy(2, folder), *waiting]
    store = Store(tmp_path / "tasks")
    with pytest.raises(LostTasksError) as caught:
        run_tasks([Item(task) for task in tasks], store, "process", 2, Console(width=200))
    assert [store.has(task) for task in tasks] == [False, True, True, True, False, True, False]
    said = str(caught.value)
    assert said.startswith("hungry 9: its process died twice, the second time alone: of too little memory")
    assert said.count("follower: needs what was lost, and was not run; ") == 2
    assert said.endswith("all else is finished, and the same command tries these again")
    printed = capsys.readouterr().out
    assert "hungry 9: its process died, of too little memory perhaps: it is run once more, alone" in printed
    assert "hungry 8: its process died, of too little memory perhaps: it is run once more, alone" in printed


def test_the_command_says_which_tasks_were_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def items(budget: Budget) -> list[Item]:
        return [Item(Hungry(9, str(tmp_path), always=True)), Item(Toy(1, str(tmp_path)))]

    def analyze(results: Results, budget: Budget) -> Analysis:
        raise AssertionError("there are results missing")

    experiment = Experiment("toys", "toys", items, analyze)
    monkeypatch.setattr(reproduce, "load_experiment", lambda name: experiment)
    assert reproduce.main(["toys", "--jobs", "2", "--out", str(tmp_path / "out")]) == 1
    err = capsys.readouterr().err
    assert err.startswith("reproduce: hungry 9: its process died twice") and err.count("\n") == 1
    assert (tmp_path / "computed.txt").read_text() == "1\n"
