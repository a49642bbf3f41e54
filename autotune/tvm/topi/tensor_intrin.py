"""TVM's `topi.cuda.tensor_intrin`: instructions of NVIDIA GPUs as tensor intrinsics."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr, Store
from autotune.te.declared_buffer import DeclaredBuffer
from autotune.te.tensor_intrin import TensorIntrin
from autotune.tvm.tir.calls import call_pure_extern

__all__ = ["dp4a"]

_KINDS = {"int8": "int32", "uint8": "uint32"}
_LENGTH = 4


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

    def statements(
        ins: Sequence[DeclaredBuffer], outs: Sequence[DeclaredBuffer]
    ) -> tuple[Store, Store, Store]:
        (left, right), (out,) = ins, outs

        def product(before: Expr) -> Store:
            words = [each.vload(0, f"{first}x{_LENGTH}") for each in (left, right)]
            return out.vstore(0, call_pure_extern(total, "__dp4a", *words, before))

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
