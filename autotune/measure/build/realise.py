"""Realises a candidate as a kernel: the part of a build that runs in the process of the caller."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass

from autotune.codegen.registered_calls import registered_names
from autotune.driver import as_built, kernel_hash, kernel_of
from autotune.errors import AutotuneError
from autotune.kernel.kernel import Kernel
from autotune.kernel.layout import with_layouts
from autotune.kernel.limits import target_violation
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput
from autotune.runtime.host.registered import unknown_elsewhere
from autotune.target import Target
from autotune.workload import Reference


@dataclass(frozen=True)
class Realised:
    """A candidate as it is built and judged.

    Attributes:
        kernel: the kernel that is compiled.
        reference: how the correct answer is computed.
    """

    kernel: Kernel
    reference: Reference


def realise(measure_input: MeasureInput) -> Realised | BuildResult:
    """Let the workload realise a candidate, and lower what it returns.

    A candidate that its workload, the schedule or the target refuses gives a `BuildResult` with
    `MeasureErrorNo.INSTANTIATION_ERROR` and the reason; nothing is compiled then.
    """
    started = time.perf_counter()
    target, workload, candidate = measure_input
    try:
        made = workload.realise(candidate)
        kernel = kernel_of(made.what, target)
        hashed = kernel_hash(made.what, target, kernel) or ""
        kernel = with_layouts(kernel, made.layouts).hashed(hashed)
        refused = _violation(kernel, target) or _open_sizes(kernel)
    except AutotuneError as error:
        refused = f"{type(error).__name__}: {error}"
    except Exception:  # the user's template is a border: its failure is this trial's
        return _fail(MeasureErrorNo.COMPILE_HOST, _last_lines(), started)
    if refused:
        return _fail(MeasureErrorNo.INSTANTIATION_ERROR, refused, started)
    return Realised(as_built(kernel, target), made.reference)


def _violation(kernel: Kernel, target: Target) -> str | None:
    """Return which limit of a GPU a kernel exceeds, or what the processes of trials lack."""
    if target.backend.on_gpu:
        return target_violation(kernel, target)
    missing = unknown_elsewhere(registered_names(kernel))
    if not missing:
        return None
    return (
        f"{kernel.name} calls {', '.join(map(repr, missing))}, which this script registered: a "
        "trial runs in a process of its own, to which no functions are sent; tune the computation "
        "without the call, or write it in C by the pragma import_c"
    )


def _open_sizes(kernel: Kernel) -> str:
    """Say which extents are not known, so that there is nothing to measure."""
    if kernel.sizes is None:
        return ""
    names = ", ".join(kernel.sizes.names)
    return f"{kernel.name}: give {names} values: tuning needs constant shapes"


def _fail(number: MeasureErrorNo, message: str, started: float) -> BuildResult:
    return BuildResult(
        artifact="",
        kernel=None,
        error_no=number,
        error_msg=message,
        time_cost=time.perf_counter() - started,
    )


def _last_lines() -> str:
    """Return the error first, then where in the template it happened."""
    lines = traceback.format_exc().strip().splitlines()
    return "\n".join([lines[-1], *lines[-9:-1]])
