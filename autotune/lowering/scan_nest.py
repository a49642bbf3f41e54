"""The loops of recurrences: first rows, then the loop over steps with all that a step computes."""

from __future__ import annotations

from autotune.ir.stmt import Stmt, seq
from autotune.lowering.stage_nest import StageNest


class ScanNest(StageNest):
    """Builds the loops of a scan, which computes nothing itself: all is attached to its loops."""

    def build(self) -> Stmt:
        """Return the statement of the whole scan."""
        return self.loops(0, len(self.levels), {}, seq)

    def wrap(self, i: int, body: Stmt) -> Stmt:
        """Put loop ``i`` around a body; in the last one, steps beyond the end are left out.

        As no thread takes part in the loops over steps, the condition holds for all or none.
        """
        level = self.levels[i]
        for child in reversed(level.children):
            body = self.attach(child, i, body)
        if i == len(self.levels) - 1:
            body = self.guarded(self.plan.conditions, body)
        return self.around(level, level.leaf.var, body)
