"""Weights larger than the L2 cache, of which a part stays in it from one run to the next.

A run that reads more than the cache holds finds nothing of the run before, though half of it would
fit: the least recently used lines are always those that are read next. So part of the weights is
loaded as usual and the rest evict first, which is thrash-resistant insertion (Qureshi et al.,
"Adaptive insertion policies for high performance caching", 2007); `l2_resident.h` says how.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune import Target

from . import gemm_wgmma

# Megabytes of the weights that stay; of 0 all are loaded alike.
KNOB = "resident_mb"
VALUES = (0, 8, 12, 16, 20, 24, 28)
# What a choice has of a log that is older than the knob.
ADDED = {KNOB: 0}
# Bytes of weights from which on the cache of an H200 no longer has all when they are read again,
# be it only because of what else is read and written between.
LEAST = 40 * 2**20
# Megabytes that stay where nothing was tuned. On an H200 24 were the best where nothing else is
# read between two runs (1x4096x4096 of float32: 12.5 us, with 8 14.8, with none 16.7), but of four
# matrices in turn 12 and more gained little (8: 15.7, 12: 16.4), and of integers lost up to 4%.
UNTUNED = 8
# Bytes of weights up to which they do: of 262 MB 8 still gained 1 to 3% for one row of float16,
# but of 470 MB, with others written between two runs, it took 1.02 to 1.03 times as long.
MOST = 2**28
# Rows for which weights that leave the L1 cache early may leave room, and bytes of weights, which
# the L2 cache holds, from which on that may pay: on an H200 8x2048x4096 took 14.4 us instead of
# 18.9, but 12x2984x2280 20.9 instead of 16.7.
SEVERAL, WITHIN = 4, 16 * 2**20
# Bytes that the cache loads at a time: a part that is read again by others must not be evicted.
SECTOR = 32
MEGABYTE, PARTS = 10**6, 256
TEXT = "l2_resident.h"


def values(weight_bytes: int, rows: int = 1) -> list[int]:
    """Return the values that the knob may take: of those with the same share the least."""
    within = (0, UNTUNED) if rows >= SEVERAL and weight_bytes >= WITHIN else (0,)
    options = VALUES if weight_bytes >= LEAST else within
    shares = {_share(weight_bytes, megabytes): megabytes for megabytes in reversed(options)}
    return sorted(shares.values())


def untuned(weight_bytes: int, target: Target, most: int = MOST) -> int:
    """Return the value of the knob where nothing was tuned.

    Only of devices like those measured: caches of later ones may hold all of the weights.
    """
    return UNTUNED * (LEAST <= weight_bytes <= most and gemm_wgmma.has_wgmma(target))


def in_256ths(weight_bytes: int, choice: Mapping[str, int]) -> dict[str, int]:
    """Return a choice for a kernel, which reads what stays as a share of the weights."""
    sizes = {name: value for name, value in choice.items() if name != KNOB}
    return {**sizes, "resident_256ths": _share(weight_bytes, choice.get(KNOB, 0))}


def _share(weight_bytes: int, megabytes: int) -> int:
    """Return how many 256ths of the weights are loaded as usual."""
    share = round(PARTS * megabytes * MEGABYTE / (weight_bytes or 1)) if megabytes else PARTS
    return max(1, min(share, PARTS))
