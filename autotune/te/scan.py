"""Recurrences: tensors whose rows are computed one after another, each from those before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import as_expr, same
from autotune.te.dag import post_order
from autotune.te.declare import compute
from autotune.te.location import user_line
from autotune.te.scan_reads import check_rows, of_own_row
from autotune.te.tensor import (
    Attrs,
    ComputeOp,
    Extent,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
)

SCAN = "scan"


def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Attrs | None = None,
) -> Any:
    """Define tensors along whose first axis each row is computed from rows before it.

    Row ``t`` of the result is that of ``init`` where ``init`` has one, else that of ``update``,
    which reads the rows before by ``state_placeholder``. Of several states give lists; then a list
    is returned. What the update needs besides is computed within the loop over rows where it
    depends on a state or on one of ``inputs``, and before that loop elsewhere.

    Example::

        S = te.placeholder((m, n), name="S")
        first = te.compute((1, n), lambda _, i: X[0, i])
        step = te.compute((m, n), lambda t, i: S[t - 1, i] + X[t, i])
        sums = te.scan(first, step, S, inputs=[X])

    Raises:
        ExpressionError: numbers, shapes or dtypes do not fit, there is no step to compute, or one
            reads a row that is not there by then.
    """
    inits, updates = _tensors(name, "init", init), _tensors(name, "update", update)
    states = _tensors(name, "state_placeholder", state_placeholder)
    given = _tensors(name, "inputs", inputs or ())
    if not len(inits) == len(updates) == len(states) > 0:
        raise ExpressionError(
            f"{user_line()}: {name}: expected as many init tensors as updates and states, at "
            f"least one, got {len(inits)}, {len(updates)} and {len(states)}"
        )
    for each in zip(inits, updates, states, strict=True):
        _check_state(name, *each)
        _check_steps(name, each, inits[0], updates[0])
    for what, tensors in (("init", inits), ("update", updates), ("state", states)):
        if len(set(tensors)) < len(tensors):
            raise ExpressionError(
                f"{user_line()}: {name}: expected {what} tensors of their own for each state, got "
                f"{', '.join(each.name for each in tensors)}"
            )
    _check_graph(name, inits, updates, states)
    check_rows(
        name, of_own_row(step_ops(updates, states), updates), zip(inits, states, strict=True)
    )
    firsts = tuple([_computed(each) for each in inits])
    op = ScanOp(name, tag, dict(attrs or {}), firsts, updates, states, given)
    return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)


def _tensors(name: str, what: str, value: object) -> tuple[Tensor, ...]:
    listed = tuple(value) if isinstance(value, tuple | list) else (value,)
    for each in listed:
        if not isinstance(each, Tensor):
            raise ExpressionError(
                f"{user_line()}: {name}: {what} must be a tensor or a list of them, got {each!r}"
            )
    return listed


def _check_state(name: str, init: Tensor, update: Tensor, state: Tensor) -> None:
    where = f"{user_line()}: {name}"
    if not isinstance(state.op, PlaceholderOp):
        raise ExpressionError(
            f"{where}: a state is a te.placeholder that stands for the rows before, got {state!r}"
        )
    if not isinstance(update.op, ComputeOp):
        raise ExpressionError(f"{where}: an update is a te.compute, got {update!r}")
    if not init.dtype == update.dtype == state.dtype:
        raise ExpressionError(
            f"{where}: {init.name}, {update.name} and {state.name} must have one dtype, got "
            f"{init.dtype}, {update.dtype} and {state.dtype}"
        )
    shapes = init.shape, update.shape, state.shape
    fits = len(init.shape) == len(update.shape) == len(state.shape) > 0
    if not fits or not _equal(update.shape, state.shape) or not _equal(*map(_row, shapes[:2])):
        raise ExpressionError(
            f"{where}: expected {update.name} in the shape of the state {state.name}, and "
            f"{init.name} with its first rows, got {shapes[1]}, {shapes[2]} and {shapes[0]}"
        )


def _check_steps(
    name: str, state: tuple[Tensor, Tensor, Tensor], init: Tensor, update: Tensor
) -> None:
    """Raise unless a state has the rows of the first one, more than it begins with."""
    first, length = state[0].shape[0], state[1].shape[0]
    if not isinstance(first, int):
        raise ExpressionError(
            f"{user_line()}: {name}: {state[0].name} must have a constant number of rows, got "
            f"{first}"
        )
    if not _equal((first, length), (init.shape[0], update.shape[0])):
        raise ExpressionError(
            f"{user_line()}: {name}: all states must have as many rows, given and in total, as "
            f"the first, {init.shape[0]} and {update.shape[0]}, got {first} and {length} of "
            f"{state[1].name}"
        )
    if isinstance(length, int) and length <= first:
        raise ExpressionError(
            f"{user_line()}: {name}: expected more rows than {state[0].name} gives, {first}, got "
            f"{length}: there is no step to compute"
        )


def _row(shape: Sequence[Extent]) -> Sequence[Extent]:
    return shape[1:]


def _equal(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    return len(a) == len(b) and all(
        same(as_expr(x), as_expr(y)) for x, y in zip(a, b, strict=True)
    )


def _check_graph(
    name: str, inits: Sequence[Tensor], updates: Sequence[Tensor], states: Sequence[Tensor]
) -> None:
    """Raise if what states begin with depends on one, or a step has a recurrence of its own."""
    own = {state.op for state in states}
    for init in inits:
        if own & set(post_order([init.op])):
            raise ExpressionError(
                f"{user_line()}: {name}: {init.name} is what a state begins with, and cannot read "
                "a state"
            )
    for op in reading(post_order([update.op for update in updates]), own):
        if isinstance(op, ScanOp):
            raise ExpressionError(
                f"{user_line()}: {name}: {op.name} is a te.scan that depends on a state of this "
                "one; a scan within a scan is not supported: write the inner one as a reduction, "
                "or make one scan over both axes"
            )


def step_ops(updates: Sequence[Tensor], states: Iterable[Tensor]) -> list[ComputeOp]:
    """Return what is computed for each step: the updates, and what of theirs reads a state."""
    order = post_order([update.op for update in updates])
    needed = {*reading(order, {state.op for state in states}), *(each.op for each in updates)}
    return [op for op in order if op in needed and isinstance(op, ComputeOp)]


def reading(order: Iterable[Operation], sources: set[Operation]) -> list[Operation]:
    """Return the operations that read one of ``sources``, directly or through others.

    Args:
        order: operations, each after all that it reads.
        sources: what they may read; none of these is returned.
    """
    found: dict[Operation, None] = {}
    for op in order:
        reads = {tensor.op for tensor in op.input_tensors}
        if op not in sources and not reads.isdisjoint({*sources, *found}):
            found[op] = None
    return list(found)


def _computed(init: Tensor) -> Tensor:
    """Return what a state begins with as a compute: an argument is copied."""
    if isinstance(init.op, ComputeOp):
        return init
    copy: Tensor = compute(init.shape, lambda *i: init(*i), name=f"{init.name}.{SCAN}")
    return copy
