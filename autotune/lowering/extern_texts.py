"""Texts of functions that a script calls: those of pragmas such as ``import_c``."""

from __future__ import annotations

from autotune.errors import LoweringError
from autotune.te.schedule import Schedule
from autotune.te.stage_state import IMPORTS


def imported_texts(schedule: Schedule) -> tuple[str, ...]:
    """Return the texts that pragmas of a schedule import, each once.

    Raises:
        LoweringError: a pragma imports no text.
    """
    found: dict[str, None] = {}
    for stage in schedule.stages:
        for attr in stage.iter_attrs.values():
            for key, value in attr.pragmas:
                if key in IMPORTS:
                    if not isinstance(value, str) or not value:
                        raise LoweringError(
                            f"pragma {key} of {stage.op.name}: expected text of functions in C "
                            f"or CUDA C++, got {value!r}"
                        )
                    found[value if value.endswith("\n") else f"{value}\n"] = None
    return tuple(found)
