"""Transfer: fast rows of one workload, mapped to rows of a similar one.

Two programs are of one kind if the same numbers are open in the same order: splits of loops of the
same names into as many parts, and the same choices. Their sketches then differ only in extents,
and in stages without open numbers, such as inlined ones. Each split length becomes the nearest
one, by ratio, that the new extents allow; each choice the nearest in the list.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.space.factors import factorings
from autotune.auto_scheduler.search.space.program import (
    ChoiceSlot,
    FactorSlot,
    Program,
    Rows,
    Slot,
)
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.auto_scheduler.transform_steps import SplitStep


class ProgramKind:
    """Of which kind a program is.

    Attributes:
        signature: equal for programs whose rows can be taken over.
        decided: of splits that the sketch decided, the logarithms of both parts: in how many parts
            a reduction is shared among blocks tells such programs apart.
    """

    def __init__(self, program: Program) -> None:
        slots = {slot.step: slot for slot in program.slots}
        signature: list[Hashable] = []
        decided: list[tuple[float, float]] = []
        state = plain_state(program.state.dag)
        for number, step in enumerate(program.state.transform_steps):
            if isinstance(step, SplitStep):
                loop = state.stages[step.stage_id].iters[step.iter_id]
                name = _bare(loop.name)
                if number in slots:
                    signature.append((name, *_shape(slots[number])))
                else:
                    signature.append((name, len(step.lengths)))
                    decided += [_parts(loop.extent, length) for length in step.lengths]
            elif number in slots:
                signature.append((type(step).__name__, *_shape(slots[number])))
            state = step.apply(state)
        self.signature: Hashable = tuple(signature)
        self.decided = np.array(decided, np.float64).reshape(len(decided), 2)

    def distance(self, other: ProgramKind) -> float:
        """Return how far apart what two sketches of one signature decided is, in doublings."""
        return float(np.abs(self.decided - other.decided).min(axis=1).sum())


def _bare(name: str) -> str:
    """Return the axis of a loop, whether or not a cache holds the results of its stage.

    Fused loops, which run over all elements of a copy, have none.
    """
    return "" if "@" in name else name.removesuffix("_c")


def _shape(slot: Slot) -> tuple[Hashable, ...]:
    return ("parts", slot.parts) if isinstance(slot, FactorSlot) else ("choice",)


def _parts(extent: int | None, length: int | None) -> tuple[float, float]:
    inner = max(length or 1, 1)
    return float(np.log2(inner)), float(np.log2(max((extent or inner) / inner, 1.0)))


def mapped(rows: Rows, source: Program, target: Program) -> Rows:
    """Return rows of one program as rows of another of the same signature.

    They may break the limits of the device, as any row that is not drawn.
    """
    new = np.ones((len(rows), target.width), np.int64)
    for old, slot in zip(source.slots, target.slots, strict=True):
        given = rows[:, source.columns[old.step]]
        new[:, target.columns[slot.step]] = _nearest(given, slot)
    return new


def _nearest(given: Rows, slot: Slot) -> Rows:
    """Return for each row the values of a slot that are nearest to what is given."""
    if isinstance(slot, ChoiceSlot):
        table = np.array(slot.values, np.int64)[:, None]
    else:
        table = factorings(slot.extent, slot.parts, slot.innermost)
        if slot.covers:
            whole = table[table.prod(axis=1) == slot.extent]
            table = whole if len(whole) else table
    far = np.abs(_logs(given)[:, None, :] - _logs(table)[None, :, :]).sum(axis=2)
    found: Rows = table[far.argmin(axis=1)]
    return found


def _logs(values: Rows | Sequence[int]) -> npt.NDArray[np.float64]:
    return np.log2(np.asarray(values, np.float64) + 0.5)
