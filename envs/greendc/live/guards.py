"""What schedulers refuse alike: options that a policy lacks, and snapshots of another time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timezone

from greendc import json_records
from greendc.config import nearest
from greendc.json_records import SnapshotError


def require_options(policy: str, options: Iterable[str], known: Collection[str]) -> None:
    """Raise a ``ValueError`` that names the first option that a policy does not have.

    :param policy: its name
    :param options: names of those given
    :param known: names of those that it has
    """
    for name in options:
        if name not in known:
            hint = nearest(name, known) or f"; known are {', '.join(known) or 'none'}"
            raise ValueError(f"{name}: no option of policy={policy!r}{hint}")


def require_fresh(time: str | None, stale_seconds: float, now: datetime | None) -> None:
    """Raise a :class:`~greendc.json_records.SnapshotError` for a snapshot of another time than now.

    :param time: when it was taken, as ``time`` of a snapshot says; ``None`` where it does not
    :param stale_seconds: how far it may be from now
    :param now: default: the clock's
    :raises ValueError: for a ``now`` without an offset from UTC
    """
    if now is not None and now.tzinfo is None:
        raise ValueError(f"now={now.isoformat()!r}: must have an offset from UTC")
    if time is None:
        return
    age = ((now or datetime.now(timezone.utc)) - json_records.moment("time", time)).total_seconds()
    if abs(age) > stale_seconds:
        allowed = f"within {stale_seconds:g} s of now, not {age:.0f} s before"
        raise SnapshotError(f"time={time!r}: must be {allowed}")
