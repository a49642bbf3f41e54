"""Texts of functions that a script calls: those of pragmas such as ``import_c``."""

from __future__ import annotations

from autotune.errors import LoweringError
from autotune.ir.stmt import For
from autotune.ir.structure import walk
from autotune.te.extern import ExternOp
from autotune.te.schedule import Schedule
from autotune.te.stage_state import IMPORTS


def imported_texts(schedule: Schedule) -> tuple[str, ...]:
    """Return the texts that pragmas of a schedule import, each once.

    Raises:
        LoweringError: a pragma imports no text.
    """
    found: dict[str, None] = {}
    for stage in schedule.stages:
        pragmas = [pair for attr in stage.iter_attrs.values() for pair in attr.pragmas]
        if isinstance(stage.op, ExternOp):
            loops = (node for node in walk(stage.op.body) if isinstance(node, For))
            pragmas += [pair for loop in loops for pair in loop.annotations.items()]
        for key, value in pragmas:
            if key not in IMPORTS:
                continue
            if not isinstance(value, str) or not value:
                raise LoweringError(
                    f"pragma {key} of {stage.op.name}: expected text of functions in C or CUDA "
                    f"C++, got {value!r}"
                )
            found[value if value.endswith("\n") else f"{value}\n"] = None
    return tuple(found)
