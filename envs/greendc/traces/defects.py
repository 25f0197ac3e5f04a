"""What is wrong with an input file, all of it at once, and what mending does about each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from greendc.traces.trace_files import TraceError

LONGEST_HOURS = 24.0
"""Of a series that may be made up in a row, by straight lines."""
_MOST_SHARE, _ALWAYS = 0.1, 5

MOST_SHOWN = 20
"""Defects of one file that an error lists; the rest is counted."""


def most_made_up(rows: int) -> float:
    """Return how many of a file's rows may be left out or made up: a tenth, and always five.

    :param rows: of the file
    """
    return max(_ALWAYS, _MOST_SHARE * rows)


@dataclass(frozen=True)
class Defect:
    """A defect of an input file.

    :param line: where it is, or where the first of its kind is
    :param what: what is wrong there
    :param mend: what mending does about it; empty where nothing can be done
    :param count: how many cells or rows have it
    :param kind: a short name, under which mended ones are counted
    """

    line: int
    what: str
    mend: str = ""
    count: int = 1
    kind: str = ""


@dataclass(frozen=True)
class Inspection:
    """What an inspection of a file found.

    :param name: of the file
    :param defects: in the order of their lines
    :param mended: the text with everything mended that can be; as it was given, where there is no defect
    """

    name: str
    defects: tuple[Defect, ...]
    mended: bytes

    @property
    def counts(self) -> dict[str, int]:
        """How many cells or rows were mended, by kind."""
        found: dict[str, int] = {}
        for defect in self.defects:
            if defect.mend:
                found[defect.kind] = found.get(defect.kind, 0) + defect.count
        return found

    @property
    def hopeless(self) -> tuple[Defect, ...]:
        """The defects that cannot be mended."""
        return tuple(defect for defect in self.defects if not defect.mend)

    def lines(self, repair: bool = True) -> list[str]:
        """Return a line for each defect, ``file:line: what (mending: …)``, at most :data:`MOST_SHOWN`.

        :param repair: whether the user has the option that mends
        """
        option = "; --repair: {}" if repair else ""
        shown = [
            f"{self.name}:{defect.line}: {defect.what}"
            + (f" ({defect.count:,} times)" if defect.count > 1 else "")
            + (option.format(defect.mend) if defect.mend else "; cannot be mended")
            for defect in self.defects[:MOST_SHOWN]
        ]
        more = len(self.defects) - len(shown)
        return [*shown, f"{self.name}: and {more:,} more"] if more else shown


class DefectsError(TraceError):
    """Input files with defects, all of them listed.

    :param inspections: of the files that have some
    :param others: further errors, each a line
    :param repair: whether the user has the option that mends
    """

    def __init__(
        self, inspections: Iterable[Inspection], others: Sequence[str] = (), repair: bool = True
    ) -> None:
        found = self.inspections = [one for one in inspections if one.defects]
        self.others = list(others)
        self.lines = [line for one in found for line in one.lines(repair)] + self.others
        total = sum(len(one.defects) for one in found) + len(self.others)
        mendable = sum(len(one.defects) - len(one.hopeless) for one in found)
        self.advice = f"{total} defect(s) in the input"
        if repair:
            self.advice += f"; --repair mends {mendable} of them and counts what it did"
        super().__init__("\n".join([*self.lines, self.advice]))


def without_cut_line(data: bytes) -> tuple[bytes, list[Defect]]:
    """Return a text without a last line that has no end, and the defect that such a line is.

    :param data: the content of a file
    """
    head, _, rest = data.rpartition(b"\n")
    if not rest.strip():
        return data, []
    what = f"the last line has no end, and may be cut: {rest[:40].decode('utf-8', 'replace')!r}"
    return head + b"\n", [Defect(head.count(b"\n") + 2, what, "left out", kind="lines_left_out")]
