"""Operators of TVM's `topi` that arrange elements anew, mask them, or sum by a formula."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.utils import static_shape
from autotune.utils.check import Check

__all__ = [
    "einsum", "layout_transform", "matrix_set_diag", "meshgrid", "ndarray_size", "sequence_mask",
    "trilu",
]  # fmt: skip

_AXIS = re.compile(r"([A-Z])|([1-9]\d*)([a-z])")
_FORMULA = re.compile(r"\s*([A-Za-z]*(?:\s*,\s*[A-Za-z]*)*)\s*(?:->\s*([A-Za-z]*)\s*)?")


def layout_transform(
    array: Tensor, src_layout: str, dst_layout: str, schedule_rule: str = "None"
) -> Tensor:
    """Store a tensor in another layout.

    Args:
        array: the tensor.
        src_layout: its axes by letter, such as ``"NCHW"``, or ``"NCHW8c"`` with channels in
            blocks of 8.
        dst_layout: those of the result.
        schedule_rule: accepted for TVM's scripts.

    Raises:
        ExpressionError: a layout is ill-formed, has other axes, or blocks that do not fit.
    """
    del schedule_rule
    check = Check(ExpressionError, "layout_transform")
    source, wanted = _axes(check, "src_layout", src_layout), _axes(check, "dst_layout", dst_layout)
    if {a.upper() for a in source} != {a.upper() for a in wanted}:
        check.refuse("dst_layout", f"the axes of {src_layout!r}", dst_layout)
    extents = dict(
        zip(source, static_shape("layout_transform", "array", array, len(source)), strict=True)
    )
    if any(axis.islower() and extents[axis] != block for axis, block in source.items()):
        check.refuse("array", f"of blocks as {src_layout!r} has them", array)
    whole = {a: extents[a] * source.get(a.lower(), 1) for a in source if a.isupper()}
    for axis, extent in whole.items():
        if extent % wanted.get(axis.lower(), 1):
            check.refuse("dst_layout", f"blocks that divide {axis} of {extent}", dst_layout)
    shape = [
        block if axis.islower() else whole[axis] // wanted.get(axis.lower(), 1)
        for axis, block in wanted.items()
    ]

    def moved(*indices: Expr) -> Expr:
        at = dict(zip(wanted, indices, strict=True))
        place = {
            axis: at[axis] * wanted[axis.lower()] + at[axis.lower()]
            if axis.lower() in wanted
            else at[axis]
            for axis in whole
        }
        return array(*[_part(place[axis.upper()], axis, source) for axis in source])

    found: Tensor = te.compute(shape, moved, name="T_layout_trans")
    return found


def _part(place: Expr, axis: str, blocks: Mapping[str, int]) -> Expr:
    """Return the index along an axis of a layout of what is at a place of the whole axis."""
    if axis.islower():
        return te.floormod(place, blocks[axis])
    return te.floordiv(place, blocks[axis.lower()]) if axis.lower() in blocks else place


def _axes(check: Check, name: str, layout: str) -> dict[str, int]:
    """Return the axes of a layout in order, with the sizes of blocks (1 for whole axes)."""
    check.text(name, layout, "NCHW8c")
    found = [(m[1] or m[3], int(m[2] or 1)) for m in _AXIS.finditer(layout)]
    axes = dict(found)
    written = "".join(a if a.isupper() else f"{n}{a}" for a, n in found)
    if written != layout or len(axes) < len(found) or any(a.upper() not in axes for a in axes):
        check.refuse(name, "axes by letter, such as 'NCHW' or 'NCHW8c'", layout)
    return axes


def einsum(subscripts: str, *operand: Tensor) -> Tensor:
    """Sum products over the letters that the result lacks, as numpy's `einsum` does.

    Raises:
        ExpressionError: the formula is ill-formed, or a letter has two extents.
    """
    check = Check(ExpressionError, "einsum")
    form = _FORMULA.fullmatch(check.text("subscripts", subscripts, "ij,jk->ik"))
    terms = re.sub(r"\s", "", form[1]).split(",") if form else []
    if form is None or len(terms) != len(operand):
        check.refuse("subscripts", f"letters such as 'ij,jk->ik' for {len(operand)}", subscripts)
    extents: dict[str, int] = {}
    for term, each in zip(terms, operand, strict=True):
        shape = static_shape("einsum", "operand", each, len(term))
        for letter, extent in zip(term, shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                check.refuse("subscripts", f"one extent of {letter!r}", subscripts)
    letters = "".join(terms)
    once = "".join(sorted(each for each in extents if letters.count(each) == 1))
    kept = once if form[2] is None else form[2]
    if not set(kept) <= set(letters) or len(set(kept)) < len(kept):
        check.refuse("subscripts", "a result of letters of the operands, each once", subscripts)
    summed = {
        letter: te.reduce_axis((0, n), name=letter)
        for letter, n in extents.items()
        if letter not in kept
    }

    def product(*indices: Expr) -> Expr:
        at = {**dict(zip(kept, indices, strict=False)), **summed}
        first, *rest = (t(*[at[i] for i in term]) for term, t in zip(terms, operand, strict=True))
        for each in rest:
            first = first * each
        return te.sum(first, axis=[*summed.values()]) if summed else first

    found: Tensor = te.compute([extents[each] for each in kept] or (1,), product, name="T_einsum")
    return found


def meshgrid(a_tuple: Sequence[Tensor], indexing: str = "ij") -> list[Tensor]:
    """Return the coordinates of a grid, whose axes are given by vectors.

    Args:
        a_tuple: vectors.
        indexing: ``"ij"``, or ``"xy"``, which swaps the first two axes.
    """
    Check(ExpressionError, "meshgrid").one_of("indexing", indexing, ("ij", "xy"))
    order = list(range(len(a_tuple)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    extents = [static_shape("meshgrid", "a_tuple", each, 1)[0] for each in a_tuple]
    shape = [extents[place] for place in order]

    def coordinate(number: int) -> Tensor:
        found: Tensor = te.compute(
            shape, lambda *i: a_tuple[number](i[order.index(number)]), name="T_meshgrid"
        )
        return found

    return [coordinate(number) for number in range(len(a_tuple))]


def ndarray_size(array: Tensor, dtype: str = "int32") -> Tensor:
    """Return the number of elements of a tensor, as a tensor of one element."""
    count = prod(static_shape("ndarray_size", "array", array, array.ndim))
    found: Tensor = te.compute((1,), lambda _: te.const(count, dtype), name="ndarray_size")
    return found


def sequence_mask(
    data: Tensor, valid_length: Tensor, mask_value: float = 0, axis: int = 0
) -> Tensor:
    """Replace what is behind the end of each sequence.

    Args:
        data: sequences, of shape (length, batch, ...), or (batch, length, ...) with axis 1.
        valid_length: of each sequence of the batch.
        mask_value: what is put there.
        axis: of the length, 0 or 1.

    Raises:
        ExpressionError: there are no two axes, or not as many lengths as sequences.
    """
    check = Check(ExpressionError, "sequence_mask")
    along = check.whole("axis", axis, least=0, most=1)
    _matrices(check, data)
    batch = static_shape("sequence_mask", "data", data, data.ndim)[1 - along]
    if static_shape("sequence_mask", "valid_length", valid_length, 1) != (batch,):
        check.refuse("valid_length", f"a length of each of {batch} sequences", valid_length)
    outside = te.const(mask_value, data.dtype)

    def masked(*i: Expr) -> Expr:
        inside = i[along].astype(valid_length.dtype) < valid_length(i[1 - along])
        return te.if_then_else(inside, data(*i), outside)

    found: Tensor = te.compute(data.shape, masked, name="T_sequence_mask")
    return found


def trilu(data: Tensor, k: int = 0, upper: bool = True) -> Tensor:
    """Keep a triangle of matrices, and set the rest to 0.

    Args:
        data: matrices in the last two axes.
        k: the diagonal at the edge of the triangle; 0 is the main one, 1 the next above it.
        upper: whether it is the upper or the lower triangle.

    Raises:
        ExpressionError: there are no matrices.
    """
    _matrices(Check(ExpressionError, "trilu"), data)
    zero = te.const(0, data.dtype)

    def kept(*i: Expr) -> Expr:
        row, column = i[-2] + k, i[-1]
        return te.if_then_else(row <= column if upper else row >= column, data(*i), zero)

    found: Tensor = te.compute(data.shape, kept, name="trilu")
    return found


def matrix_set_diag(data: Tensor, diagonal: Tensor) -> Tensor:
    """Replace the main diagonals of matrices in the last two axes.

    Raises:
        ExpressionError: there are no matrices, or the diagonal has another shape than theirs.
    """
    check = Check(ExpressionError, "matrix_set_diag")
    _matrices(check, data)
    *batch, rows, columns = static_shape("matrix_set_diag", "data", data, data.ndim)
    wanted = (*batch, min(rows, columns))
    if static_shape("matrix_set_diag", "diagonal", diagonal, data.ndim - 1) != wanted:
        check.refuse("diagonal", f"of shape {wanted}", diagonal)

    def replaced(*i: Expr) -> Expr:
        return te.if_then_else(i[-2].equal(i[-1]), diagonal(*i[:-1]), data(*i))

    found: Tensor = te.compute(data.shape, replaced, name="matrix_set_diag")
    return found


def _matrices(check: Check, data: Tensor) -> None:
    if data.ndim < 2:
        check.refuse("data", "a tensor of at least 2 dimensions", data)
