"""Reservations of Slurm that keep CPUs free of jobs while they have no power."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from greendc.live.snapshot import CapacityChange, RunningJob

PREFIX = "greendc"


class Layer(NamedTuple):
    """CPUs without power for some time, in seconds from now; ``first`` is below 0 if it has begun."""

    first: int
    last: int
    cpus: int


class Reservation(NamedTuple):
    """Cores that no job may use for some time.

    :param name: tells partition, time and number of CPUs: another reservation has another name
    :param start: seconds since 1970, like ``end``; ``None``: at once
    :param cores: how many
    """

    name: str
    start: int | None
    end: int
    cores: int

    @classmethod
    def of(cls, partition: str, clock: int, layer: Layer, threads: int) -> Reservation:
        """Return the reservation of a layer.

        :param clock: seconds since 1970, now
        :param threads: CPUs of a core
        """
        start, end = clock + layer.first, clock + layer.last
        name = f"{PREFIX}-{partition}-{start}-{end}-{layer.cpus}"
        return cls(name, start if layer.first > 0 else None, end, -(-layer.cpus // threads))

    def command(self, partition: str) -> list[str]:
        """Return the command that makes it; Slurm chooses cores that no job needs by its limit.

        Times are seconds since 1970: the local time is told twice in the hour in which clocks go back.
        """
        return [
            *("scontrol", "create", "reservation", f"ReservationName={self.name}"),
            f"StartTime={'now' if self.start is None else f'uts{self.start}'}",
            f"EndTime=uts{self.end}",
            f"CoreCnt={self.cores}",
            f"PartitionName={partition}",
            "Users=root",
        ]


def our_reservations(text: str, partition: str) -> tuple[str, ...]:
    """Return the names of the reservations of a partition that we have made.

    :param text: what ``scontrol show reservation -o`` prints
    """
    ours = re.compile(rf"{PREFIX}-{re.escape(partition)}-\d+-\d+-\d+")
    names = re.findall(r"^ReservationName=(\S+)", text, re.MULTILINE)
    return tuple(name for name in names if ours.fullmatch(name))


def power_layers(
    rows: Sequence[CapacityChange], seconds: int, usable: int, running: Sequence[RunningJob]
) -> list[Layer]:
    """Return the CPUs that have no power now or later, in layers, in order of time.

    A layer lasts as long as power stays down that far, so that jobs find the same CPUs free throughout. CPUs
    on which jobs may still run by their limits cannot be withheld.

    :param rows: of the capacity, in order of time, also those of the past: layers that have begun stay as
        they were
    :param seconds: how far the forecast reaches
    :param usable: CPUs of nodes that take jobs
    :param running: what runs; what does so on other nodes is left out
    """
    found: list[Layer] = []
    stack: list[tuple[int, int]] = []
    level = 0
    for row in [*rows, CapacityChange(seconds, usable)]:
        begin, after = row.after_seconds, max(row.after_seconds, 0)
        lasting = [job for job in running if job.limit_seconds - job.elapsed_seconds > after]
        busy = sum(job.processors - job.drained_processors for job in lasting)
        size = max(min(usable - row.processors, usable - busy), 0)
        if size > level:
            stack.append((begin, size - level))
        while size < level:
            first, cpus = stack.pop()
            ended = min(cpus, level - size)
            found.append(Layer(first, begin, ended))
            if ended < cpus:
                stack.append((first, cpus - ended))
            level -= ended
        level = size
    return sorted(layer for layer in found if layer.last > 0)
