"""One block of a hyperparameter file replaced or added; every other block and comment stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml as pyyaml

from sb3_greendc.core import yaml
from sb3_greendc.core.files import atomic_write


def write_block(path: Path, heading: str, settings: Mapping[str, Any], comments: Sequence[str]) -> None:
    """Write a block into a hyperparameter file, whole or not at all.

    A block of the same heading is replaced where it stands, with the comments inside it; an anchor that
    it carries is kept. A new one goes to the end of the file.

    :param path: an existing file
    :param heading: the block's: an environment id
    :param settings: its hyperparameters, plain values
    :param comments: lines at its beginning, without ``#``: where the values come from
    :raises ValueError: if the file is not one of hyperparameters, or is not left with exactly this change
    """
    text = path.read_text(encoding="utf-8")
    before = yaml.parse(text, str(path))
    if not isinstance(before, dict):
        raise ValueError(f"{path}: must map environment ids to hyperparameters")
    changed = _with_block(text, heading, [*_comments(comments), *_lines(settings)])
    after = yaml.parse(changed, f"{path} with the new block")
    users = [key for key in before if key != heading and before[key] != after.get(key)]
    if users:
        raise ValueError(
            f"{path}: {', '.join(users)} would change with {heading!r}, whose values they share (an anchor, "
            "<<); write them out first"
        )
    if after.get(heading) != dict(settings):
        raise ValueError(f"{path}: {heading!r} cannot be written: it would not be read as it was meant")
    with atomic_write(path) as file:
        file.write(changed.encode())


def write_file(path: Path, heading: str, settings: Mapping[str, Any], comments: Sequence[str]) -> None:
    """Write a hyperparameter file of one block, in place of what is there.

    :param path: the file
    :param heading: the block's: an environment id
    :param settings: its hyperparameters, plain values
    :param comments: lines at the beginning of the file, without ``#``
    :raises ValueError: if the file would not be read as it was meant
    """
    lines = [*_comments(comments), f"{heading}:", *(f"  {line}" for line in _lines(settings))]
    text = "\n".join(lines) + "\n"
    if yaml.parse(text, str(path)) != {heading: dict(settings)}:
        raise ValueError(f"{path}: {heading!r} cannot be written: it would not be read as it was meant")
    with atomic_write(path) as file:
        file.write(text.encode())


def _with_block(text: str, heading: str, body: Sequence[str]) -> str:
    lines = text.splitlines()
    head = re.compile(rf"""(["']?){re.escape(heading)}\1\s*:(?P<anchor>\s*&\S+)?""")
    found = next((i for i, line in enumerate(lines) if head.match(line)), None)
    block = [f"{heading}:", *(f"  {line}" for line in body)]
    if found is None:
        return "\n".join([*_without_blank_end(lines), "", *block]) + "\n"
    match = head.match(lines[found])
    assert match is not None
    block[0] += (match["anchor"] or "").rstrip()
    end = found + 1
    for i in range(found + 1, len(lines)):
        if lines[i].strip() and not lines[i][0].isspace():
            break
        if lines[i].strip():
            end = i + 1
    return "\n".join([*lines[:found], *block, *lines[end:]]) + "\n"


def _comments(comments: Sequence[str]) -> list[str]:
    """Return comments as lines of a file; one with line breaks, such as a command, becomes several."""
    return [f"# {line}" for comment in comments for line in comment.splitlines()]


def _lines(settings: Mapping[str, Any]) -> list[str]:
    return [f"{key}: {_flow(value)}" for key, value in settings.items()]


def _flow(value: Any) -> str:
    """Write a value on one line."""
    text: str = pyyaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("...\n").strip()


def _without_blank_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines
