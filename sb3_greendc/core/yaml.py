"""YAML as people read it: numbers and booleans by the rules of YAML 1.2, everything else a string.

PyYAML follows YAML 1.1, which reads ``1e-3`` as a string, ``off`` as false, ``010`` as 8 and
``2019-05-01`` as a date. Hyperparameter files and ``key=value`` options must not surprise like that.
"""

from __future__ import annotations

import copy
import functools
import re
from pathlib import Path
from typing import Any

import yaml

_MOST_DIGITS = 100

MOST_CHARACTERS = 1 << 20
"""The longest text that is read."""
MOST_NODES = 100_000
"""The most values and keys that a text may stand for, once each alias is replaced by what it names."""
DEEPEST = 50
"""How deep lists and mappings may lie within each other."""


class _Loader(yaml.SafeLoader):
    """A safe loader with YAML 1.2's numbers and booleans, which refuses doubled keys and what explodes."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, unless it lies too deep."""
        self.depth += 1
        if self.depth > DEEPEST:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=f"nested more than {DEEPEST} deep", problem_mark=mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping, unless it has a key twice, of which the later would win in silence."""
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, Any], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                name = key.tag, key.value
                if name in lines:
                    raise yaml.MarkedYAMLError(
                        problem=f"key {key.value!r} is there twice, first in line {lines[name]}",
                        problem_mark=key.start_mark,
                    )
                lines[name] = key.start_mark.line + 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        """Return the document, unless its aliases make it huge or endless."""
        node = super().get_single_node()
        if node is not None:
            _count(node, {})
        return node


def _count(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many nodes a node stands for, with its aliases replaced.

    :param node: at most :data:`DEEPEST` deep, but for aliases
    :param sizes: what is known so far, by the identity of the node; 0 for a node that is being counted
    """
    if id(node) in sizes:
        if sizes[id(node)] == 0:
            raise yaml.MarkedYAMLError(problem="an alias within what it names", problem_mark=node.start_mark)
        return sizes[id(node)]
    sizes[id(node)] = 0
    total = 1
    if isinstance(node, yaml.SequenceNode):
        total += sum(_count(item, sizes) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        total += sum(_count(item, sizes) for pair in node.value for item in pair)
    if total > MOST_NODES:
        raise yaml.MarkedYAMLError(
            problem=f"stands for more than {MOST_NODES:,} values", problem_mark=node.start_mark
        )
    sizes[id(node)] = total
    return total


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    if len(text) > _MOST_DIGITS:
        raise yaml.MarkedYAMLError(
            problem=f"a number of more than {_MOST_DIGITS} digits", problem_mark=node.start_mark
        )
    return int(text)


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
    :raises ValueError: if it is not YAML, has a key twice in one mapping, or is longer, deeper or of more
        values than files of settings are; the message names the source and the line
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"{source}: longer than {MOST_CHARACTERS:,} characters")
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ValueError(f"{source}{line}: not valid YAML: {problem}") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:  # a tag that does not fit its value
        raise ValueError(f"{source}: not valid YAML: a value does not fit its tag ({error})") from error


def load(path: Path) -> Any:
    """Return the value of a YAML file (see :func:`parse`)."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MOST_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: must be UTF-8 ({error.reason})") from error
    return copy.deepcopy(_parse_once(text, str(path)))


@functools.lru_cache(maxsize=32)
def _parse_once(text: str, source: str) -> Any:
    """Parse a file that is asked for again and again, as a settings file is for each of many trainings."""
    return parse(text, source)


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
    :raises ValueError: if one is not of that form, or a key is there twice, of which the later would win in
        silence
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator or not key.isidentifier():
            raise ValueError(f"{option} {assignment}: must be key=value")
        if key in values:
            raise ValueError(f"{option} {key}: given twice")
        values[key] = parse(text, f"{option} {key}")
    return values
