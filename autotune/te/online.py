"""Softmax and the product that it weights, in parts of rows ("online softmax").

A softmax needs the maximum of a row before its first power, and the sum of all powers before its
first quotient, so rows have to be kept. Parts of a row can be computed one after another instead,
each with a maximum of its own, if what was found before is scaled when the maximum grows
(Milakov and Gimelshein, 2018; FlashAttention: Dao et al., 2022)::

    M[i] = max over t of x[i, t]
    S[i] = sum over t of exp(x[i, t] - M[i])
    W[i, t] = exp(x[i, t] - M[i]) / S[i]
    C[i, c] = sum over t of W[i, t] * V[t, c]
    ->
    M'[p, i] = max over t of x[i, p, t]
    W'[p, i, t] = exp(x[i, p, t] - M'[p, i])
    S'[p, i] = sum over t of W'[p, i, t]
    C'[p, i, c] = sum over t of W'[p, i, t] * V[p, t, c]
    m, s, o [i, c] = (M', S', C') over p, of which two are combined as (m = max(m1, m2),
        s1 * exp(m1 - m) + s2 * exp(m2 - m), o1 * exp(m1 - m) + o2 * exp(m2 - m))
    C[i, c] = o[i, c] * (1 / s[i, c])

For the product W' is rounded to the type of W, so that results differ by roundings only. Where all
x of a part are minus infinity its powers are zero; of a row, NaN as before. A part that a mask
hides from a row (`autotune.te.masked`) is not needed for that row. Powers of e are those of two of
x * log2(e) (`autotune.te.base_two`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.errors import ScheduleError
from autotune.te.dag import post_order
from autotune.te.read_rewriters import Moved
from autotune.te.relation import extent_of
from autotune.te.split_rows import SplitRows
from autotune.te.tensor import ComputeOp, Tensor
from autotune.te.weighted_rows import WeightedRows, weighted_rows
from autotune.te.whole_tiles import in_whole_tiles
from autotune.utils.check import Check


@dataclass(frozen=True)
class RowParts:
    """The operations that compute the same in parts of rows.

    Attributes:
        scores: of parts.
        highest, totals: the maximum and the sum of powers of each part of a row.
        exact: the weights, not divided by their sums, in float32.
        powers: these in the type of the weights.
        products: those of each part.
        joined: maximum, sum and product of whole rows.
        result: the quotient, in place of the product.
    """

    scores: ComputeOp
    highest: ComputeOp
    totals: ComputeOp
    exact: ComputeOp
    powers: ComputeOp
    products: ComputeOp
    joined: ComputeOp
    result: ComputeOp

    @property
    def columns(self) -> int:
        """How many columns products have: as many as results, or more."""
        sums = len(self.joined.body) - 2
        return sums * (extent_of(self.joined.axis[-1]) or 1)


def online(
    tensors: Sequence[Tensor],
    product: Tensor,
    length: int,
    apart: int = 1,
    tile: int = 0,
    depth: int = 0,
) -> list[Tensor]:
    """Compute a product that is weighted by a softmax in parts of its rows.

    Args:
        tensors: inputs and outputs of a graph.
        product: a sum of it over rows of the softmax, which nothing else reads.
        length: of the parts, which divide rows.
        apart: how far apart columns are that are joined together, which divides columns.
        tile: of how many the products compute a multiple of rows and columns, of operands with
            zeros beyond their ends (`autotune.te.whole_tiles`); parts then need not divide rows.
            0: of as many as there are.
        depth: of how many columns, and steps of what the softmax reads, they compute a multiple
            instead; 0: of ``tile``.

    Returns:
        The same inputs, and outputs of a graph in which the product is joined from parts.

    Raises:
        ScheduleError: the product is not weighted by a softmax of a reduction, which is all that
            the softmax reads at other than its own axes; a recurrence reads it; or parts do not
            divide rows, or ``apart`` columns.

    Example::

        scores = te.compute((n, n), lambda i, j: te.sum(q[i, d] * k[j, d], axis=d))
        share = topi.nn.softmax(scores)
        C = te.compute((n, m), lambda i, c: te.sum(share[i, t] * v[t, c], axis=t))
        q, k, v, C = te.online([q, k, v, C], C, 64)
    """
    check = Check(ScheduleError, "online")
    check.kind("product", product, Tensor, "a tensor")
    length, apart = check.whole("length", length), check.whole("apart", apart)
    tile, depth = check.whole("tile", tile, 0), check.whole("depth", depth, 0)
    found = weighted_rows(tensors, product.op)
    if found is None:
        raise ScheduleError(
            f"online({product.name}): expected a sum of products, one factor of which is the "
            "softmax, along the sum, of a reduction in float32 that nothing else reads"
        )
    if tile and length > 0:
        found = in_whole_tiles(found, length, tile, depth)
        if found is None:
            raise ScheduleError(
                f"online({product.name}): for whole tiles rows and columns have to be the last "
                "axes, and operands be read at single indices of these, not at sums of them"
            )
    return in_parts(tensors, found, row_parts(found, length, apart))


def in_parts(tensors: Sequence[Tensor], found: WeightedRows, parts: RowParts) -> list[Tensor]:
    """Return the tensors of a graph in which parts stand in place of a product."""
    moved = Moved({found.results.outputs[0]: parts.result.outputs[0]})
    for op in post_order(tensor.op for tensor in tensors):
        moved.move(op)
    return [moved.to.get(tensor, tensor) for tensor in tensors]


def row_parts(found: WeightedRows, length: int, apart: int = 1) -> RowParts:
    """Return the operations that compute a product in parts of rows, which divide them."""
    if length < 1 or found.length % length:
        raise ScheduleError(
            f"online({found.op.name}): rows of {found.length} are no multiple of parts of {length}"
        )
    split = SplitRows(found, length, apart)
    columns = extent_of(found.op.axis[-1]) or 1
    if apart < 1 or columns % apart or (apart > 1 and not split.columns_last):
        raise ScheduleError(
            f"online({found.op.name}): columns {apart} apart are to be joined together, which has "
            f"to divide the last dimension, of {columns} columns"
        )
    scores = split.scores()
    highest = split.highest(scores)
    exact = split.exact(scores, highest)
    powers, totals = split.powers(exact), split.totals(exact)
    products = split.products(powers)
    most, total, *sums = split.joined(highest, totals, products)
    result = split.quotient(total, sums)
    made = (scores, highest, totals, exact, powers, products, most, result)
    return RowParts(*map(_op_of, made))


def _op_of(tensor: Tensor) -> ComputeOp:
    assert isinstance(tensor.op, ComputeOp)
    return tensor.op
