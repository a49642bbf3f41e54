"""Products of few rows by weights whose rows vectors of 16 bytes do not divide.

Their loads are aligned all the same: they begin before a row, and what they have of its neighbours
is masked. Rows that begin alike are some rows apart, and a block has only such ones; a is shifted
for them once. `matvec_unaligned.cu` says how.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import common
from ..rows.rows_shape import DTYPES
from .gemm_shape import Gemm

ENTRY = "matvec_unaligned"
# Untuned: rows of a, and terms of all of them, up to which, and elements of b from which on they
# gain.
MOST_ROWS, MOST_TERMS, LEAST = 4, 2100, 2**21
THREADS = 128


class UnalignedTiling:
    """The sizes that follow from a shape and a choice of knobs, with those of `MatvecTiling`.

    There ``ahead`` is how many turns a group of threads takes, of so many rows of b each.
    """

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        self.threads = c["lanes"] * c["groups"]
        # Vectors of a row at most, and those of a lane.
        vectors = (shape.k + 2 * c["vec"] - 2) // c["vec"]
        self.steps = common.ceil_div(vectors, c["lanes"])
        staged = shape.m * self.steps * c["lanes"] * c["vec"]
        parts = 2 * self.threads // 32 * c["rows"] * shape.m * (c["lanes"] > 32)
        self.shared_bytes = 4 * (staged + parts)
        self.columns = c["vec"] * c["groups"] * c["rows"] * c["ahead"]
        self.blocks = c["vec"] * common.ceil_div(shape.n, self.columns)
        held = self.steps * (4 * c["rows"] + shape.m * c["vec"] + 4)
        self.registers = held + c["rows"] * (shape.m + 3) + 30


def suits(shape: Gemm) -> bool:
    """Return whether vectors of 16 bytes do not divide rows of b, which are longer than them."""
    widest = 16 // DTYPES[shape.dtype]
    return shape.k % widest > 0 and shape.k > widest


def rules(shape: Gemm, choice: Mapping[str, int], unaligned: bool) -> list[tuple[bool, str]]:
    """Return why a choice cannot run so or is sure to be slow, if it would; see `violation`."""
    tiling, c = UnalignedTiling(shape, choice), choice
    return [
        (unaligned & (c["lanes"] < c["vec"]), "fewer lanes than elements of a vector"),
        (
            unaligned & (c["rows"] * c["ahead"] > 1) & (tiling.columns >= 2 * shape.n),
            "columns beyond the output",
        ),
    ]


def gains(shape: Gemm) -> bool:
    """Return whether a product runs so untuned, if registers hold its terms; see `violation`."""
    few = shape.m <= MOST_ROWS and shape.m * shape.k <= MOST_TERMS
    return few and suits(shape) and shape.n * shape.k >= LEAST


def untuned(shape: Gemm) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    vec = 16 // DTYPES[shape.dtype]
    lanes = max((n for n in (16, 32) if 2 * n * vec <= shape.k), default=8)
    return {"vec": vec, "lanes": lanes, "rows": 2, "groups": THREADS // lanes, "ahead": 2}
