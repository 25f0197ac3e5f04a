"""Months kept apart, so that nothing tuned has seen what it is judged on."""

from __future__ import annotations


def _months(first: str, last: str) -> tuple[str, ...]:
    start, end = (12 * int(month[:4]) + int(month[5:]) - 1 for month in (first, last))
    return tuple(f"{month // 12}-{month % 12 + 1:02}" for month in range(start, end + 1))


SPLITS: dict[str, tuple[str, ...]] = {
    "train": tuple(month for month in _months("2019-05", "2020-04") if month != "2019-09"),
    "validation": _months("2020-05", "2020-08"),
    "heldout": ("2019-09",),
    "test": _months("2020-09", "2021-08"),
}
"""Training (May 2019 to April 2020 without September), validation, a held-out month of the training
year, and test (September 2020 to August 2021)."""

DEFAULT_MONTH = "2019-05"
"""Where neither an id, nor a month, nor a split says which."""
