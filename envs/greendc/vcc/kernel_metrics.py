"""What is unfinished, for the metrics of an episode (compiled)."""

from __future__ import annotations

from greendc.bits import lowest_bit
from greendc.compiled import compiled
from greendc.records import Ints
from greendc.vcc import kernel_queue
from greendc.vcc.kernel import datacenter
from greendc.vcc.layout import BLOCK, FLEXIBLE_GROUPS, State, World


@compiled
def count_unfinished(i: int, world: World, state: State, delays: Ints) -> tuple[int, int, int]:
    """Return what is unfinished in environment ``i``, in millionths of a machine-unit-hour.

    That is: the work that all jobs have left; the flexible work that the no-delay schedule would have done by
    now; and of that, what had been done at t = 0 and was lost to evictions.

    :param delays: ``(T + 49,)``: the waiting jobs are added to it, by their delay so far
    """
    dc = datacenter(i, world, state)
    cluster, now = dc.cluster, dc.cluster.now
    left_over, undone, set_back = 0, 0, 0
    for group in range(FLEXIBLE_GROUPS):
        first, end = dc.settings.first_places[group], cluster.ends[group]
        for b in range(first // BLOCK, (end + BLOCK - 1) // BLOCK):
            bits = kernel_queue.waiting(dc.keys, b)
            while bits != 0:
                j = b * BLOCK + lowest_bit(bits)
                bits &= bits - 1
                cpu, left, delay = int(dc.keys[j]), dc.places[j].left, now - dc.places[j].origin
                left_over += cpu * left
                undone += cpu * min(left, delay)
                set_back += cpu * max(delay - now, 0)
                delays[delay] += 1
    for index in range(cluster.stack_top):
        job = dc.stack[index]
        left = max(job.finish - now, 0)
        left_over += int(job.cpu) * left
        undone += int(job.cpu) * min(left, job.delay)
        set_back += int(job.cpu) * max(job.delay - now, 0) * (left > 0)
    for index in range(cluster.fixed_jobs):
        left_over += int(dc.fixed[index].cpu) * max(dc.fixed[index].finish - now, 0)
    return left_over, undone, set_back
