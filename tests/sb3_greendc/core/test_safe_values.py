"""Values as JSON and tensors: what is read is what was written, and nothing else can be read."""

from __future__ import annotations

import json
import math
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.utils import FloatSchedule, LinearSchedule
from torch import nn

from sb3_greendc.core import safe_classes
from sb3_greendc.core.safe_values import Decoder, Encoder, NotExpressibleError


def there_and_back(value: Any, inline: bool = False) -> Any:
    encoder = Encoder(inline)
    text = json.dumps(encoder.encode(value, "x"), allow_nan=False)
    return Decoder(encoder.tensors).decode(json.loads(text))


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, th.Tensor):
        return a.dtype == b.dtype and th.equal(a, b)
    return bool(a == b or (a != a and b != b))


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        [None, True, 1, -(2**100), "x", 0.1 + 0.2, 5e-324],
        [math.inf, -math.inf, math.nan],
        {"a": {"$": "tensor", "name": "x"}, "b": ()},
        {1: "one", (2, "x"): {"y": [3]}},
        deque([1.0, 2.0], maxlen=2),
        np.array([[1.5, -np.inf], [np.nan, 1e300]]),
        np.array([], dtype=np.float32),
        np.array(3, dtype=np.int8),
        np.array([True, False]),
        {"a/b": np.zeros(1), "a": {"b": np.ones(1)}},
        {1: np.zeros(1), "1": np.ones(1)},
        (np.float32(0.1), np.int64(7), np.bool_(True), np.float64("inf")),
        (np.float32, np.uint8, np.bool_, np.dtype("float16"), nn.Tanh, th.optim.Adam),
    ],
    ids=repr,
)
def test_values_come_back(value: Any, inline: bool) -> None:
    assert same(there_and_back(value, inline), value)


def test_a_tensor_that_two_share_is_kept_once() -> None:
    tensor = th.arange(9.0).reshape(3, 3)
    encoder = Encoder()
    encoded = encoder.encode({"a": tensor, "b": [tensor], "turned": tensor.T}, "x")
    assert sorted(encoder.tensors) == ["x/a", "x/turned"]
    back = Decoder(encoder.tensors).decode(encoded)
    assert same(back, {"a": tensor, "b": [tensor], "turned": tensor.T})


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.array([1.0, 0.1], np.float32), (2,), np.float32),
        spaces.Box(0, 255, (2, 2, 1), np.uint8),
        spaces.Discrete(4, start=2),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(3),
        spaces.MultiBinary([2, 2]),
        spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("inline", [False, True])
def test_spaces_come_back_and_go_on_drawing(space: spaces.Space[Any], inline: bool) -> None:
    space.seed(3)
    space.sample()
    back = there_and_back(space, inline)
    assert back == space
    assert back.dtype == space.dtype
    for _ in range(3):
        assert same(back.sample(), space.sample())


def test_the_order_of_a_dict_space_is_kept() -> None:
    from collections import OrderedDict

    space = spaces.Dict(OrderedDict(z=spaces.Discrete(2), a=spaces.Box(0, 1, (1,))))
    assert list(there_and_back(space).spaces) == ["z", "a"]


def test_schedules_and_noise_come_back() -> None:
    schedule = there_and_back(FloatSchedule(LinearSchedule(0.3, 0.1, 0.7)))
    assert [schedule(x) for x in (1.0, 0.6, 0.0)] == [
        FloatSchedule(LinearSchedule(0.3, 0.1, 0.7))(x) for x in (1.0, 0.6, 0.0)
    ]
    noise = NormalActionNoise(np.zeros(2), np.ones(2))
    back = there_and_back(noise)
    np.random.seed(1)  # noqa: NPY002  # SB3's noise draws from it
    drawn = noise()
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(back(), drawn)


