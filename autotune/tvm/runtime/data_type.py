"""TVM's `DataType`: a dtype that is asked for its parts."""

from __future__ import annotations

from autotune.ir.dtype import bits_of, check_dtype, is_float, lanes_of

# DLPack's numbers of kinds.
_INT, _UINT, _FLOAT, _BFLOAT = 0, 1, 2, 4


class DataType(str):
    """A dtype such as ``float32x4``; it is a text, as dtypes are everywhere here.

    Raises:
        ExpressionError: there is no such dtype.
    """

    __slots__ = ()

    def __new__(cls, type_str: str) -> DataType:
        """Check the text."""
        return super().__new__(cls, check_dtype(type_str))

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return bits_of(self)

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return lanes_of(self)

    @property
    def type_code(self) -> int:
        """The kind: 0 for integers, 1 for unsigned ones and bool, 2 for floats, 4 for bfloat16."""
        if self.startswith("bfloat"):
            return _BFLOAT
        if is_float(self):
            return _FLOAT
        return _UINT if self.startswith(("uint", "bool")) else _INT
