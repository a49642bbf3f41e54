"""Registers memory-bound source templates: norms, reductions, scans, transposes, elementwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from autotune import SourceKernel, Target, get_config
from autotune.errors import TemplateError

from .arguments import template
from .attention import attention_cpu, attention_mma, attention_space
from .attention.attention_cpu import FloatAttention
from .attention.attention_mma import Attention
from .data_movement import (
    take_cuda,
    transpose_cpu,
    transpose_cuda,
    transpose_runs,
    transpose_tiles,
)
from .data_movement.take_cuda import TakeRows
from .data_movement.transpose_shape import Transpose
from .elementwise import elementwise_cpu, elementwise_cuda
from .elementwise.elementwise_shape import Elementwise
from .rows import (
    reduce_cpu,
    reduce_cuda,
    reduce_staged,
    rows_cpu,
    rows_cuda,
    scan_columns,
    scan_cpu,
    scan_cuda,
)
from .rows.reduction_shape import Extents, Reduction
from .rows.rows_shape import Rows
from .rows.scan_columns import ScanColumns
from .rows.scan_cuda import Scan
from .source import softmax_along, tunable, tunable_rows


@template("log_softmax.cuda")
def log_softmax_cuda(
    rows: int, columns: int, dtype: str = "float32", inner: int = 1
) -> SourceKernel:
    """Logarithm of what ``softmax.cuda`` computes."""
    return softmax_along("log_softmax", rows, columns, dtype, inner)


@template("log_softmax.cpu")
def log_softmax_cpu(rows: int, columns: int) -> SourceKernel:
    """Logarithm of the softmax of each row of a float32 matrix, on a CPU."""
    return tunable(rows_cpu, Rows("log_softmax", rows, columns), "llvm")


@template("layer_norm.cuda")
def layer_norm_cuda(
    rows: int, columns: int, epsilon: float = 1e-5, gain: bool = True, shift: bool = True,
    dtype: str = "float32",
) -> SourceKernel:  # fmt: skip
    """Layer normalisation of each row: zero mean, unit variance, times gain, plus shift.

    The function takes data, those of gain and shift that are asked for (one number a column), and
    out. ``epsilon`` is added to the variance.
    """
    shape = Rows("layer_norm", rows, columns, dtype, epsilon, gain, shift)
    return tunable_rows(rows_cuda, shape)


@template("layer_norm.cpu")
def layer_norm_cpu(
    rows: int, columns: int, epsilon: float = 1e-5, gain: bool = True, shift: bool = True
) -> SourceKernel:
    """Layer normalisation of float32 rows as ``layer_norm.cuda`` does it, on a CPU."""
    shape = Rows("layer_norm", rows, columns, epsilon=epsilon, gain=gain, shift=shift)
    return tunable(rows_cpu, shape, "llvm")


@template("rms_norm.cuda")
def rms_norm_cuda(
    rows: int, columns: int, epsilon: float = 1e-6, gain: bool = True, dtype: str = "float32"
) -> SourceKernel:
    """RMS normalisation: each row divided by its root mean square, times gain (per column)."""
    shape = Rows("rms_norm", rows, columns, dtype, epsilon, gain)
    return tunable_rows(rows_cuda, shape)


@template("rms_norm.cpu")
def rms_norm_cpu(
    rows: int, columns: int, epsilon: float = 1e-6, gain: bool = True
) -> SourceKernel:
    """RMS normalisation of float32 rows as ``rms_norm.cuda`` does it, on a CPU."""
    return tunable(rows_cpu, Rows("rms_norm", rows, columns, epsilon=epsilon, gain=gain), "llvm")


@template("group_norm.cuda")
def group_norm_cuda(
    n: int, channels: int, spatial: int, groups: int, epsilon: float = 1e-5,
    gain: bool = True, shift: bool = True, dtype: str = "float32",
) -> SourceKernel:  # fmt: skip
    """Normalise each group of channels of ``n`` images of ``spatial`` pixels, NCHW.

    Data and out are seen as (n * groups, channels / groups * spatial); gain and shift have one
    number a channel. With ``groups=channels`` that is instance norm.
    """
    shape = _groups_of_channels(n, channels, spatial, groups, epsilon, gain, shift, dtype)
    return tunable_rows(rows_cuda, shape)


@template("group_norm.cpu")
def group_norm_cpu(
    n: int, channels: int, spatial: int, groups: int, epsilon: float = 1e-5,
    gain: bool = True, shift: bool = True,
) -> SourceKernel:  # fmt: skip
    """Normalise each group of channels of float32 images as ``group_norm.cuda`` does, on a CPU."""
    shape = _groups_of_channels(n, channels, spatial, groups, epsilon, gain, shift, "float32")
    return tunable(rows_cpu, shape, "llvm")


def _groups_of_channels(
    n: int, channels: int, spatial: int, groups: int, epsilon: float, gain: bool, shift: bool,
    dtype: str,
) -> Rows:  # fmt: skip
    """Return the rows of a group normalisation, one for each image and group."""
    if min(n, channels, spatial, groups) < 1 or channels % groups:
        raise TemplateError(
            f"group_norm: extents must be at least 1 and groups divide channels, "
            f"got {(n, channels, spatial, groups)}"
        )
    each = channels // groups
    return Rows(
        "layer_norm", n * groups, each * spatial, dtype, epsilon, gain, shift, each, groups
    )


@template("attention.cuda")
def attention_cuda_heads(
    batch: int, heads: int, queries: int, keys: int, size: int, kv_heads: int = 0,
    causal: bool = False, scale: float = 0.0, dtype: str = "float16", layout: str = "BHSD",
    bias: Sequence[int] = (), bias_dtype: str = "",
) -> SourceKernel:  # fmt: skip
    """Attention, forward: softmax(q k^T * scale + bias) v of each head, on tensor cores.

    The function takes q (batch, heads, queries, size), k and v (batch, kv_heads, keys, size), the
    bias if there is one, and out, which is as q. Decoding has one query. It runs on sm_80 on; on
    sm_90 heads of 32 on may also run by ``wgmma``.

    Args:
        size: of a head, an even number up to 256.
        kv_heads: heads of k and v, each of which serves ``heads / kv_heads`` (grouped queries);
            0 means ``heads``.
        causal: whether query i sees keys up to i + keys - queries only.
        scale: of scores; 0 means 1 / sqrt(size).
        dtype: of all arrays, ``"float16"`` or ``"bfloat16"``; sums are in float32.
        layout: ``"BHSD"``; ``"BSHD"``, in which heads and rows of all arrays are swapped; or
            ``"packed"``: instead of q, k and v one array (batch, rows, heads + 2 * kv_heads, size)
            whose heads are those of q, then of k, then of v, and out as in ``"BSHD"``.
        bias: the extents of the bias before the keys, ``(batch, heads, queries)``, each of which
            may be 1; ``()`` for none. An element of -inf hides a key.
        bias_dtype: ``"float32"`` where it is not that of the other arrays.
    """
    shape = Attention(
        batch, heads, kv_heads or heads, queries, keys, size, causal, scale, dtype, layout,
        tuple(bias), bias_dtype,
    )  # fmt: skip
    target = Target.current() or Target("cuda")
    both = attention_space.both_of(shape, target)
    if both is None or both.chosen_before(get_config()):
        return tunable(attention_mma, shape, "cuda")
    return tunable(both, shape, "cuda")


@template("attention.cpu")
def attention_cpu_heads(
    batch: int, heads: int, queries: int, keys: int, size: int, kv_heads: int = 0,
    causal: bool = False, scale: float = 0.0, layout: str = "BHSD", bias: Sequence[int] = (),
) -> SourceKernel:  # fmt: skip
    """Attention in float32 as ``attention.cuda`` does it, on a CPU, of heads up to 1024."""
    shape = FloatAttention(
        batch, heads, kv_heads or heads, queries, keys, size, causal, scale, layout=layout,
        bias=tuple(bias),
    )  # fmt: skip
    return tunable(attention_cpu, shape, "llvm")


@template("reduce.cuda")
def reduce_cuda_rows(
    operation: str, outer: Extents, depth: Extents, inner: int = 1, dtype: str = "float32",
    before: str = "", after: str = "", to: str = "",
) -> SourceKernel:  # fmt: skip
    """Reduce an array ``[outer, depth, inner]`` along its middle axis.

    Rows of a matrix have ``inner=1``, columns ``outer=1``. With ``outer=(1, 64)`` and
    ``depth=(8, 3136)`` the first and the third axis of an array ``[8, 64, 3136]`` are reduced:
    extents that are kept and reduced alternate.

    Args:
        operation: ``"sum"``, ``"mean"``, ``"prod"``, ``"max"``, ``"min"``, ``"argmax"`` or
            ``"argmin"``; indices are int32, and of several equal elements that of the first.
        dtype: ``"float32"``, ``"float16"``, ``"bfloat16"``, ``"float64"``; or, but for means,
            ``"int8"``, ``"uint8"``, ``"int16"``, ``"int32"``, whose sums and products are int32,
            modulo 2^32, and ``"int64"``.
        before: what is reduced of each element ``a``, an expression as of ``elementwise.cuda``:
            the root of a sum of squares has ``before="a * a"`` and ``after="sqrt(a)"``.
        after: what becomes of each result ``a``.
        to: type of the results, if not that of the elements: ``"float32"`` or ``"int32"``.
    """
    shape = Reduction.of(operation, outer, depth, inner, dtype, before, after, to)
    if reduce_staged.offered(shape) and not reduce_staged.chosen_before(get_config()):
        return tunable(reduce_staged, shape, "cuda")
    return tunable(reduce_cuda, shape, "cuda")


@template("reduce.cpu")
def reduce_cpu_rows(operation: str, outer: int, depth: int, inner: int = 1) -> SourceKernel:
    """Reduce a float32 array along its middle axis as ``reduce.cuda`` does, on a CPU."""
    return tunable(reduce_cpu, Reduction(operation, outer, depth, inner), "llvm")


@template("cumsum.cuda")
def cumsum_cuda(rows: int, columns: int, dtype: str = "float32", inner: int = 1) -> SourceKernel:
    """Inclusive prefix sums of each row of a matrix.

    With ``inner`` they are those along the middle axis of an array ``[rows, columns, inner]``.

    Args:
        dtype: ``"float32"``, ``"float16"``, ``"bfloat16"``, whose sums are of float32;
            ``"float64"``, ``"int32"`` or ``"int64"``.
    """
    if inner == 1:
        return tunable_rows(scan_cuda, Scan(rows, columns, dtype))
    return tunable(scan_columns, ScanColumns(rows, columns, inner, dtype), "cuda")


@template("cumsum.cpu")
def cumsum_cpu(rows: int, columns: int) -> SourceKernel:
    """Inclusive prefix sums of each row of a float32 matrix, on a CPU."""
    return tunable(scan_cpu, Scan(rows, columns), "llvm")


@template("transpose.cuda")
def transpose_cuda_any(
    shape: Sequence[int], axes: Sequence[int], dtype: str = "float32"
) -> SourceKernel:
    """Permute an array: axis ``i`` of the result is axis ``axes[i]`` of the data, as in numpy."""
    transpose = Transpose(tuple(shape), tuple(axes), dtype)
    for family in (transpose_runs, transpose_tiles):
        if family.offered(transpose) and not family.chosen_before(get_config()):
            return tunable(cast(Any, family), transpose, "cuda")
    return tunable(transpose_cuda, transpose, "cuda")


@template("transpose.cpu")
def transpose_cpu_any(
    shape: Sequence[int], axes: Sequence[int], dtype: str = "float32"
) -> SourceKernel:
    """Permute an array as ``transpose.cuda`` does, on a CPU."""
    return tunable(transpose_cpu, Transpose(tuple(shape), tuple(axes), dtype), "llvm")


@template("elementwise.cuda")
def elementwise_cuda_any(
    text: str, operands: Sequence[tuple[str, Sequence[int]]], dtype: str = "float32"
) -> SourceKernel:
    """Compute an expression of arrays, element by element, with numpy's broadcast.

        elementwise_cuda_any("relu(a * scale + shift) + b", (("a", (64, 56, 56)),
                             ("scale", (64, 1, 1)), ("shift", (64, 1, 1)), ("b", (64, 56, 56))))

    Args:
        text: in Python's syntax: names of operands, numbers, ``+ - * / **``, ``where`` with a
            comparison, and the functions of `expression.FUNCTIONS`.
        operands: (name, shape) of each, in the order the function takes them.
    """
    named = tuple((name, tuple(shape)) for name, shape in operands)
    return tunable(elementwise_cuda, Elementwise(text, named, dtype), "cuda")


@template("elementwise.cpu")
def elementwise_cpu_any(text: str, operands: Sequence[tuple[str, Sequence[int]]]) -> SourceKernel:
    """Compute an expression of float32 arrays as ``elementwise.cuda`` does, on a CPU."""
    named = tuple((name, tuple(shape)) for name, shape in operands)
    return tunable(elementwise_cpu, Elementwise(text, named), "llvm")


@template("take_rows.cuda")
def take_rows_cuda(
    rows: int, columns: int, count: int, dtype: str = "float32", index: str = "int32"
) -> SourceKernel:
    """Take ``count`` rows of a table of ``rows`` rows by index, as an embedding does.

    The function takes table, index and out. Indices out of bounds are clamped.
    """
    return tunable(take_cuda, TakeRows(rows, columns, count, dtype, index), "cuda")
