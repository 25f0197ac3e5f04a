"""YAML: the numbers of YAML 1.2, one error with a line, and nothing that explodes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sb3_greendc.core import yaml


def laughs(levels: int, merge: bool = False) -> str:
    """A few lines that stand for nine to the power of ``levels`` values."""
    if merge:
        lines = ["a0: &a0 {k: 1}"]
        lines += [f"a{i}: &a{i}\n  <<: [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels + 1)]
    else:
        lines = ["a0: &a0 [lol]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels + 1)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("off", "off"),
        ("010", 10),
        ("2019-05-01", "2019-05-01"),
        ("1:30", "1:30"),
        ("~", None),
        ("TRUE", True),
        ("-.inf", float("-inf")),
        ("{a: [1, 2.5], b: x}", {"a": [1, 2.5], "b": "x"}),
    ],
)
def test_values(text: str, value: object) -> None:
    found = yaml.parse(text, "x")
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "first"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 1),
        ("top:\n  gamma: 0.9\n  n_steps: 5\n  gamma: 0.99\n", 4, 2),
        ("{a: 1,\n b: {c: 1, c: 2}}", 2, 2),
        ("x: &x {k: 1}\ny:\n  <<: *x\n  <<: *x\n", 4, 3),
    ],
)
def test_a_key_that_is_there_twice_is_named_with_both_lines(
    tmp_path: Path, text: str, line: int, first: int
) -> None:
    path = tmp_path / "hparams.yml"
    path.write_text(text)
    message = rf"hparams\.yml, line {line}: not valid YAML: key '.*' is there twice, first in line {first}"
    with pytest.raises(ValueError, match=message):
        yaml.load(path)
    with pytest.raises(Exception, match="is there twice"):
        yaml.line_of(path, "a")


def test_a_merged_key_may_be_written_anew() -> None:
    text = "base: &base {gamma: 0.9, n_steps: 5}\nmine:\n  <<: *base\n  gamma: 0.99\n"
    assert yaml.parse(text, "x")["mine"] == {"gamma": 0.99, "n_steps": 5}


@pytest.mark.parametrize("merge", [False, True])
def test_a_few_lines_that_stand_for_billions_of_values_are_refused_at_once(merge: bool) -> None:
    assert yaml.parse(laughs(3, merge), "x")
    began = time.process_time()
    with pytest.raises(ValueError, match=r"x, line \d+: not valid YAML: stands for more than 100,000 values"):
        yaml.parse(laughs(30, merge), "x")
    assert time.process_time() - began < 5.0, "without the limit it takes longer than anybody waits"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 60 + "]" * 60, "x, line 1: not valid YAML: nested more than 50 deep"),
        ("[" * 200_000, "x, line 1: not valid YAML: nested more than 50 deep"),
        ("\n".join("  " * i + "a:" for i in range(60)), "nested more than 50 deep"),
        ("a: &a [*a]", "x, line 1: not valid YAML: an alias within what it names"),
        ("a: " + "x" * (1 << 20), "x: longer than 1,048,576 characters"),
        ("a: " + "9" * 5000, "x, line 1: not valid YAML: a number of more than 100 digits"),
        ("a: !!int x", "x.*: not valid YAML"),
        ("a: !!timestamp x", "x.*: not valid YAML"),
        (
            "a: !!python/object/apply:os.system [ls]",
            "x, line 1: not valid YAML: could not determine a constr",
        ),
        ("? [a]\n: 1", "x, line 1: not valid YAML: found unhashable key"),
        ("a: \0", "x: not valid YAML"),
    ],
)
def test_what_is_no_file_of_settings(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        yaml.parse(text, "x")
    assert "\n" not in str(error.value)


def test_options_are_read_by_the_same_rules(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--hparams a, line 1: not valid YAML: nested more than 50 deep"):
        yaml.parse_assignments(["a=" + "[" * 1000], "--hparams")
    with pytest.raises(ValueError, match="--hparams a, line 1: not valid YAML: key 'b' is there twice"):
        yaml.parse_assignments(["a={b: 1, b: 2}"], "--hparams")
    (tmp_path / "latin.yml").write_bytes("a: \xe9".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.yml: must be UTF-8"):
        yaml.load(tmp_path / "latin.yml")


def test_what_a_file_holds_may_be_changed_and_is_read_as_it_is(tmp_path):
    path = tmp_path / "settings.yml"
    path.write_text("default: {gamma: 0.9}\n")
    yaml.load(path)["default"]["gamma"] = 0.5
    assert yaml.load(path) == {"default": {"gamma": 0.9}}
    path.write_text("default: {gamma: 0.8}\n")
    assert yaml.load(path) == {"default": {"gamma": 0.8}}
