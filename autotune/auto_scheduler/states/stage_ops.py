"""The operations of a state's stages after caches and factored reductions were inserted.

They are found by taking the steps that add stages on a te schedule. There an operation may go on
reading an older version of another one; here each reads the newest, so that a graph of them can be
analysed, and all have the names that TVM gives them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.auto_scheduler.graph.relink import Links, linked_ops
from autotune.auto_scheduler.states.loop_state import TransformStep
from autotune.auto_scheduler.states.replay import Replay
from autotune.te.tensor import Operation

Ops = tuple[Operation, ...]
_Taken = tuple[TransformStep, ...]
# Most schedules that are kept of a graph to go on from: those of states that are derived together.
_MOST_SCHEDULES = 256


@dataclass(frozen=True)
class _Known:
    """What was found of a graph: states that share steps share it.

    Attributes:
        ops: by the steps that were taken.
        schedules: the same of schedules, those used last at the end.
        links: operations that were made to read the newest of others.
    """

    ops: dict[_Taken, Ops] = field(default_factory=dict)
    schedules: OrderedDict[_Taken, Replay] = field(default_factory=OrderedDict)
    links: Links = field(default_factory=dict)


# It stays as long as the graph.
_known: WeakKeyDictionary[ComputeGraph, _Known] = WeakKeyDictionary()


def ops_after(dag: ComputeGraph, steps: Sequence[TransformStep]) -> Ops:
    """Return the operations of all stages after some steps on a graph."""
    key = tuple(_needed(steps))
    known = _known.get(dag)
    if known is None:
        known = _known.setdefault(dag, _Known())
    if key not in known.ops:
        replay = _replayed(dag, key, known.schedules)
        wanted = replay.schedule, replay.names, replay.renamed_axes
        known.ops[key] = linked_ops(*wanted, links=known.links)
    return known.ops[key]


def _needed(steps: Sequence[TransformStep]) -> list[TransformStep]:
    """Return the steps that add stages, and those by which a factored loop came about.

    These stand right before the reduction is factored, or else all steps before it are taken.
    """
    needed: list[TransformStep] = []
    for i, step in enumerate(steps):
        if not step.adds_stage:
            continue
        if step.tag == "RF":
            before = i
            while before and _splits(steps[before - 1], step.stage_id):
                before -= 1
            if _shaped(steps[:before], step.stage_id):
                needed, before = [], 0
            needed += steps[before:i]
        needed.append(step)
    return needed


def _splits(step: TransformStep, stage: int) -> bool:
    """Return whether a step changes loops of a stage, without a look at other steps."""
    return step.tag in ("SP", "FU", "RE") and step.stage_id == stage


def _shaped(steps: Sequence[TransformStep], stage: int) -> bool:
    """Return whether some step changed loops of the stage that has a number after all of them."""
    for step in reversed(steps):
        if step.adds_stage:
            # A copy stands after what it copies, another new stage before the one that it serves.
            first = step.stage_id + (step.tag == "CHR")
            if stage == first or (stage == first + 1 and step.tag != "CHR"):
                return False  # its loops are as new from here on
            stage -= stage > first
        elif step.tag in ("SP", "FU", "RE", "FSP", "FFSP") and step.stage_id == stage:
            return True
    return False


def _replayed(dag: ComputeGraph, steps: _Taken, known: OrderedDict[_Taken, Replay]) -> Replay:
    """Return a schedule on which steps were taken, from the longest beginning that is known on."""
    taken = next((n for n in range(len(steps), 0, -1) if steps[:n] in known), 0)
    if taken:
        known.move_to_end(steps[:taken])
    replay = known[steps[:taken]].copy() if taken else Replay(dag)
    for step in steps[taken:]:
        replay.take(step)
    known[steps] = replay
    if len(known) > _MOST_SCHEDULES:
        known.popitem(last=False)
    return replay
