"""What sums that are not tiled take longer because they leave most of a GPU idle."""

from __future__ import annotations

from math import prod

from autotune.auto_scheduler.graph.reads import adds_columns
from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.tiles import tiled_stages
from autotune.auto_scheduler.search.space.program import Program
from autotune.auto_scheduler.states.loops import Annotation, ComputeAtKind, IterKind, Stage
from autotune.ir.dtype import bits_of
from autotune.te.relation import extent_of

# Threads of a multiprocessor that keep its memory busy.
_BUSY = 256
# Shorter sums, all results together, take no longer than a launch.
_LONG = 2**17
# How many times as much is fetched where threads that share a sum read floats that are apart.
_APART = 8


def idle_seconds(program: Program, device: GpuParameters) -> float:
    """Return the seconds by which few threads are slower than a whole device, for all sums."""
    tiled = {each.stage_id for each in tiled_stages(program)}
    return sum(
        _stage_seconds(stage, device)
        for stage_id, stage in enumerate(program.state.stages)
        if stage.is_compute
        and stage.compute_at is not ComputeAtKind.INLINED
        and stage.op.reduce_axis
        and stage_id not in tiled
        and not stage.attrs.tensor_core
        # The parts of a sum are few.
        and not stage.name.endswith(".repl")
    )


def _stage_seconds(stage: Stage, device: GpuParameters) -> float:
    """Return those of one stage."""
    results, terms = (
        prod([extent_of(axis) or 1 for axis in axes])
        for axes in (stage.op.axis, stage.op.reduce_axis)
    )
    if results * terms < _LONG:
        return 0.0
    shared = any(
        loop.annotation is Annotation.THREAD_X and loop.iter_kind is IterKind.REDUCTION
        for loop in stage.iters
    )
    threads = results * (min(device.block_threads, terms) if shared else 1)
    bits = max([bits_of(each.dtype) for each in stage.op.input_tensors], default=32)
    whole = results * terms * bits / 8 / device.memory_bytes_per_s
    busy = min(threads / (_BUSY * device.sms), 1.0)
    return whole * ((_APART if shared and adds_columns(stage.op) else 1) / busy - 1.0)
