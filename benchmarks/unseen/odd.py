"""Layers for `unseen` that vectors do not divide: rows and planes of odd extents, in any type.

And columns so few and long that blocks must split them.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.unseen.layer import Layer
from benchmarks.unseen.maps import attention, chain, norm, permute, scan, softmax_along

_F16, _BF16 = "float16", "bfloat16"
_MOVED = (
    ((8191, 4093), (1, 0), "int8"), ((8191, 4093), (1, 0), _F16), ((8191, 4093), (1, 0)),
    ((97, 89, 83, 41), (3, 1, 0, 2), _F16), ((12, 38, 33, 105), (2, 0, 3, 1), _F16),
    ((37, 301, 71, 129), (1, 0, 2, 3), "int8"), ((37, 301, 71, 129), (2, 0, 1, 3), _F16),
    ((211, 223, 227), (2, 1, 0)), ((16, 513, 257), (0, 2, 1), _F16),
)  # fmt: skip
_SCANNED = (
    (147, 12_479, _F16), (488, 4861, _BF16), (3000, 5001, _F16), (65_537, 131, _BF16),
    (70_001, 257), (26, 100_003), (59, 249_575),
)  # fmt: skip
_ROWS = (
    ("softmax", 7, 1_000_003), ("softmax", 7, 1_000_003, _F16), ("softmax", 26, 19_814),
    ("layer_norm", 100, 40_001, _BF16),
)  # fmt: skip
_COLUMNS = (
    (1, 100_003, 8), (1, 50_257, 64, _F16), (3, 4099, 257), (1, 4096, 4096),
    (1, 100_000, 300, _BF16), (2, 3000, 40), (4, 20_000, 128, _F16),
)  # fmt: skip


def odd_extents() -> Iterator[Layer]:
    """Yield permutations, prefix sums, softmax, norms and chains."""
    yield from (permute(*each) for each in _MOVED)
    yield from (scan(*each) for each in _SCANNED)
    yield from (norm(*each) for each in _ROWS)
    yield from (softmax_along(*each) for each in _COLUMNS)
    line, wide = (20_000_003,), (4099, 4099)
    yield chain("a * sigmoid(a) * b", (("a", line), ("b", line)), _F16)
    yield chain("a + s * b", (("a", wide), ("s", (1, 4099)), ("b", wide)), _F16)
    yield chain("tanh(a + s) * 0.5", (("a", (6000, 2049)), ("s", (6000, 1))), _BF16)


def large_heads() -> Iterator[Layer]:
    """Yield decoding with heads of 256."""
    yield attention(4, 16, 1, 777, 256, 4, False)
    yield attention(1, 32, 1, 8192, 256, 8, False, _BF16)
    yield attention(8, 8, 1, 2001, 256, 8, False)
    yield attention(1, 64, 1, 30_000, 256, 4, False)
