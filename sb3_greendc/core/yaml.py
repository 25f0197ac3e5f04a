"""YAML as people read it: numbers and booleans by the rules of YAML 1.2, everything else a string.

PyYAML follows YAML 1.1, which reads ``1e-3`` as a string, ``off`` as false, ``010`` as 8 and
``2019-05-01`` as a date. Hyperparameter files and ``key=value`` options must not surprise like that.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """A safe loader with YAML 1.2's numbers and booleans."""


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node))


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("merge", r"<<", "<"),
):
    _first_characters = [character if character != "\0" else "" for character in _first]
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first_characters
    )
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def parse(text: str, source: str) -> Any:
    """Return the value of a YAML text.

    :param text: YAML; never code, and no tags but YAML's own
    :param source: what errors call it: a file or an option
    :raises ValueError: if it is not YAML; the message names the source and the line
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ValueError(f"{source}{line}: not valid YAML: {problem}") from error


def load(path: Path) -> Any:
    """Return the value of a YAML file (see :func:`parse`)."""
    return parse(path.read_text(encoding="utf-8"), str(path))


def line_of(path: Path, *keys: str) -> int | None:
    """Return the line (from 1) that holds a nested key, as ``line_of(path, "default", "gamma")``.

    Keys merged in from an anchor (``<<: *name``) are found where they are written.
    """
    node: yaml.Node | None = yaml.compose(path.read_text(encoding="utf-8"), _Loader)
    line = None
    for key in keys:
        found = _find(node, key)
        if found is None:
            return line
        key_node, node = found
        line = key_node.start_mark.line + 1
    return line


def _find(node: yaml.Node | None, key: str) -> tuple[yaml.Node, yaml.Node] | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    for key_node, value in node.value:
        if key_node.value == key:
            return key_node, value
    for key_node, value in node.value:
        merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
        if key_node.tag == "tag:yaml.org,2002:merge":
            for source in merged:
                if found := _find(source, key):
                    return found
    return None


def parse_assignments(assignments: list[str], option: str) -> dict[str, Any]:
    """Return ``["a=1", "b=[x, y]"]`` as a dict of typed values.

    :param assignments: ``key=value`` texts; the values are YAML
    :param option: the command-line option they came from, for errors
    :raises ValueError: if one is not of that form
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator or not key.isidentifier():
            raise ValueError(f"{option} {assignment}: must be key=value")
        values[key] = parse(text, f"{option} {key}")
    return values
