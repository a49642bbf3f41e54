"""Calls by which a warp multiplies matrices on tensor cores: CUDA's `nvcuda::wmma`.

A matrix that a warp holds is a fragment: elements in registers of its threads, in an order that
only the calls know. A stage with the scope of a fragment is filled, read and stored by intrinsics
of these calls, which TVM names `tvm_load_matrix_sync` and so on.
"""

from __future__ import annotations

from math import prod
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import Call, Expr, as_expr
from autotune.ir.address import Address
from autotune.te.declared_buffer import DeclaredBuffer

FRAGMENTS = ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")
# What the names of the calls begin with; all threads of a warp make them together.
WARP_MATRIX = "wmma_"
_LAYOUTS = {"row_major": "row", "col_major": "col"}


def fill_fragment(data: Any, m: int, n: int, k: int, index: Any, value: Any) -> Expr:
    """Return the call that sets all elements of a fragment."""
    target = _fragment("tvm_fill_fragment", data, index, "w")
    return Call("wmma_fill", (target, *_sizes(m, n, k), as_expr(value)), "handle")


def load_matrix_sync(
    data: Any, m: int, n: int, k: int, index: Any, source: Any, stride: Any, layout: str
) -> Expr:
    """Return the call that loads a fragment from memory, rows or columns ``stride`` apart."""
    what = "tvm_load_matrix_sync"
    target = _fragment(what, data, index, "w")
    args = (target, *_sizes(m, n, k), _address(what, source), as_expr(stride))
    return Call(f"wmma_load_{_layout(what, layout)}", args, "handle")


def store_matrix_sync(
    data: Any, m: int, n: int, k: int, index: Any, target: Any, stride: Any, layout: str
) -> Expr:
    """Return the call that stores a fragment to memory, rows or columns ``stride`` apart."""
    what = "tvm_store_matrix_sync"
    source = _fragment(what, data, index, "r")
    args = (source, *_sizes(m, n, k), _address(what, target), as_expr(stride))
    return Call(f"wmma_store_{_layout(what, layout)}", args, "handle")


def mma_sync(
    d: Any, d_index: Any, a: Any, a_index: Any, b: Any, b_index: Any, c: Any, c_index: Any
) -> Expr:
    """Return the call that multiplies fragments: ``d = a * b + c``."""
    what = "tvm_mma_sync"
    args = (
        _fragment(what, d, d_index, "w"),
        _fragment(what, a, a_index, "r"),
        _fragment(what, b, b_index, "r"),
        _fragment(what, c, c_index, "r"),
    )
    return Call("wmma_mma", args, "handle")


def _fragment(what: str, data: Any, index: Any, access: str) -> Address:
    """Return the address of fragment number ``index`` of the memory of a declared buffer.

    The buffer itself is one fragment, so its shape says how many elements that has.
    """
    buffer = data.buffer if isinstance(data, Address) else None
    if not isinstance(data, Address) or not isinstance(buffer, DeclaredBuffer):
        raise ExpressionError(f"{what}: expected the data of a declared buffer, got {data!r}")
    size = prod([n for n in buffer.shape if isinstance(n, int)])
    return Address(buffer, data.index + as_expr(index) * size, access, size)


def _sizes(m: Any, n: Any, k: Any) -> tuple[Expr, ...]:
    return tuple([as_expr(each) for each in (m, n, k)])


def _address(what: str, memory: Any) -> Address:
    if not isinstance(memory, Address):
        raise ExpressionError(
            f"{what}: expected the address of a matrix, as access_ptr gives it, got {memory!r}"
        )
    return memory


def _layout(what: str, layout: Any) -> str:
    found = _LAYOUTS.get(layout)
    if found is None:
        raise ExpressionError(f"{what}: expected row_major or col_major, got {layout!r}")
    return found
