# mypy: warn-return-any=False
"""Compiled questions about the bits of a word (int64)."""

from __future__ import annotations

from greendc.compiled import inlined


@inlined
def count_bits(word: int) -> int:
    """Return how many bits are set in a word of 0 or more."""
    x = word - ((word >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (x * 0x0101010101010101) >> 56


@inlined
def lowest_bit(word: int) -> int:
    """Return the index of the lowest bit that is set; ``word`` must not be 0."""
    return count_bits((word & -word) - 1)
