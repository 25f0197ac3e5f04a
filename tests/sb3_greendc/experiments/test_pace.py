"""Times left are told once they are known, and come true within a factor of two."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from sb3_greendc.core.engine import TaskError
from sb3_greendc.experiments import runner
from sb3_greendc.experiments.pace import Pace
from sb3_greendc.experiments.runner import run_tasks
from sb3_greendc.experiments.store import Store
from sb3_greendc.experiments.tasks import Item, Outcome, Task


@dataclass(frozen=True)
class Work(Task):
    """Takes ``seconds_taken`` of processor time, and guesses ``guess``."""

    name: str
    number: int
    guess: float = 1.0

    @property
    def title(self) -> str:
        return f"{self.name} seed {self.number}"

    def seconds(self) -> float:
        return self.guess

    def compute(self) -> Outcome:
        return Outcome({})


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_told_before_two_tasks_of_each_process() -> None:
    clock = Clock()
    pace = Pace(2, clock)
    for number in range(3):
        clock.now += 10
        pace.finish(Work("PPO", number), 20.0)
        assert pace.left([Work("PPO", 9)]) is None
    clock.now += 10
    pace.finish(Work("PPO", 3), 20.0)
    assert pace.left([Work("PPO", number) for number in range(4, 8)]) == pytest.approx(40.0)
    assert pace.left([]) == 0.0


def test_kinds_are_told_apart() -> None:
    """What a heuristic takes says nothing of a training, however many heuristics are finished."""
    clock = Clock()
    pace = Pace(1, clock)
    for number in range(5):
        clock.now += 1
        pace.finish(Work("hvf", number), 1.0)
    assert pace.left([Work("hvf", 6)]) == pytest.approx(1.0)
    assert pace.left([Work("hvf", 6), Work("PPO", 0, guess=60.0)]) is None
    pace.know(Work("PPO", 1, guess=30.0), 300.0)  # in an earlier run, ten times what was guessed
    assert pace.left([Work("hvf", 6), Work("PPO", 0, guess=60.0)]) == pytest.approx(601.0)


def test_a_busy_machine_takes_longer() -> None:
    clock = Clock()
    pace = Pace(1, clock)
    for number in range(2):
        clock.now += 35  # on the clock, for five seconds of processor time
        pace.finish(Work("PPO", number), 5.0)
    assert pace.left([Work("PPO", 2), Work("PPO", 3)]) == pytest.approx(70.0)


def test_one_long_task_is_not_shared_out() -> None:
    clock = Clock()
    pace = Pace(4, clock)
    for number in range(8):
        clock.now += 1
        pace.finish(Work("PPO", number), 4.0)
    assert pace.left([Work("PPO", 9, guess=10.0)]) == pytest.approx(40.0)


def lines(items: list[Item], store: Store) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    run_tasks(items, store, "serial", None, console)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_a_file_gets_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Item(Work("PPO", number)) for number in range(4)]
    store = Store(tmp_path)
    [before, last] = lines(items, store)
    assert before == "4 tasks, 0 of them finished before; 1 at once"
    assert re.fullmatch(r"4 of 4 tasks, \d+ s: PPO seed \d done", last)
    assert lines(items, store) == ["4 tasks, 4 of them finished before: nothing to run"]
    monkeypatch.setattr(runner.Pauses, "over", lambda self, now: True)
    monkeypatch.setattr(runner, "compute", lambda task: Outcome({}, seconds=0.5))
    every = lines([*items, *(Item(Work("PPO", number)) for number in range(4, 8))], Store(tmp_path / "x"))
    assert len(every) == 9
    assert "left" not in every[1]
    assert all(re.search(r", about \d+ s left$", line) for line in every[2:8]), every
    assert re.fullmatch(r"8 of 8 tasks, \d+ s: PPO seed \d done", every[8])


def test_an_error_is_still_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Work) -> Outcome:
        raise ValueError("broken")

    monkeypatch.setattr(Work, "compute", fail)
    with pytest.raises(TaskError, match="broken"):
        lines([Item(Work("PPO", 0))], Store(tmp_path))
