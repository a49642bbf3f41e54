"""Equivalent workload keys: names of operations changed between versions of TVM.

The hash of a key is made from a text with names of operations in it. TVM's operator library
renamed some of them, so one graph has several hashes; all are looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from autotune.auto_scheduler.graph.relink import linked_ops
from autotune.auto_scheduler.problem.compute_dag import ComputeDAG
from autotune.ir import Expr, Reduce, Var, substitute, to_text
from autotune.te.schedule import create_schedule
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp
from autotune.te.workload import digest, first_text, graph_text

# Operation -> another name that it had, or None where it had no other.
Renaming = Callable[[Operation], str | None]

_POOLS = ("pool_max", "pool_sum", "pool_avg", "adaptive_pool_max", "adaptive_pool_sum",
          "adaptive_pool_avg")  # fmt: skip
_CONVOLUTIONS = ("conv2d_nchw", "group_conv2d_nchw")
_NHWC = {"conv2d_nhwc": "Conv2dOutput", "pad_temp": "PaddedInput"}
_DH_DW = (("rv0", "dh"), ("rv1", "dw"))
_INPUT = re.compile(r"p\d+")


def _old_input(op: Operation) -> str | None:
    """Before TVM 0.9 all inputs of a network were called so."""
    known = isinstance(op, PlaceholderOp) and _INPUT.fullmatch(op.name)
    return "placeholder" if known else None


def _old_pool(op: Operation) -> str | None:
    """Before TVM 0.11 operators of pooling had no names of their own."""
    return "tensor" if op.name in _POOLS else None


def _new_convolution(op: Operation) -> str | None:
    """In TVM 0.8 convolutions in NCHW had no name yet; our operators have none."""
    return op.tag if op.name == "compute" and op.tag in _CONVOLUTIONS else None


def _network_relu(op: Operation) -> str | None:
    """Networks name after the operator what scripts name ``compute``."""
    if not isinstance(op, ComputeOp) or op.reduce_axis or op.name not in ("compute", "T_relu"):
        return None
    return "T_relu" if op.name == "compute" else "compute"


def _old_window(op: Operation) -> str | None:
    """Before TVM 0.8 the loops over a window of pooling were called otherwise, see `_DH_DW`."""
    return "tensor" if op.name in ("pool_max", "pool_sum") and len(op.reduce_axis) == 2 else None


def _old_nhwc(op: Operation) -> str | None:
    """Before TVM 0.10 convolutions in NHWC, and what they pad, had names unlike all others."""
    return _NHWC.get(op.name) if isinstance(op, ComputeOp) else None


_RENAMINGS: tuple[Renaming, ...] = (
    _old_input, _old_pool, _old_window, _old_nhwc, _new_convolution, _network_relu,
)  # fmt: skip


def equivalent_keys(dag: ComputeDAG, workload_key: str | None = None) -> tuple[str, ...]:
    """Return all keys of a graph: its own first, then those with names it had elsewhere.

    Keys of TVM before March 2021 have all extents in one list, those before December 2020 none.

    Args:
        dag: the graph.
        workload_key: what a task calls it, if that is not its hash.
    """
    shapes = json.loads(dag.workload_key())[1:]
    keys = [] if workload_key is None else [workload_key]
    hashes, first = _hashes(dag)
    flat = [extent for shape in shapes for extent in shape]
    keys += [json.dumps([each, *shapes]) for each in hashes]
    keys += [json.dumps([each, *flat]) for each in hashes]
    keys += [json.dumps([each]) for each in first]
    return tuple(dict.fromkeys(keys))


def _hashes(dag: ComputeDAG) -> tuple[list[str], list[str]]:
    """Return the hashes of a graph under all names, of its text and of the first form of it."""
    found, first = [dag.hash_key()], []
    useful = [each for each in _RENAMINGS if any(each(op) for op in dag.ops)]
    for count in range(len(useful) + 1):
        for some in combinations(useful, count):
            text, older = _renamed_texts(dag, some)
            found.append(digest(text))
            first.append(digest(older))
    return list(dict.fromkeys(found)), list(dict.fromkeys(first))


def _renamed_texts(dag: ComputeDAG, renamings: Sequence[Renaming]) -> tuple[str, str]:
    """Return the text of a graph whose operations are called otherwise, and its first form."""
    schedule = create_schedule(list(dag.outputs))
    names: list[str] = []
    axes: dict[Operation, Sequence[str]] = {}
    for stage in schedule.stages:
        new = next((name for each in renamings if (name := each(stage.op))), None)
        names.append(new or stage.op.name)
        if new is not None and _network_relu in renamings and _network_relu(stage.op) == new:
            letter = "ax" if new == "T_relu" else "i"
            axes[stage.op] = [f"{letter}{i}" for i in range(len(stage.op.axis))]
    ops = linked_ops(schedule, names, axes)
    text, older = graph_text(ops, simple=True), first_text(ops)
    if _old_window in renamings:
        for new, old in _DH_DW:
            text, older = text.replace(new, old), older.replace(new, old)
    return text, older


def structural_hash(dag: ComputeDAG) -> str:
    """Return a hash of what a graph computes, whatever its operations and axes are called.

    Equal graphs have their stages in the same order, so that steps of one fit the other.
    """
    schedule = create_schedule(list(dag.outputs))
    names = [f"t{i}" for i in range(len(schedule.stages))]
    axes: Mapping[Operation, Sequence[str]] = {
        stage.op: [f"a{i}" for i in range(len(stage.op.axis))]
        for stage in schedule.stages
        if isinstance(stage.op, ComputeOp)
    }
    lines = []
    for op in linked_ops(schedule, names, axes):
        lines.append(f"{[(tensor.shape, tensor.dtype) for tensor in op.outputs]}")
        lines.append(graph_text([op]) if not isinstance(op, ComputeOp) else _plain_text(op))
    return digest("\n".join(lines))


def _plain_text(op: ComputeOp) -> str:
    """Return the text of an operation with its reduction axes numbered."""
    first = op.body[0]
    if not isinstance(first, Reduce):
        return graph_text([op])
    to: dict[Var, Expr] = {
        axis.var: Var(f"r{i}", axis.var.dtype) for i, axis in enumerate(first.axes)
    }
    parts = [*first.sources, first.condition, *first.init, *first.combiner.result]
    extents = [str(axis.dom) for axis in first.axes]
    return str([*extents, *(to_text(substitute(each, to)) for each in parts)])
