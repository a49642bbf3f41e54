"""Which stages are computed inside loops of which others (compute_at); kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

# A loop: its stage, and its place among the loops of that stage.
Place = tuple[int, int]
# Attached stage -> loop, in the order in which they were attached.
AttachMap = Mapping[int, Place]


def attach_stage(attach: AttachMap, stage: int, target: int, loop: int) -> AttachMap:
    """Compute a stage at a loop of another one."""
    return {**detach_stage(attach, stage), stage: (target, loop)}


def detach_stage(attach: AttachMap, stage: int) -> AttachMap:
    """Compute a stage nowhere else."""
    return {key: place for key, place in attach.items() if key != stage}


def move_attached(attach: AttachMap, stage: int, new: Callable[[int], int]) -> AttachMap:
    """Let stages that are attached to loops of a stage follow these to their new positions."""
    return {
        key: (target, new(loop)) if target == stage else (target, loop)
        for key, (target, loop) in attach.items()
    }


def with_inserted_stage(attach: AttachMap, at: int) -> AttachMap:
    """Number stages anew when one is inserted: those from ``at`` on come one later."""
    return {
        key + (key >= at): (target + (target >= at), loop)
        for key, (target, loop) in attach.items()
    }


def is_attached_within(attach: AttachMap, stage: int, other: int) -> bool:
    """Return whether a stage is computed in a loop of another one, or of one that is."""
    while stage in attach and stage != other:
        stage, _ = attach[stage]
    return stage == other


def attached_at(attach: AttachMap, stage: int, loop: int) -> Iterable[int]:
    """Return the stages that are attached to a loop, in the order in which they were attached."""
    return [key for key, place in attach.items() if place == (stage, loop)]


def attached_to(attach: AttachMap, stage: int) -> Iterable[int]:
    """Return the stages that are attached to any loop of a stage."""
    return [key for key, (target, _) in attach.items() if target == stage]
