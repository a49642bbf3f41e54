"""AutoTVM's `task.relay_integration`: tasks of networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.errors import GraphError
from autotune.network.template_tasks import template_tasks
from autotune.target import Target
from autotune.task import Task
from autotune.tvm.relay.function import graph_of
from autotune.tvm.relay.op import name_of
from autotune.utils.check import Check


def extract_from_program(
    mod: object,
    params: Mapping[str, object] | None,
    target: str | Target | list[object],
    target_host: str | Target | None = None,
    ops: Sequence[object] | None = None,
) -> list[Task]:
    """Return the tasks of a network for the registered templates, in the order of its layers.

    TVM 0.6 had operators before the target; lists of them in its place are understood so.

    Args:
        mod: a module or function of relay.
        params: numbers of its parameters, by name.
        target: what to tune for.
        target_host: kept for logs.
        ops: operators, their functions or their names, such as ``nn.conv2d``; None for all.
    """
    return extract_from_multiple_program([mod], [params], target, target_host, ops)


def extract_from_multiple_program(
    mods: Sequence[object],
    params: Sequence[Mapping[str, object] | None],
    target: str | Target | list[object],
    target_host: str | Target | None = None,
    ops: Sequence[object] | None = None,
) -> list[Task]:
    """Return the tasks of several networks, each task once; ``target`` may stand after ``ops``."""
    check = Check(GraphError, "extract_from_program")
    if isinstance(target, list | tuple):
        if target_host is None:
            check.refuse("target", "a target, after the operators if these come first", target)
        return extract_from_multiple_program(mods, params, target_host, None, target)
    chosen = Target(target, target_host) if target_host is not None else Target(target)
    if ops is not None:
        check.sequence("ops", ops, "a list of operators such as ['nn.conv2d'], or None")
    check.sequence("mods", mods, "a list of modules")
    check.sequence("params", params, "a list with parameters of each module")
    if len(mods) != len(params):
        check.refuse("params", f"a list of {len(mods)}, one for each module", params)
    names = None if ops is None else [name_of(each) for each in ops]
    found: dict[object, Task] = {}
    for module, numbers in zip(mods, params, strict=True):
        graph = graph_of(module)
        inputs = {each.name for each in graph.inputs}
        if isinstance(numbers, Mapping) and inputs <= {*numbers}:
            numbers = None  # a network without inputs would be computed while it is compiled
        for task in template_tasks(graph, numbers, chosen, names)[0]:
            found.setdefault(task.workload, task)
    return list(found.values())
