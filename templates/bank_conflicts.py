"""Bank conflicts of accesses to shared memory, counted for choices of its layout."""

from __future__ import annotations

from collections.abc import Sequence

BANKS, WORD_BYTES, WARP = 32, 4, 32


def wavefronts(addresses: Sequence[int], width: int) -> int:
    """Return how many wavefronts the lanes of a warp take to access shared memory.

    A wavefront serves each bank of 4 bytes once, and lanes that access the same word together;
    vectors of 8 and 16 bytes are accessed by a half and by a quarter of the lanes at a time.

    Args:
        addresses: of each lane, in bytes.
        width: bytes that a lane accesses.
    """
    together = min(WARP, BANKS * WORD_BYTES // max(width, WORD_BYTES))
    total = 0
    for begin in range(0, len(addresses), together):
        words: dict[int, set[int]] = {}
        for address in addresses[begin : begin + together]:
            first = address // WORD_BYTES
            for word in range(first, first + max(1, width // WORD_BYTES)):
                words.setdefault(word % BANKS, set()).add(word)
        total += max(len(each) for each in words.values())
    return total
