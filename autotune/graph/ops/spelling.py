"""Tensor expressions with the names of TVM's C++ operators, which its workload keys contain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi import tag, utils


def define(
    shape: Sequence[object], body: Callable[..., Expr], name: str, kind: str = tag.INJECTIVE
) -> Tensor:
    """Define a tensor whose axes are ax0, ax1, ..."""
    names = utils.axis_names(len(shape))
    result: Tensor = te.compute(list(shape), body, name, kind, varargs_names=names)
    return result


def each_element(x: Tensor, function: Callable[[Expr], Expr], name: str) -> Tensor:
    """Apply a function of one expression to every element."""
    return define(x.shape, lambda *i: function(x(*i)), name, tag.ELEMWISE)


def as_tensor(given: Tensor | Expr) -> Tensor:
    """Return a tensor; a constant without dimensions comes as a number (`fuse/function.py`)."""
    return define((), lambda *_: given, "T_constant") if isinstance(given, Expr) else given
