"""Buffers as an intrinsic or a hand-written body declares them: a region of some tensor, later.

`decl_buffer` has TVM's arguments. Elements are counted from where the region begins; lowering puts
the tensor's memory, the offset and the strides in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import Call, Expr, IntImm, Load, Store, Var, as_expr, cast
from autotune.ir.address import WHOLE, Address
from autotune.ir.dtype import bits_of, check_dtype, element_of, lanes_of
from autotune.ir.stmt import Buffer, row_major

# Bits of what is read at once as one number: four of 8 bits, or two of 16.
WORD_BITS = 32
# The call that reads the elements behind an address as one word.
LOAD_WORD = "load_word"
_MASKS = {1: "r", 2: "w", 3: "rw"}


class DeclaredBuffer(Buffer):
    """A buffer of which is known what its declaration says.

    ``elem_offset`` is where it begins in the memory of its tensor, a multiple of
    ``offset_factor``. ``dense`` says that no strides were given: elements lie one after another.
    ``scope`` is empty where any memory will do.
    """

    __slots__ = ("data_alignment", "dense", "elem_offset", "offset_factor")

    def __init__(
        self,
        name: str,
        shape: tuple[int | Expr, ...],
        dtype: str,
        scope: str,
        strides: tuple[int | Expr, ...] | None,
        elem_offset: Expr,
        offset_factor: int,
        data_alignment: int,
    ) -> None:
        super().__init__(name, shape, dtype, scope, strides)
        self.dense = strides is None
        self.elem_offset = elem_offset
        self.offset_factor = offset_factor
        self.data_alignment = data_alignment

    @property
    def data(self) -> Address:
        """The memory that the buffer is a region of, from its beginning."""
        return Address(self, as_expr(0) - self.elem_offset, "rw", WHOLE)

    def access_ptr(
        self,
        access_mask: str | int,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> Address:
        """Return the address of an element, to pass it to a function.

        Args:
            access_mask: what the function does there: ``"r"``, ``"w"`` or ``"rw"``, or TVM's 1, 2
                or 3.
            ptr_type: accepted for TVM's scripts.
            content_lanes: accepted for TVM's scripts.
            offset: elements after the first.
            extent: elements that it touches, if it is not the whole buffer.
        """
        del ptr_type, content_lanes
        access = _MASKS.get(access_mask) if isinstance(access_mask, int) else access_mask
        if access not in ("r", "w", "rw", "wr"):
            raise ExpressionError(
                f"access_ptr of {self.name}: expected 'r', 'w' or 'rw', got {access_mask!r}"
            )
        count = extent.value if isinstance(extent, IntImm) else extent
        known = count if isinstance(count, int) else WHOLE
        return Address(self, as_expr(offset), "rw" if access == "wr" else access, known)

    def place(self, indices: object) -> Expr:
        """Return the offset of an element; a single index counts elements.

        Raises:
            ExpressionError: there are more or fewer indices than dimensions.
        """
        listed = indices if isinstance(indices, tuple | list) else (indices,)
        if len(listed) == 1 and len(self.shape) != 1:
            return as_expr(listed[0])
        if len(listed) != len(self.shape):
            raise ExpressionError(
                f"{self.name} has {len(self.shape)} dimensions, got {len(listed)} indices"
            )
        offset = as_expr(0)
        for index, stride in zip(listed, self.strides, strict=True):
            offset = offset + as_expr(index) * stride
        return offset

    def vload(self, begin: object, dtype: object = None) -> Expr:
        """Return an element, or with a dtype such as ``"int8x4"`` a word of several.

        Raises:
            ExpressionError: the dtype is not that of the elements, or no word of 32 bits.
        """
        wanted = check_dtype(str(dtype or self.dtype))
        index = self.place(begin)
        if wanted == self.dtype:
            return Load(self, (index,))
        lanes = lanes_of(wanted)
        if element_of(wanted) != self.dtype or lanes * bits_of(self.dtype) != WORD_BITS:
            raise ExpressionError(
                f"vload of {self.name}: expected {self.dtype}, or a word of {WORD_BITS} bits such "
                f"as int8x4, got {wanted}"
            )
        return Call(LOAD_WORD, (Address(self, index, "r", lanes),), wanted)

    def vstore(self, begin: object, value: object) -> Store:
        """Return the store of an element.

        Raises:
            ExpressionError: the value has another dtype than the elements.
        """
        return store_of(self, self.place(begin), value)


def store_of(buffer: Buffer, index: Expr, value: object) -> Store:
    """Return the store of a value, a plain number as one of the buffer's dtype.

    Raises:
        ExpressionError: the value has another dtype than the elements.
    """
    if isinstance(value, int | float):
        return Store(buffer, (index,), cast(value, buffer.dtype))
    made = as_expr(value)
    if made.dtype != buffer.dtype:
        raise ExpressionError(
            f"{buffer.name} has elements of {buffer.dtype}, got a value of {made.dtype}: {made}; "
            f"cast it with .astype({buffer.dtype!r})"
        )
    return Store(buffer, (index,), made)


def decl_buffer(
    shape: Any,
    dtype: object = None,
    name: str = "buffer",
    data: object = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: object = None,
) -> DeclaredBuffer:
    """Declare a buffer that lowering binds to a region of a tensor.

    Args:
        shape: extents, ints or variables that are bound too.
        dtype: of the elements; float32 by default.
        name: for messages.
        data: accepted for TVM's scripts.
        strides: elements between neighbours of each dimension: ints that they must be, or
            variables that they are bound to. Without, the region must be dense.
        elem_offset: a variable that is where the region begins in its tensor's memory.
        scope: of the memory, if only one will do.
        data_alignment: accepted for TVM's scripts.
        offset_factor: ``elem_offset`` must be a multiple of it.
        buffer_type: accepted for TVM's scripts.
        axis_separators: accepted for TVM's scripts.

    Raises:
        ExpressionError: there are more or fewer strides than extents.
    """
    del data, buffer_type, axis_separators
    listed = shape if isinstance(shape, tuple | list) else (shape,)
    extents = tuple(map(_known, listed))
    steps = tuple(map(_known, strides)) if strides else None
    if steps is not None and len(steps) != len(extents):
        raise ExpressionError(
            f"decl_buffer({name!r}): {len(steps)} strides for {len(extents)} dimensions"
        )
    offset = elem_offset if isinstance(elem_offset, Var) else Var(f"{name}.offset")
    kind = check_dtype(str(dtype or "float32"))
    factor = max(int(offset_factor), 1)
    return DeclaredBuffer(name, extents, kind, scope, steps, offset, factor, int(data_alignment))


def _known(value: Any) -> int | Expr:
    expr = as_expr(value)
    return expr.value if isinstance(expr, IntImm) else expr


def is_dense(extents: Sequence[int | Expr], strides: Sequence[int | Expr]) -> bool:
    """Return whether elements lie one after another; strides of single elements do not matter."""
    wanted = row_major(tuple(extents))
    return all(
        n == 1 or (isinstance(k, int) and isinstance(w, int) and k == w)
        for n, k, w in zip(extents, strides, wanted, strict=True)
    )
