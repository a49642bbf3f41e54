"""The tasks of a network for hand-written templates: each layer that one of them implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import GraphError, TemplateError
from autotune.graph import Graph, Node, ops
from autotune.graph.passes import RELAY_TEMPLATES
from autotune.target import Target
from autotune.task import Task, create
from autotune.task.template import TASK_TABLE
from autotune.utils.check import Check


@dataclass(frozen=True)
class LayerTask:
    """What a layer is to a template.

    Attributes:
        name: of the template.
        args: its arguments.
    """

    name: str
    args: tuple[int | tuple[int, ...], ...]


def template_tasks(
    graph: Graph,
    params: Mapping[str, object] | None,
    target: Target | str,
    operators: Sequence[str] | None = None,
) -> tuple[list[Task], list[int]]:
    """Return a task for each distinct layer that a registered template implements.

    They are in the order in which layers run; beside them, how many layers each stands for.

    Args:
        graph: the network.
        params: numbers of its parameters, by name.
        target: what to tune for.
        operators: names of operators, such as ``nn.conv2d``; all by default.

    Raises:
        TemplateError: layers could be tuned, but no template is registered.
    """
    check = Check(GraphError, "extract_from_program")
    check.kind("graph", graph, Graph, "a graph")
    if operators is not None:
        check.sequence("operators", operators, "a list such as ['nn.conv2d'], or None")
    chosen = target if isinstance(target, Target) else Target(target)
    simpler = RELAY_TEMPLATES(graph.bind({} if params is None else params))
    found: dict[LayerTask, int] = {}
    for node in simpler.nodes:
        layer = layer_task(node, "cuda" if chosen.backend.on_gpu else "cpu")
        if layer is not None and (operators is None or node.op.name in operators):
            found[layer] = found.get(layer, 0) + 1
    known = {layer: count for layer, count in found.items() if layer.name in TASK_TABLE}
    if found and not known:
        names = ", ".join(dict.fromkeys(layer.name for layer in found))
        raise TemplateError(
            f"extract_from_program: no template is registered of {names}; "
            "`import autotune.templates` registers those that come with autotune"
        )
    tasks = [create(layer.name, layer.args, chosen) for layer in known]
    return tasks, list(known.values())


def layer_task(node: Node, kind: str) -> LayerTask | None:
    """Return the task of a layer, or None if no template has its form.

    Args:
        node: of the network.
        kind: ``"cuda"`` or ``"cpu"``.
    """
    match node.op:
        case ops.Conv2d() as op:
            return _convolution(node, op, kind)
        case ops.Dense():
            data, weight = (value.shape for value in node.inputs)
            return LayerTask(f"te/dense.{kind}", (data[0], weight[0], weight[1]))
    return None


def _convolution(node: Node, op: ops.Conv2d, kind: str) -> LayerTask | None:
    data, weight = (value.type for value in node.inputs)
    (top, bottom), (left, right) = op.sides
    plain = op.data_layout == "NCHW" and op.holes == (1, 1) and data.dtype == "float32"
    if not plain or (top, left) != (bottom, right):
        return None
    n, ci, h, w = data.shape
    co, _, kh, kw = weight.shape
    if op.groups == 1:
        shape = (n, h, w, co, ci, kh, kw, op.steps, (top, left))
        return LayerTask(f"conv2d_nchw.{kind}", shape)
    if op.is_depthwise(data, weight):
        depthwise = (n, h, w, ci, 1, kh, kw, op.steps, (top, left))
        return LayerTask(f"te/depthwise_conv2d_nchw.{kind}", depthwise)
    return None
