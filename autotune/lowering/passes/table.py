"""The passes over the statements of one kernel, in their order.

Each takes valid statements and leaves valid statements. To add one, write a function of a
`Stmt` and a `Draft` in a file of its own, with a first line that says what it does, and put it in
its place here. ``python -m autotune.lowering`` prints the list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from autotune.ir.stmt import Stmt
from autotune.lowering.passes.barriers import insert_barriers
from autotune.lowering.passes.carried import carry_sums
from autotune.lowering.passes.describe import describe
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.early_copies import copy_early
from autotune.lowering.passes.grid import number_blocks
from autotune.lowering.passes.interiors import ask_once
from autotune.lowering.passes.limits import check_limits
from autotune.lowering.passes.long_blocks import begin_with_long_blocks
from autotune.lowering.passes.partition import partition_loops
from autotune.lowering.passes.pipeline import pipeline_loops
from autotune.lowering.passes.storage import hoist_allocations
from autotune.lowering.passes.sums_in_flight import insert_proxy_fences
from autotune.lowering.passes.taken_over import take_over_storage
from autotune.lowering.passes.tensor_cores import use_tensor_cores
from autotune.lowering.passes.unroll import unroll_loops
from autotune.lowering.passes.vectorize import vectorize_loops
from autotune.lowering.passes.vthread import inject_vthreads
from autotune.lowering.passes.warp_memory import place_in_registers
from autotune.lowering.passes.warpgroups import use_warpgroups
from autotune.lowering.passes.wide_stores import widen_stores


@dataclass(frozen=True)
class Pass:
    """One pass: the name by which a hook sees it, and what it does."""

    name: str
    run: Callable[[Stmt, Draft], Stmt]

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.run) or "").split("\n")[0]

    @property
    def module(self) -> str:
        """The module that defines it."""
        return self.run.__module__


PASSES = (
    Pass("limits", check_limits),
    Pass("interiors", ask_once),
    Pass("carried", carry_sums),
    Pass("vthread", inject_vthreads),
    Pass("tensor_cores", use_tensor_cores),
    Pass("warpgroups", use_warpgroups),
    Pass("warp_memory", place_in_registers),
    Pass("partition", partition_loops),
    Pass("vectorize", vectorize_loops),
    Pass("stores", widen_stores),
    Pass("storage", hoist_allocations),
    # Without allocations inside, more loops can be taken apart...
    Pass("partition", partition_loops),
    Pass("pipeline", pipeline_loops),
    Pass("early_copies", copy_early),
    Pass("taken_over", take_over_storage),
    Pass("limits", check_limits),
    Pass("barriers", insert_barriers),
    Pass("proxies", insert_proxy_fences),
    # What a kernel uses is easier to see before loops are written out than after.
    Pass("describe", describe),
    Pass("unroll", unroll_loops),
    # ... and of iterations that are written out, more conditions are of one loop alone.
    Pass("partition", partition_loops),
    Pass("long_blocks", begin_with_long_blocks),
    Pass("grid", number_blocks),
)


def passes_text() -> str:
    """Returns the list of passes, one a line: name, description, module."""
    return "\n".join(f"{each.name:<12} {each.summary}  [{each.module}]" for each in PASSES)
