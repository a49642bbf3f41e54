"""Products whose results one stage combines, such as a gate and what it lets through.

The tiles of that stage are tiles of both, so one kernel computes them in turn: their sums stay in
registers, where otherwise those of one go through memory, in a kernel of its own.
"""

from __future__ import annotations

from autotune.auto_scheduler.sketch.products import product_of
from autotune.auto_scheduler.sketch.rule import SketchContext
from autotune.auto_scheduler.sketch.stage_queries import consumers, is_output, steps_on
from autotune.auto_scheduler.states.attach_map import attached_to
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps import PragmaStep
from autotune.te.tensor import ComputeOp, Operation


def tiled_beside(
    context: SketchContext, state: State, stage_id: int, instructions: str
) -> int | None:
    """Returns a product of the same axes for whose tiles the one reader of a product is tiled.

    Threads then have the results of both, which need not go through memory.
    """
    reading = consumers(context, state, stage_id)
    if len(reading) != 1 or is_output(context, state, stage_id):
        return None
    op, reader = state.stages[stage_id].op, state.stages[reading[0]]
    if not context.access(state).elementwise_match(op, reader.op):
        return None
    # Persistent blocks load the tiles that follow: those of one product.
    if any(isinstance(step, PragmaStep) for _, step in steps_on(state, reading[0])):
        return None
    sides = _sides(op, instructions)
    for other in attached_to(state.state_object.attach, reading[0]):
        multiplied_too = state.stages[other].attrs.tensor_core == instructions
        if multiplied_too and _sides(state.stages[other].op, instructions) == sides:
            return other
    return None


def _sides(op: Operation, instructions: str) -> tuple[object, ...] | None:
    """Return which axes of a product are what, how many steps it adds up, and of what type."""
    found = product_of(op, instructions)
    if found is None or not isinstance(op, ComputeOp):
        return None
    sides = (found.batch, found.rows, found.columns)
    places = [tuple([op.axis.index(axis) for axis in side]) for side in sides]
    return (*places, found.extents[2], found.dtype)
