"""Control flow, and sequences.

Conditions and counts are known while the model is read, or both branches are computed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Value, ops
from autotune.importers.onnx.call import Call, Converter, Operand, UnknownInput
from autotune.importers.onnx.model import OnnxGraph
from autotune.importers.onnx.operators.arithmetic import chosen

logger = logging.getLogger("autotune")
# Most iterations that a loop is unrolled to.
_MOST = 1024


def _graph(call: Call, name: str) -> OnnxGraph:
    found: object = call.attribute(name, None)
    if not isinstance(found, OnnxGraph):
        call.refuse(f"expected a graph as its attribute {name}, got {found!r}")
    return found


def _if(call: Call) -> list[Operand]:
    """Return the outputs of the branch that the condition says; where data say it, of both."""
    try:
        condition = bool(call.known(0, "the condition").reshape(-1)[0])
    except UnknownInput as unknown:
        return _both(call, unknown)
    return call.run_graph(_graph(call, "then_branch" if condition else "else_branch"), [])


def _both(call: Call, unknown: UnknownInput) -> list[Operand]:
    """Compute both branches, and choose between their outputs.

    Raises:
        UnknownInput: one cannot be computed, or their outputs are of different types.
    """
    try:
        branches = [
            call.run_graph(_graph(call, f"{name}_branch"), []) for name in ("then", "else")
        ]
        results = [
            _either(call, call.value(0), a, b) for a, b in zip(*branches, strict=True)
        ]  # fmt: skip
    except GraphError as error:
        raise UnknownInput(f"{unknown} ({error})", unknown.value) from error
    logger.warning(
        "%s: its condition depends on data, so both branches are computed; values= of inputs that "
        "never change leave one out", call.node.label
    )  # fmt: skip
    return results


def _either(call: Call, condition: Value, a: Operand, b: Operand) -> Operand:
    """Return one of two results, which must be of one type."""
    x, y = call.as_value(a), call.as_value(b)
    if x.type != y.type:
        call.refuse(f"which result it has must not depend on data: {x.type} or {y.type}")
    return x if x is y else chosen(call, call.reshape(condition, ()), x, y)


def _loop(call: Call) -> list[Operand]:
    """Unroll a loop of a known number of iterations, at most, or until a known condition."""
    body = _graph(call, "body")
    count = int(call.known(0, "the number of iterations").reshape(-1)[0]) if call.has(0) else None
    going: Operand = call.operand(1) if call.has(1) else np.asarray(True)
    state = list(call.inputs[2:])
    scanned: list[list[Operand]] = [[] for _ in range(len(body.outputs) - 1 - len(state))]
    step, active = 0, None
    while count is None or step < count:
        known = call.numbers(going)
        if known is not None and not bool(known.reshape(-1)[0]):
            break
        if known is None:
            is_bounded = count is not None and count <= _MOST and not scanned
            _check_ends(call, step, is_bounded)
            active = _still_active(call, active, going)
        if step == _MOST:
            call.refuse(f"a loop of more than {_MOST} iterations is not unrolled")
        going, *results = call.run_graph(body, [np.asarray(step, "int64"), going, *state])
        new, more = results[: len(state)], results[len(state) :]
        # Behind the end of the loop its state stays.
        state = new if active is None else [
            _either(call, active, a, b) for a, b in zip(new, state, strict=True)
        ]  # fmt: skip
        for values, result in zip(scanned, more, strict=True):
            values.append(result)
        step += 1
    return [*state, *[_stacked(call, values, 0) for values in scanned]]


def _check_ends(call: Call, step: int, is_bounded: bool) -> None:
    """Refuse a loop that data end, where its results have other shapes then."""
    if is_bounded:
        return
    if step == 0:
        call.known(1, "the condition")
    call.refuse(
        "its condition must be known while the model is read, but depends on data; that is "
        f"supported where at most {_MOST} iterations are known to come, and nothing is collected"
    )


def _still_active(call: Call, active: Value | None, going: Operand) -> Value:
    """Return whether a loop goes on, if data say it."""
    now = call.reshape(call.as_value(going), ())
    return now if active is None else call.apply(ops.LogicalAnd(), active, now)


def _stacked(call: Call, values: Sequence[Operand], axis: int) -> Operand:
    if not values:
        call.refuse("a loop without iterations gives no value for what it collects")
    if all(isinstance(each, np.ndarray) for each in values):
        return np.stack(values, axis)
    return call.apply(ops.Stack(axis), *[call.as_value(each) for each in values])


def _scan(call: Call) -> list[Operand]:
    """Unroll a scan: a loop over slices of its inputs."""
    if call.opset < 9:
        call.refuse("Scan of opset 8 is not supported; convert the model to opset 9 or newer")
    body, number = _graph(call, "body"), call.attribute("num_scan_inputs", 1)
    split = len(call.inputs) - number
    state, scanned = list(call.inputs[:split]), call.values()[split:]
    axes = call.ints("scan_input_axes") or (0,) * number
    back = call.ints("scan_input_directions") or (0,) * number
    outputs = len(body.outputs) - len(state)
    out_axes = call.ints("scan_output_axes") or (0,) * outputs
    out_back = call.ints("scan_output_directions") or (0,) * outputs
    steps = scanned[0].shape[axes[0]]
    if steps > _MOST:
        call.refuse(f"a loop of more than {_MOST} iterations is not unrolled")
    collected: list[list[Operand]] = [[] for _ in range(outputs)]
    for step in range(steps):
        parts = [
            at_index(call, value, axis, steps - 1 - step if reverse else step)
            for value, axis, reverse in zip(scanned, axes, back, strict=True)
        ]
        results = call.run_graph(body, [*state, *parts])
        state = results[: len(state)]
        for values, result in zip(collected, results[len(state) :], strict=True):
            values.append(result)
    for values, reverse in zip(collected, out_back, strict=True):
        if reverse:
            values.reverse()
    pairs = zip(collected, out_axes, strict=True)
    return [*state, *[_stacked(call, values, axis) for values, axis in pairs]]


def at_index(call: Call, value: Value, axis: int, index: int) -> Value:
    """Return the slice at an index of an axis, without the axis."""
    at = call.axis(axis, value.type.ndim)
    begin, end = [0] * at + [index], [*value.shape[:at], index + 1]
    part = call.apply(ops.StridedSlice(tuple(begin), tuple(end)), value)
    return call.reshape(part, (*value.shape[:at], *value.shape[at + 1 :]))


def _construct(call: Call) -> tuple[Operand, ...]:
    return tuple(call.inputs)


def _empty(call: Call) -> tuple[Operand, ...]:
    return ()


def _items(call: Call) -> tuple[Operand, ...]:
    found = call.operand(0)
    if not isinstance(found, tuple):
        call.refuse("expected a sequence, got a tensor")
    return found


def _at(call: Call) -> Operand:
    items, (index,) = _items(call), call.whole(1, "the position")
    if not -len(items) <= index < len(items):
        call.refuse(f"position must be within a sequence of {len(items)}, got {index}")
    return items[index]


def _insert(call: Call) -> tuple[Operand, ...]:
    items = list(_items(call))
    index = call.whole(2, "the position")[0] if call.has(2) else len(items)
    items.insert(index, call.operand(1))
    return tuple(items)


def _erase(call: Call) -> tuple[Operand, ...]:
    items = list(_items(call))
    del items[call.whole(1, "the position")[0] if call.has(1) else -1]
    return tuple(items)


def _length(call: Call) -> Operand:
    return np.asarray(len(_items(call)), "int64")


def _joined(call: Call) -> Value:
    values = [call.as_value(each) for each in _items(call)]
    axis = call.attribute("axis", 0)
    if call.attribute("new_axis", 0):
        return call.apply(ops.Stack(axis), *values)
    return call.apply(ops.Concatenate(axis), *values)


def _made_optional(call: Call) -> list[Operand | None]:
    return [call.operand(0) if call.has(0) else None]


def _optional(call: Call) -> Operand:
    """Return what an optional value has: a tensor or a sequence may stand for one."""
    if not call.has(0):
        call.refuse("its optional input has no value")
    return call.operand(0)


def _has_value(call: Call) -> Operand:
    return np.asarray(call.has(0))


CONVERTERS: dict[str, Converter] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceAt": _at,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceLength": _length,
    "ConcatFromSequence": _joined,
    "Optional": _made_optional,
    "OptionalGetElement": _optional,
    "OptionalHasElement": _has_value,
}
