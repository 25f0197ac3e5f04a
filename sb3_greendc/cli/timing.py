"""Rates of several things in one process, measured in turn so that their ratios can be trusted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Case:
    """Something to time.

    :param name: ``cartpole``, ``vcc_single``, ``dqn``, ...
    :param run: makes so many calls: of ``step``, resets included; of an update; ...
    :param steps_per_call: what is counted, in a call: environment steps, updates, ...
    """

    name: str
    run: Callable[[int], None]
    steps_per_call: int = 1


def measure(
    cases: Sequence[Case], rounds: int, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return steps per second of each case in each round.

    In a round every case runs for about ``seconds``, one after the other, so that whatever else the
    machine does weighs on all of them.

    :param clock: ``time.process_time`` does not count the time of others, but adds up that of all threads:
        it is for what runs in one
    """
    calls = {case.name: _calibrate(case, seconds, clock) for case in cases}
    rates: dict[str, list[float]] = {case.name: [] for case in cases}
    for _ in range(rounds):
        for case in cases:
            elapsed = _time(case, calls[case.name], clock)
            rates[case.name].append(calls[case.name] * case.steps_per_call / elapsed)
    return rates


def _calibrate(case: Case, seconds: float, clock: Callable[[], float]) -> int:
    """Return the number of calls that take about ``seconds``, after compiling and warming up.

    What is compiled as a first episode ends makes some calls slow, once: the lesser of two times counts.
    """
    case.run(1)
    calls = 1
    while True:
        elapsed = min(_time(case, calls, clock), _time(case, calls, clock))
        if elapsed > seconds / 8:
            return max(1, round(calls * seconds / elapsed))
        calls *= 2


def _time(case: Case, calls: int, clock: Callable[[], float]) -> float:
    started = clock()
    case.run(calls)
    return clock() - started


def ratio(rates: Mapping[str, Sequence[float]], name: str, reference: str) -> float:
    """Return how many times as fast one case is as another: the median of the ratios within each round."""
    return float(np.median(np.array(rates[name]) / np.array(rates[reference])))
