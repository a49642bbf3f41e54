"""Tensors and the operations that produce them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from autotune.errors import ExpressionError
from autotune.ir import (
    Expr,
    IntImm,
    IterVar,
    Operand,
    ProducerLoad,
    Range,
    Reduce,
    Var,
    Visitor,
    as_expr,
    is_int,
)
from autotune.ir.foreign_calls import numpy_of_tensors
from autotune.te.location import user_line

Extent = int | Expr
# What a compute says of itself besides its values, such as the workload that it is of.
Attrs = dict[str, Any]
# The kind of an axis whose iterations come one after another, as each needs those before it.
SEQUENTIAL = "sequential"
# What may stand between the brackets: it is checked when it is read.
Index = object


class Dim(int):
    """A known extent in the shape of a tensor: an int of which TVM's scripts ask the ``value``.

    What is computed of it is a plain int, and so is a copy.
    """

    __slots__ = ()
    dtype: ClassVar[str] = "int32"

    @property
    def value(self) -> int:
        """The number itself."""
        return int(self)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


class Tensor:
    """A value of some shape and dtype: output ``value_index`` of an operation.

    ``T[i, j]`` or ``T(i, j)`` reads one element; fewer indices give a `TensorSlice`, which takes
    the rest. The operators ``+ - * / // % < <= > >=`` work on whole tensors and broadcast as numpy
    does; each makes a new compute. ``==`` asks whether two are the same tensor.
    """

    __slots__ = ("dtype", "name", "op", "shape", "value_index")
    __array_ufunc__ = numpy_of_tensors

    def __init__(
        self, op: Operation, value_index: int, shape: Sequence[Extent], dtype: str, name: str
    ) -> None:
        self.op = op
        self.value_index = value_index
        self.shape: tuple[Extent, ...] = tuple(
            [Dim(n) if isinstance(n, int) else n for n in shape]
        )
        self.dtype = dtype
        self.name = name

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __getitem__(self, indices: Index) -> Expr:
        return _index(self, indices if isinstance(indices, tuple) else (indices,))

    def __call__(self, *indices: Index) -> Expr:
        """Read the element at these indices, one for each dimension."""
        return _index(self, indices, whole=True)

    def astype(self, dtype: str) -> Tensor:
        """Return the tensor of all elements converted to ``dtype``."""
        return BROADCAST["cast"](self, dtype)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"Tensor({self.name}: {self.dtype}[{shape}])"

    def __add__(self, other: object) -> Tensor:
        return BROADCAST["add"](self, other)

    def __radd__(self, other: object) -> Tensor:
        return BROADCAST["add"](other, self)

    def __sub__(self, other: object) -> Tensor:
        return BROADCAST["subtract"](self, other)

    def __rsub__(self, other: object) -> Tensor:
        return BROADCAST["subtract"](other, self)

    def __mul__(self, other: object) -> Tensor:
        return BROADCAST["multiply"](self, other)

    def __rmul__(self, other: object) -> Tensor:
        return BROADCAST["multiply"](other, self)

    def __truediv__(self, other: object) -> Tensor:
        return BROADCAST["divide"](self, other)

    def __rtruediv__(self, other: object) -> Tensor:
        return BROADCAST["divide"](other, self)

    def __floordiv__(self, other: object) -> Tensor:
        return BROADCAST["floor_divide"](self, other)

    def __rfloordiv__(self, other: object) -> Tensor:
        return BROADCAST["floor_divide"](other, self)

    def __mod__(self, other: object) -> Tensor:
        return BROADCAST["floor_mod"](self, other)

    def __rmod__(self, other: object) -> Tensor:
        return BROADCAST["floor_mod"](other, self)

    def __neg__(self) -> Tensor:
        return BROADCAST["multiply"](self, -1)

    def __lt__(self, other: object) -> Tensor:
        return BROADCAST["less"](self, other)

    def __le__(self, other: object) -> Tensor:
        return BROADCAST["less_equal"](self, other)

    def __gt__(self, other: object) -> Tensor:
        return BROADCAST["greater"](self, other)

    def __ge__(self, other: object) -> Tensor:
        return BROADCAST["greater_equal"](self, other)


# Name -> function on whole tensors; `autotune.te.broadcast` enters them.
BROADCAST: dict[str, Callable[..., Tensor]] = {}


class TensorSlice(Operand):
    """A tensor with some of its leading indices given; index it to give the rest.

    To compute with it is an error, which says what is missing.
    """

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Expr, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, indices: Index) -> Expr:
        more = indices if isinstance(indices, tuple) else (indices,)
        return _index(self.tensor, self.indices + more)

    def to_expr(self) -> Expr:  # noqa: D102 - as in the base
        raise _wrong_number_of_indices(self.tensor, self.indices)

    def __repr__(self) -> str:
        return f"{self.tensor.name}[{', '.join(map(str, self.indices))}, ...]"


def _index(tensor: Tensor, indices: tuple[object, ...], whole: bool = False) -> Expr:
    checked = []
    for axis, index in enumerate(indices):
        checked.append(_check_index(tensor, axis, index))
    if len(indices) < len(tensor.shape) and not whole:
        # For the type checker it is the expression that it becomes when it gets the rest.
        return cast(Expr, TensorSlice(tensor, tuple(checked)))
    if len(indices) != len(tensor.shape):
        raise _wrong_number_of_indices(tensor, indices)
    return ProducerLoad(tensor, tuple(checked))


def _wrong_number_of_indices(tensor: Tensor, indices: tuple[object, ...]) -> ExpressionError:
    given = ", ".join(map(str, indices))
    return ExpressionError(
        f"{user_line()}: {tensor.name} has {len(tensor.shape)} dimensions {tensor.shape}, "
        f"got {len(indices)} indices: [{given}]"
    )


def _check_index(tensor: Tensor, axis: int, index: object) -> Expr:
    try:
        expr = as_expr(index)
    except ExpressionError:
        raise ExpressionError(
            f"{user_line()}: {tensor.name}: index {axis} must be an integer expression or an "
            f"axis, got {index!r}"
        ) from None
    if expr.dtype != "int32" and not is_int(expr.dtype):
        raise ExpressionError(
            f"{user_line()}: {tensor.name}: index {axis} must be an integer, got {expr} of dtype "
            f"{expr.dtype}; cast it with .astype('int32')"
        )
    if isinstance(expr, IntImm) and axis < len(tensor.shape):
        extent = tensor.shape[axis]
        if expr.value < 0 or (isinstance(extent, int) and expr.value >= extent):
            raise ExpressionError(
                f"{user_line()}: {tensor.name}: index {axis} must be in 0..{extent}, got "
                f"{expr.value}; negative indices do not count from the end"
            )
    return expr


class Operation:
    """An operation, which produces tensors; two operations are never equal."""

    __slots__ = (
        "__weakref__",
        "_inputs",
        "attrs",
        "axis",
        "name",
        "outputs",
        "reduce_axis",
        "tag",
    )
    name: str
    tag: str
    attrs: Attrs
    axis: tuple[IterVar, ...]
    reduce_axis: tuple[IterVar, ...]
    outputs: tuple[Tensor, ...]

    @property
    def num_outputs(self) -> int:
        """The number of tensors that the operation produces."""
        return len(self.outputs)

    def output(self, index: int) -> Tensor:
        """Return the tensor that is output ``index``; always the same object."""
        return self.outputs[index]

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The distinct tensors that the operation reads, in the order of first use."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class PlaceholderOp(Operation):
    """An argument that comes from outside."""

    __slots__ = ()

    def __init__(self, name: str, shape: tuple[Extent, ...], dtype: str) -> None:
        self.name = name
        self.tag = ""
        self.attrs = {}
        self.axis = ()
        self.reduce_axis = ()
        self.outputs = (Tensor(self, 0, shape, dtype, name),)


class ComputeOp(Operation):
    """Elements computed one by one: ``body`` says each output's value at ``axis``."""

    __slots__ = ("body",)
    body: tuple[Expr, ...]

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Attrs,
        axis: tuple[IterVar, ...],
        body: tuple[Expr, ...],
    ) -> None:
        self.name = name
        self.tag = tag
        self.attrs = attrs
        self.axis = axis
        self.body = body
        first = body[0]
        self.reduce_axis = first.axes if isinstance(first, Reduce) else ()
        shape = tuple([_plain(each.extent) for each in axis])
        names = [name] if len(body) == 1 else [f"{name}.v{i}" for i in range(len(body))]
        self.outputs = tuple(
            [Tensor(self, i, shape, value.dtype, names[i]) for i, value in enumerate(body)]
        )
        self._inputs: tuple[Tensor, ...] | None = None

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The distinct tensors that the body reads, in the order of first use."""
        if self._inputs is None:
            reads = _Reads()
            for value in self.body:
                reads.visit(value)
            self._inputs = tuple(reads.found)
        return self._inputs

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """All axes: those of the output, then those of the reduction."""
        return self.axis + self.reduce_axis


def _plain(extent: Expr) -> Extent:
    return extent.value if isinstance(extent, IntImm) else extent


class ScanOp(Operation):
    """A recurrence: each row of the outputs is computed from rows before it, by `te.scan`.

    Of each output, ``init`` gives the first rows and ``update`` the others; there
    ``state_placeholder`` stands for the output itself. ``scan_axis`` counts the rows of
    ``update``. What depends on ``inputs`` is computed with the row that needs it.
    """

    __slots__ = ("init", "inputs", "scan_axis", "state_placeholder", "update")

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Attrs,
        init: tuple[Tensor, ...],
        update: tuple[Tensor, ...],
        state_placeholder: tuple[Tensor, ...],
        inputs: tuple[Tensor, ...],
    ) -> None:
        self.name = name
        self.tag = tag
        self.attrs = attrs
        self.init = init
        self.update = update
        self.state_placeholder = state_placeholder
        self.inputs = inputs
        first = as_expr(init[0].shape[0])
        steps = as_expr(update[0].shape[0]) - first
        self.scan_axis = IterVar(
            Var(f"{name}.idx", "int32", SEQUENTIAL), Range(first, steps), SEQUENTIAL
        )
        self.axis = (self.scan_axis,)
        self.reduce_axis = ()
        names = [name] if len(update) == 1 else [f"{name}.v{i}" for i in range(len(update))]
        self.outputs = tuple(
            [Tensor(self, i, each.shape, each.dtype, names[i]) for i, each in enumerate(update)]
        )

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """What the rows come from: the first ones, then the others."""
        return tuple(dict.fromkeys((*self.init, *self.update)))


class _Reads(Visitor):
    """Collects the tensors that are read, in the order of first use."""

    def __init__(self) -> None:
        self.found: dict[Tensor, None] = {}

    def visit_ProducerLoad(self, node: ProducerLoad) -> None:
        self.generic(node)
        self.found[node.tensor] = None
