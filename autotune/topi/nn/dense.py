"""Matrix products: dense layers, plain and batched matrix multiplication."""

from __future__ import annotations

from collections.abc import Callable

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.arguments import asks, dtype_or_none, flag, takes
from autotune.topi.utils import static_shape

_FLAGS = {"transpose_a": flag, "transpose_b": flag, "tf32": flag}


def _check_reduction(what: str, names: tuple[str, str], b: Tensor, ka: int, kb: int) -> None:
    if ka != kb:
        expected = f"a tensor of reduced extent {ka}, as {names[0]} has"
        asks(what).refuse(names[1], expected, b, f", where it is {kb}")


@takes(out_dtype=dtype_or_none, **_FLAGS)
def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    tf32: bool = False,
) -> Tensor:
    """Multiply two matrices, each of which may be stored transposed, and add a bias per column.

    With ``tf32`` float32 is multiplied as `autotune.te.tf32` has it, and may run on tensor cores.
    """
    names = ("tensor_a", "tensor_b")
    return multiply_matrices(
        "matmul", names, tensor_a, tensor_b, bias, out_dtype, transpose_a, transpose_b, tf32
    )


def multiply_matrices(
    what: str,
    names: tuple[str, str],
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    tf32: bool = False,
) -> Tensor:
    """Do what `matmul` does, for an operator ``what`` that has other names for its factors."""
    sa, sb = static_shape(what, names[0], tensor_a, 2), static_shape(what, names[1], tensor_b, 2)
    (m, ka), (kb, n) = (sa[::-1] if transpose_a else sa), (sb[::-1] if transpose_b else sb)
    _check_reduction(what, names, tensor_b, ka, kb)
    row = bias
    if row is not None and static_shape(what, "bias", row, 1) != (n,):
        asks(what).refuse("bias", f"a tensor of {n} elements", row)
    dtype = out_dtype or tensor_a.dtype
    k = te.reduce_axis((0, ka), name="k")
    letters = ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    factor = factor_of(dtype, tf32)
    product: Tensor = te.compute(
        (m, n),
        lambda i, j: te.sum(
            factor(tensor_a[k, i] if transpose_a else tensor_a[i, k])
            * factor(tensor_b[j, k] if transpose_b else tensor_b[k, j]),
            axis=k,
        ),
        name=f"T_matmul_{letters}",
        tag="dense" if letters == "NT" else "matmul",
        attrs={"layout_free_placeholders": [tensor_b]},
    )
    if row is None:
        return product
    result: Tensor = te.compute(
        (m, n), lambda i, j: product[i, j] + row[j].astype(dtype), tag=tag.BROADCAST
    )
    return result


def factor_of(dtype: str, tf32: bool) -> Callable[[Expr], Expr]:
    """Return what elements become before they are multiplied."""
    return te.tf32 if tf32 else lambda x: x.astype(dtype)


@takes(out_dtype=dtype_or_none, tf32=flag)
def dense(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    tf32: bool = False,
) -> Tensor:
    """Apply a dense layer: data [batch, in] times the transpose of weight [out, in].

    With ``tf32`` float32 is multiplied as `autotune.te.tf32` has it, and may run on tensor cores.
    """
    names = ("data", "weight")
    return multiply_matrices(
        "dense", names, data, weight, bias, out_dtype, transpose_b=True, tf32=tf32
    )


@takes(out_dtype=dtype_or_none, **_FLAGS)
def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: object = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    tf32: bool = False,
) -> Tensor:
    """Multiply batches of matrices; a batch of 1 meets every batch of the other.

    Args:
        tensor_a: [batch, m, k], or [batch, k, m] when transposed.
        tensor_b: [batch, n, k] - transposed, the default - or [batch, k, n].
        oshape: accepted because scripts pass it; the shape follows from the tensors.
        out_dtype: dtype of products and sums; by default that of the first tensor.
        transpose_a: whether the first is stored transposed.
        transpose_b: whether the second is.
        tf32: multiply float32 as `autotune.te.tf32` has it, which may run on tensor cores.
    """
    ba, *sa = static_shape("batch_matmul", "tensor_a", tensor_a, 3)
    bb, *sb = static_shape("batch_matmul", "tensor_b", tensor_b, 3)
    (m, ka), (kb, n) = (sa[::-1] if transpose_a else sa), (sb[::-1] if transpose_b else sb)
    _check_reduction("batch_matmul", ("tensor_a", "tensor_b"), tensor_b, ka, kb)
    if ba != bb and 1 not in (ba, bb):
        asks("batch_matmul").refuse("tensor_b", f"a tensor of {ba} batches or of 1", tensor_b)
    dtype = out_dtype or tensor_a.dtype
    k = te.reduce_axis((0, ka), name="k")
    letters = ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    factor = factor_of(dtype, tf32)

    def body(b: te.Var, i: te.Var, j: te.Var) -> object:
        x, y = (0 if ba == 1 else b), (0 if bb == 1 else b)
        left = tensor_a[x, k, i] if transpose_a else tensor_a[x, i, k]
        right = tensor_b[y, j, k] if transpose_b else tensor_b[y, k, j]
        return te.sum(factor(left) * factor(right), axis=k)

    result: Tensor = te.compute(
        (max(ba, bb), m, n), body, name=f"T_batch_matmul_{letters}", tag="batch_matmul",
        attrs={"layout_free_placeholders": [tensor_b]},
    )  # fmt: skip
    return result
