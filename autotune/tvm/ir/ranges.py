"""TVM's ranges, which are made from their ends."""

from __future__ import annotations

from autotune import ir
from autotune.ir import as_expr, whole


class _Ranges(type):
    """Lets the ranges that axes have count as TVM's too."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, ir.Range)


class Range(ir.Range, metaclass=_Ranges):
    """The values ``begin .. end - 1``; with one argument those from 0 below it."""

    __slots__ = ()

    def __init__(self, begin: object, end: object = None, span: None = None) -> None:
        del span
        low, high = (0, begin) if end is None else (begin, end)
        super().__init__(low, as_expr(whole(high)) - as_expr(whole(low)))

    @staticmethod
    def from_min_extent(min_value: object, extent: object, span: None = None) -> ir.Range:
        """Return the values ``min_value .. min_value + extent - 1``."""
        del span
        return ir.Range(min_value, extent)
