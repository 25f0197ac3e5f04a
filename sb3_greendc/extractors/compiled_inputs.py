"""What the job set does by compiled code: reading rows of the image, finding and pooling the jobs of a batch.

The image is most of an observation, and a network that reads three numbers a row and type need not turn it into
floats first: that took a fifth of the time of PPO's updates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray

from greendc.compiled import compiled
from sb3_greendc.core.masking import MASKED_LOGIT

_FULL = 255
"""The upper bound of the image that the compiled code reads."""


def can_summarize(image: th.Tensor, upper: float) -> bool:
    """Tell whether :func:`summarize_rows` takes this image: bytes up to 255, in the processor's memory."""
    return image.dtype is th.uint8 and image.device.type == "cpu" and upper == _FULL


def summarize_rows(image: th.Tensor, n_types: int) -> th.Tensor:
    """Return ``(B, horizon, 3 R)``: mean value, share of cells above 0, share of cells at 255; for each type.

    :param image: ``(B, horizon, R · M)``, bytes
    :param n_types: R
    """
    n_batch, horizon, columns = image.shape
    summaries = np.empty((n_batch, horizon, 3 * n_types), np.float32)
    _summarize(np.ascontiguousarray(image.numpy()), columns // n_types, n_types, summaries)
    return th.from_numpy(summaries)


@compiled
def _summarize(image: NDArray[np.uint8], units: int, types: int, out: NDArray[Any]) -> None:
    cells = image.reshape(-1)
    numbers = out.reshape(-1)
    share = np.float32(1.0 / units)
    mean = np.float32(1.0 / (_FULL * units))
    for row in range(image.shape[0] * image.shape[1]):
        for k in range(types):
            total, above, full = np.int32(0), np.int32(0), np.int32(0)
            start = (row * types + k) * units
            for u in range(start, start + units):
                value = np.int32(cells[u])
                total += value
                above += np.int32(value > 0)
                full += np.int32(value == _FULL)
            place = row * 3 * types + k
            numbers[place] = np.float32(total) * mean
            numbers[place + types] = np.float32(above) * share
            numbers[place + 2 * types] = np.float32(full) * share


def present_slots(table: th.Tensor) -> th.Tensor:
    """Return the slots ``(P,)`` of a table ``(B, n, features)`` that are not all zero, among all ``B · n``."""
    if table.device.type != "cpu" or table.dtype is not th.float32 or table.requires_grad:
        return (table != 0).any(dim=2).flatten().nonzero().squeeze(1)
    slots = np.empty(table.shape[0] * table.shape[1], np.int64)
    n = _find_present(np.ascontiguousarray(table.numpy()), slots)
    return th.from_numpy(slots[:n])


@compiled
def _find_present(table: NDArray[np.float32], slots: NDArray[np.int64]) -> int:
    rows = table.reshape(-1, table.shape[2])
    n = 0
    for slot in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            if rows[slot, f] != 0:
                slots[n] = slot
                n += 1
                break
    return n


def asked_jobs(mask: th.Tensor, slots: th.Tensor, n_jobs: int) -> th.Tensor | None:
    """Return which of the jobs in ``slots`` a mask allows; ``None`` if it allows a slot without a job.

    :param mask: ``(B, A)``, non-zero where an action is valid; the first n actions are the jobs
    :param slots: ``(P,)``, ascending, among all ``B · n`` slots
    :param n_jobs: n
    """
    mask = mask.bool()
    if mask.device.type != "cpu":
        wanted = mask[:, :n_jobs].flatten()
        asked = wanted.index_select(0, slots).nonzero().squeeze(1)
        return asked if len(asked) == int(wanted.count_nonzero()) else None
    found = np.empty(slots.shape[0], np.int64)
    n = _find_asked(np.ascontiguousarray(mask.numpy()), slots.numpy(), n_jobs, found)
    return th.from_numpy(found[:n]) if n >= 0 else None


@compiled
def _find_asked(
    mask: NDArray[np.bool_], slots: NDArray[np.int64], n_jobs: int, found: NDArray[np.int64]
) -> int:
    n, place = 0, 0
    for row in range(mask.shape[0]):
        for job in range(n_jobs):
            slot = row * n_jobs + job
            present = place < len(slots) and slots[place] == slot
            if mask[row, job]:
                if not present:
                    return -1
                found[n] = place
                n += 1
            place += present
    return n


def pool(jobs: th.Tensor, owners: th.Tensor, n_batch: int) -> tuple[th.Tensor, th.Tensor]:
    """Return mean and maximum ``(B, D)`` of the embeddings of each observation's jobs; zeros if it has none.

    :param jobs: ``(P, D)``, of all observations
    :param owners: ``(P,)``, the observation of each, ascending
    :param n_batch: B
    """
    if jobs.device.type == "cpu" and jobs.dtype is th.float32:
        pooled: tuple[th.Tensor, th.Tensor] = _Pool.apply(jobs, owners, n_batch)  # type: ignore[no-untyped-call]
        return pooled
    n_present = th.bincount(owners, minlength=n_batch).unsqueeze(1)
    total = jobs.new_zeros(n_batch, jobs.shape[1]).index_add(0, owners, jobs)
    lowest = jobs.new_full((n_batch, jobs.shape[1]), MASKED_LOGIT)
    maximum = lowest.scatter_reduce(0, owners.unsqueeze(1).expand_as(jobs), jobs, "amax")
    return total / n_present.clamp(min=1), maximum * (n_present > 0)


class _Pool(th.autograd.Function):
    """The same in one pass over the jobs in each direction; of equal maxima, the first gets the gradient."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, jobs: th.Tensor, owners: th.Tensor, n_batch: int
    ) -> tuple[th.Tensor, th.Tensor]:
        width = jobs.shape[1]
        mean, maximum = np.zeros((n_batch, width), np.float32), np.zeros((n_batch, width), np.float32)
        greatest = np.full((n_batch, width), -1, np.int32)
        _pool(np.ascontiguousarray(jobs.detach().numpy()), owners.numpy(), mean, maximum, greatest)
        ctx.save_for_backward(owners)
        ctx.greatest, ctx.n_jobs = greatest, len(jobs)
        return th.from_numpy(mean), th.from_numpy(maximum)

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, of_mean: th.Tensor, of_maximum: th.Tensor
    ) -> tuple[th.Tensor, None, None]:
        (owners,) = ctx.saved_tensors
        gradient = np.empty((ctx.n_jobs, of_mean.shape[1]), np.float32)
        parts = [np.ascontiguousarray(part.numpy()) for part in (of_mean, of_maximum)]
        _pool_backward(*parts, owners.numpy(), ctx.greatest, gradient)
        return th.from_numpy(gradient), None, None


@compiled
def _pool(jobs: Any, owners: Any, mean: Any, maximum: Any, greatest: Any) -> None:
    width = jobs.shape[1]
    first = 0
    while first < len(owners):
        owner = owners[first]
        last = first + 1
        for f in range(width):
            mean[owner, f] = jobs[first, f]
            maximum[owner, f] = jobs[first, f]
            greatest[owner, f] = first
        while last < len(owners) and owners[last] == owner:
            for f in range(width):
                value = jobs[last, f]
                mean[owner, f] += value
                if value > maximum[owner, f]:
                    maximum[owner, f] = value
                    greatest[owner, f] = last
            last += 1
        if last > first + 1:
            share = np.float32(1.0 / (last - first))
            for f in range(width):
                mean[owner, f] *= share
        first = last


@compiled
def _pool_backward(of_mean: Any, of_maximum: Any, owners: Any, greatest: Any, gradient: Any) -> None:
    width = gradient.shape[1]
    first = 0
    while first < len(owners):
        owner = owners[first]
        last = first + 1
        while last < len(owners) and owners[last] == owner:
            last += 1
        share = np.float32(1.0 / (last - first))
        for job in range(first, last):
            for f in range(width):
                of_max = of_maximum[owner, f] if greatest[owner, f] == job else np.float32(0.0)
                gradient[job, f] = of_mean[owner, f] * share + of_max
        first = last
