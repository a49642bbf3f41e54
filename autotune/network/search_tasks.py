"""The tasks of a network for the auto-scheduler: what to tune, and how often it runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from autotune.auto_scheduler import ComputeDAG, HardwareParams, LayoutRewriteOption, SearchTask
from autotune.errors import GraphError
from autotune.graph import Constant, Graph, Variable
from autotune.graph.fuse import FusedFunction, partition
from autotune.graph.passes import RELAY_CPU, RELAY_CUDA, PassPipeline
from autotune.network.choice_json import rewrite_option
from autotune.target import Target
from autotune.utils.check import Check


def pipeline_for(target: Target) -> PassPipeline:
    """Return TVM's passes with the auto-scheduler on, from which its workload keys follow."""
    return RELAY_CUDA if target.backend.on_gpu else RELAY_CPU


def extract_tasks(
    graph: Graph,
    params: Mapping[str, object] | None,
    target: Target | str,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
    dump_workload_to_dag_log: str | None = None,
    opt_level: int = 3,
) -> tuple[list[SearchTask], list[int]]:
    """Return the distinct tasks of a network, in the order of running, and how often each runs.

    The sum of weight times latency is what tuning makes less.

    Args:
        graph: the network.
        params: numbers of its parameters, by name.
        target: what to tune for.
        hardware_params: of the device; by default those of the target.
        include_simple_tasks: also functions that reduce nothing.
        dump_workload_to_dag_log: a file to write each key with the text of its graph to, as JSON.
        opt_level: of the passes.
    """
    _check(graph, hardware_params, dump_workload_to_dag_log, opt_level)
    chosen = target if isinstance(target, Target) else Target(target)
    simpler = pipeline_for(chosen)(graph.bind({} if params is None else params), opt_level)
    tasks: dict[str, ComputeDAG] = {}
    weights: dict[str, int] = {}
    names: dict[str, dict[str, None]] = {}
    options: dict[str, LayoutRewriteOption] = {}
    for group in _equal_functions(partition(simpler, opt_level)):
        if not (include_simple_tasks or group[0].has_reduction) or group[0].is_free:
            continue
        dag = ComputeDAG(list(group[0].tensors()))
        key = dag.workload_key()
        tasks.setdefault(key, dag)
        weights[key] = weights.get(key, 0) + len(group)
        names.setdefault(key, {})[group[0].name] = None
        # Parameters without their numbers are variables here, and constants when it is built.
        own = [rewrite_option(each, dag, chosen, (Constant, Variable)) for each in group]
        options[key] = min([*own, options.get(key, own[0])])
    if dump_workload_to_dag_log is not None:
        texts = {key: str(dag) for key, dag in tasks.items()}
        Path(dump_workload_to_dag_log).write_text(json.dumps(texts), "utf-8")
    made = [
        SearchTask(
            compute_dag=dag, workload_key=key, target=chosen, hardware_params=hardware_params,
            layout_rewrite_option=options[key], desc=",".join(names[key]),
        )
        for key, dag in tasks.items()
    ]  # fmt: skip
    return made, list(weights.values())


def _check(graph: Graph, hardware_params: object, log: str | None, opt_level: int) -> None:
    check = Check(GraphError, "extract_tasks")
    check.kind("graph", graph, Graph, "a graph (of an imported model: model.graph)")
    check.whole("opt_level", opt_level, least=0)
    if hardware_params is not None:
        check.kind("hardware_params", hardware_params, HardwareParams, "a HardwareParams or None")
    if log is not None:
        check.path("dump_workload_to_dag_log", log)


def _equal_functions(functions: Iterable[FusedFunction]) -> list[list[FusedFunction]]:
    """Returns functions in groups of equal structure, in the order of running."""
    groups: dict[str, list[FusedFunction]] = {}
    for function in functions:
        groups.setdefault(function.signature, []).append(function)
    return list(groups.values())
