"""Which work threads and blocks may share: what they see all elements of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from autotune.errors import LoweringError
from autotune.ir.expr import IterVar
from autotune.ir.visitor import reads_in
from autotune.lowering.bodies import BodySimplifier, reads_of
from autotune.lowering.plan import Body, Thread
from autotune.lowering.regions import Region
from autotune.te.stage import Stage


def check_shared_work(
    stage: Stage, scope: str, regions: Sequence[Region], threads: Mapping[IterVar, Thread]
) -> None:
    """Raise if the loops of an attached stage are bound to threads that do not see its elements.

    Args:
        scope: of its memory.
        regions: what is computed of it.
        threads: what its loops are bound to.
    """
    for leaf, thread in threads.items():
        if leaf.kind == "reduce":
            _check_joined(stage, leaf, thread, regions)
        elif scope == "local" or thread.tag.startswith("blockIdx"):
            raise _private(stage, scope, leaf, thread)


def reads_own_block(simplifier: BodySimplifier, body: Body, kept: Collection[Stage]) -> bool:
    """Return whether a stage reads only what its block computes, by indices known ahead.

    Args:
        simplifier: of the lowering.
        body: of the stage.
        kept: the stages whose result the caller gets.
    """
    for load in reads_of(body):
        source = simplifier.stage_of[load.tensor.op]
        apart = source.attach_type != "at" or source in kept or source.holds_state
        if apart or reads_in(*load.indices):
            return False
    return True


def beyond_tensor(stage: Stage) -> LoweringError:
    """Return the error for instructions of a warp that would read beyond a tensor."""
    return LoweringError(
        f"{stage.op.name}: tiles for tensor cores are larger than what is left of the result, and "
        "would be computed from beyond the operands; read these by cache_read in shared memory, "
        "attached to a loop of the product, or choose tiles that divide the result"
    )


def _private(stage: Stage, scope: str, leaf: IterVar, thread: Thread) -> LoweringError:
    """Return the error for work shared on what each thread, or block, has a copy of.

    What a thread reads of local memory is computed for it alone, and what a block reads of shared
    memory for that block: of a loop bound to threads, or blocks, each would run one iteration, and
    read elements that only others have.
    """
    owner, advice = "block", "compute the stage at the root"
    if scope == "local":
        owner = "thread"
        advice = 'attach the stage outside the loops of threads with set_scope("shared")'
    return LoweringError(
        f"bind: {stage.op.name} is in {scope} memory, of which each {owner} has its own, but "
        f"its axis {leaf.var.name!r} is bound to {thread.tag}, so that a {owner} would "
        f"read elements that another one computed; leave it unbound, or {advice}"
    )


def _check_joined(stage: Stage, leaf: IterVar, thread: Thread, regions: Sequence[Region]) -> None:
    """Raise if threads would join parts of different sums.

    Threads that join their parts of a reduction tell each other: it must be the same for all.
    """
    if any(thread.var in region.low.vars for region in regions):
        raise LoweringError(
            f"bind: {stage.op.name} is summed along {leaf.var.name!r} by {thread.tag} together, "
            "but each of these threads reads other elements of it, as a loop around is bound to "
            "the same axis; attach it outside that loop in shared memory, or bind one of the two "
            "to another axis"
        )
