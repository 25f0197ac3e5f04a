"""Plain values as JSON and arrays, and nothing but plain values."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np
import pytest
import torch as th

from sb3_greendc.runs.checkpoints import State
from sb3_greendc.runs.trees import pack_tree, unpack_tree


def test_round_trip() -> None:
    value: dict[Any, Any] = {
        "nothing": None,
        3: [1, 2.5, True, "text", math.inf, 0.1 + 0.2],
        "tuple": (1, (), [], {}),
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "bool": np.array([True, False]),
        "empty": np.zeros((0, 3), np.float32),
        "scalar": np.float32(0.1),
        "tensor": th.linspace(0, 1, 5, dtype=th.float64),
        "nan": th.tensor(float("nan")),
    }
    made = unpack_tree(pack_tree(value))
    assert list(made) == list(value)
    for key in (None, 3, "tuple", "nothing"):
        assert made.get(key) == value.get(key)
    for key in ("array", "bool", "empty", "scalar"):
        np.testing.assert_array_equal(made[key], value[key])
        assert (type(made[key]), made[key].dtype) == (type(value[key]), value[key].dtype)
    assert th.equal(made["tensor"], value["tensor"])
    assert made["nan"].isnan() and made["nan"].shape == ()
    made["array"][0, 0] = 7  # it may be written to


def test_dictionaries_of_other_classes_become_plain_ones() -> None:
    made = unpack_tree(pack_tree([OrderedDict(b=1, a=2), defaultdict(float, x=1.0)]))
    assert made == [{"b": 1, "a": 2}, {"x": 1.0}]
    assert [type(one) for one in made] == [dict, dict]


@pytest.mark.parametrize("value", [object(), print, {1}, np.array([object()]), np.array(["text"])])
def test_anything_else_is_refused_by_its_place(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^state\['a'\]\[1\]: "):
        pack_tree({"a": [0, value]})


@pytest.mark.parametrize(
    "tree",
    [
        b"\x80\x05K\x01.",
        b"",
        json.dumps(["object", 0, "|O", [1]]).encode(),
        json.dumps(["array", 0, "|O", [1]]).encode(),
        json.dumps(["array", 9, "<f4", [1]]).encode(),
        json.dumps(["array", 0, "<f4", [7]]).encode(),
        json.dumps(["array", 0, "nothing", [1]]).encode(),
        json.dumps(["dict", 3]).encode(),
        json.dumps({"a": 1}).encode(),
    ],
)
def test_what_is_no_tree_is_a_value_error(tree: bytes) -> None:
    with pytest.raises(ValueError, match="it is no tree of plain values"):
        unpack_tree(State(tree, [memoryview(bytes(8))]))
