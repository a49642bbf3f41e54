"""The text of a loop state, as TVM prints it."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.auto_scheduler.states.attach_map import AttachMap, attached_at
from autotune.auto_scheduler.states.loops import ComputeAtKind, Stage


def state_text(stages: Sequence[Stage], attach: AttachMap) -> str:
    """Return the loops of a state: stages of their own one after another, others where attached.

    Loops of one iteration and inlined stages are left out, as in TVM; so it is no identity.

    Example::

        Placeholder: A, B
        parallel i.0 (0,32)
          for k (None)
            vectorize j.1 (0,8)
              C = ...
    """
    inputs = [stage.name for stage in stages if not stage.is_compute]
    lines = [f"Placeholder: {', '.join(inputs)}"]
    for stage_id, stage in enumerate(stages):
        if stage.is_compute and stage.compute_at is ComputeAtKind.ROOT:
            lines += _stage_lines(stages, attach, stage_id, 0)
    return "\n".join(lines) + "\n"


def _stage_lines(
    stages: Sequence[Stage], attach: AttachMap, stage_id: int, depth: int
) -> list[str]:
    stage = stages[stage_id]
    pad = "  " * depth
    lines = []
    if stage.attrs.auto_unroll_max_step:
        lines.append(f"{pad}{stage.name} auto_unroll: {stage.attrs.auto_unroll_max_step}")
    if stage.attrs.storage_offset:
        lines.append(f"{pad}{stage.name} storage_offset: {stage.attrs.storage_offset}")
    if stage.attrs.pipeline:
        lines.append(f"{pad}{stage.name} software_pipeline: {stage.attrs.pipeline}")
    if stage.attrs.min_blocks:
        lines.append(f"{pad}{stage.name} min_blocks: {stage.attrs.min_blocks}")
    for i, loop in enumerate(stage.iters):
        if loop.extent != 1:
            known = "(None)" if loop.range is None else str(loop.range)
            lines.append(f"{'  ' * depth}{loop.annotation.text} {loop.name} {known}")
            depth += 1
        for attached in attached_at(attach, stage_id, i):
            lines += _stage_lines(stages, attach, attached, depth)
    return [*lines, f"{'  ' * depth}{stage.name} = ..."]
