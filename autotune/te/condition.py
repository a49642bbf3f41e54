"""Store predicates as text, so that a schedule step holds nothing but ints and strings.

The text is JSON: ``["==", "threadIdx.x", 0]``. A thread axis goes by its tag; an axis of the stage
by ``"axis 3"``, its place among all axes of the stage.
"""

from __future__ import annotations

import json

from autotune.errors import ScheduleError
from autotune.ir import BinaryOp, Expr, IntImm, Not, Var, const
from autotune.ir.base import OPERATORS
from autotune.te.intrinsics import THREAD_TAGS
from autotune.te.stage_state import StageState


def condition_text(stage: StageState, condition: Expr) -> str:
    """Return a condition as text; raise if it is more than integer arithmetic on axes."""
    return json.dumps(_rows(stage, condition))


# A condition as JSON has it.
Row = bool | int | str | list["Row"]


def _rows(stage: StageState, node: Expr) -> Row:
    match node:
        case IntImm(value, dtype):
            return bool(value) if dtype == "bool" else value
        case Var(name):
            if node.axis == "thread" and name in THREAD_TAGS:
                return name
            for i, axis in enumerate(stage.all_iter_vars):
                if axis.var is node:
                    return f"axis {i}"
            raise ScheduleError(
                f"set_store_predicate({stage.name}): {name!r} is neither a thread axis nor an "
                f"axis of {stage.name}"
            )
        case Not(a):
            return ["!", _rows(stage, a)]
        case BinaryOp(a, b):
            return [node.symbol, _rows(stage, a), _rows(stage, b)]
        case _:
            raise ScheduleError(
                f"set_store_predicate({stage.name}): expected a condition on axes and integers, "
                f"got {node}"
            )


def read_condition(stage: StageState, text: str) -> Expr:
    """Return the condition that `condition_text` wrote."""
    return _read(stage, json.loads(text))


def _read(stage: StageState, row: Row) -> Expr:
    if isinstance(row, list):
        operands = [_read(stage, each) for each in row[1:]]
        return Not(operands[0]) if row[0] == "!" else OPERATORS[str(row[0])](*operands)
    if isinstance(row, str):
        if row.startswith("axis "):
            return stage.all_iter_vars[int(row[5:])].var
        return Var(row, "int32", "thread")
    return const(row)
