"""What the job set does by compiled code: it reads rows of the image, and finds and pools jobs.

The image is most of an observation. A network that reads three numbers a row and type need not turn it into
floats first, which took a fifth of the time of PPO's updates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from numpy.typing import NDArray

from greendc.lazy import LazyModule
from sb3_greendc.core.masking import MASKED_LOGIT

if TYPE_CHECKING:
    from sb3_greendc.extractors import kernel
else:
    kernel = LazyModule("sb3_greendc.extractors.kernel")  # Numba takes a while to import

FULL = 255
"""The upper bound of the image that the compiled code reads."""


def can_summarize(image: th.Tensor, upper: float) -> bool:
    """Tell whether :func:`summarize_rows` takes this image: bytes up to 255, in the processor's memory."""
    return image.dtype is th.uint8 and image.device.type == "cpu" and upper == FULL


def summarize_rows(image: th.Tensor, n_types: int) -> th.Tensor:
    """Return ``(B, horizon, 3 R)``: mean value, share of cells above 0, share of cells at 255; for each type.

    :param image: ``(B, horizon, R · M)``, bytes
    :param n_types: R
    """
    n_batch, horizon, columns = image.shape
    summaries = np.empty((n_batch, horizon, 3 * n_types), np.float32)
    kernel.summarize(np.ascontiguousarray(image.numpy()), columns // n_types, n_types, summaries)
    return th.from_numpy(summaries)


def present_slots(table: th.Tensor) -> th.Tensor:
    """Return the slots ``(P,)`` of a table ``(B, n, features)``, among all ``B · n``, that hold a job."""
    if table.device.type != "cpu" or table.dtype is not th.float32 or table.requires_grad:
        return (table != 0).any(dim=2).flatten().nonzero().squeeze(1)
    slots = np.empty(table.shape[0] * table.shape[1], np.int64)
    n = kernel.find_present(np.ascontiguousarray(table.numpy()), slots)
    return th.from_numpy(slots[:n])


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
    n = kernel.find_asked(np.ascontiguousarray(mask.numpy()), slots.numpy(), n_jobs, found)
    return th.from_numpy(found[:n]) if n >= 0 else None


def pool(jobs: th.Tensor, owners: th.Tensor, n_batch: int) -> tuple[th.Tensor, th.Tensor]:
    """Return mean and maximum ``(B, D)`` of the embeddings of each observation's jobs; zeros if it has none.

    :param jobs: ``(P, D)``, of all observations
    :param owners: ``(P,)``, the observation of each, ascending
    :param n_batch: B
    """
    if jobs.device.type == "cpu" and jobs.dtype is th.float32:
        if not (th.is_grad_enabled() and jobs.requires_grad):
            return _pooled(jobs, owners, n_batch)[:2]
        pooled: tuple[th.Tensor, th.Tensor] = _Pool.apply(jobs, owners, n_batch)  # type: ignore[no-untyped-call]
        return pooled
    n_present = th.bincount(owners, minlength=n_batch).unsqueeze(1)
    total = jobs.new_zeros(n_batch, jobs.shape[1]).index_add(0, owners, jobs)
    lowest = jobs.new_full((n_batch, jobs.shape[1]), MASKED_LOGIT)
    maximum = lowest.scatter_reduce(0, owners.unsqueeze(1).expand_as(jobs), jobs, "amax")
    return total / n_present.clamp(min=1), maximum * (n_present > 0)


def _pooled(
    jobs: th.Tensor, owners: th.Tensor, n_batch: int
) -> tuple[th.Tensor, th.Tensor, NDArray[np.int32]]:
    """Return mean, maximum, and the first job ``(B, D)`` that has it."""
    width = jobs.shape[1]
    mean, maximum = np.zeros((n_batch, width), np.float32), np.zeros((n_batch, width), np.float32)
    greatest = np.full((n_batch, width), -1, np.int32)
    kernel.pool(np.ascontiguousarray(jobs.detach().numpy()), owners.numpy(), mean, maximum, greatest)
    return th.from_numpy(mean), th.from_numpy(maximum), greatest


class _Pool(th.autograd.Function):
    """The same in one pass over the jobs in each direction; of equal maxima, the first gets the gradient."""

    @staticmethod
    def forward(ctx: Any, jobs: th.Tensor, owners: th.Tensor, n_batch: int) -> tuple[th.Tensor, th.Tensor]:
        mean, maximum, greatest = _pooled(jobs, owners, n_batch)
        ctx.save_for_backward(owners)
        ctx.greatest, ctx.n_jobs = greatest, len(jobs)
        return mean, maximum

    @staticmethod
    def backward(ctx: Any, of_mean: th.Tensor, of_maximum: th.Tensor) -> tuple[th.Tensor, None, None]:
        (owners,) = ctx.saved_tensors
        gradient = np.empty((ctx.n_jobs, of_mean.shape[1]), np.float32)
        mean, maximum = (np.ascontiguousarray(part.numpy()) for part in (of_mean, of_maximum))
        kernel.pool_backward(mean, maximum, owners.numpy(), ctx.greatest, gradient)
        return th.from_numpy(gradient), None, None
