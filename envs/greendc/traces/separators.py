"""Tells decimal commas from separators of thousands, by all cells of a column and not by one alone.

``987,5`` and ``1.234,5`` have decimal commas, ``1,234.5`` and ``1,234,567`` have commas between thousands.
``1,234`` and ``1.234`` may be either: other cells of the column tell, or those of the other columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

OTHER = {",": ".", ".": ","}
_START = r"[-+]?[1-9]\d{0,2}"
_EITHER = {sign: re.compile(rf"{_START}\{sign}\d{{3}}", re.ASCII) for sign in OTHER}
"""By the sign that may be before decimals or between thousands."""
_SURE = {
    sign: re.compile(
        rf"[-+]?\d*\{sign}\d+([eE][-+]?\d+)?|{_START}(\{other}\d{{3}})+\{sign}\d+|{_START}(\{other}\d{{3}}){{2,}}",
        re.ASCII,
    )
    for sign, other in OTHER.items()
}
"""By the sign that stands before decimals, or would."""


@dataclass
class Signs:
    """What the cells of a column tell.

    :param decimal: a cell that can have only this sign before its decimals, by the sign
    :param either: a cell whose only comma or point may be one or the other, by that sign
    """

    decimal: dict[str, str] = field(default_factory=dict)
    either: dict[str, str] = field(default_factory=dict)


def read_signs(cells: Iterable[str]) -> Signs:
    """Return what cells tell of commas and points."""
    found = Signs()
    for cell in cells:
        word = cell.strip()
        for sign in OTHER:
            if _EITHER[sign].fullmatch(word):
                found.either.setdefault(sign, word)
                break
            if _SURE[sign].fullmatch(word):
                found.decimal.setdefault(sign, word)
                break
    return found


def decimal_sign(own: Signs, others: Sequence[Signs]) -> str:
    """Return the sign before a column's decimals; empty where nothing tells, or cells contradict each other.

    :param own: of the column
    :param others: of the other columns, which tell where the column itself does not
    """
    found = set(own.decimal) or {sign for one in others for sign in one.decimal}
    return found.pop() if len(found) == 1 else ""


def write_plainly(cell: str, sign: str) -> str:
    """Return a number with a point before decimals and nothing between thousands; other cells as they are.

    :param cell: of a column
    :param sign: before the column's decimals; empty: cells that may be either are left as they are
    """
    word = cell.strip()
    for one, other in OTHER.items():
        if _EITHER[one].fullmatch(word):
            return word.replace(one, "." if sign == one else "") if sign else cell
        if _SURE[one].fullmatch(word):
            return word.replace(other, "").replace(one, ".")
    return cell
