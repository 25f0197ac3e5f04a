"""A batch of environments split among threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from greendc.config import require, require_kinds

Arrays = TypeVar("Arrays", bound=NamedTuple)


class Threads:
    """Calls a function for each share of a batch, the shares side by side.

    The environments of a batch have nothing in common, so that the numbers are those of one thread. It pays
    where the function spends its time in compiled code that lets other threads run
    (:func:`greendc.compiled.unlocked`), and a share takes many times the 50 microseconds or so that handing
    it over costs.

    :param threads: at least 1, and no more than environments
    :param num_envs: environments of the batch
    :raises ValueError: if ``threads`` is no whole number in that range
    """

    def __init__(self, threads: int, num_envs: int) -> None:
        require_kinds({"threads": "int"}, {"threads": threads})
        require(1 <= threads <= num_envs, "threads", threads, f"from 1 to num_envs={num_envs}")
        self._bounds = [num_envs * k // threads for k in range(threads + 1)]
        self._executor: ThreadPoolExecutor | None = None

    @property
    def several(self) -> bool:
        """Whether there is more than one."""
        return len(self._bounds) > 2

    @property
    def shares(self) -> list[slice]:
        """The environments of each thread."""
        return [slice(first, end) for first, end in itertools.pairwise(self._bounds)]

    def run(self, function: Callable[..., object], calls: Sequence[tuple[Any, ...]]) -> None:
        """Call a function once for each share; the first call runs in the calling thread.

        :param calls: the arguments, by share
        """
        if self._executor is None:
            self._executor = ThreadPoolExecutor(len(calls) - 1, "greendc")
        others = [self._executor.submit(function, *call) for call in calls[1:]]
        try:
            function(*calls[0])
        finally:
            for other in others:
                other.result()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the threads: copies start their own."""
        return {"_bounds": self._bounds, "_executor": None}


def rows(arrays: Arrays, share: slice, common: tuple[str, ...] = ()) -> Arrays:
    """Return a NamedTuple of batches with some environments alone; nothing is copied.

    :param common: names of what all environments share
    """
    parts = {name: array[share] for name, array in arrays._asdict().items() if name not in common}
    return arrays._replace(**parts)
