"""The tasks of a network for templates, as TVM's `extract_from_program` lists them.

Names and arguments are those of TVM's logs, so that a log of either serves both.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from autotune.errors import GraphError, TemplateError
from autotune.graph import Graph, Operator, TensorType, Value, ops
from autotune.graph.passes import RELAY_TEMPLATES
from autotune.target import Target
from autotune.task import Task, create
from autotune.task.template import TASK_TABLE
from autotune.utils.check import Check

logger = logging.getLogger("autotune")

# The templates that come with autotune.
_LIBRARY = "autotune.templates"
# Sizes of filters for which TVM has a task of Winograd's; rows from which on a batch is large.
_WINOGRAD, _LARGE_BATCH = range(3, 8), 32


@dataclass(frozen=True)
class LayerTask:
    """A layer as a template's task, under TVM's names: the workload of its logs.

    Attributes:
        name: of the template.
        args: its arguments.
    """

    name: str
    args: tuple[object, ...]


def template_tasks(
    graph: Graph,
    params: Mapping[str, object] | None,
    target: Target | str,
    operators: Sequence[str] | None = None,
) -> tuple[list[Task], list[int]]:
    """Return a task for each distinct layer that a registered template implements.

    The tasks are in the order in which layers run; with each comes the number of layers that it
    represents. A layer has several tasks if TVM has several templates for it. If no template is
    registered, those that come with autotune are loaded, as TVM loads its own.

    Args:
        graph: the network.
        params: values of its parameters, by name.
        target: the target to tune for.
        operators: names of operators, such as ``nn.conv2d``; by default all.

    Raises:
        TemplateError: layers could be tuned, but no template is registered.
    """
    check = Check(GraphError, "extract_from_program")
    check.kind("graph", graph, Graph, "a graph (of an imported model: model.graph)")
    if operators is not None:
        check.sequence("operators", operators, "a list such as ['nn.conv2d'], or None")
    chosen = target if isinstance(target, Target) else Target(target)
    simpler = RELAY_TEMPLATES(graph.bind({} if params is None else params))
    found = Counter(
        layer
        for node in simpler.nodes
        if operators is None or node.op.name in operators
        for layer in layer_tasks(node.op, node.inputs, node.outputs[0].dtype, chosen)
    )
    if not any(layer.name in TASK_TABLE for layer in found):
        import_module(_LIBRARY)
    known = {layer: count for layer, count in found.items() if layer.name in TASK_TABLE}
    if found and not known:
        names = ", ".join(dict.fromkeys(layer.name for layer in found))
        raise TemplateError(
            f"extract_from_program: no template is registered of {names}, and none comes with "
            "autotune; register yours first"
        )
    made = [(task, count) for layer, count in known.items() if (task := _created(layer, chosen))]
    return [task for task, _ in made], [count for _, count in made]


def _created(layer: LayerTask, target: Target) -> Task | None:
    """Return the task of a layer; None, and a warning, where its template refuses it."""
    try:
        return create(layer.name, layer.args, target)
    except TemplateError as error:
        logger.warning("extract_from_program: no task of %s%s: %s", layer.name, layer.args, error)
        return None


def layer_tasks(
    op: Operator, inputs: Sequence[Value], dtype: str, target: Target
) -> list[LayerTask]:
    """Return the tasks of a layer under TVM's names; some may have no template here.

    Args:
        op: the operator.
        inputs: its operands.
        dtype: dtype of its result.
        target: the target.
    """
    on_gpu = target.backend.on_gpu
    match op:
        case ops.Conv2d() if op.data_layout == "NCHW":
            return _convolution(op, inputs, dtype, on_gpu)
        case ops.Conv2d() if op.kernel_layout == "HWIO" and op.groups == 1 and on_gpu:
            args = (*_tensors(inputs), op.steps, _around(op.sides), op.holes, dtype)
            return [LayerTask("conv2d_nhwc.gpu", args)]
        case ops.Conv3d():
            return [_convolution_3d(op, inputs, dtype, on_gpu)]
        case ops.Conv2dTranspose():
            return [_transposed(op, inputs, dtype, on_gpu)]
        case ops.Dense():
            return _dense(inputs, dtype, on_gpu)
        case ops.BatchMatmul():
            shape = op.infer(*[value.type for value in inputs]).shape
            rest = (shape, dtype, op.transpose_a, op.transpose_b)
            kind = "cuda" if on_gpu else "x86"
            return [LayerTask(f"batch_matmul.{kind}", (*_tensors(inputs), *rest))]
    return []


def _around(sides: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return paddings as TVM has them: all before, then all after."""
    return (*(before for before, _ in sides), *(after for _, after in sides))


