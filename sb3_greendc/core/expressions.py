"""The ``dict(...)`` strings and class names of rl-zoo3's hyperparameter files, read without ``eval``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import torch as th
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor, NatureCNN

from greendc.config import nearest

CLASSES: dict[str, type] = {
    **{name: getattr(th.nn, name) for name in ("ELU", "GELU", "LeakyReLU", "Mish", "ReLU", "SiLU", "Tanh")},
    **{name: getattr(th.optim, name) for name in ("Adam", "AdamW", "RMSprop", "SGD")},
    **{cls.__name__: cls for cls in (RMSpropTFLike, CombinedExtractor, FlattenExtractor, NatureCNN)},
}
"""Classes that a hyperparameter file may name, with or without their module (``nn.ReLU``)."""

_CLASS_KEYS = ("activation_fn", "optimizer_class", "features_extractor_class")


def read_mapping(value: object) -> dict[str, Any]:
    """Return a mapping written as YAML, as a Python ``{...}`` literal, or as ``dict(a=1, b=nn.ReLU)``.

    Names of classes become the classes (:data:`CLASSES`), in strings under the keys that hold classes
    and as bare names in a ``dict(...)``.

    :param value: a mapping or a string
    :raises ValueError: if it is neither, or if it holds anything but values and known classes
    """
    if isinstance(value, str):
        try:
            tree = ast.parse(value.strip(), mode="eval").body
        except SyntaxError as error:
            raise ValueError(f"{value!r}: not a mapping or dict(...)") from error
        if isinstance(tree, ast.Name | ast.Attribute):
            raise ValueError(f"{value!r}: not a mapping or dict(...)")
        value = _evaluate(tree)
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r}: not a mapping or dict(...)")
    return {
        key: known_class(item) if key in _CLASS_KEYS and isinstance(item, str) else item
        for key, item in value.items()
    }


def known_class(name: str) -> type:
    """Return the class of that name.

    :raises ValueError: if it is not one of :data:`CLASSES`; the message names the nearest
    """
    short = name.rpartition(".")[2]
    if short not in CLASSES:
        raise ValueError(
            f"unknown class {name!r}{nearest(short, CLASSES)} (known: {', '.join(sorted(CLASSES))})"
        )
    return CLASSES[short]


def _evaluate(node: ast.expr) -> Any:
    match node:
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return {_keyword(keyword): _evaluate(keyword.value) for keyword in keywords}
        case ast.Dict(keys=keys, values=values):
            return {_evaluate(_key(key)): _evaluate(value) for key, value in zip(keys, values, strict=True)}
        case ast.List(elts=items):
            return [_evaluate(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_evaluate(item) for item in items)
        case ast.Name() | ast.Attribute():
            return known_class(ast.unparse(node))
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise ValueError(
            f"{ast.unparse(node)!r}: only numbers, strings, lists, dict(...) and known classes are read"
        ) from error


def _keyword(keyword: ast.keyword) -> str:
    if keyword.arg is None:
        raise ValueError("dict(...) with ** is not read")
    return keyword.arg


def _key(key: ast.expr | None) -> ast.expr:
    if key is None:
        raise ValueError("a dict with ** is not read")
    return key
