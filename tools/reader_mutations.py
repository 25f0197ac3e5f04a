"""Seeded damage to small files, as disks, editors, spreadsheets and people do it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

Mutation = Callable[[random.Random, bytes], bytes]

_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")
# fmt: off
_STRANGE = (
    "1e308", "1e400", "-1e308", "99999999999999999999", "-1", "-500", "0", "nan", "NaN", "inf",
    "-inf", "NA", "null", "None", "true", "0x1f", "1_000", "1,024", "1.024,5", "1e5", "1d5", "--1",
    "+5", "1e-400", ".5", "5.", ".", "-", "400", "2200", "1e15", '"1"', "1;2", "1:2", "", " ",
    "1 2", " 7 ", "−5", "５", "1\t",
)
# fmt: on
_WORDS = (("kw", "mw"), ("kw", "w"), ("kw", "kwh"), ("g/kWh", "kg/kWh"), ("kg", "g"), ("time", "Time"))
_YEARS = (b"1899", b"1900", b"2100", b"2200", b"9999", b"0001", b"262144", b"21")


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Return ``data`` after one to three changes.

    :param rng: source of all randomness
    :param data: the content of a file
    """
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(MUTATIONS)(rng, data)
    return data


def neutral(rng: random.Random, data: bytes) -> bytes:
    """Return ``data`` after a change that must not matter: a mark, other line ends, blank lines."""
    choice = rng.randrange(4)
    if choice == 0:
        return b"\xef\xbb\xbf" + data
    if choice == 1:
        return data.replace(b"\n", b"\r\n")
    if choice == 2:
        return data + b"\n" * rng.randrange(1, 4)
    return data + b" "


def _at(rng: random.Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def flip_bit(rng: random.Random, data: bytes) -> bytes:
    """Flip a bit."""
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def set_byte(rng: random.Random, data: bytes) -> bytes:
    """Replace a byte, or insert one."""
    at = _at(rng, data)
    new = rng.choice((rng.randrange(256), *b"0123456789.,;- \t\n\r\"'\0#:e"))
    return data[:at] + bytes([new]) + data[at + rng.randrange(2) :]


def truncate(rng: random.Random, data: bytes) -> bytes:
    """Cut off the end: anywhere, or within the last few characters."""
    return data[: -rng.randrange(1, 12)] if rng.random() < 0.5 else data[: _at(rng, data)]


def cut_out(rng: random.Random, data: bytes) -> bytes:
    """Take out a few bytes, or double them."""
    at, size = _at(rng, data), rng.randrange(1, 20)
    return data[:at] + data[at : at + size] * rng.choice((0, 2)) + data[at + size :]


def change_lines(rng: random.Random, data: bytes) -> bytes:
    """Drop, double, swap, join, split or shorten lines."""
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(7)
    if kind == 0:
        del lines[a]
    elif kind == 1:
        lines.insert(b, lines[a])
    elif kind == 2:
        lines[a], lines[b] = lines[b], lines[a]
    elif kind == 3 and a + 1 < len(lines):
        lines[a : a + 2] = [lines[a] + lines[a + 1]]
    elif kind == 4:
        at = _at(rng, lines[a])
        lines[a : a + 1] = [lines[a][:at], lines[a][at:]]
    elif kind == 5:
        lines[a] = lines[a][: _at(rng, lines[a])]
    else:
        lines.insert(a, rng.choice((b"", b" ", b",", b"# a note", b"; a note")))
    return b"\n".join(lines)


def change_fields(rng: random.Random, data: bytes) -> bytes:
    """Drop, double, swap or empty fields of one line; or of two, so that their number is right in total."""
    separator = next((mark for mark in (b"|", b",") if mark in data), b" ")
    lines = data.split(b"\n")
    _change_fields(rng, lines, rng.randrange(len(lines)), rng.randrange(5), separator)
    if rng.random() < 0.3:
        _change_fields(rng, lines, rng.randrange(len(lines)), rng.randrange(2), separator)
    return b"\n".join(lines)


def _change_fields(rng: random.Random, lines: list[bytes], number: int, kind: int, separator: bytes) -> None:
    fields = lines[number].split(separator)
    a, b = rng.randrange(len(fields)), rng.randrange(len(fields))
    if kind == 0:
        del fields[a]
    elif kind == 1:
        fields.insert(b, fields[a])
    elif kind == 2:
        fields[a], fields[b] = fields[b], fields[a]
    elif kind == 3:
        fields[a] = rng.choice(_STRANGE).encode()
    else:
        fields[a] = b'"' + fields[a] + b'"'
    lines[number] = separator.join(fields)


def change_number(rng: random.Random, data: bytes) -> bytes:
    """Replace a number: by something strange, another unit, or another way to write it."""
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    match = rng.choice(found)
    text = match[0].decode()
    new = rng.choice(
        (
            rng.choice(_STRANGE),
            f"-{text}",
            f"{float(text) * 1000:g}",
            f"{float(text) / 1000:g}",
            text.replace(".", ","),
            f"{text}e300",
            text[:-1],
            f"{text}{text}",
        )
    )
    return data[: match.start()] + new.encode() + data[match.end() :]


def change_separators(rng: random.Random, data: bytes) -> bytes:
    """Replace separators: all, or one."""
    old, new = rng.choice(
        ((b",", b";"), (b",", b"\t"), (b" ", b"\t"), (b" ", b","), (b".", b","), (b"-", b"/"))
    )
    if rng.random() < 0.3:
        return data.replace(old, new)
    places = [match.start() for match in re.finditer(re.escape(old), data)]
    if not places:
        return data
    at = rng.choice(places)
    return data[:at] + new + data[at + 1 :]


def change_encoding(rng: random.Random, data: bytes) -> bytes:
    """Write in another encoding, with other line ends, marks or characters."""
    kind = rng.randrange(7)
    if kind == 0:
        return data.decode("utf-8", "replace").encode("utf-16")
    if kind == 1:
        return data.replace(b"\n", b"\r")
    if kind == 2:
        at = _at(rng, data)
        return data[:at] + rng.choice((b"\xe9", b"\xff", b"\0", b"\r", b"\x0c", b"\x1c", b"\x7f")) + data[at:]
    if kind == 3:
        at = _at(rng, data)
        odd = rng.choice(("\u2028", "\x85", "\xa0", "\u200b", "\ufeff", "₂", "٣"))
        return data[:at] + odd.encode() + data[at:]
    if kind == 4:
        return data.rstrip(b"\n")
    return neutral(rng, data)


def change_words(rng: random.Random, data: bytes) -> bytes:
    """Change the unit in a name, the year of a stamp, or a column's name."""
    if rng.random() < 0.5:
        old, new = (word.encode() for word in rng.choice(_WORDS))
        return data.replace(old, new, rng.choice((1, -1)))
    years = list(re.finditer(rb"(?<!\d)(?:19|20)\d\d(?!\d)", data))
    if not years:
        return data
    match = rng.choice(years)
    return data[: match.start()] + rng.choice(_YEARS) + data[match.end() :]


MUTATIONS: tuple[Mutation, ...] = (
    flip_bit,
    set_byte,
    truncate,
    cut_out,
    change_lines,
    change_lines,
    change_fields,
    change_fields,
    change_number,
    change_number,
    change_separators,
    change_encoding,
    change_words,
)
"""Every kind of damage; :func:`mutate` draws from them."""
