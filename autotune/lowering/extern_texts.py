"""Texts of functions that a script calls: those of pragmas such as ``import_c``."""

from __future__ import annotations

from autotune.errors import LoweringError
from autotune.ir.stmt import For, Stmt
from autotune.ir.structure import walk
from autotune.te.extern import ExternOp
from autotune.te.schedule import Schedule
from autotune.te.stage import Stage
from autotune.te.stage_state import IMPORTS


def imported_texts(schedule: Schedule) -> tuple[str, ...]:
    """Return the texts that pragmas of a schedule import, each once.

    Raises:
        LoweringError: a pragma imports no text.
    """
    found: dict[str, None] = {}
    for stage in schedule.stages:
        pragmas = [pair for attr in stage.iter_attrs.values() for pair in attr.pragmas]
        for written in _hand_written(stage):
            loops = (node for node in walk(written) if isinstance(node, For))
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


def _hand_written(stage: Stage) -> list[Stmt]:
    """Return the statements of a stage that a script wrote: its own, or those of its intrinsic."""
    if isinstance(stage.op, ExternOp):
        return [stage.op.body]
    if stage.tensorized is None:
        return []
    _, intrin = stage.tensorized
    return [each for each in (intrin.body, intrin.reset, intrin.update) if each is not None]
