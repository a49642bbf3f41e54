"""Expected outputs of a tensor expression: its plain loops, compiled for the CPU and run once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.driver import kernel_of
from autotune.errors import AutotuneError, MeasureError
from autotune.kernel import Kernel
from autotune.measure.jobs import Greeting, ReferenceJob
from autotune.measure.stations import Station
from autotune.measure.tolerance import EPSILON
from autotune.runtime import compile_kernel
from autotune.target import Target
from autotune.te import ComputeOp, Schedule, create_schedule, post_order

_TIMEOUT_S = 120.0


def naive_kernel(schedule: Schedule, tensors: Sequence[Any]) -> Kernel:
    """Return the C kernel of the same computation without any scheduling.

    Raises:
        AutotuneError: the expression cannot be written in C.
    """
    written = [t.op for t in tensors if isinstance(t.op, ComputeOp)]
    return kernel_of((create_schedule(written), list(tensors)), Target("c"), "naive")


def kept_sums(tensors: Sequence[Any]) -> str | None:
    """Return the shortest float dtype that a reduction behind these tensors is kept in, if any."""
    computes = [op for op in post_order(t.op for t in tensors) if isinstance(op, ComputeOp)]
    kept = {op.outputs[0].dtype for op in computes if op.reduce_axis} & EPSILON.keys()
    return max(kept, key=EPSILON.__getitem__, default=None)


def naive_outputs(
    schedule: Schedule, tensors: Sequence[Any], inputs: Sequence[str], folder: Path
) -> list[str]:
    """Compute the outputs in a process of their own and return the files they are in.

    Args:
        schedule, tensors: what the template returned.
        inputs: files with the values of the arguments that are read.
        folder: where the outputs go.

    Raises:
        MeasureError: they cannot be computed; the message says why.
    """
    try:
        kernel = naive_kernel(schedule, tensors)
        built = compile_kernel(kernel, Target("c"), timeout_s=_TIMEOUT_S, out_dir=folder)
    except AutotuneError as error:
        raise MeasureError(f"the plain loops cannot be built: {error}") from error
    outputs = [str(folder / f"expected-{a.name}.npy") for a in kernel.outputs]
    job = ReferenceJob(built.artifact, kernel, _TIMEOUT_S, tuple(inputs), tuple(outputs))
    station = Station(Greeting("c", 0, isolated=True), None, str(folder))
    try:
        reply = station.run(job)
    finally:
        station.worker.close()
    if reply["error_no"]:
        raise MeasureError(f"the plain loops failed: {reply['message']}")
    return outputs