def _convolution_3d(
    op: ops.Conv3d, inputs: Sequence[Value], dtype: str, on_gpu: bool
) -> LayerTask:
    name = f"conv3d_{op.data_layout.lower()}.{'cuda' if on_gpu else 'x86'}"
    moves = (op.steps, _around(op.sides), op.holes, op.groups)
    return LayerTask(name, (*_tensors(inputs), *moves, dtype))


def _transposed(
    op: ops.Conv2dTranspose, inputs: Sequence[Value], dtype: str, on_gpu: bool
) -> LayerTask:
    """Return the task of a transposed convolution; on a CPU TVM convolves data that is spread."""
    steps, sides, more = op.moves
    if on_gpu:
        rest = (steps, _around(sides), dtype, more, 1)
        return LayerTask("conv2d_transpose_nchw.cuda", (*_tensors(inputs), *rest))
    (n, ci, *extents), (_, co, *window) = (value.shape for value in inputs)
    numbers = zip(extents, window, steps, sides, more, strict=True)
    spread = [
        (extent - 1) * step + 1 + 2 * (k - 1) - before - after + extra
        for extent, k, step, (before, after), extra in numbers
    ]
    tensors = (("TENSOR", (n, ci, *spread), dtype), ("TENSOR", (co, ci, *window), dtype))
    plain = ((1, 1), (0, 0), (1, 1), "NCHW", "NCHW", dtype)
    return LayerTask("conv2d_NCHWc.x86", (*tensors, *plain))


def _tensors(values: Sequence[Value]) -> tuple[tuple[str, tuple[int, ...], str], ...]:
    return tuple([("TENSOR", value.shape, value.dtype) for value in values])


def _convolution(
    op: ops.Conv2d, inputs: Sequence[Value], dtype: str, on_gpu: bool
) -> list[LayerTask]:
    data, weight = (value.type for value in inputs)
    (top, bottom), (left, right) = op.sides
    args = (*_tensors(inputs), op.steps, (top, left, bottom, right), op.holes)
    depthwise = op.is_depthwise(data, weight)
    if not on_gpu:
        blocked = (*args, "NCHW", "NCHW", dtype)
        if depthwise:
            return [LayerTask("depthwise_conv2d_NCHWc.x86", blocked)]
        return [LayerTask("conv2d_NCHWc.x86", blocked)] if op.groups == 1 else []
    if depthwise:
        return [LayerTask("depthwise_conv2d_nchw.cuda", (*args, dtype))]
    if op.groups > 1:
        return [LayerTask("group_conv2d_nchw.cuda", (*args, op.groups, dtype))]
    found = [LayerTask("conv2d_nchw.cuda", (*args, dtype))]
    if _suits_winograd(op, weight):
        found.append(LayerTask("conv2d_nchw_winograd.cuda", (*args, dtype)))
    return found


def _suits_winograd(op: ops.Conv2d, weight: TensorType) -> bool:
    """Return TVM's rule for Winograd's convolution on a GPU."""
    rows, columns = weight.shape[2:]
    moves = {*op.steps, *op.holes}
    return rows == columns and rows in _WINOGRAD and moves == {1}


def _dense(inputs: Sequence[Value], dtype: str, on_gpu: bool) -> list[LayerTask]:
    args = (*_tensors(inputs), None, dtype)
    if not on_gpu:
        names = ["dense_nopack.x86", "dense_pack.x86"]
    elif inputs[0].shape[0] < _LARGE_BATCH:
        names = ["dense_small_batch.gpu"]
    else:
        names = ["dense_small_batch.gpu", "dense_large_batch.gpu"]
    return [LayerTask(name, args) for name in names]
