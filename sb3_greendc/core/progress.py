"""How far a long piece of work is: a bar on a terminal or in a notebook, plain lines in a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TextIO, TypeVar, cast

from tqdm.auto import tqdm

Item = TypeVar("Item")

FIRST_SECONDS, LONGEST_SECONDS = 5.0, 30.0
"""After how long a file gets its first line; the pauses between lines double, up to the longest."""


class Bar(Protocol):
    """What shows progress."""

    n: Any

    def __enter__(self) -> Bar: ...

    def __exit__(self, *error: object) -> object: ...

    def update(self, n: float = 1) -> object:
        """Count what was done."""

    def set_description(self, desc: str | None = None, refresh: bool | None = True) -> object:
        """Say what is being done."""

    def set_postfix(self, ordered_dict: Any = None, refresh: bool | None = True, **kwargs: Any) -> object:
        """Say how it goes."""

    def close(self) -> object:
        """Take the bar away, or write the last line."""


class Pauses:
    """Says when a file is due another line: after pauses that double, up to the longest.

    :param now: when the work began, in seconds
    """

    def __init__(self, now: float) -> None:
        self._pause = FIRST_SECONDS
        self._due = now + self._pause

    def over(self, now: float) -> bool:
        """Tell whether a line is due; if so, the next pause begins."""
        if now < self._due:
            return False
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        self._due = now + self._pause
        return True


class Lines:
    """Writes a line every now and then, without carriage returns: for log files.

    A file that takes no more, such as a pipe whose reader has gone, gets no further lines; the work goes on.

    The time that is left is what the rest takes at the speed since the first count: what comes before it,
    such as compiling, is not extrapolated. Work in rounds whose end takes longer calls :meth:`next_round`.

    :param total: what there is to do
    :param unit: of it, one
    :param initial: what was done before
    :param file: where lines go; default: the standard error stream
    :param clock: in seconds
    """

    def __init__(
        self,
        total: int,
        unit: str = "step",
        initial: int = 0,
        file: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self.n: float = initial
        self.units = f"{unit}es" if unit.endswith("ch") else f"{unit}s"
        self._file = sys.stderr if file is None else file
        self._clock = clock
        self._begun = clock()
        self._pauses = Pauses(self._begun)
        self._written: float = -1
        self._first: tuple[float, float] | None = None
        self._round: tuple[float, float] | None = None
        self._in_rounds = False
        self._doing = ""
        self._how = ""
        self._closed = False

    def __enter__(self) -> Lines:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Write the last line."""
        self.close()

    def update(self, n: float = 1) -> None:
        """Count what was done, and write a line if one is due."""
        self.n += n
        now = self._clock()
        if self._first is None and n > 0:
            self._first = (now, self.n)
        if self._pauses.over(now) and not self._closed:
            self._write(now)

    def next_round(self, alike: bool = True) -> None:
        """Say that a round begins: the speed is that of whole rounds, and unknown before the first has ended.

        :param alike: what was done so far tells how long the rest takes; else the measurement starts again
        """
        self._in_rounds = True
        self._round = (self._clock(), self.n) if alike else None
        if not alike:
            self._first = None

    def set_description(self, desc: str | None = None, refresh: bool | None = True) -> None:
        """Say what is being done, from the next line on."""
        self._doing = f"{desc}: " if desc else ""

    def set_postfix(self, ordered_dict: Any = None, refresh: bool | None = True, **kwargs: Any) -> None:
        """Say how it goes, from the next line on."""
        said = {**(ordered_dict or {}), **kwargs}
        shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in said.items()}
        self._how = "".join(f", {key} {value}" for key, value in shown.items())

    def close(self) -> None:
        """Write the last line, unless that is where things stand in the file already."""
        if not self._closed and self.n != self._written:
            self._write(self._clock())
        self._closed = True

    def _write(self, now: float) -> None:
        self._written = self.n
        share = f" ({100 * self.n / self.total:.0f} %)" if self.total else ""
        done = f"{self._doing}{self.n:,.0f} of {self.total:,} {self.units}{share}"
        left = self._left(now)
        rest = f", about {duration(left)} left" if left is not None else ""
        try:
            print(f"{done}, {duration(now - self._begun)}{rest}{self._how}", file=self._file, flush=True)
        except OSError:
            self._closed = True

    def _left(self, now: float) -> float | None:
        """Return the seconds to go; ``None`` at the end, and before a speed is known."""
        if self._first is None or self.n >= self.total:
            return None
        until = self._round if self._in_rounds else (now, self.n)
        if until is None or until[1] <= self._first[1]:
            return None
        seconds, done = until[0] - self._first[0], until[1] - self._first[1]
        return max(seconds * (self.total - until[1]) / done - (now - until[0]), 0.0)


def progress_bar(
    total: int, unit: str = "step", initial: int = 0, disable: bool = False, desc: str | None = None
) -> Bar:
    """Return what shows progress: a bar if there is a terminal or a notebook, else lines.

    Nothing is shown where the standard error stream is closed.

    :param total: what there is to do
    :param unit: of it
    :param initial: what was done before
    :param disable: show nothing
    :param desc: what is being done
    """
    disable = disable or sys.stderr is None  # closed
    if disable or sys.stderr.isatty() or "ipykernel" in sys.modules:
        scale = total >= 1_000
        bar = tqdm(
            total=total,
            unit=unit,
            initial=initial,
            disable=disable,
            desc=desc,
            unit_scale=scale,
            mininterval=0.5,
        )
        return cast("Bar", bar)
    lines = Lines(total, unit, initial)
    lines.set_description(desc)
    return lines


def progress_over(
    items: Iterable[Item], total: int, unit: str = "item", disable: bool = False, desc: str | None = None
) -> Iterator[Item]:
    """Yield items and show progress; see :func:`progress_bar`."""
    with progress_bar(total, unit, disable=disable, desc=desc) as bar:
        for item in items:
            yield item
            bar.update(1)


def duration(seconds: float) -> str:
    """Return a time in words: ``45 s``, ``12 min``, ``3.2 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
