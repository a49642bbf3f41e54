"""Operations whose outputs hand-written statements compute, as TVM's `te.extern` makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import Evaluate, Expr, Stmt, Store, check_dtype
from autotune.ir.structure import walk
from autotune.te.declare import check_shape
from autotune.te.declared_buffer import DeclaredBuffer, decl_buffer
from autotune.te.extern_bounds import check_indices
from autotune.te.location import user_line
from autotune.te.tensor import Attrs, Extent, Operation, Tensor


class ExternOp(Operation):
    """Tensors that statements compute from others as a whole; it has no axes to schedule.

    ``buffers`` are what the statements of ``body`` use for the inputs and the outputs.
    """

    __slots__ = ("body", "buffers", "inputs")

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Attrs,
        inputs: tuple[Tensor, ...],
        shapes: Sequence[tuple[Extent, ...]],
        dtypes: Sequence[str],
        buffers: Sequence[DeclaredBuffer],
        body: Stmt,
    ) -> None:
        self.name, self.tag, self.attrs = name, tag, attrs
        self.axis = self.reduce_axis = ()
        self.inputs = inputs
        names = [name] if len(shapes) == 1 else [f"{name}.v{i}" for i in range(len(shapes))]
        self.outputs = tuple(
            [Tensor(self, i, shape, dtypes[i], names[i]) for i, shape in enumerate(shapes)]
        )
        self.buffers = tuple(buffers)
        self.body = body

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The distinct tensors that the statements read."""
        return tuple(dict.fromkeys(self.inputs))


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[..., Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Compute tensors by statements written by hand.

    The statements are those of `te.ir_builder`, or one call. On a GPU they name the threads that
    run them (``ib.scope_attr(te.thread_axis("threadIdx.x"), "thread_extent", 64)``).

    Args:
        shape: of the output, or a list of shapes of several.
        inputs: tensors.
        fcompute: called with the lists of the buffers of the inputs and of the outputs; returns a
            statement, or a call.
        name: of the operation.
        dtype: of the output, or a list of them; by default that of the inputs.
        in_buffers: declared buffers of the inputs, if they are not dense arrays.
        out_buffers: those of the outputs.
        tag: kept.
        attrs: kept.

    Returns:
        The tensor, or the list of tensors if several shapes were given.

    Raises:
        ExpressionError: an input is no tensor, ``fcompute`` returns no statement, or one that
            stores to an input or beyond the ends of a buffer, or a dtype is not known.
    """
    where = f"{user_line()}: te.extern({name!r})"
    read = tuple(inputs)
    for each in read:
        if not isinstance(each, Tensor):
            raise ExpressionError(f"{where}: inputs must be tensors, got {each!r}")
    several = isinstance(shape, list) and bool(shape) and isinstance(shape[0], tuple | list)
    shapes = [check_shape(name, each) for each in (shape if several else [shape])]
    dtypes = _dtypes(where, dtype, read, len(shapes))
    ins = _buffers(in_buffers) or [_dense(each.shape, each.dtype, each.name) for each in read]
    named = [name] if len(shapes) == 1 else [f"{name}.v{i}" for i in range(len(shapes))]
    outs = _buffers(out_buffers) or [
        _dense(each, kind, label) for each, kind, label in zip(shapes, dtypes, named, strict=True)
    ]
    if (len(ins), len(outs)) != (len(read), len(shapes)):
        raise ExpressionError(
            f"{where}: expected a buffer for each of {len(read)} inputs and {len(shapes)} outputs,"
            f" got {len(ins)} and {len(outs)}"
        )
    stmt = _statement(where, fcompute(ins, outs), ins)
    check_indices(where, stmt)
    op = ExternOp(name, tag, dict(attrs or {}), read, shapes, dtypes, [*ins, *outs], stmt)
    return list(op.outputs) if several else op.outputs[0]


def _statement(where: str, body: Any, ins: Sequence[DeclaredBuffer]) -> Stmt:
    if not isinstance(body, Stmt | Expr):
        raise ExpressionError(f"{where}: expected a statement or a call, got {body!r}")
    stmt = Evaluate(body) if isinstance(body, Expr) else body
    for each in walk(stmt):
        if isinstance(each, Store) and each.buffer in ins:
            raise ExpressionError(
                f"{where}: its statements store to the input {each.buffer.name}, which stays as "
                "it is; store to an output, or to memory of ib.allocate"
            )
    return stmt


def _dtypes(where: str, dtype: Any, inputs: Sequence[Tensor], count: int) -> list[str]:
    if dtype is None:
        kinds = {each.dtype for each in inputs}
        if len(kinds) != 1:
            raise ExpressionError(
                f"{where}: expected dtype= for inputs of {', '.join(sorted(kinds)) or 'none'}"
            )
        return [*kinds] * count
    listed = list(dtype) if isinstance(dtype, tuple | list) else [dtype] * count
    if len(listed) != count:
        raise ExpressionError(f"{where}: {len(listed)} dtypes for {count} outputs")
    return [check_dtype(str(each)) for each in listed]


def _buffers(given: Any) -> list[DeclaredBuffer]:
    if given is None:
        return []
    return list(given) if isinstance(given, tuple | list) else [given]


def _dense(shape: Sequence[Extent], dtype: str, name: str) -> DeclaredBuffer:
    return decl_buffer(tuple(shape), dtype, name)
