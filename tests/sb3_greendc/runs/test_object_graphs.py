"""Objects take a written state as if they were those that had it; files name nothing that is not there."""

from __future__ import annotations

import enum
import functools
import random
import sys
import threading
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

import greendc
from sb3_greendc.runs.graph_decoder import GraphDecoder
from sb3_greendc.runs.object_graphs import GraphEncoder, NotKeptError
from sb3_greendc.runs.trees import pack_tree, unpack_tree


class Mode(enum.Enum):
    """Two values."""

    SLOW = 1
    FAST = 2


class Pair(NamedTuple):
    """Two things."""

    left: Any
    right: Any


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("__hidden", "x")

    def __init__(self, x: int) -> None:
        self.x, self.__hidden = x, [x]

    def hidden(self) -> list[int]:
        return self.__hidden


class Cursed(list[int]):
    """A list that is more than one."""


RECORD = np.dtype([("units", "<i4", (2,)), ("name", "S3"), ("at", "<M8[s]")], align=True)


def counter() -> Callable[[], int]:
    n = 0

    def count() -> int:
        nonlocal n
        n += 1
        return n

    return count


class World:
    """Something of every kind, and methods that use it up."""

    def __init__(self) -> None:
        self.numbers = {"a": 1, 3: [1.5, float("inf"), None, True], (1, 2): "text", Mode: Mode.SLOW}
        self.ordered, self.counts = OrderedDict(b=1, a=2), defaultdict(int, x=1)
        self.recent: deque[Any] = deque([1, 2], maxlen=3)
        self.seen, self.frozen = {1, 2}, frozenset({(3, "x")})
        self.raw, self.buffer = b"raw", bytearray(b"buffer")
        self.generator = np.random.default_rng(1)
        self.legacy = np.random.RandomState(1)
        self.python, self.torch = random.Random(1), th.Generator().manual_seed(1)
        self.draw, self.method = self.generator.integers, self.python.random
        self.array = np.arange(6, dtype=np.int16).reshape(2, 3)
        self.fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        self.records = np.zeros(2, RECORD)
        self.when, self.thing = np.datetime64("2020-01-01"), np.array([{"x": 1}, None], object)
        self.shared = self.array
        self.pair = Pair(self.array, [self])
        self.slotted = Slotted(1)
        self.later: Slotted | None = None
        self.count, self.bound = counter(), functools.partial(max, [1])
        self.network = th.nn.Linear(2, 1)
        self.optimizer = th.optim.Adam(self.network.parameters())
        self.mode = Mode.SLOW
        self.weak = weakref.ref(self.network)

    def live(self) -> None:
        self.numbers["a"] = 5
        self.numbers[Mode] = Mode.FAST
        self.ordered.move_to_end("b")
        self.counts["y"] += 2
        self.recent.extend([3, 4])
        self.seen.add(9)
        self.buffer += b"!"
        for draws in (self.generator, self.legacy):
            draws.random(5)
        self.python.random()
        th.rand(3, generator=self.torch)
        self.array[0, 0] = 77
        self.fortran *= 2
        self.records["name"] = b"abc"
        self.records["at"] = np.datetime64("2021-05-05")
        self.when = np.datetime64("2022-02-02")
        self.slotted.x = 8
        self.slotted.hidden().append(8)
        self.later = Slotted(5)
        self.count()
        self.bound.args[0].append(4)
        self.mode = Mode.FAST
        self.network(th.ones(1, 2)).sum().backward()
        self.optimizer.step()

    def look(self) -> list[Any]:
        """Tell everything, and what comes next."""
        assert self.later is not None
        state = self.optimizer.state_dict()
        return [
            self.numbers, list(self.ordered), dict(self.counts), self.counts["z"], list(self.recent),
            self.recent.maxlen, self.seen, self.frozen, self.raw, bytes(self.buffer),
            self.generator.random(), self.legacy.rand(), self.python.random(),
            th.rand(1, generator=self.torch).item(), int(self.draw(1 << 40)), self.method(),
            self.array.tolist(), self.array.dtype, self.fortran.tolist(), self.fortran.flags.f_contiguous,
            self.records["units"].tolist(), self.records[["name", "at"]].tolist(), self.records.dtype,
            self.records.dtype.isalignedstruct, self.when, self.thing.tolist(),
            self.slotted.x, self.slotted.hidden(), self.later.x, self.later.hidden(),
            self.count(), self.bound(), self.mode,
            [parameter.tolist() for parameter in self.network.parameters()],
            self.weak() is self.network,
            str(state), self.shared is self.array, self.pair.left is self.array, self.pair.right[0] is self,
            self.optimizer.param_groups[0]["params"][0] is self.network.weight,
        ]  # fmt: skip


