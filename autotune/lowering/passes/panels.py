"""The shared-memory layout of operands of ``wgmma``: panels with the 128-byte swizzle.

A tile becomes panels, one after another, of rows of 128 bytes (64 elements of 16 bits, or 32
floats), of which the last may have nothing in the end of its rows. The eight 16-byte vectors of a
row are permuted by the last three bits of its number ("128-byte swizzle", PTX ISA), so that
neither copies nor products have bank conflicts. The layout without a swizzle, in columns of
vectors, separates the 32 bytes that arrive together: with it a product of 4096 took 693 us on an
H200. Rows run along the reduction or, for 16-bit floats, across it; other floats that are not
contiguous along it are transposed by the stages that copy them.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.ir.analysis_affine import Affine
from autotune.ir.dtype import bits_of
from autotune.ir.expr import Call
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer
from autotune.utils.math import ceil_div

# Bytes of a row of a panel, of a vector of it, and rows after which exchanges repeat.
_ROW, _VECTOR, TURN = 128, 16, 8
# Bytes of the elements that instructions read from rows across the reduction.
_TRANSPOSABLE_BYTES = 2


def row_of(dtype: str) -> int:
    """Return the elements of a row of a panel."""
    return _ROW * 8 // bits_of(dtype)


@dataclass(frozen=True)
class Tile:
    """An operand in shared memory: ``rows`` of ``width`` neighbours, and where they are now.

    Neighbours, before they were laid out, are steps of the reduction, or, if it is ``transposed``,
    rows of the left operand or columns of the right.
    """

    buffer: Buffer
    rows: int
    width: int
    transposed: bool

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return bits_of(self.buffer.dtype) // 8

    @property
    def across(self) -> bool:
        """Whether rows of panels run across the reduction."""
        return self.transposed and self.item == _TRANSPOSABLE_BYTES

    @property
    def size(self) -> int:
        """Elements of all panels."""
        width = self.width if self.across == self.transposed else self.rows
        return ceil_div(width, row_of(self.buffer.dtype)) * self.panel

    @property
    def panel(self) -> int:
        """Elements of a panel."""
        rows = self.rows if self.across == self.transposed else self.width
        return rows * row_of(self.buffer.dtype)

    def begin(self, simplifier: Simplifier, across: Affine, step: Affine) -> Affine:
        """Return where an instruction begins to read, before the vectors of a row are exchanged.

        Args:
            simplifier: of the lowering.
            across: the first row or column, a multiple of 64 if rows of panels run across.
            step: the first step of the reduction.
        """
        row, column = (step, across) if self.across else (across, step)
        length = row_of(self.buffer.dtype)
        panel, inside = simplifier.floordiv(column, length), simplifier.floormod(column, length)
        return simplifier.combine([(panel, self.panel), (row, length), (inside, 1)])

    def place(self, simplifier: Simplifier, index: Affine) -> Affine:
        """Return where an element is that was at ``index``."""
        row = simplifier.floordiv(index, self.width)
        column = simplifier.floormod(index, self.width)
        if self.transposed and not self.across:
            row, column = column, row
        length, neighbours = row_of(self.buffer.dtype), _VECTOR // self.item
        vector = simplifier.floordiv(simplifier.floormod(column, length), neighbours)
        pair = (simplifier.expr(vector), simplifier.expr(simplifier.floormod(row, TURN)))
        exchanged = simplifier.form(Call("bitwise_xor", pair, "int32"))
        parts = [
            (simplifier.floordiv(column, length), self.panel),
            (row, length),
            (exchanged, neighbours),
            (simplifier.floormod(column, neighbours), 1),
        ]
        return simplifier.combine(parts)
