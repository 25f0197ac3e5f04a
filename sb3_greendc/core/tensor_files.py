"""Tensors as bytes in the safetensors format: what a file holds is known from its header alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

import safetensors
import safetensors.torch
import torch as th

LARGEST_HEADER = 16 * 2**20


@dataclass(frozen=True)
class TensorInfo:
    """What a header says of a tensor.

    :param dtype: as safetensors names it: ``"F32"``
    :param shape: its shape
    """

    dtype: str
    shape: tuple[int, ...]


def tensors_to_bytes(tensors: Mapping[str, th.Tensor]) -> bytes:
    """Return tensors, by name, as the bytes of a file.

    :param tensors: contiguous, and none in another's memory
    """
    return safetensors.torch.save(dict(tensors))


def tensors_from_bytes(data: bytes) -> dict[str, th.Tensor]:
    """Return the tensors of a file by name.

    :raises ValueError: if it is none
    """
    try:
        return safetensors.torch.load(data)
    except (safetensors.SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"not a file of tensors: {error}") from error


def read_header(file: BinaryIO) -> tuple[dict[str, TensorInfo], int]:
    """Return what a file holds, and the size in bytes that its header gives it, without reading tensors.

    :param file: at its begin
    :raises ValueError: if it is no file of tensors
    """
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= LARGEST_HEADER:
        raise ValueError(f"not a file of tensors: a header of {length} bytes")
    try:
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        infos = {name: TensorInfo(one["dtype"], tuple(one["shape"])) for name, one in header.items()}
        ends = [int(one["data_offsets"][1]) for one in header.values()]
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"not a file of tensors: its header is no such header ({error})") from error
    return infos, 8 + length + max(ends, default=0)


def info_of(tensor: th.Tensor) -> TensorInfo:
    """Return what a header would say of a tensor.

    :raises ValueError: for a dtype that is not known here
    """
    if tensor.dtype not in _NAMES:
        raise ValueError(f"tensor of {tensor.dtype}: no dtype of a saved tensor")
    return TensorInfo(_NAMES[tensor.dtype], tuple(tensor.shape))


_NAMES = {
    th.bool: "BOOL",
    th.uint8: "U8",
    th.int8: "I8",
    th.int16: "I16",
    th.int32: "I32",
    th.int64: "I64",
    th.float16: "F16",
    th.bfloat16: "BF16",
    th.float32: "F32",
    th.float64: "F64",
}