def carried(value: Any, fresh: Any) -> Any:
    """Return what a fresh value becomes that is given the state of another."""
    tree = unpack_tree(pack_tree(GraphEncoder({}).encode(value, "world")))
    met = GraphEncoder({})
    met.encode(fresh, "world")
    return GraphDecoder({"device": th.device("cpu")}, met, lambda name: None).decode(tree, fresh, "world")


def test_a_fresh_object_becomes_the_other_one() -> None:
    th.manual_seed(0)
    world, fresh = World(), World()
    world.live()
    assert carried(world, fresh) is fresh
    assert fresh.look() == world.look()
    assert fresh.look() == world.look()  # and goes on as it does


def test_an_attribute_that_is_gone_goes() -> None:
    one, other = Slotted(1), Slotted(2)
    del one.x
    assert not hasattr(carried(one, other), "x")


def test_what_two_share_in_the_fresh_one_alone_is_not_shared() -> None:
    same = [0]
    made = carried([[1], [2]], [same, same])
    assert made == [[1], [2]]


def test_rows_of_a_view_are_not_written_twice() -> None:
    base = np.zeros(4)
    made = carried([np.ones(2), np.full(2, 2.0)], [base[:2], base[:2]])
    assert [array.tolist() for array in made] == [[1, 1], [2, 2]]


def test_rows_of_a_buffer_that_were_not_written_are_left_out_if_they_are_zeros() -> None:
    space = spaces.Box(0.0, 1.0, (2,))
    one, other = (ReplayBuffer(1000, space, space, "cpu") for _ in range(2))
    one.rewards[:2] = 0.5
    one.pos = 2
    weights = np.arange(1.0, 1001.0)
    one.weights, other.weights = weights, np.ones(1000)  # type: ignore[attr-defined]
    state = pack_tree(GraphEncoder({}).encode(one, "buffer"))
    assert sum(len(array) for array in state.arrays) < 9_000  # the weights alone are of 8,000 bytes
    made = carried(one, other)
    assert made.weights.tolist() == weights.tolist()
    assert made.rewards.sum() == 1.0
    assert made.rewards.shape == (1000, 1)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (threading.Lock(), "lock"),
        (sys.__stdout__, "TextIOWrapper"),
        ((x for x in (1, 2)), "generator"),
        (Cursed([1]), "Cursed"),
        (np.zeros(1, [("x", object)]), "array"),
    ],
)
def test_what_cannot_be_kept_is_named_with_its_place(value: Any, named: str) -> None:
    with pytest.raises(NotKeptError, match=rf"^env\['a'\]\[1\]: .*{named}"):
        GraphEncoder({}).encode({"a": [0, value]}, "env")


@pytest.mark.parametrize(
    ("tree", "fresh"),
    [
        (["fixed", "posix:system"], None),
        (["fixed", "posix:system"], len),
        (["function", 0, "os:system", []], None),
        (["object", 0, "subprocess:Popen", [["args", "true"]]], None),
        (["object", 0, "subprocess:Popen", [["args", "true"]]], Slotted(1)),
        (["self-made", 0, "subprocess:Popen", 1], None),
        (["record", "subprocess:Popen", []], None),
        (["enum", "subprocess:Popen", "x"], None),
        (["method", 0, "system", 1], None),
        (["partial", 0, [1, 2, 3]], None),
        (["array of records", 0, -1, "C", '"|O"', [1], np.zeros(8, np.uint8)], None),
    ],
)
def test_a_file_names_nothing_that_is_not_there(tree: list[Any], fresh: Any) -> None:
    decoder = GraphDecoder({"device": th.device("cpu")}, GraphEncoder({}), lambda name: None)
    with pytest.raises(ValueError):
        decoder.decode(tree, fresh, "model")


@pytest.mark.parametrize("env_id", ["VCC-2019", "ResourcePool-10"])
def test_arrays_of_a_simulator_keep_their_shapes(env_id: str) -> None:
    """Compiled code would read and write behind them."""
    two, three = (greendc.make_simulator(env_id, n) for n in (2, 3))
    with pytest.raises(ValueError, match=r"there, .* here"):
        carried(two, three)
