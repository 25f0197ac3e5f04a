"""A block is replaced or added; every other line of the file stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from sb3_greendc.core import yaml
from sb3_greendc.tuning.zoo_block import write_block, write_file

FILE = """\
# Settings of an algorithm.
default: &default
  gamma: 0.99  # a comment
  policy_kwargs: {net_arch: [64, 64]}

# What follows was found by hand.
VCC-*: &vcc
  <<: *default
  # inside
  gamma: 0.985

# The last one.
DiscreteVCC-*:
  <<: *vcc
"""
SETTINGS = {
    "policy": "MlpPolicy",
    "learning_rate": "lin_0.0003",
    "ent_coef": 1e-5,
    "policy_kwargs": {"net_arch": [8]},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ppo.yml"
    path.write_text(FILE)
    return path


def test_new_block_goes_to_the_end(path: Path) -> None:
    write_block(path, "VCC-2021-v1", SETTINGS, ["found so", "and so"])
    assert path.read_text() == FILE + (
        "\nVCC-2021-v1:\n  # found so\n  # and so\n  policy: MlpPolicy\n  learning_rate: lin_0.0003\n"
        "  ent_coef: 1.0e-05\n  policy_kwargs: {net_arch: [8]}\n"
    )
    assert yaml.load(path)["VCC-2021-v1"] == SETTINGS


def test_line_breaks_in_comments_stay_in_comments(path: Path) -> None:
    command = "Train it: greendc tune --study 'a\nb: c'"
    write_block(path, "VCC-2021-v1", SETTINGS, [command])
    assert yaml.load(path)["VCC-2021-v1"] == SETTINGS
    write_file(path, "VCC-2021-v1", SETTINGS, [command])
    assert path.read_text().startswith("# Train it: greendc tune --study 'a\n# b: c'\nVCC-2021-v1:\n")
    assert yaml.load(path) == {"VCC-2021-v1": SETTINGS}


def test_writing_twice_leaves_the_second(path: Path) -> None:
    write_block(path, "VCC-2021-v1", SETTINGS, ["first"])
    write_block(path, "VCC-2021-v1", {"gamma": 0.5}, ["second"])
    assert path.read_text() == FILE + "\nVCC-2021-v1:\n  # second\n  gamma: 0.5\n"


def test_block_in_the_middle_is_replaced_where_it_stands(path: Path) -> None:
    write_block(path, "DiscreteVCC-*", {"gamma": 0.5}, [])
    assert path.read_text() == FILE.replace("  <<: *vcc\n", "  gamma: 0.5\n")
    write_block(path, "VCC-*", {"gamma": 0.6}, ["found so"])
    changed = "VCC-*: &vcc\n  # found so\n  gamma: 0.6\n\n# The last one.\nDiscreteVCC-*:\n  gamma: 0.5\n"
    assert path.read_text().endswith(f"# What follows was found by hand.\n{changed}")


def test_blocks_that_share_the_values_are_not_changed_unasked(path: Path) -> None:
    with pytest.raises(ValueError, match=r"DiscreteVCC-\* would change with 'VCC-\*'"):
        write_block(path, "VCC-*", {"gamma": 0.6}, [])
    assert path.read_text() == FILE
    assert list(path.parent.iterdir()) == [path]