class Own(nn.Module):
    """A class of a user's."""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda progress: 0.1, "x/0: a builtins.function"),
        (Own, r"x/0: class test_safe_values\.Own is none"),
        (Own(), r"x/0: a test_safe_values\.Own"),
        (np.array(["text"]), "x/0: an array of <U4"),
        (np.random.default_rng(0), "x/0: a numpy.random"),
        ({1, 2}, "x/0: a builtins.set"),
    ],
)
def test_what_cannot_be_kept_is_named(value: Any, message: str) -> None:
    with pytest.raises(NotExpressibleError, match=message):
        Encoder().encode([value], "x")


def test_a_list_in_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(NotExpressibleError, match="nested too deeply"):
        Encoder().encode(endless, "x")


def test_a_class_of_ones_own_is_known_once_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_classes, "_registered", {})
    with pytest.raises(ValueError, match="int: must be a policy"):
        safe_classes.register_class(int)
    safe_classes.register_class(Own)
    assert there_and_back([Own]) == [Own]
    monkeypatch.setattr(safe_classes, "_registered", {})
    with pytest.raises(ValueError, match="Own': none that a saved model may name"):
        Decoder({}).decode({"$": "class", "name": f"{Own.__module__}:Own"})


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "subprocess:Popen",
        "torch.optim.adam:Tensor",
        "torch.nn.modules.activation:warnings",
        "stable_baselines3.common.policies:np",
        "stable_baselines3.common.buffers:ABC",
        "stable_baselines3.common.utils:get_latest_run_id",
        "pickle:Unpickler",
        "sb3_greendc.discrete_sac.buffers:NStepSamples",
        7,
    ],
)
def test_a_class_outside_the_list_is_refused_and_not_imported(name: Any) -> None:
    for tag in ("class", "record", "enum"):
        with pytest.raises(ValueError, match="none that a saved model may name"):
            Decoder({}).decode({"$": tag, "class": name, "name": name, "state": {}, "items": []})


def test_a_module_outside_the_list_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import pathlib\nfrom torch import nn\npathlib.Path(__file__).with_name('ran').mkdir()\n"
    (tmp_path / "hostile_module.py").write_text(code + "class Net(nn.Module): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="none that a saved model may name"):
        Decoder({}).decode({"$": "class", "name": "hostile_module:Net"})
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "value",
    [
        {"$": "unknown"},
        {"$": []},
        {"$": "tensor", "name": "none"},
        {"$": "tensor"},
        {"$": "array", "dtype": "object", "shape": [1], "items": [1]},
        {"$": "array", "dtype": "float32", "shape": [3], "items": [1]},
        {"$": "record", "class": "torch.nn.modules.activation:Tanh", "state": {}},
        {"$": "record", "class": "stable_baselines3.common.utils:FloatSchedule", "state": {"__call__": 1}},
        {"$": "record", "class": "stable_baselines3.common.utils:FloatSchedule", "state": {"__class__": 1}},
        {"$": "space", "kind": "Text", "dtype": None, "random": None},
        {"$": "space", "kind": "Discrete", "n": -1, "start": 0, "dtype": None, "random": None},
        {"$": "dict", "items": [[[], 1]]},
    ],
    ids=str,
)
def test_nonsense_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        Decoder({}).decode([value])


def test_every_listed_module_is_there() -> None:
    import importlib

    for name in (*safe_classes._MODULES, *(record.partition(":")[0] for record in safe_classes._RECORDS)):
        importlib.import_module(name)
    for record in safe_classes._RECORDS:
        assert safe_classes.is_record(safe_classes.class_named(record))


def test_the_generator_of_the_actions_is_kept_and_that_of_observations_is_not():
    saved = {}
    for seed in (1, 2):
        space = spaces.Dict(jobs=spaces.Box(0, 1, (2,)), mode=spaces.Discrete(3))
        space.seed(seed)
        saved[seed] = {name: Encoder().encode(space, name) for name in ("observation_space", "action_space")}
    assert saved[1]["observation_space"] == saved[2]["observation_space"]
    assert saved[1]["action_space"] != saved[2]["action_space"]
