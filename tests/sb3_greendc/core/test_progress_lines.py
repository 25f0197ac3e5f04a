"""Progress in files: whole lines, not too many, and times left that come true."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest
from stable_baselines3 import DQN, PPO
from tqdm import tqdm

from sb3_greendc.core.callbacks import ProgressBarCallback
from sb3_greendc.core.progress import Lines, duration, progress_bar, progress_over


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(total: int = 1_000, initial: int = 0) -> tuple[Lines, Clock, io.StringIO]:
    clock, file = Clock(), io.StringIO()
    return Lines(total, "step", initial, file, clock), clock, file


def test_lines_come_at_doubling_pauses_up_to_half_a_minute() -> None:
    bar, clock, file = lines()
    at = []
    for second in range(1, 201):
        clock.now = second
        before = file.getvalue()
        bar.update(1)
        if file.getvalue() != before:
            at.append(second)
    assert at == [5, 15, 35, 65, 95, 125, 155, 185]
    assert "\r" not in file.getvalue()
    assert file.getvalue().splitlines()[1] == "15 of 1,000 steps (2 %), 15 s, about 16 min left"


def test_a_file_that_takes_no_more_does_not_end_the_work() -> None:
    """As a pipe whose reader has gone: the work is worth more than its progress."""

    class Broken(io.StringIO):
        lines = 0

        def flush(self) -> None:
            self.lines += 1
            raise BrokenPipeError

    clock, file = Clock(), Broken()
    with Lines(1_000, "step", 0, file, clock) as bar:
        for second in range(1, 201):
            clock.now = second
            bar.update(1)
    assert (bar.n, file.lines) == (200, 1)


def test_there_is_no_progress_without_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``2>&-`` starts a command."""
    monkeypatch.setattr(sys, "stderr", None)
    assert list(progress_over(range(3), 3)) == [0, 1, 2]


def test_what_comes_before_the_first_count_is_not_extrapolated() -> None:
    """Compiling takes a minute; the work itself a second a step."""
    bar, clock, file = lines(total=100)
    for step in range(1, 41):
        clock.now = 60.0 + step
        bar.update(1)
    last = file.getvalue().splitlines()[-1]
    left = re.search(r"(\d+) of 100 .* about (\d+) s left", last)
    assert left is not None
    assert int(left[2]) == 100 - int(left[1])


def test_a_run_that_goes_on_is_measured_by_what_it_does_itself() -> None:
    bar, clock, file = lines(total=100, initial=90)
    for second in (1.0, 2.0, 6.0):
        clock.now = second
        bar.update(1)
    assert file.getvalue() == "93 of 100 steps (93 %), 6 s, about 18 s left\n"


def test_the_speed_of_work_in_rounds_is_that_of_whole_rounds() -> None:
    """Rounds of ten steps: a second each, and then an update of 20 seconds."""
    bar, clock, file = lines(total=100)
    left = []
    for step in range(100):
        if step % 10 == 0:
            bar.next_round(alike=step > 0)
        clock.now += 1.0
        before = len(file.getvalue())
        bar.update(1)
        if len(file.getvalue()) > before:
            found = re.search(r"about (\d+) (s|min) left", file.getvalue()[before:])
            left.append((clock.now, float(found[1]) * (60 if found[2] == "min" else 1) if found else None))
        if step % 10 == 9:
            clock.now += 20.0
    assert left[0] == (5.0, None), "no round has ended"
    known = [(now, seconds) for now, seconds in left if seconds is not None and now < 200.0]
    assert len(known) > 3
    assert all(0.7 < (clock.now - now) / seconds < 1.4 for now, seconds in known), known


def test_what_goes_before_the_first_update_is_not_measured() -> None:
    bar, clock, file = lines(total=400)
    for step in range(200):
        bar.next_round(alike=step > 100)
        clock.now += 0.1 if step < 100 else 1.0
        bar.update(1)
    for line in file.getvalue().splitlines():
        found = re.match(r"(\d+) of .*?(?:about (\d+) min left)?$", line)
        assert found is not None, line
        assert (found[2] is None) == (int(found[1]) <= 102)
        if found[2] is not None:
            assert abs(60 * int(found[2]) - (400 - int(found[1]))) <= 33


def test_the_last_line_says_what_was_done_and_comes_once() -> None:
    bar, clock, file = lines(total=10)
    with bar:
        bar.set_description("ppo")
        bar.set_postfix({"return": 1.23456}, refresh=False)
        clock.now = 1.0
        bar.update(10)
        assert file.getvalue() == ""
    bar.close()
    assert file.getvalue() == "ppo: 10 of 10 steps (100 %), 1 s, return 1.235\n"


def test_nothing_is_written_twice_at_the_end() -> None:
    bar, clock, file = lines(total=10)
    clock.now = 9.0
    bar.update(10)
    bar.close()
    assert len(file.getvalue().splitlines()) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminals_get_a_bar_and_files_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    assert list(progress_over("abc", 3, "letter")) == ["a", "b", "c"]
    assert re.fullmatch(r"3 of 3 letters \(100 %\), \d s\n", file.getvalue())
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar(3) as bar:
        assert isinstance(bar, tqdm)
    assert "\r" in sys.stderr.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_nothing_is_shown_if_nothing_is_wanted(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream())
    assert list(progress_over([1, 2], 2, disable=True)) == [1, 2]
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_training_into_a_file_ends_with_a_whole_line(capsys: pytest.CaptureFixture[str]) -> None:
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1)
    bar = ProgressBarCallback(20)
    model.learn(20, callback=bar)
    bar.close()
    assert re.fullmatch(r"20 of 20 steps \(100 %\), \d+ s(, return \d+(\.\d+)?)?\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("algorithm", "options", "alike"),
    [
        (PPO, {"n_steps": 16, "batch_size": 16, "n_epochs": 1}, [False, True, True]),
        (DQN, {"train_freq": 16, "learning_starts": 20}, [False, False, True]),
    ],
)
def test_a_round_of_training_is_a_rollout_and_its_updates(
    algorithm: Any, options: dict[str, int], alike: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []
    monkeypatch.setattr(Lines, "next_round", lambda self, alike: told.append(alike))
    bar = ProgressBarCallback(48)
    algorithm("MlpPolicy", "CartPole-v1", **options).learn(48, callback=bar)
    bar.close()
    assert told == alike


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 89, 90, 600, 5399, 5400, 36000)] == [
        *("0 s", "89 s", "2 min", "10 min", "90 min", "1.5 h", "10.0 h")
    ]
