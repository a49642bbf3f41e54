"""TVM's `topi.cuda.tensor_intrin`: instructions of NVIDIA GPUs as tensor intrinsics."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr, Store
from autotune.te import warp_matrix
from autotune.te.declared_buffer import DeclaredBuffer
from autotune.te.extern_call import extern_call
from autotune.te.tensor import Tensor
from autotune.te.tensor_intrin import TensorIntrin

__all__ = [
    "dp4a",
    "intrin_wmma_gemm",
    "intrin_wmma_load_matrix_A",
    "intrin_wmma_load_matrix_W",
    "intrin_wmma_store_matrix",
]

Buffers = Sequence[DeclaredBuffer]
Sizes = Sequence[Any]

_KINDS = {"int8": "int32", "uint8": "uint32"}
_LENGTH = 4
# What TVM declares of matrices: they begin at multiples of so many bytes, and elements.
_ALIGNMENT, _FACTOR = 32, 8


def dp4a(
    x_scope: str = "local",
    y_scope: str = "local",
    z_scope: str = "local",
    dtypes: Sequence[str] = ("int8", "int8"),
) -> TensorIntrin:
    """Return the sum of four products of 8-bit integers in 32 bits, as one instruction.

    Args:
        x_scope: of the memory of the one factor.
        y_scope: of the other.
        z_scope: of the sum.
        dtypes: of the factors: both int8 or both uint8.

    Raises:
        ExpressionError: the dtypes are others.
    """
    first, second = dtypes
    if first != second or first not in _KINDS:
        raise ExpressionError(f"dp4a: expected dtypes of int8 or uint8 twice, got {dtypes}")
    total = _KINDS[first]
    x = te.placeholder((_LENGTH,), name="x", dtype=first)
    y = te.placeholder((_LENGTH,), name="y", dtype=second)
    k = te.reduce_axis((0, _LENGTH), name="rc")
    z = te.compute((1,), lambda i: te.sum(x[k].astype(total) * y[k].astype(total), axis=[k]))

    def statements(ins: Buffers, outs: Buffers) -> tuple[Store, Store, Store]:
        (left, right), (out,) = ins, outs

        def product(before: Expr) -> Store:
            words = [each.vload(0, f"{first}x{_LENGTH}") for each in (left, right)]
            return out.vstore(0, extern_call(total, "__dp4a", *words, before))

        zero = te.const(0, total)
        return product(zero), out.vstore(0, zero), product(out.vload(0))

    scopes = {x: x_scope, y: y_scope, z: z_scope}
    binds = {
        tensor: te.decl_buffer(
            tensor.shape, tensor.dtype, tensor.op.name, scope=scope,
            offset_factor=1 if tensor is z else _LENGTH, data_alignment=_LENGTH,
        )
        for tensor, scope in scopes.items()
    }  # fmt: skip
    return te.decl_tensor_intrin(z.op, statements, name="dp4a", binds=binds)


def intrin_wmma_load_matrix_A(
    strides_dst: Sizes,
    strides_from: Sizes,
    shape: Sequence[int],
    layout: str,
    A_shape: Sizes,
    C_shape: Sizes,
    in_dtype: str,
) -> TensorIntrin:
    """Return the load of the left matrix of a product from shared memory.

    Args:
        strides_dst: of the fragment among others.
        strides_from: of the matrix in shared memory.
        shape: rows, columns and steps of the product.
        layout: ``"row_major"`` or ``"col_major"``.
        A_shape: of the matrix, with leading ones or between.
        C_shape: the same of the fragment.
        in_dtype: of both.
    """
    scope = "wmma.matrix_a"
    return _load(scope, strides_dst, strides_from, shape, layout, A_shape, C_shape, in_dtype)


def intrin_wmma_load_matrix_W(
    strides_dst: Sizes,
    strides_from: Sizes,
    shape: Sequence[int],
    layout: str,
    A_shape: Sizes,
    C_shape: Sizes,
    in_dtype: str,
) -> TensorIntrin:
    """Return the load of the right matrix of a product; see `intrin_wmma_load_matrix_A`.

    In ``"col_major"`` it is stored with a row for each column.
    """
    scope = "wmma.matrix_b"
    return _load(scope, strides_dst, strides_from, shape, layout, A_shape, C_shape, in_dtype)


def _load(
    scope: str,
    strides_dst: Sizes,
    strides_from: Sizes,
    shape: Sequence[int],
    layout: str,
    source_shape: Sizes,
    fragment_shape: Sizes,
    dtype: str,
) -> TensorIntrin:
    m, n, k = shape
    source = te.placeholder(source_shape, name="A", dtype=dtype)
    fragment = te.compute(fragment_shape, lambda *i: source(*i), name="C")
    binds = {
        source: _declared(source, "BA", "shared", strides_from),
        fragment: _declared(fragment, "BC", scope, strides_dst),
    }

    def statement(ins: Buffers, outs: Buffers) -> Expr:
        (matrix,), (out,) = ins, outs
        return warp_matrix.load_matrix_sync(
            out.data, m, n, k, _number(out), matrix.access_ptr("r"),
            strides_from[0], layout,
        )  # fmt: skip

    return te.decl_tensor_intrin(fragment.op, statement, name=f"load {scope}", binds=binds)


def intrin_wmma_store_matrix(
    strides_dst: Sizes,
    strides_from: Sizes,
    shape: Sequence[int],
    out_dtype: str,
    A_shape: Sizes,
    C_shape: Sizes,
) -> TensorIntrin:
    """Return the store of the sums of a product to shared memory.

    Args:
        strides_dst: of the matrix in shared memory.
        strides_from: of the fragment among others.
        shape: rows, columns and steps of the product.
        out_dtype: of both.
        A_shape: of the fragment.
        C_shape: of the matrix.
    """
    m, n, k = shape
    fragment = te.placeholder(A_shape, name="A", dtype=out_dtype)
    matrix = te.compute(C_shape, lambda *i: fragment(*i), name="C")
    binds = {
        fragment: _declared(fragment, "BA", "wmma.accumulator", strides_from),
        matrix: _declared(matrix, "BC", "shared", strides_dst),
    }

    def statement(ins: Buffers, outs: Buffers) -> Expr:
        (sums,), (out,) = ins, outs
        return warp_matrix.store_matrix_sync(
            sums.data, m, n, k, _number(sums), out.access_ptr("w"), strides_dst[0],
            "row_major",
        )  # fmt: skip

    return te.decl_tensor_intrin(matrix.op, statement, name="store sums", binds=binds)


def intrin_wmma_gemm(
    AL_gemm: Tensor,
    WL_gemm: Tensor,
    CL_compute: Tensor,
    strides_A: Sizes,
    strides_W: Sizes,
    strides_Conv: Sizes,
    shape: Sequence[int],
) -> TensorIntrin:
    """Return the product of two fragments, added to a third.

    Args:
        AL_gemm: the placeholder of the left one.
        WL_gemm: that of the right one.
        CL_compute: the product, a compute of both.
        strides_A: of the left fragment among others.
        strides_W: of the right one.
        strides_Conv: of the sums.
        shape: rows, columns and steps of the product.
    """
    m, n, k = shape
    binds = {
        AL_gemm: _declared(AL_gemm, "BA", "wmma.matrix_a", strides_A),
        WL_gemm: _declared(WL_gemm, "BB", "wmma.matrix_b", strides_W),
        CL_compute: _declared(CL_compute, "BC", "wmma.accumulator", strides_Conv),
    }

    def statements(ins: Buffers, outs: Buffers) -> tuple[Expr, Expr, Expr]:
        (left, right), (out,) = ins, outs
        sums = out.data, _number(out)
        factors = left.data, _number(left), right.data, _number(right)
        update = warp_matrix.mma_sync(*sums, *factors, *sums)
        zero = warp_matrix.fill_fragment(out.data, m, n, k, sums[1], te.const(0, out.dtype))
        return update, zero, update

    return te.decl_tensor_intrin(CL_compute.op, statements, name="wmma", binds=binds)


def _declared(tensor: Tensor, name: str, scope: str, strides: Sizes) -> DeclaredBuffer:
    return te.decl_buffer(
        tensor.shape, tensor.dtype, name, scope=scope, strides=strides,
        data_alignment=_ALIGNMENT, offset_factor=_FACTOR,
    )  # fmt: skip


def _number(buffer: DeclaredBuffer) -> Expr:
    """Return the number of a fragment that begins in the first row of others beside it."""
    size, columns = prod(map(int, buffer.shape)), int(buffer.shape[-1])
    return te.floordiv(buffer.elem_offset, size) + te.floordiv(
        te.floormod(buffer.elem_offset, size), columns
    )
